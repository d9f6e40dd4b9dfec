"""Work is divided among threads once, in order, and nobody else's settings change."""

import os
import signal
import subprocess
import sys
import threading
import time

import faiss
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.envs import small_agent
from wolpertinger.index import ExactIndex, FaissIndex
from wolpertinger.policy import Policy
from wolpertinger.threads import (
    SHARED_FROM,
    count_threads,
    divide,
    set_threads,
    shares_small_work,
    threads_for,
    using_threads,
)


@pytest.fixture(autouse=True)
def restore_threads():
    before, small_work = torch.get_num_threads(), shares_small_work()
    yield
    set_threads(before, small_work=small_work)


@given(n=st.integers(0, 60), least=st.integers(0, 20), count=st.integers(1, 5))
def test_slices_cover_every_row_once_in_order(n, least, count):
    set_threads(count)
    slices = divide(lambda rows: rows, n, least=least)
    assert [row for rows in slices for row in range(n)[rows]] == list(range(n))
    assert 1 <= len(slices) <= count
    if len(slices) > 1:
        assert all(rows.stop - rows.start >= least for rows in slices)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_as_many_threads_as_torch_has_and_the_caller_is_one(count):
    set_threads(count)
    assert count_threads() == torch.get_num_threads() == count
    barrier = threading.Barrier(count, timeout=20)

    def work(_):
        barrier.wait()  # all of them at the same time
        return threading.get_ident()

    found = divide(work, 100, least=1)
    assert len(set(found)) == count
    assert threading.get_ident() in found


@pytest.mark.parametrize("bad", [0, 1, 2])
def test_an_error_in_any_part_surfaces(bad):
    set_threads(3)

    def work(rows):
        if rows.start == 10 * bad:
            raise KeyError(f"part {bad}")

    with pytest.raises(KeyError, match=f"part {bad}"):
        divide(work, 30, least=1)
    assert divide(lambda rows: rows.stop, 30, least=1) == [10, 20, 30]  # the threads are still there


def test_work_that_divides_its_own_work_does_not_wait_for_itself():
    """A lookup that came back short is left to a scan, which divides its queries too: that was for ever."""
    set_threads(2)
    done = []

    def outer(rows):
        return sum(divide(lambda own: own.stop - own.start, rows.stop - rows.start, least=1))

    thread = threading.Thread(target=lambda: done.append(divide(outer, 10, least=1)), daemon=True)
    thread.start()
    thread.join(timeout=20)
    assert done == [[5, 5]]


