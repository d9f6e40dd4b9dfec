"""Maps of the puddle world: their text, the generator, and exact values against brute force."""

import itertools
from math import ceil

import numpy as np
import pytest

from wolpertinger.envs import PuddleMap
from wolpertinger.envs.puddle_map import DOWN, EMPTY, GOAL, PUDDLE, RIGHT, START, moves_of

TEXT = "S.~.\n~...\n.~.G\n"
TINY = [TEXT, "S~\n~G\n", "~~.\nS..\n~.~\n..G\n", "...S.\n~~~~G\n", "..~\n~.~\nS.G\n"]


def score(text, moves, start=None):
    """The rules of the paper, one move after the other: the score and whether the goal was reached."""
    lines = text.split()
    row, col = next((r, line.index("S")) for r, line in enumerate(lines) if "S" in line) if start is None else start
    total = 0
    for move in moves:
        if move == DOWN and row + 1 < len(lines):
            row += 1
        elif move == RIGHT and col + 1 < len(lines[0]):
            col += 1
        if lines[row][col] == "G":
            return total + 250, True
        total += -3 if lines[row][col] == "~" else -1
    return total, False


def cells_of(text):
    lines = text.split()
    return [(row, col) for row in range(len(lines)) for col in range(len(lines[0])) if lines[row][col] != "G"]


def chain_values(text):
    """Expected score of random moves from each cell but the goal, by solving the Markov chain as a linear system."""
    cells = cells_of(text)
    place = {cell: number for number, cell in enumerate(cells)}
    lines = text.split()
    system, gains = np.eye(len(cells)), np.zeros(len(cells))
    for (row, col), number in place.items():
        for move in (RIGHT, DOWN):
            gain, at_goal = score(text, [move], (row, col))
            gains[number] += gain / 2
            if not at_goal:
                reached = min(row + move, len(lines) - 1), min(col + 1 - move, len(lines[0]) - 1)
                system[number, place[reached]] -= 1 / 2
    return dict(zip(cells, np.linalg.solve(system, gains), strict=True))


@pytest.mark.parametrize("text", TINY)
def test_best_scores_are_those_of_all_sequences_of_moves(text):
    world = PuddleMap.from_text(text)
    length = world.rows + world.cols
    for cell in cells_of(text):
        best = max(score(text, moves, cell) for moves in itertools.product((RIGHT, DOWN), repeat=length))[0]
        assert world.best_score_from(cell) == best
    assert world.values[world.goal] == 0
    assert world.best_score == world.best_score_from(world.start)
    assert score(text, world.best_moves()) == (world.best_score, True)


@pytest.mark.parametrize("text", [*TINY, PuddleMap.generate((6, 9), 5).to_text()])
def test_random_values_solve_the_markov_chain(text):
    world = PuddleMap.from_text(text)
    for cell, value in chain_values(text).items():
        assert world.random_values[cell] == pytest.approx(value)
    assert world.random_value == pytest.approx(chain_values(text)[world.start])


def test_random_moves_score_their_exact_value_in_the_mean():
    world = PuddleMap.generate((8, 12), 1)
    moves = np.random.default_rng(0).integers(2, size=(20_000, 300))
    visited, scores = world.walk(np.zeros(20_000, np.int64), moves)
    assert (visited[:, -1] == 95).all()
    assert scores.mean() == pytest.approx(world.random_value, abs=5 * scores.std() / np.sqrt(20_000))


@pytest.mark.parametrize("text", TINY)
def test_walking_follows_the_rules_move_by_move(text):
    world = PuddleMap.from_text(text)
    moves = np.array(list(itertools.product((RIGHT, DOWN), repeat=7)))
    for row, col in cells_of(text):
        visited, scores = world.walk(np.full(len(moves), row * world.cols + col), moves)
        expected = [score(text, plan, (row, col)) for plan in moves]
        assert scores.tolist() == [total for total, _ in expected]
        assert (visited[:, -1] == world.cells.size - 1).tolist() == [arrived for _, arrived in expected]
    stayed, nothing = world.walk(np.array([world.cells.size - 1]), moves[:1])
    assert (stayed == world.cells.size - 1).all()
    assert nothing == 0


