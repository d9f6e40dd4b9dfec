"""The cart and its pole in three dimensions, drawn by MuJoCo."""

import atexit
import math
import weakref
from typing import Any

import numpy as np

from wolpertinger.envs.rendering.canvas import Frame
from wolpertinger.envs.rendering.cartpole_scene import Moment, Track
from wolpertinger.envs.rendering.opengl import NoOpenGLError, make_context
from wolpertinger.imports import needs_extra

with needs_extra("control", "the cart-pole"):
    import mujoco

# Looks only: the physics has a model of its own. Lengths and places that depend on the track are set in Python.
STAGE = """
<mujoco>
  <visual>
    <headlight ambient="0.55 0.55 0.55" diffuse="0.3 0.3 0.3" specular="0.1 0.1 0.1"/>
    <quality shadowsize="2048"/>
    <map znear="0.02" shadowclip="2" shadowscale="0.8"/>
    <global offwidth="{width}" offheight="{height}"/>
  </visual>
  <asset>
    <texture type="skybox" builtin="gradient" rgb1="0.98 0.98 0.97" rgb2="0.80 0.85 0.90" width="64" height="384"/>
    <texture name="tiles" type="2d" builtin="checker" rgb1="0.9 0.9 0.92" rgb2="0.84 0.86 0.88" width="32" height="32"/>
    <material name="floor" texture="tiles" texrepeat="10 3" reflectance="0"/>
  </asset>
  <worldbody>
    <camera name="front" fovy="33" pos="0 -5.9 0.62" xyaxes="1 0 0 0 0.10 1"/>
    <light directional="true" pos="0 -1 4" dir="0.1 0.3 -1" diffuse="0.5 0.5 0.5" specular="0.1 0.1 0.1"/>
    <geom type="box" size="2.5 0.7 0.03" pos="0 0.08 -1.2" material="floor"/>
    <geom type="capsule" fromto="{left} 0.08 0 {right} 0.08 0" size="0.025" rgba="0.35 0.40 0.47 1"/>
    <geom type="box" pos="{left} 0.08 0" size="0.03 0.09 0.12" rgba="0.35 0.40 0.47 1"/>
    <geom type="box" pos="{right} 0.08 0" size="0.03 0.09 0.12" rgba="0.35 0.40 0.47 1"/>
    <geom type="box" pos="0 0.08 -0.14" size="{goal} 0.13 0.03" rgba="0.16 0.68 0.40 1"/>
    <body>
      <joint type="slide" axis="1 0 0"/>
      <geom type="box" size="0.15 0.08 0.08" rgba="0.16 0.22 0.32 1" mass="1"/>
      <body>
        <joint type="hinge" axis="0 1 0"/>
        <geom name="pole" type="capsule" size="0.03 0.5" pos="0 -0.11 0.5" mass="1"/>
        <geom type="cylinder" size="0.045 0.02" pos="0 -0.10 0" euler="90 0 0" rgba="0.75 0.78 0.82 1" mass="1"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""
POLE = (0.85, 0.55, 0.15, 1.0)
REWARDED = (0.10, 0.62, 0.36, 1.0)
FORCE = (0.82, 0.20, 0.18, 1.0)
LONGEST_ARROW = 0.6  # metres, at full force


class Stage:
    """A camera in front of the track; raises `NoOpenGLError` where no OpenGL can be had."""

    def __init__(self, track: Track, width: int, height: int) -> None:
        self._track = track
        left, right = -track.half - 0.2, track.half + 0.2
        xml = STAGE.format(width=width, height=height, left=left, right=right, goal=track.goal)
        self._model = mujoco.MjModel.from_xml_string(xml)
        self._data = mujoco.MjData(self._model)
        self._scene = mujoco.MjvScene(self._model, maxgeom=100)
        self._camera = mujoco.MjvCamera()
        self._camera.type, self._camera.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, 0
        self._area = mujoco.MjrRect(0, 0, width, height)
        self._context = make_context(width, height)
        try:
            self._gpu = mujoco.MjrContext(self._model, mujoco.mjtFontScale.mjFONTSCALE_100)
        except mujoco.FatalError as error:  # a context without a driver behind it
            self._context.free()
            raise NoOpenGLError(str(error)) from error
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._gpu)
        # Freed in this order and before the backend shuts down at exit, or drivers crash.
        self.close = weakref.finalize(self, _free, self._gpu, self._context)
        self.close.atexit = False
        atexit.register(self.close)

    def draw(self, moment: Moment) -> Frame:
        """The moment as the camera sees it."""
        pole = self._model.geom("pole")
        pole.size[1], pole.pos[2] = moment.length / 2, moment.length / 2
        pole.rgba[:] = REWARDED if moment.rewarded else POLE
        self._data.qpos[:] = moment.cart, moment.angle
        mujoco.mj_forward(self._model, self._data)
        self._context.make_current()  # other environments may have drawn meanwhile
        mujoco.mjv_updateScene(
            self._model, self._data, mujoco.MjvOption(), None, self._camera, mujoco.mjtCatBit.mjCAT_ALL, self._scene
        )
        self._add_force(moment)
        mujoco.mjr_render(self._area, self._scene, self._gpu)
        frame = np.empty((self._area.height, self._area.width, 3), dtype=np.uint8)
        mujoco.mjr_readPixels(frame, None, self._area, self._gpu)
        return np.ascontiguousarray(frame[::-1])  # OpenGL's first row is the lowest

    def _add_force(self, moment: Moment) -> None:
        """An arrow from the cart's side, as long as the force is strong."""
        length = LONGEST_ARROW * moment.force / self._track.max_force
        if abs(length) < 0.02:
            return
        start = moment.cart + math.copysign(0.16, length)
        arrow = self._scene.geoms[self._scene.ngeom]
        colour = np.array(FORCE, dtype=np.float32)
        mujoco.mjv_initGeom(arrow, mujoco.mjtGeom.mjGEOM_ARROW, np.zeros(3), np.zeros(3), np.eye(3).ravel(), colour)
        mujoco.mjv_connector(
            arrow, mujoco.mjtGeom.mjGEOM_ARROW, 0.035, np.array([start, 0.0, 0.0]), np.array([start + length, 0.0, 0.0])
        )
        self._scene.ngeom += 1


def _free(gpu: Any, context: Any) -> None:
    from OpenGL.error import GLError  # late: it settles PyOpenGL's platform, which is the backend's to choose

    try:
        context.make_current()
    except GLError:
        # EGL's display is shared by the whole process, and SDL's offscreen driver ends it when its window closes. What
        # the context held went with it; to free it again would fail, now and when the context is collected.
        context._context = None
        return
    gpu.free()
    context.free()