def test_two_callers_at_a_time_get_their_own_results():
    set_threads(2)
    results = {}

    def call(offset):
        results[offset] = [divide(lambda rows: offset + rows.start, 10, least=1) for _ in range(50)]

    callers = [threading.Thread(target=call, args=(offset,), daemon=True) for offset in (0, 100, 200)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(timeout=20)
    assert results == {offset: [[offset, offset + 5]] * 50 for offset in (0, 100, 200)}


MODES = [torch.no_grad, torch.inference_mode, torch.enable_grad]


@pytest.mark.parametrize("mode", MODES)
def test_divided_work_is_not_divided_again_and_has_the_mode_of_its_caller(mode):
    set_threads(3)
    weight = torch.ones(3, 3, requires_grad=True)
    with mode():
        seen = divide(lambda _: (count_threads(), (weight @ weight).requires_grad), 12, least=1)
    assert seen == [(1, mode is torch.enable_grad)] * 3
    assert count_threads() == torch.get_num_threads() == 3
    assert (weight @ weight).requires_grad


@pytest.mark.parametrize("mode", MODES)
def test_what_the_caller_made_can_be_written_to(mode):
    set_threads(2)
    with mode():
        found = torch.zeros(40)
        divide(lambda rows: found[rows].add_(1), 40, least=1)
    assert found.tolist() == [1] * 40


def test_an_error_waits_for_the_other_slices():
    """They write to the caller's arrays."""
    set_threads(2)
    begun, ended = threading.Event(), []

    def work(rows):
        if rows.start == 0:
            assert begun.wait(timeout=20)
            raise KeyboardInterrupt
        begun.set()
        time.sleep(0.1)
        ended.append(rows)

    with pytest.raises(KeyboardInterrupt):
        divide(work, 10, least=1)
    assert ended == [slice(5, 10)]


@pytest.fixture
def interruptible():
    """A shell lets what it starts in the background ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_a_signal_interrupts_work_and_the_threads_are_still_there():
    set_threads(2)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    end = time.monotonic() + 20

    def work_until_interrupted():
        while time.monotonic() < end:
            divide(lambda rows: sum(range(rows.start, rows.stop)), 400_000, least=1)

    timer.start()
    with pytest.raises(KeyboardInterrupt):
        work_until_interrupted()
    assert count_threads() == 2
    assert torch.is_grad_enabled()
    assert divide(lambda rows: rows.start, 10, least=1) == [0, 5]


FORK = """
import os, torch
from wolpertinger.threads import divide, set_threads
set_threads(2)
assert divide(lambda rows: rows.start, 10, least=1) == [0, 5]
torch.ones(500, 500) @ torch.ones(500, 500)
child = os.fork()
if child == 0:
    torch.ones(500, 500) @ torch.ones(500, 500)
    assert torch.get_num_threads() == 1
    torch.set_num_threads(2)
    os._exit(divide(lambda rows: rows.start, 10, least=1)[1])
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
"""


FORKED_LOOKUP = """
import os, numpy as np, torch
from wolpertinger.index import FaissIndex
from wolpertinger.threads import set_threads
set_threads(2)
vectors = np.random.default_rng(0).normal(size=(2_000, 8)).astype(np.float32)
index = FaissIndex(vectors, "IVF16,PQ8x4fs")
expected = index.search(vectors[:64], 3)
child = os.fork()
if child == 0:
    assert torch.get_num_threads() == 1
    for threads in (1, 2):
        set_threads(threads)
        for n in (64, 8, 1):
            assert (index.search(vectors[:n], 3) == expected[:n]).all()
    FaissIndex(vectors, "IVF16,PQ8x4fs")
    os._exit(5)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
"""


@pytest.mark.parametrize("code", [FORK, FORKED_LOOKUP])
def test_a_forked_process_has_threads_of_its_own(code):
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("n", [0, -1])
def test_no_threads_are_an_error(n):
    before = torch.get_num_threads()
    with pytest.raises(ValueError, match=f"threads={n}: give a whole number from 1 to"):
        set_threads(n)
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("divides_itself", [False, True])
@pytest.mark.parametrize("recipe", ["Flat", "IVF8,Flat", "HNSW8", "IVF8,PQ4x4fs"])
def test_results_do_not_depend_on_the_threads_and_faiss_keeps_its_own(recipe, divides_itself, monkeypatch):
    monkeypatch.setattr("wolpertinger.index.faiss.divides_itself", lambda: divides_itself)
    rng = np.random.default_rng(0)
    vectors, queries = (rng.normal(size=(n, 4)).astype(np.float32) for n in (400, 64))
    index = FaissIndex(vectors, recipe)
    expected = index.search(queries, 7)
    set_threads(3)
    before = faiss.omp_get_max_threads()
    try:
        faiss.omp_set_num_threads(5)
        monkeypatch.setattr("wolpertinger.index.faiss.count_threads", lambda: 3)  # torch's are 5 too by now
        np.testing.assert_array_equal(index.search(queries, 7), expected)
        assert faiss.omp_get_max_threads() == 5
    finally:
        faiss.omp_set_num_threads(before)


@pytest.mark.skipif(sys.platform != "linux", reason="which OpenMP a library finds is another matter elsewhere")
@pytest.mark.parametrize(
    ("first", "expected"), [("torch, faiss", True), ("wolpertinger, torch, faiss", True), ("faiss, torch", False)]
)
def test_faiss_divides_its_searches_if_torch_came_first(first, expected):
    code = f"""
import {first}
from wolpertinger.index.faiss_build import divides_itself
from wolpertinger.threads import set_threads
set_threads(2)
before = torch.get_num_threads(), faiss.omp_get_max_threads()
assert divides_itself() == {expected}
assert (torch.get_num_threads(), faiss.omp_get_max_threads()) == before
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)


