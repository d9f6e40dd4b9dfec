"""The paper's cart-pole swing-up in MuJoCo, with a force of any number of levels."""

import math
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from wolpertinger.actions import ActionProduct
from wolpertinger.actions.factor import even_levels
from wolpertinger.envs.batch_env import BatchEnv, read_action
from wolpertinger.envs.rendering import RENDER_MODES, Screen
from wolpertinger.envs.rendering.canvas import Frame
from wolpertinger.envs.rendering.cartpole import CartPoleView
from wolpertinger.envs.rendering.cartpole_scene import Moment, Track
from wolpertinger.envs.state import Restorable
from wolpertinger.imports import needs_extra
from wolpertinger.settings import check_number

with needs_extra("control", "the cart-pole"):
    import mujoco

Floats = npt.NDArray[np.float32]

HALF_TRACK = 2.0  # metres from the middle of the track to either end
HALF_GOAL = 0.1 * HALF_TRACK  # reward is given in the middle 10 % of the track ...
UPRIGHT = math.cos(math.radians(5))  # ... with the pole within 5 degrees of vertical
MAX_FORCE = 10.0  # newtons, on a cart of 1 kg
POLE_LENGTHS = (0.6, 1.0)  # metres
POLE_DENSITY = 0.2  # kg per metre
START_CART, START_ANGLE, START_SPEED = 0.5 * HALF_TRACK, math.pi / 6, 0.05  # how far from hanging at rest in the middle
MAX_STEPS = 500
SUBSTEPS = 2  # of 10 ms: the agent acts fifty times a second
WHOLE_STATE = mujoco.mjtState.mjSTATE_INTEGRATION

MODEL = f"""
<mujoco model="cart-pole swing-up">
  <option timestep="0.01" integrator="implicitfast"/>
  <visual><global offwidth="1280" offheight="1280"/></visual>
  <worldbody>
    <light name="lamp" pos="0 -3 4" dir="0 3 -4"/>
    <geom name="rail" type="capsule" fromto="{-HALF_TRACK - 0.15} 0.08 0 {HALF_TRACK + 0.15} 0.08 0" size="0.02"
          contype="0" conaffinity="0"/>
    <body name="cart">
      <joint name="slide" type="slide" axis="1 0 0" limited="true" range="{-HALF_TRACK} {HALF_TRACK}" damping="0.05"/>
      <geom name="cart" type="box" size="0.15 0.08 0.08" mass="1" contype="0" conaffinity="0"/>
      <body name="pole">
        <joint name="hinge" type="hinge" axis="0 1 0" damping="0.001"/>
        <inertial pos="0 0 0.5" mass="0.1" diaginertia="0.01 0.01 0.0001"/>
        <geom name="pole" type="capsule" size="0.025 0.5" pos="0 0 0.5" contype="0" conaffinity="0"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="slide" ctrllimited="true" ctrlrange="{-MAX_FORCE} {MAX_FORCE}"/></actuator>
</mujoco>
"""

# The ends of the track give way a little; the speeds are well above what 10 newtons can reach on 4 metres.
_HIGH = np.array([HALF_TRACK + 0.5, 1, 1, 20, 100, POLE_LENGTHS[1]], dtype=np.float32)
OBSERVATION_SPACE = spaces.Box(np.append(-_HIGH[:5], np.float32(POLE_LENGTHS[0])), _HIGH)


