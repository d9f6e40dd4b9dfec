"""Pictures of the environments: arrays for `rgb_array`, a window for `human`."""

from wolpertinger.envs.rendering.screen import RENDER_MODES, Screen
from wolpertinger.envs.rendering.window import Window

__all__ = ["RENDER_MODES", "Screen", "Window"]