def test_short_lookups_in_a_thread_end_in_a_scan(monkeypatch):
    set_threads(2)
    monkeypatch.setattr("wolpertinger.index.exact.CHUNK_BYTES", 64)  # so that few queries are divided
    rng = np.random.default_rng(0)
    vectors, queries = (rng.normal(size=(n, 4)).astype(np.float32) for n in (100, 32))
    index = FaissIndex(vectors, "Flat")
    monkeypatch.setattr(index, "candidates", lambda points, wanted, effort: np.full((len(points), wanted), -1))
    found = []
    thread = threading.Thread(target=lambda: found.append(index.search(queries, 5)), daemon=True)
    thread.start()
    thread.join(timeout=20)
    np.testing.assert_array_equal(found, [ExactIndex(vectors).search(queries, 5)])


def test_the_pool_of_threads_is_kept():
    set_threads(2)
    workers = {divide(lambda rows: threading.get_ident(), 10, least=1)[1] for _ in range(5)}
    assert len(workers) == 1


@pytest.mark.parametrize(("numbers", "inside"), [(1, 1), (SHARED_FROM - 1, 1), (SHARED_FROM, 3)])
def test_small_work_is_done_by_one_thread_and_the_host_keeps_its_number(numbers, inside):
    set_threads(3, small_work=False)
    with threads_for(numbers):
        assert torch.get_num_threads() == inside
        with threads_for(1):
            pass
        assert torch.get_num_threads() == inside
    assert torch.get_num_threads() == 3
    with pytest.raises(KeyError), threads_for(numbers):
        raise KeyError
    assert torch.get_num_threads() == 3


def test_small_work_has_the_threads_that_somebody_asked_for():
    set_threads(1, small_work=False)
    with using_threads(3), threads_for(1):
        assert torch.get_num_threads() == 3
    assert not shares_small_work()
    set_threads(3)
    assert shares_small_work()
    with threads_for(1):
        assert torch.get_num_threads() == 3


def test_a_thread_that_begins_while_another_one_is_inside_leaves_the_hosts_number():
    set_threads(3, small_work=False)
    entered, leave, found = threading.Event(), threading.Event(), []

    def first():
        with threads_for(1):
            entered.set()
            assert leave.wait(timeout=20)

    def second():  # to which torch gives the number of the block that the first one is in
        with threads_for(1):
            leave.set()
            one.join(timeout=20)
        found.append(torch.get_num_threads())

    one, two = (threading.Thread(target=work, daemon=True) for work in (first, second))
    one.start()
    assert entered.wait(timeout=20)
    two.start()
    two.join(timeout=20)
    assert found == [3]
    later = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    later.start()
    later.join()
    assert found == [3, 3]


@pytest.mark.parametrize(("wide", "expected"), [(False, 1), (True, 3)])
def test_an_agent_with_little_to_do_asks_one_thread(monkeypatch, wide, expected):
    set_threads(3, small_work=False)
    agent = small_agent(k=64 if wide else 1, policy_kwargs={"net_arch": [1024 if wide else 16]})
    seen, rank = [], type(agent.policy.behaviour).rank
    monkeypatch.setattr(Policy, "rank", lambda *a, **b: (seen.append(torch.get_num_threads()), rank(*a, **b))[1])
    agent.learn(25)  # acting, and targets
    agent.predict(np.zeros((16, 2), np.float32))
    agent.explain(np.zeros((16, 2), np.float32))
    acting = 1  # of one environment: less than an update of 16
    assert set(seen) == {acting, expected}
    assert seen[-2:] == [expected] * 2
    assert torch.get_num_threads() == 3
