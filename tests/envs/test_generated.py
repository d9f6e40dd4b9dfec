"""The generated catalogue: the same every time, of any size, and irregular as the paper says."""

import os
import platform
import subprocess
import sys
import time
import tracemalloc
from functools import cache

import numpy as np
import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

from wolpertinger.actions import ActionTable
from wolpertinger.envs import UserModel
from wolpertinger.envs.generated import generate


def parts(catalogue):
    n = len(catalogue.rewards)
    return catalogue.acceptance.rows(np.arange(n)), catalogue.rewards, catalogue.vectors


@pytest.fixture(scope="module")
def default():
    """The default task: 835 items, 20 dimensions, solved."""
    catalogue = generate(835, 20)
    return catalogue, UserModel(catalogue.acceptance, catalogue.rewards)


def test_the_same_arguments_give_the_same_catalogue():
    for first, again in zip(parts(generate(120, 5, seed=3)), parts(generate(120, 5, seed=3)), strict=True):
        np.testing.assert_array_equal(first, again)


DIGEST = """
import hashlib, numpy as np
from wolpertinger.envs.generated import generate
for items, dim in ((49, 20), (835, 20)):
    found = generate(items, dim)
    parts = found.acceptance.rows(np.arange(items)), found.rewards, found.vectors
    print(*(hashlib.sha256(np.ascontiguousarray(part)).hexdigest() for part in parts))
"""


@cache
def digests_with(**environment):
    """The digests of two catalogues as another process computes them."""
    command = [sys.executable, "-W", "ignore", "-c", DIGEST]
    return subprocess.run(command, env={**os.environ, **environment}, check=True, capture_output=True).stdout


def test_a_processor_with_fewer_instructions_gives_the_same_catalogue():
    found = [name for name in __cpu_dispatch__ if __cpu_features__.get(name)]
    if not found:
        pytest.skip("numpy has nothing to choose by the processor here")
    assert digests_with() == digests_with(NPY_DISABLE_CPU_FEATURES=" ".join(found))


def test_other_kernels_for_matrix_products_and_exp_give_the_same_catalogue():
    other = {"OPENBLAS_CORETYPE": "Nehalem", "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA,-AVX2,-AVX512F"}
    if platform.machine() != "x86_64":
        pytest.skip("Nehalem is an x86 processor")
    assert digests_with() == digests_with(**other)


def test_another_seed_gives_another_catalogue():
    for first, other in zip(parts(generate(120, 5, seed=3)), parts(generate(120, 5, seed=4)), strict=True):
        assert (first != other).any()


@pytest.mark.parametrize("items", [10, 49, 835])
@pytest.mark.parametrize("dim", [1, 2, 20, 200])
def test_any_size_and_dimension(items, dim):
    catalogue = generate(items, dim)
    w, rewards, vectors = parts(catalogue)
    assert w.shape == (items, items)
    assert w.min() >= 0
    assert w.max() <= 1
    assert not np.diag(w).any()
    assert rewards.shape == (items,)
    assert (rewards > 0).all()
    assert vectors.shape == (items, dim)
    assert vectors.dtype == np.float32
    assert np.sqrt((vectors**2).mean()) == pytest.approx(1, rel=1e-3)
    assert len(np.unique(vectors, axis=0)) == items


@pytest.mark.parametrize("arguments", [(9, 20), (0, 20), (49, 0), (49, -1)])
def test_too_small_is_refused(arguments):
    with pytest.raises(ValueError, match=r"(items|dim)=.*: give a whole number of at least"):
        generate(*arguments)


def test_no_single_item_will_do(default):
    _, model = default
    assert model.best_fixed.value < 0.4 * model.optimum.value
    assert model.random_value < model.best_fixed.value


def test_many_items_are_the_best_choice_somewhere(default):
    _, model = default
    assert len(np.unique(model.optimum.policy)) >= 835 / 3


def test_some_items_are_good_in_many_states_and_others_in_one(default):
    """The two irregularities of the paper, Section 6.3."""
    catalogue, model = default
    w = catalogue.acceptance.rows(np.arange(835))
    accepted = catalogue.acceptance.column_means()
    assert accepted.max() > 5 * np.median(accepted)
    best_in = np.bincount(model.optimum.policy, minlength=835)
    rare = np.isin(model.optimum.policy, np.flatnonzero(best_in <= 3))
    assert rare.mean() > 0.1
    assert np.median(w[np.flatnonzero(rare), model.optimum.policy[rare]]) > 0.25


def test_the_nearest_items_to_a_linear_actor_are_not_enough(default):
    """The best 5 % of the items around a least-squares fit of the optimal actions: even an exact critic misses out."""
    catalogue, model = default
    vectors = np.asarray(catalogue.vectors, dtype=np.float64)
    states = np.column_stack([vectors, np.ones(835)])
    weights, *_ = np.linalg.lstsq(states, vectors[model.optimum.policy], rcond=None)
    near = ActionTable(catalogue.vectors).nearest(states @ weights, int(0.05 * 835))
    values = model.optimum.values
    chance = catalogue.acceptance.at(np.arange(835)[:, None], near)
    q = chance * (model.rewards[near] + 0.9 * values[near]) + (1 - chance) * 0.8 * values.mean()
    policy = near[np.arange(835), q.argmax(axis=1)]
    assert model.evaluate(policy).mean() < 0.8 * model.optimum.value


def test_the_papers_largest_task_is_made_without_a_dense_matrix():
    start = time.perf_counter()
    tracemalloc.start()
    catalogue = generate(13_138, 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert catalogue.acceptance.n == 13_138
    assert peak < 400e6  # a dense W takes 1,381e6
    assert time.perf_counter() - start < 30
