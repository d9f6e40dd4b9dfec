"""Rendering by mode: pictures are returned, or shown in a window."""

from collections.abc import Callable

import gymnasium as gym

from wolpertinger.envs.rendering.canvas import Frame
from wolpertinger.envs.rendering.window import Window
from wolpertinger.settings import check_choice

RENDER_MODES = ["rgb_array", "human"]


class Screen:
    """Returns pictures ("rgb_array"), shows them in a window ("human"), or draws none (None)."""

    def __init__(self, mode: str | None, *, title: str, fps: float) -> None:
        check_choice("render_mode", mode, RENDER_MODES, optional=True)
        self.mode, self.title, self.fps = mode, title, fps
        self._window: Window | None = None

    def render(self, draw: Callable[[], Frame]) -> Frame | None:
        """Implement an environment's `render`."""
        if self.mode is None:
            gym.logger.warn('render() draws nothing without a render mode: make the environment with "rgb_array"')
            return None
        if self.mode == "rgb_array":
            return draw()
        self._window = self._window or Window(self.title, self.fps)
        if not self._window.closed:
            self._window.open()
            self._window.show(draw())
        return None

    def refresh(self, draw: Callable[[], Frame]) -> None:
        """Update the window, if there is one; `reset` and `step` end with it."""
        if self.mode == "human":
            self.render(draw)

    def close(self) -> None:
        """Close the window, if there is one; a later `render` may open another."""
        if self._window is not None:
            self._window.close()
            self._window = None