@pytest.mark.parametrize("text", TINY)
@pytest.mark.parametrize(("n", "max_moves"), [(1, None), (3, None), (4, 5), (5, 1)])
def test_the_best_fixed_plan_is_the_best_of_all_tried_one_by_one(text, n, max_moves):
    world = PuddleMap.from_text(text)
    cap = 2 * (world.rows + world.cols) if max_moves is None else max_moves
    plans = list(itertools.product((RIGHT, DOWN), repeat=n))
    scores = [score(text, plan * ceil(cap / n))[0] for plan in plans]
    plan, best = world.best_fixed_plan(n, max_moves)
    assert best == max(scores)
    assert plan.tolist() == list(plans[int(np.argmax(scores))])


def test_the_search_in_blocks_misses_no_plan(monkeypatch):
    world = PuddleMap.generate(9, 2)
    whole = world.best_fixed_plan(7)
    monkeypatch.setattr("wolpertinger.envs.puddle_map.MOVES_PER_BLOCK", 200)
    np.testing.assert_array_equal(world.best_fixed_plan(7)[0], whole[0])
    assert world.best_fixed_plan(7)[1] == whole[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((21,), r"n=21: give a whole number from 1 to 20"),
        ((0,), "n=0: give a whole number from 1 to 20"),
        ((3, 0), "max_moves=0: give a whole number from 1 to 10000"),
    ],
)
def test_what_the_search_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        PuddleMap.from_text(TEXT).best_fixed_plan(*arguments)


def test_the_default_map_is_fixed_for_ever():
    world = PuddleMap.generate()
    assert world.sha256 == "8f9847d081cc98037338c17dfac3b0d4889db8b84f54146646fdcdb8ceff0149"
    assert world.cells.shape == (50, 50)
    assert world.best_score == 143
    assert world.random_value == pytest.approx(82.5648, abs=1e-4)
    assert world.puddle_share == pytest.approx(0.2808)
    assert [world.best_fixed_plan(n)[1] for n in (1, 2, 5, 10)] == [-210, 91, 67, 98]  # of 5, never half are down


def test_the_default_map_needs_eyes():
    """Random moves and one plan repeated stay clearly below the best, and what is seen tells where one is."""
    world = PuddleMap.generate(50, 0)
    assert world.random_value < 0.62 * world.best_score
    assert world.best_fixed_plan(20)[1] == 117 < 0.92 * world.best_score
    path = [world.start]
    for move in world.best_moves():
        path.append((path[-1][0] + move, path[-1][1] + 1 - move))
    padded = np.pad(np.where(world.cells == START, EMPTY, world.cells), 5, constant_values=9)
    windows = {padded[row : row + 11, col : col + 11].tobytes() for row, col in path}
    assert len(windows) == len(path) == 99


@pytest.mark.parametrize("size", [2, (2, 3), [7, 2], (30, 11), np.int64(20)])
@pytest.mark.parametrize("seed", range(4))
def test_maps_of_any_size_can_be_generated(size, seed):
    world = PuddleMap.generate(size, seed)
    rows, cols = (size, size) if np.ndim(size) == 0 else size
    assert world.cells.shape == (rows, cols)
    assert world.start == (0, 0)
    assert world.puddle_share >= 0.28
    assert world == PuddleMap.generate(size, seed)


def test_seeds_make_different_maps_of_the_same_kind():
    worlds = [PuddleMap.generate(50, seed) for seed in range(6)]
    assert len(set(worlds)) == len({world.sha256 for world in worlds}) == 6
    for world in worlds:
        assert 0.28 <= world.puddle_share < 0.3
        assert 140 <= world.best_score <= 153  # without any puddle
        assert world.random_value < 0.62 * world.best_score


