"""A window that shows pictures one after another."""

import os
import warnings
from types import ModuleType
from typing import Any

from wolpertinger.envs.rendering.canvas import Frame
from wolpertinger.imports import needs_extra

UNSEEN = ("offscreen", "dummy")  # SDL's drivers without a display


class Window:
    """Shows frames at a steady rate; once its user closes it, it stays closed and takes frames in silence."""

    def __init__(self, title: str, fps: float) -> None:
        self.title, self.fps = title, fps
        self.closed = False
        self._pygame: ModuleType | None = None
        self._surface: Any = None
        self._clock: Any = None

    def open(self) -> None:
        """Find the display, or raise `OSError`. Do so before OpenGL draws: SDL may end EGL's display as it fails."""
        if self.closed or self._pygame is not None:
            return
        pygame = _import_pygame()
        try:
            pygame.display.init()
            _require_display(pygame)
        except pygame.error as error:
            raise _no_window(pygame, error) from error
        self._pygame = pygame

    def show(self, frame: Frame) -> None:
        """Show a frame until it is time for the next one; the first frame gives the window its size."""
        if self.closed:
            return
        height, width = frame.shape[:2]
        self.open()
        pygame = self._pygame
        assert pygame is not None
        if self._surface is None:
            self._set_size(pygame, width, height)
        self._surface.blit(pygame.image.frombuffer(frame.tobytes(), (width, height), "RGB"), (0, 0))
        pygame.display.flip()
        if any(event.type == pygame.QUIT for event in pygame.event.get()):
            self.close()
            return
        self._clock.tick(self.fps)

    def _set_size(self, pygame: ModuleType, width: int, height: int) -> None:
        try:
            self._surface = pygame.display.set_mode((width, height))
        except pygame.error as error:
            self._pygame = None
            raise _no_window(pygame, error) from error
        pygame.display.set_caption(self.title)
        self._clock = pygame.time.Clock()

    def close(self) -> None:
        self.closed = True
        if self._pygame is not None:
            self._pygame.display.quit()
            self._pygame = None


def _import_pygame() -> ModuleType:
    """Only where a window opens, and without its greeting and its warning about pkg_resources."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    with warnings.catch_warnings(), needs_extra("control", 'render_mode="human"'):
        warnings.simplefilter("ignore")
        import pygame
    return pygame


def _no_window(pygame: ModuleType, error: Exception) -> OSError:
    pygame.display.quit()
    return OSError(
        f'no window can be opened ({error}): use render_mode="rgb_array", or write a film with '
        "`wolpertinger watch RUN --out film.mp4`"
    )


def _require_display(pygame: ModuleType) -> None:
    """Without a display SDL draws where nobody sees it; that is an error unless it was asked for."""
    if pygame.display.get_driver() in UNSEEN and "SDL_VIDEODRIVER" not in os.environ:
        raise pygame.error("there is no display")
