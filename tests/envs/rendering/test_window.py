import subprocess
import sys
from time import perf_counter

import numpy as np
import pytest

from wolpertinger.envs.rendering import Window

FRAME = np.zeros((40, 60, 3), dtype=np.uint8)


@pytest.fixture
def window():
    window = Window("test", fps=1_000)
    yield window
    window.close()


def test_a_window_shows_what_it_is_given(window):
    import pygame

    frame = FRAME.copy()
    frame[10, 20] = 10, 20, 30
    window.show(frame)
    assert pygame.display.get_surface().get_size() == (60, 40)
    assert pygame.display.get_surface().get_at((20, 10))[:3] == (10, 20, 30)
    assert pygame.display.get_caption()[0] == "test"


def test_a_window_closed_by_its_user_stays_closed(window):
    import pygame

    window.show(FRAME)
    pygame.event.post(pygame.event.Event(pygame.QUIT))
    window.show(FRAME)
    assert window.closed
    assert not pygame.display.get_init()
    window.show(FRAME)  # in silence
    window.close()


def test_frames_are_shown_at_the_rate_asked_for():
    window = Window("test", fps=50)
    window.show(FRAME)
    start = perf_counter()
    for _ in range(5):
        window.show(FRAME)
    window.close()
    assert perf_counter() - start > 0.08


def test_no_display_is_a_clear_error(window, monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "no such driver")
    with pytest.raises(OSError, match=r'no window .*: use render_mode="rgb_array", or .*wolpertinger watch'):
        window.show(FRAME)


def test_a_display_that_nobody_sees_is_none_unless_asked_for(window, monkeypatch):
    import pygame

    monkeypatch.delenv("SDL_VIDEODRIVER")
    monkeypatch.setattr(pygame.display, "get_driver", lambda: "offscreen")
    monkeypatch.setattr(pygame.display, "init", lambda: None)
    monkeypatch.setattr(pygame.display, "set_mode", lambda size: None)
    with pytest.raises(OSError, match=r"no window can be opened \(there is no display\)"):
        window.show(FRAME)


def test_pygame_is_imported_late_and_in_silence():
    code = (
        "import sys, numpy as np\n"
        "from wolpertinger.envs.rendering import Window\n"
        "assert 'pygame' not in sys.modules\n"
        "Window('test', 1000).show(np.zeros((4, 4, 3), dtype=np.uint8))\n"
        "assert 'pygame' in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
