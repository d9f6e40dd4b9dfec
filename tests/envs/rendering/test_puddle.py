"""The puddle world's pictures."""

from itertools import pairwise

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as check_gymnasium
from stable_baselines3.common.env_checker import check_env as check_sb3

from wolpertinger.envs import PuddleMap, PuddleWorld
from wolpertinger.envs.rendering.canvas import HEIGHT, INK, TITLE, WIDTH
from wolpertinger.envs.rendering.puddle import EMPTY, GOAL, LEGEND, PATH, PLAN, PUDDLE, START

ID = "wolpertinger/PuddleWorld-v0"
MAP = PuddleMap.from_text("S.......\n..~~....\n..~~....\n........\n........\n........\n.......~\n......~G\n")
RIGHT, DOWN = 0, 0b1111


def world(**options):
    env = PuddleWorld(**{"map": MAP, "plan": 4, "window": 3, "render_mode": "rgb_array", **options})
    env.reset(seed=0)
    return env


def colour(env, frame, row, col):
    x, y = env.task.view._middle((row, col))
    return tuple(int(part) for part in frame[round(y), round(x)])


def cells(frame, colour):
    """How many pixels of the map, without title and legend, have a colour."""
    return int((frame[TITLE:, : WIDTH - LEGEND] == colour).all(axis=2).sum())


def test_the_map_shows_empty_cells_puddles_start_and_goal():
    env = world()
    env.step(RIGHT)  # the agent hides the start otherwise
    frame = env.render()
    assert frame.shape == (HEIGHT, WIDTH, 3)
    assert frame.dtype == np.uint8
    assert colour(env, frame, 7, 7) == GOAL
    assert colour(env, frame, 1, 2) == colour(env, frame, 7, 6) == PUDDLE
    assert colour(env, frame, 5, 5) == EMPTY
    assert cells(frame, START) > 0


def test_the_last_plan_is_drawn_over_the_path_before_it():
    env = world()
    assert cells(env.render(), PLAN) == 0
    env.step(RIGHT)
    frame = env.render()
    assert colour(env, frame, 0, 2) == PLAN
    env.step(DOWN)
    frame = env.render()
    assert colour(env, frame, 0, 2) == PATH
    assert colour(env, frame, 2, 4) == PLAN
    assert colour(env, frame, 4, 4) == INK  # the agent
    np.testing.assert_array_equal(frame, env.render())


def test_the_outline_is_the_window_that_the_agent_sees():
    small, large = world(window=3), world(window=7)
    for env in (small, large):
        env.step(0b0101)  # to the middle of the first rows
    assert cells(large.render(), INK) > cells(small.render(), INK) > 0
    view = small.task.view
    left, top = view._corner(1, 1)  # the agent is in row 2, column 2
    assert tuple(small.render()[round(top + view.side / 2), round(left)]) == INK


def test_the_title_tells_score_and_outcome():
    env = world()
    titles = [env.render()[:TITLE]]
    for plan in (RIGHT, RIGHT, DOWN, DOWN):
        *_, terminated, _, _ = env.step(plan)
        titles.append(env.render()[:TITLE])
    assert terminated
    assert all(not np.array_equal(a, b) for a, b in pairwise(titles))
    cut = world(max_moves=4)
    cut.step(RIGHT)
    assert not np.array_equal(cut.render()[:TITLE], titles[1])  # "out of moves"


def test_a_reset_begins_a_new_picture():
    env = world()
    first = env.render()
    env.step(RIGHT)
    env.reset()
    np.testing.assert_array_equal(env.render(), first)


@pytest.mark.parametrize("size", [(2, 2), (3, 60), (60, 3), (120, 120)])
def test_maps_of_any_shape_fit_the_picture(size):
    env = PuddleWorld(size=size, plan=4, render_mode="rgb_array")
    env.reset(seed=0)
    env.step(5)
    assert env.render().shape == (HEIGHT, WIDTH, 3)
    view = env.task.view
    right, bottom = view._corner(*size)
    assert right <= WIDTH - LEGEND
    assert bottom <= HEIGHT
    assert view.top >= TITLE


def test_a_window_follows_reset_and_step(monkeypatch):
    shown = []
    monkeypatch.setattr("wolpertinger.envs.rendering.window.Window.show", lambda self, frame: shown.append(frame))
    env = world(render_mode="human")
    env.step(RIGHT)
    assert env.render() is None
    assert len(shown) == 3
    env.close()


def test_both_checkers_find_nothing_in_any_mode(monkeypatch):
    monkeypatch.setitem(PuddleWorld.metadata, "render_fps", 1_000)
    check_gymnasium(gym.make(ID).unwrapped)
    for mode in PuddleWorld.metadata["render_modes"]:
        check_sb3(gym.make(ID, render_mode=mode), skip_render_check=False)


def test_an_unknown_render_mode_is_refused():
    with pytest.raises(ValueError, match="render_mode='ascii': give 'rgb_array', 'human' or None"):
        gym.make(ID, render_mode="ascii")
