"""An OpenGL context that draws into memory, on machines with or without a display."""

import os
import platform
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from typing import Any

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


@contextmanager
def gymnasium_backend() -> Iterator[None]:
    """For the first picture of one of Gymnasium's MuJoCo robots, which by itself takes GLFW even without a display.

    Whatever fails within is a `NoOpenGLError` of one line.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as in `make_context`
        try:
            if os.environ.get("MUJOCO_GL"):
                make_context(8, 8).free()  # a viewer without a context complains once more when it is collected
                yield
            elif platform.system() != "Linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
                yield
            else:
                # Gymnasium reads it when it makes its viewer. It must not stay: `_context_class` would take it for the
                # user's, and mujoco.GLContext, chosen when mujoco was imported, is still GLFW's.
                os.environ["MUJOCO_GL"] = _working_backend()
                try:
                    yield
                finally:
                    del os.environ["MUJOCO_GL"]
        except NoOpenGLError as error:
            raise NoOpenGLError(_in_one_line(error)) from error
        except Exception as error:  # each backend fails in its own way
            raise NoOpenGLError(f"{type(error).__name__}: {_in_one_line(error)}") from error


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _context_class() -> Any:
    asked = os.environ.get("MUJOCO_GL")
    if asked or platform.system() != "Linux":
        import mujoco  # late: who draws without it can still import this file

        if not hasattr(mujoco, "GLContext"):
            raise NoOpenGLError(f"MUJOCO_GL={asked} switches it off")
        return mujoco.GLContext
    return import_module(f"mujoco.{_working_backend()}").GLContext


def _working_backend() -> str:
    for backend in BACKENDS:
        if _works(backend):
            return backend
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
