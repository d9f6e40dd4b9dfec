import numpy as np
import pytest

from wolpertinger.envs.rendering import Screen

FRAME = np.zeros((40, 60, 3), dtype=np.uint8)


def never():
    raise AssertionError("drawn for nothing")


def test_rgb_array_hands_frames_out_when_asked():
    screen = Screen("rgb_array", title="test", fps=1_000)
    screen.refresh(never)
    assert screen.render(lambda: FRAME) is FRAME
    screen.close()


def test_human_shows_frames_by_itself():
    import pygame

    screen = Screen("human", title="test", fps=1_000)
    screen.refresh(lambda: FRAME)
    assert pygame.display.get_init()
    assert screen.render(lambda: FRAME) is None
    screen.close()
    screen.close()
    assert not pygame.display.get_init()


def test_a_window_closed_by_its_user_costs_nothing_more():
    import pygame

    screen = Screen("human", title="test", fps=1_000)
    screen.refresh(lambda: FRAME)
    pygame.event.post(pygame.event.Event(pygame.QUIT))
    screen.refresh(lambda: FRAME)
    screen.refresh(never)
    screen.close()


def test_no_mode_draws_nothing_and_says_so_when_asked():
    screen = Screen(None, title="test", fps=1_000)
    screen.refresh(never)
    with pytest.warns(UserWarning, match="draws nothing without a render mode"):
        assert screen.render(never) is None


def test_an_unknown_mode_is_refused():
    with pytest.raises(ValueError, match="render_mode='ascii': give 'rgb_array', 'human' or None"):
        Screen("ascii", title="test", fps=1)
