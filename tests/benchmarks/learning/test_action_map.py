import numpy as np
import pytest

from benchmarks.learning import action_map
from benchmarks.learning.action_map import alike, in_two_directions
from wolpertinger.envs.generated import GeneratorSettings, draw_categories, generate

RNG = np.random.default_rng(0)


def test_neighbours_are_alike_where_vectors_tell_the_colour_and_not_where_they_do_not():
    colours = np.repeat([0.0, 1.0, 2.0], 40)
    apart = colours[:, None] * 10 + RNG.normal(size=(120, 3))
    assert alike(apart, colours, "category") == 1
    assert alike(RNG.normal(size=(120, 3)), colours, "category") == pytest.approx(1 / 3, abs=0.1)
    worth = RNG.normal(size=120)
    assert alike(worth[:, None], worth, "worth") < 0.2
    assert alike(RNG.normal(size=(120, 3)), worth, "worth") == pytest.approx(1, abs=0.15)


def test_the_main_directions_are_those_of_the_largest_spread():
    points = RNG.normal(size=(500, 5)) * [1, 9, 1, 4, 1] + 100
    found = in_two_directions(points)
    assert abs(np.corrcoef(found[:, 0], points[:, 1])[0, 1]) > 0.95
    assert abs(np.corrcoef(found[:, 1], points[:, 3])[0, 1]) > 0.95


def test_categories_are_those_of_the_generated_items():
    category = draw_categories(300, GeneratorSettings(), np.random.default_rng(3))
    vectors = np.asarray(generate(300, 20, seed=3).vectors)
    assert alike(vectors, category.astype(float), "category") > 0.5


def test_without_results_the_table_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr("benchmarks.measure.RESULTS", tmp_path)
    assert action_map.table() == "missing"
