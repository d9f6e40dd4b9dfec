"""The cart-pole's pictures, by MuJoCo and without it."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as check_gymnasium
from stable_baselines3.common.env_checker import check_env as check_sb3

from wolpertinger.envs import CartPoleSwingUp
from wolpertinger.envs.rendering import opengl
from wolpertinger.envs.rendering.canvas import BAD, GOOD, HEIGHT, TITLE, WIDTH
from wolpertinger.envs.rendering.cartpole import GOAL, POLE
from wolpertinger.envs.rendering.cartpole_3d import _free

ID = "wolpertinger/CartPoleSwingUp-v0"
PUSH_LEFT, REST, PUSH_RIGHT = 0, 10, 20
NO_OPENGL = "no OpenGL for MuJoCo's pictures .*drawn in two dimensions.* libegl1 or libosmesa6 would help"


@pytest.fixture
def no_opengl(monkeypatch):
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.setattr(opengl, "_works", lambda backend: False)


def has_opengl():
    try:
        opengl.make_context(8, 8).free()
    except opengl.NoOpenGLError:
        return False
    return True


@pytest.fixture(params=["opengl", "plain"])
def env(request, monkeypatch):
    if request.param == "plain":
        request.getfixturevalue("no_opengl")
    elif not has_opengl():
        pytest.skip("no OpenGL here")
    env = CartPoleSwingUp(levels=21, render_mode="rgb_array")
    env.reset(seed=0)
    if request.param == "plain":
        with pytest.warns(UserWarning, match=NO_OPENGL):
            env.render()
    yield env
    env.close()


def moment(env, cart, angle, action):
    env.plant.set_state(cart, angle, 0, 0)
    env.step(action)
    return env.render()


def test_frames_change_with_the_state_and_only_with_it(env):
    still = env.render()
    assert still.shape == (HEIGHT, WIDTH, 3)
    assert still.dtype == np.uint8
    np.testing.assert_array_equal(still, env.render())
    views = [moment(env, *where, REST)[TITLE:] for where in ((0, 2), (1, 2), (0, 1), (-1, 2))]
    views += [moment(env, 0, 2, action)[TITLE:] for action in (PUSH_LEFT, PUSH_RIGHT)]
    for i, view in enumerate(views):
        assert view.std() > 5
        assert not any(np.array_equal(view, other) for other in views[:i])


def test_a_rewarded_pole_is_green(env):
    green = [(frame[TITLE : TITLE + 190].astype(int) @ [-1, 2, -1]).max() for frame in (
        moment(env, 0, 0, REST), moment(env, 1, 0, REST)
    )]  # fmt: skip
    assert green[0] > 100 > green[1]


def test_a_closed_environment_can_draw_again(env, recwarn):
    before = env.render()
    env.close()
    env.close()
    np.testing.assert_array_equal(env.render(), before)
    assert not recwarn


def test_the_plain_drawing_shows_track_goal_pole_and_force(no_opengl):
    env = CartPoleSwingUp(levels=21, render_mode="rgb_array")
    env.reset(seed=0)
    with pytest.warns(UserWarning, match=NO_OPENGL):
        frame = moment(env, 1, 2, PUSH_RIGHT)
    assert has(frame, GOAL)
    assert has(frame, POLE)
    assert has(frame, BAD)  # the arrow
    rewarded = moment(env, 0, 0, REST)  # and no second warning, which would be an error here
    assert has(rewarded, GOOD)
    assert not has(rewarded, BAD)


def has(frame, colour):
    return bool((frame[TITLE:] == colour).all(axis=2).any())


def test_two_environments_draw_side_by_side(env):
    other = CartPoleSwingUp(levels=21, render_mode="rgb_array")
    other.view._plain = env.view._plain
    other.reset(seed=1)
    env.reset(seed=1)
    np.testing.assert_array_equal(env.render(), other.render())
    other.close()
    np.testing.assert_array_equal(env.render(), env.render())


@pytest.mark.parametrize("asked", ["off", "glfw"])
def test_what_the_user_asked_mujoco_for_is_not_second_guessed(asked, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", asked)
    monkeypatch.setattr(opengl, "_works", lambda backend: pytest.fail("probed"))

    def broken(width, height):
        raise RuntimeError("no such thing")

    monkeypatch.setattr("mujoco.GLContext", broken)
    with pytest.raises(opengl.NoOpenGLError, match="RuntimeError: no such thing"):
        opengl.make_context(8, 8)
    monkeypatch.delattr("mujoco.GLContext")
    with pytest.raises(opengl.NoOpenGLError, match=f"MUJOCO_GL={asked} switches it off"):
        opengl.make_context(8, 8)


def test_a_backend_that_cannot_draw_does_not_work():
    assert not opengl._works("no such backend")


def test_osmesa_is_tried_after_egl(monkeypatch):
    tried = []
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.setattr(opengl, "_works", lambda backend: tried.append(backend))
    with pytest.raises(opengl.NoOpenGLError, match="neither EGL nor OSMesa works"):
        opengl.make_context(8, 8)
    assert tried == ["egl", "osmesa"]


def test_a_display_that_has_ended_is_closed_in_silence():
    from OpenGL.error import GLError

    class Context:
        _context = "lost"

        def make_current(self):
            raise GLError("EGL_BAD_DISPLAY")

    context = Context()
    _free(None, context)
    assert context._context is None  # nothing is left to be freed when it is collected


def test_both_checkers_find_nothing_in_any_mode(monkeypatch):
    monkeypatch.setitem(CartPoleSwingUp.metadata, "render_fps", 1_000)
    monkeypatch.setattr("wolpertinger.envs.rendering.cartpole.CartPoleView._find_stage", lambda self: None)
    check_gymnasium(gym.make(ID).unwrapped)
    for mode in CartPoleSwingUp.metadata["render_modes"]:
        check_sb3(gym.make(ID, render_mode=mode), skip_render_check=False)


def test_an_unknown_render_mode_is_refused():
    with pytest.raises(ValueError, match="render_mode='ascii': give 'rgb_array', 'human' or None"):
        CartPoleSwingUp(render_mode="ascii")
