"""An OpenGL context that draws into memory, on machines with or without a display."""

import os
import platform
import subprocess
import sys
import warnings
from functools import lru_cache
from importlib import import_module
from typing import Any

import mujoco

BACKENDS = ("egl", "osmesa")
# Whether a library is there says little: drivers can be missing, and MuJoCo's modules leave settings behind when they
# fail to import. Another process tries, and tells by its exit code whether a lit box could be drawn.
PROBE = """
import mujoco
model = mujoco.MjModel.from_xml_string(
    '<mujoco><worldbody><light pos="0 0 9"/><geom type="box" size="9 9 1"/></worldbody></mujoco>')
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
with mujoco.Renderer(model, 32, 32) as renderer:
    renderer.update_scene(data)
    raise SystemExit(0 if renderer.render().any() else 1)
"""


class NoOpenGLError(RuntimeError):
    """Nothing can be drawn with OpenGL here; the message says what was tried."""


def make_context(width: int, height: int) -> Any:
    """A context for pictures up to this size: the one MUJOCO_GL names, else by EGL, else by OSMesa."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # GLFW's way to say that there is no display
        try:
            context = _context_class()(width, height)
            context.make_current()
        except NoOpenGLError:
            raise
        except Exception as error:  # each backend fails in its own way
            raise NoOpenGLError(f"{type(error).__name__}: {error}") from error
    return context


def _context_class() -> Any:
    asked = os.environ.get("MUJOCO_GL")
    if asked or platform.system() != "Linux":
        if not hasattr(mujoco, "GLContext"):
            raise NoOpenGLError(f"MUJOCO_GL={asked} switches it off")
        return mujoco.GLContext
    for backend in BACKENDS:
        if _works(backend):
            return import_module(f"mujoco.{backend}").GLContext
    raise NoOpenGLError("neither EGL nor OSMesa works")


@lru_cache
def _works(backend: str) -> bool:
    environment = {**os.environ, "MUJOCO_GL": backend}
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROBE], env=environment, capture_output=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