class Plant:
    """One cart with its pole: the physics that the single and the vectorised environment share."""

    def __init__(self) -> None:
        self.model = mujoco.MjModel.from_xml_string(MODEL)
        self.data = mujoco.MjData(self.model)
        self.length = POLE_LENGTHS[1]

    def reset(self, rng: np.random.Generator) -> None:
        """Draw a pole at random, and hang it from a cart in the middle half of the track, nearly at rest."""
        low, high = POLE_LENGTHS
        cart, angle, speed, turn, length = rng.uniform(-1, 1, size=5)
        self.set_pole((low + high) / 2 + length * (high - low) / 2)
        self.set_state(cart * START_CART, math.pi + angle * START_ANGLE, speed * START_SPEED, turn * START_SPEED)

    def set_pole(self, length: float) -> None:
        """Set the length of the pole, a uniform rod, in metres, rounded to float32 as it is observed."""
        self.length = length = float(np.float32(length))
        pole, mass = self.model.body("pole").id, POLE_DENSITY * length
        self.model.body_mass[pole] = mass
        self.model.body_ipos[pole, 2] = self.model.geom("pole").pos[2] = length / 2
        self.model.body_inertia[pole, :2] = mass * length**2 / 12
        self.model.geom("pole").size[1] = length / 2
        mujoco.mj_setConst(self.model, self.data)

    def set_state(self, cart: float, angle: float, speed: float, turn: float) -> None:
        """Set cart position, pole angle (0 is upright), and their velocities."""
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:] = cart, angle
        self.data.qvel[:] = speed, turn
        mujoco.mj_forward(self.model, self.data)

    def push(self, force: float) -> float:
        """Apply a force for one step and return the reward."""
        self.data.ctrl[0] = force
        mujoco.mj_step(self.model, self.data, SUBSTEPS)
        cart, angle = self.data.qpos
        return float(abs(cart) <= HALF_GOAL and math.cos(angle) >= UPRIGHT)

    @property
    def state(self) -> npt.NDArray[np.float64]:
        """The pole's length, then all that MuJoCo goes on from: to set it gives the same motion, to the bit."""
        numbers = np.empty(mujoco.mj_stateSize(self.model, WHOLE_STATE))
        mujoco.mj_getState(self.model, self.data, numbers, WHOLE_STATE)
        return np.append(self.length, numbers)

    @state.setter
    def state(self, numbers: npt.NDArray[np.float64]) -> None:
        self.set_pole(numbers[0])
        mujoco.mj_resetData(self.model, self.data)
        mujoco.mj_setState(self.model, self.data, numbers[1:].copy(), WHOLE_STATE)

    def observe(self) -> tuple[float, ...]:
        """Return cart position, cosine and sine of the pole's angle, velocities of cart and pole, pole length."""
        (cart, angle), (speed, turn) = self.data.qpos, self.data.qvel
        return cart, math.cos(angle), math.sin(angle), speed, turn, self.length


def _force_levels(levels: int) -> ActionProduct:
    return ActionProduct([even_levels(-MAX_FORCE, MAX_FORCE, levels)])


