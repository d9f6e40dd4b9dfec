"""The recommender's pictures: what is where, and when."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as check_gymnasium
from stable_baselines3.common.env_checker import check_env as check_sb3

from wolpertinger.envs import Recommender
from wolpertinger.envs.rendering.canvas import BAD, GOOD, HEIGHT, TITLE, WIDTH
from wolpertinger.envs.rendering.recommender import CANDIDATE, LEGEND, PROTO, USER, PcaProjection

ID = "wolpertinger/Recommender-v0"
CORNERS = np.array([[0, 0, 0], [8, 0, 0], [0, 4, 0], [8, 4, 0]], dtype=np.float32)


def own(chance, **options):
    return Recommender(
        acceptance=np.full((4, 4), chance), rewards=np.arange(4.0), vectors=CORNERS, render_mode="rgb_array", **options
    )


def at(env, state, seed=0):
    env.reset(seed=seed)
    env.state = env.session.user = state
    return env


def place(env, vector):
    return env.task.view.projection.project(np.asarray(vector, dtype=np.float64)[None])[0]


def shows(frame, colour, point=None, radius=14):
    """Is the colour in the map, or near a point of it?"""
    area = frame[TITLE : HEIGHT - LEGEND]
    if point is not None:
        x, y = np.round(point).astype(int)
        area = frame[max(y - radius, TITLE) : min(y + radius, HEIGHT - LEGEND), max(x - radius, 0) : x + radius]
    return bool((area == colour).all(axis=2).any())


def test_frames_are_arrays_of_the_right_shape():
    env = gym.make(ID, items=49, render_mode="rgb_array")
    env.reset(seed=0)
    frame = env.render()
    assert frame.shape == (HEIGHT, WIDTH, 3)
    assert frame.dtype == np.uint8
    np.testing.assert_array_equal(frame, env.render())


def test_the_user_is_drawn_where_the_user_is():
    env = own(1.0)
    for state in range(4):
        frame = at(env, state).render()
        assert [shows(frame, USER, place(env, CORNERS[item])) for item in range(4)] == [i == state for i in range(4)]


@pytest.mark.parametrize(("chance", "shown", "hidden"), [(1.0, GOOD, BAD), (0.0, BAD, GOOD)])
def test_the_pick_is_green_if_accepted_and_red_if_refused(chance, shown, hidden):
    env = at(own(chance), 0)
    before = env.render()
    env.step(3)
    frame = env.render()
    assert not shows(before, shown)
    assert shows(frame, shown, place(env, CORNERS[3]))
    assert not shows(frame, hidden)
    assert not shows(frame, PROTO)
    assert not shows(frame, CANDIDATE)


def test_what_the_agent_saw_is_drawn_for_its_step_only():
    env = at(own(1.0), 0)
    proto = np.array([4.0, 2.0, 0.0])
    env.show_choice(proto, [1, 3])
    coming = env.render()
    assert shows(coming, PROTO, place(env, proto))
    assert not shows(coming, GOOD)
    env.step(3)
    frame = env.render()
    assert shows(frame, PROTO, place(env, proto))
    assert shows(frame, CANDIDATE, place(env, CORNERS[1]))
    assert not shows(frame, CANDIDATE, place(env, CORNERS[2]))
    np.testing.assert_array_equal(frame, env.render())
    env.step(2)
    assert not shows(env.render(), PROTO)


def test_candidates_that_nobody_proposed_a_point_for_are_drawn_without_one():
    env = at(own(1.0), 0)
    with_legend = env.render()
    env.show_choice(None, [1, 3])
    frame = env.render()
    assert shows(frame, CANDIDATE, place(env, CORNERS[1]))
    assert not (frame == PROTO).all(axis=2).any()  # nor in the legend
    assert (with_legend == PROTO).all(axis=2).any()


def test_a_reset_forgets_what_the_agent_saw():
    env = at(own(1.0), 0)
    env.show_choice(CORNERS[1], [1])
    assert not shows(at(env, 0).render(), PROTO)


def test_a_proto_action_far_outside_is_put_on_the_edge():
    env = at(own(1.0), 0)
    far = np.array([1e6, 1e6, 0.0])
    env.show_choice(far, [1])
    x, y = place(env, far)
    assert TITLE < y < HEIGHT - LEGEND
    assert 0 < x < WIDTH
    assert shows(env.render(), PROTO, (x, y))


@pytest.mark.parametrize(
    ("proto", "candidates", "message"),
    [
        (
            [0, 0],
            [1],
            r"proto of shape \(2,\) .* \(1,\): give those of one state, \(3,\) and \(k,\)",
        ),
        ([0, 0, 0], [[1]], r"candidates of shape \(1, 1\): give those of one state"),
        ([0, 0, 0], [1, 4], "action 4 is no item: give integers from 0 to 3"),
    ],
)
def test_a_choice_that_fits_no_state_is_refused(proto, candidates, message):
    with pytest.raises(ValueError, match=message):
        own(1.0).show_choice(proto, candidates)


def test_names_and_the_running_return_are_written():
    plain, named = at(own(1.0), 0), at(own(1.0, names=["milk", "bread", "rice", "tea"]), 0)
    assert not np.array_equal(plain.render(), named.render())
    titles = [named.render()[:TITLE]]
    for item in (3, 3):
        named.step(item)
        titles.append(named.render()[:TITLE])
    assert not np.array_equal(titles[0], titles[1])
    assert not np.array_equal(titles[1], titles[2])


def test_the_same_seed_gives_the_same_pictures():
    def film(seed):
        env = gym.make(ID, items=49, render_mode="rgb_array")
        env.reset(seed=seed)
        frames = [env.render()]
        for item in range(4):
            env.step(item)
            frames.append(env.render())
        return np.array(frames)

    np.testing.assert_array_equal(film(1), film(1))
    assert not np.array_equal(film(1), film(2))


def test_environments_of_one_task_share_their_map():
    first, second = (gym.make(ID, items=49, render_mode="rgb_array").unwrapped for _ in range(2))
    first.reset(seed=0)
    first.render()
    assert second.task.view is first.task.view


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_vectors_of_any_length_lie_in_the_picture(dim):
    vectors = np.random.default_rng(0).normal(size=(30, dim)).astype(np.float32)
    points = PcaProjection(vectors).points
    assert points.shape == (30, 2)
    assert (points > 0).all()
    assert (points[:, 0] < WIDTH).all()
    assert len(np.unique(points[:, 0])) > 10


def test_items_that_all_lie_in_one_place_can_be_drawn():
    env = Recommender(acceptance=np.ones((3, 3)), rewards=np.ones(3), vectors=np.ones((3, 2)), render_mode="rgb_array")
    env.reset(seed=0)
    env.step(1)
    assert np.isfinite(env.task.view.projection.points).all()
    assert env.render().shape == (HEIGHT, WIDTH, 3)


def test_a_window_follows_reset_and_step(monkeypatch):
    env = gym.make(ID, items=49, render_mode="human").unwrapped
    env.screen.fps = 1_000
    shown = []
    monkeypatch.setattr("wolpertinger.envs.rendering.window.Window.show", lambda self, frame: shown.append(frame))
    env.reset(seed=0)
    env.step(3)
    assert len(shown) == 2
    assert env.render() is None
    assert not np.array_equal(shown[0], shown[1])
    env.close()


def test_both_checkers_find_nothing_in_any_mode(monkeypatch):
    monkeypatch.setitem(Recommender.metadata, "render_fps", 1_000)
    check_gymnasium(gym.make(ID, items=49).unwrapped)
    for mode in Recommender.metadata["render_modes"]:
        check_sb3(gym.make(ID, items=49, render_mode=mode), skip_render_check=False)


def test_an_unknown_render_mode_is_refused():
    with pytest.raises(ValueError, match="render_mode='ascii': give 'rgb_array', 'human' or None"):
        gym.make(ID, items=49, render_mode="ascii")