@pytest.mark.parametrize("size", [1, (2, 1), (3,), (3, 3, 3), 2.5, "50", True])
def test_a_size_that_makes_no_map_is_refused(size):
    with pytest.raises(ValueError, match=r"size=.*: give a whole number from 2 to 1,000, or two of them, \(rows, col"):
        PuddleMap.generate(size)


@pytest.mark.parametrize("text", TINY)
def test_text_makes_the_round_trip(text, tmp_path):
    world = PuddleMap.from_text(text)
    assert world.to_text() == text
    (tmp_path / "map.txt").write_text(text)
    again = PuddleMap.from_file(tmp_path / "map.txt")
    assert again == world == PuddleMap(world.cells) == PuddleMap.from_text(text.replace("\n", "\r\n"))
    assert hash(again) == hash(world)


def test_the_symbols_mean_what_the_paper_has():
    world = PuddleMap.from_text(TEXT)
    assert world.cells.tolist() == [
        [START, EMPTY, PUDDLE, EMPTY],
        [PUDDLE, EMPTY, EMPTY, EMPTY],
        [EMPTY, PUDDLE, EMPTY, GOAL],
    ]
    assert (world.rows, world.cols, world.start, world.goal) == (3, 4, (0, 0), (2, 3))
    assert repr(world) == f"PuddleMap(3 x 4, 25.0% puddles, sha256={world.sha256[:8]})"


def test_a_map_cannot_be_changed_nor_does_it_follow_the_callers_array():
    cells = PuddleMap.from_text(TEXT).cells.copy()
    world = PuddleMap(cells)
    cells[0, 1] = PUDDLE
    assert world.to_text() == TEXT
    for array in (world.cells, world.values, world.random_values):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 0
    with pytest.raises(AttributeError, match="cannot assign"):
        world.cells = cells


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the map is empty: give one line per row"),
        ("S..\n...\n..\n", "line 3 has 2 cells, line 1 has 3: give equal lengths"),
        ("S..\n.#.\n..G\n", "line 2 has '#': give '.' empty, '~' puddle, 'S' start, 'G' goal"),
        ("...\n..G\n", r"the map has 0 start cells \('S'\): give exactly one"),
        ("S.S\n..G\n", r"the map has 2 start cells \('S'\): give exactly one"),
        ("S..\n...\n", r"the map has 0 goal cells \('G'\): give exactly one"),
        ("S.G\n..G\n", r"the map has 2 goal cells \('G'\): give exactly one"),
        ("S.G\n...\n", "the goal is in row 1, column 3 of 2 x 3: put it in the bottom right corner"),
        ("S.G\n", "the map has 1 rows and 3 columns: give at least 2 of each"),
        ("S\nG\n", "the map has 2 rows and 1 columns: give at least 2 of each"),
        ("\n", "the map is empty"),
    ],
)
def test_what_is_no_map(text, message):
    with pytest.raises(ValueError, match=message):
        PuddleMap.from_text(text)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([2, 3], r"cells have shape \(2,\), int64: give integers \(rows, cols\)"),
        ([[2.0, 0], [0, 3]], r"cells have shape \(2, 2\), float64: give integers"),
        ([[2, 4], [0, 3]], "cells from 0 to 4: give 0 empty, 1 puddle, 2 start, 3 goal"),
        ([[2, -1], [0, 3]], "cells from -1 to 3: give 0 empty"),
    ],
)
def test_what_is_no_grid(cells, message):
    with pytest.raises(ValueError, match=message):
        PuddleMap(np.array(cells))


def test_the_first_move_is_the_most_significant_bit():
    np.testing.assert_array_equal(moves_of(np.array([0, 1, 6, 7]), 3), [[0, 0, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1]])


def test_blank_lines_at_the_end_are_no_rows():
    assert PuddleMap.from_text("S.\n.G\n\n \n") == PuddleMap.from_text("S.\n.G\n")


def test_the_distance_is_the_length_of_a_best_way():
    for world in (PuddleMap.generate((5, 9), 1), PuddleMap.from_text("...\n.S.\n..G\n")):
        assert world.distance == len(world.best_moves())