class CartPoleSwingUp(Restorable, gym.Env[Floats, np.int64]):
    """Swing a hanging pole up and balance it in the middle of the track, as in Section 6.1 of the paper.

    ## Action space
    `Discrete(levels)`: a force along the track, from -10 to 10 newtons in evenly spaced levels, held in `actions`.

    ## Observation space
    `Box(6)`: position of the cart (m; the track is from -2 to 2), cosine and sine of the pole's angle (0 is upright),
    velocity of the cart (m/s) and of the pole (rad/s), length of the pole (m).

    ## Reward
    1 where the pole is within 5 degrees of vertical and the cart in the middle 10 % of the track, else 0.

    ## Episode end
    Truncated after 500 steps of 20 ms (`max_steps`); never terminated: the ends of the track stop the cart. It starts
    with a pole drawn from 0.6 to 1 m long, hanging within 30 degrees of straight down, nearly at rest, from a cart in
    the middle half of the track.
    """

    metadata = {"render_modes": RENDER_MODES, "render_fps": 50}  # noqa: RUF012 - Gymnasium's own form
    state_names = ("steps", "reward", "total", "motion")

    def __init__(self, *, levels: int = 1_000_000, max_steps: int = MAX_STEPS, render_mode: str | None = None) -> None:
        self.actions = _force_levels(levels)
        self.max_steps = int(check_number("max_steps", max_steps, least=1, whole=True))
        self.observation_space = OBSERVATION_SPACE
        self.action_space = self.actions.space  # type: ignore[assignment]  # a product of one factor: Discrete
        self.render_mode = render_mode
        self.screen = Screen(render_mode, title="Cart-pole swing-up", fps=self.metadata["render_fps"])
        self.view = CartPoleView(Track(HALF_TRACK, HALF_GOAL, MAX_FORCE))
        self.plant = Plant()
        self.steps, self.reward, self.total = 0, 0.0, 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        super().reset(seed=seed)
        self.plant.reset(self.np_random)
        self.steps, self.reward, self.total = 0, 0.0, 0.0
        self.screen.refresh(self._draw)
        return self._observe(), {}

    def step(self, action: np.int64) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        self.reward = self.plant.push(float(self.actions.embed(read_action(action, self.actions.n))[0]))
        self.steps += 1
        self.total += self.reward
        self.screen.refresh(self._draw)
        return self._observe(), self.reward, False, self.steps >= self.max_steps, {}

    @property
    def motion(self) -> npt.NDArray[np.float64]:
        """Cart and pole, as part of `get_state`."""
        return self.plant.state

    @motion.setter
    def motion(self, numbers: npt.NDArray[np.float64]) -> None:
        self.plant.state = numbers

    def render(self) -> Frame | None:
        return self.screen.render(self._draw)

    def _draw(self) -> Frame:
        (cart, angle), (force,) = self.plant.data.qpos, self.plant.data.ctrl
        return self.view.draw(Moment(cart, angle, self.plant.length, force, self.reward > 0, self.steps, self.total))

    def close(self) -> None:
        self.screen.close()
        self.view.close()

    def _observe(self) -> Floats:
        return np.array(self.plant.observe(), dtype=np.float32)

    def vector(self, num_envs: int) -> "CartPoleSwingUpVector":
        """Return a batch of carts with this environment's actions."""
        return CartPoleSwingUpVector(num_envs, levels=self.actions.n, max_steps=self.max_steps)


class CartPoleSwingUpVector(BatchEnv):
    """A batch of `CartPoleSwingUp`, with one lookup of forces for all."""

    state_names = ("steps", "motions")
    bytes_per_env = 2**20  # what MuJoCo keeps of a cart, about

    def __init__(self, num_envs: int = 1, *, levels: int = 1_000_000, max_steps: int = MAX_STEPS) -> None:
        super().__init__(num_envs, OBSERVATION_SPACE, _force_levels(levels))
        self.max_steps = int(check_number("max_steps", max_steps, least=1, whole=True))
        self.plants = [Plant() for _ in range(num_envs)]
        self.steps = 0  # of all: episodes have the same length, so they start and end at the same time

    def _begin(self) -> tuple[Floats, dict[str, Any]]:
        self.steps = 0
        for plant in self.plants:
            plant.reset(self.np_random)
        return self._observe(), {}

    def step(self, actions: npt.NDArray[np.int64]) -> tuple[Floats, Any, Any, Any, dict[str, Any]]:
        forces = self.actions.embed(actions).ravel().tolist()
        if len(forces) != self.num_envs:
            raise ValueError(f"{len(forces)} actions: give one per cart, {self.num_envs}")
        rewards = np.array([plant.push(force) for plant, force in zip(self.plants, forces, strict=True)])
        obs, info = self._observe(), {}
        self.steps += 1
        over = np.full(self.num_envs, self.steps >= self.max_steps)
        if over[0]:
            info = {"final_obs": obs, "_final_obs": over}
            obs, _ = self._begin()
        return obs, rewards, np.zeros_like(over), over, info

    @property
    def motions(self) -> npt.NDArray[np.float64]:
        """Carts and poles (num_envs, numbers), as part of `get_state`."""
        return np.stack([plant.state for plant in self.plants])

    @motions.setter
    def motions(self, rows: npt.NDArray[np.float64]) -> None:
        for plant, numbers in zip(self.plants, rows, strict=True):
            plant.state = numbers

    def _observe(self) -> Floats:
        return np.array([plant.observe() for plant in self.plants], dtype=np.float32)
