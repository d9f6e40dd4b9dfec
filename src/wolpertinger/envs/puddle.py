"""The paper's puddle world: one action is a whole plan of moves through a grid."""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from inspect import signature
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from wolpertinger.actions import ActionProduct
from wolpertinger.envs.batch_env import BatchEnv
from wolpertinger.envs.puddle_map import GOAL, MAX_MOVES, PUDDLE, Ints, MapSource, PuddleMap, load_map, moves_of
from wolpertinger.envs.rendering import RENDER_MODES, Screen
from wolpertinger.envs.rendering.canvas import Frame
from wolpertinger.envs.rendering.puddle import PuddleView, Trip
from wolpertinger.envs.state import Restorable
from wolpertinger.index import as_array
from wolpertinger.settings import check_memory, check_number

MAX_PLAN = 64  # moves
MAX_WINDOW = 1_001
DEFAULT_SIZE, DEFAULT_MAP_SEED = 50, 0

Cell = tuple[int, int]
Obs = npt.NDArray[np.uint8]


class Outcome(NamedTuple):
    """The result of executing the plans of a batch of agents."""

    visited: Ints  # (batch, plan), the goal repeated once it is reached
    rewards: npt.NDArray[np.float64]
    moves: Ints  # made until the goal, or all
    terminated: npt.NDArray[np.bool_]


class PuddleTask:
    """Shared by the single and the vectorised environment: the map, the plans, the observation of each cell."""

    def __init__(self, map: PuddleMap, plan: int, window: int, max_moves: int) -> None:
        self.map, self.plan, self.window, self.max_moves = map, plan, window, max_moves
        self.actions = ActionProduct([np.eye(2)] * plan)
        self.start = map.start[0] * map.cols + map.start[1]
        self.goal = map.cells.size - 1
        self.observations = _windows(map, window)
        self.observation_space = spaces.Box(0, 1, self.observations.shape[1:], dtype=np.uint8)

    def moves(self, actions: npt.NDArray[Any], count: int) -> Ints:
        """Return the moves (count, plan) of actions given as ids or digits, by the kind of action space."""
        space = self.actions.space
        top = int(space.n) if isinstance(space, spaces.Discrete) else 2
        shape = (count,) if isinstance(space, spaces.Discrete) else (count, self.plan)
        if actions.shape != shape or actions.dtype.kind not in "iu":
            raise ValueError(
                f"actions of shape {actions.shape}, {actions.dtype}: give integers of shape {shape}, one "
                f"{'id' if len(shape) == 1 else 'row of moves'} per agent"
            )
        actions = np.ascontiguousarray(actions, np.int64)
        if actions.view(np.uint64).max() >= top:  # seen as unsigned, negative numbers are too large as well
            wrong = actions[(actions < 0) | (actions >= top)][0]
            raise ValueError(
                f"{wrong} is no {'plan' if len(shape) == 1 else 'move'}: give integers from 0 to {top - 1}"
            )
        return moves_of(actions, self.plan) if actions.ndim == 1 else actions

    def execute(self, cells: Ints, moves: Ints) -> Outcome:
        """Execute moves (batch, plan) from cells (batch,), to the end of the plan or the goal."""
        visited, rewards = self.map.walk(cells, moves)
        made = (visited[:, :-1] != self.goal).sum(axis=1) + 1
        return Outcome(visited, rewards.astype(np.float64), made, visited[:, -1] == self.goal)

    @cached_property
    def view(self) -> PuddleView:
        """The drawing of the map and of episodes; made on first use."""
        return PuddleView(self.map.cells)


class PuddleWorld(Restorable, gym.Env[Obs, Any]):
    """Cross a grid of puddles by plans of n moves, as in Section 6.2 of the paper. Deterministic.

    ## Action space
    `Discrete(2**n)`, or `MultiDiscrete([2] * n)` from n = 63: a plan of n moves, first move first (in an id: the most
    significant bit). 0 is right, 1 is down. The whole plan is executed in one step; a move against the edge stays
    where it is. `actions` holds the plans' vectors, two numbers a move.

    ## Observation space
    `Box(0, 1, (3 * window**2,), uint8)`: for the square window around the agent, row by row, three planes one after
    the other: puddles, the goal, and what lies outside the map.

    ## Reward
    The sum over the plan's moves: -1 for each visit of an empty cell (or the start), -3 of a puddle, 250 at the goal.

    ## Episode end
    Terminated at the goal, where the rest of the plan is dropped. Truncated after the plan in which `max_moves` moves
    (default: 2 * (rows + cols)) are reached.

    Options: `plan` (n, 1 to 64); `size` (50, or rows and columns) and `map_seed` (0) of a generated map, or `map`, a
    `PuddleMap`, the path of a text file, or a text of several lines; `window` (odd). `map` computes exact values:
    `map.best_score`, `map.random_value`, `map.best_fixed_plan(n)`. `path` holds the cells of the episode from the start
    on, `last_plan_path` those which the last plan visited.
    """

    metadata = {"render_modes": RENDER_MODES, "render_fps": 2}  # noqa: RUF012 - Gymnasium's own form
    state_names = ("path", "last_plan_path", "_cell", "_moves", "_plans", "_total", "_outcome")

    def __init__(
        self,
        *,
        plan: int = 20,
        size: int | Sequence[int] | None = None,
        map_seed: int | None = None,
        map: MapSource | None = None,
        window: int = 11,
        max_moves: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.task = build_task(plan, size, map_seed, map, window, max_moves)
        self.map, self.actions = self.task.map, self.task.actions
        self.observation_space, self.action_space = self.task.observation_space, self.actions.space
        self.render_mode = render_mode
        self.screen = Screen(render_mode, title="Puddle world", fps=self.metadata["render_fps"])
        self._begin()

    def _begin(self) -> None:
        self.position: Cell = self.map.start
        self.path: list[Cell] = [self.position]
        self.last_plan_path: list[Cell] = []
        self._cell, self._moves = np.array([self.task.start]), 0
        self._plans, self._total, self._outcome = 0, 0.0, ""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, dict[str, Any]]:
        super().reset(seed=seed)
        self._begin()
        self.screen.refresh(self._draw)
        return self._observe()

    def step(self, action: Any) -> tuple[Obs, float, bool, bool, dict[str, Any]]:
        outcome = self.task.execute(self._cell, self.task.moves(as_array("the action", action)[None], 1))
        made, terminated = int(outcome.moves[0]), bool(outcome.terminated[0])
        self.last_plan_path = [divmod(cell, self.map.cols) for cell in outcome.visited[0, :made].tolist()]
        self.path += self.last_plan_path
        self.position = self.path[-1]
        self._cell, self._moves = outcome.visited[:, -1], self._moves + made
        truncated = not terminated and self._moves >= self.task.max_moves
        reward = float(outcome.rewards[0])
        self._plans, self._total = self._plans + 1, self._total + reward
        self._outcome = "goal" if terminated else "out of moves" if truncated else ""
        self.screen.refresh(self._draw)
        obs, info = self._observe()
        return obs, reward, terminated, truncated, info

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self.path, self.last_plan_path = (
            [(row, col) for row, col in part] for part in (self.path, self.last_plan_path)
        )
        self.position = self.path[-1]

    def render(self) -> Frame | None:
        return self.screen.render(self._draw)

    def _draw(self) -> Frame:
        planned = len(self.last_plan_path)
        return self.task.view.draw(Trip(self.path, planned, self.task.window, self._plans, self._total, self._outcome))

    def close(self) -> None:
        self.screen.close()

    def _observe(self) -> tuple[Obs, dict[str, Any]]:
        return self.task.observations[self._cell[0]].copy(), {"position": self.position, "moves": self._moves}

    def vector(self, num_envs: int) -> "PuddleWorldVector":
        """Return a batch of agents in this world."""
        return PuddleWorldVector(self.task, num_envs)


class PuddleWorldVector(BatchEnv):
    """A batch of agents, each in its own episode of one `PuddleWorld`, stepped in numpy."""

    state_names = ("cells", "moves")

    def __init__(self, task: PuddleTask, num_envs: int) -> None:
        super().__init__(num_envs, task.observation_space, task.actions)
        self.task, self.map = task, task.map
        self._begin()

    def _begin(self) -> tuple[Obs, dict[str, Any]]:
        self.cells = np.full(self.num_envs, self.task.start)
        self.moves = np.zeros(self.num_envs, np.int64)
        return self._observe(), self._info()

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        moves = self.task.moves(as_array("actions", actions), self.num_envs)
        visited, rewards, made, terminated = self.task.execute(self.cells, moves)
        self.cells, self.moves = visited[:, -1].copy(), self.moves + made
        truncated = (self.moves >= self.task.max_moves) & ~terminated
        obs, over = self._observe(), terminated | truncated
        if not over.any():
            return obs, rewards, terminated, truncated, self._info()
        self.cells[over], self.moves[over] = self.task.start, 0
        info = {**self._info(), "final_obs": obs, "_final_obs": over}
        return self._observe(), rewards, terminated, truncated, info

    def _observe(self) -> Obs:
        return self.task.observations.take(self.cells, axis=0)

    def _info(self) -> dict[str, Any]:
        """Return row and column (num_envs, 2) and moves (num_envs,) of the agents, after autoreset."""
        return {"position": np.stack(np.divmod(self.cells, self.map.cols), axis=1), "moves": self.moves}


def make(**options: Any) -> PuddleWorld:
    """Entry point of `wolpertinger/PuddleWorld-v0`."""
    return PuddleWorld(**_check_names(options))


def make_vector(num_envs: int = 1, **options: Any) -> PuddleWorldVector:
    """Entry point of `gymnasium.make_vec("wolpertinger/PuddleWorld-v0", num_envs=...)`."""
    return PuddleWorld(**_check_names(options)).vector(num_envs)


def _check_names(options: dict[str, Any]) -> dict[str, Any]:
    known = list(signature(PuddleWorld).parameters)
    if unknown := options.keys() - set(known):
        raise TypeError(f"unknown option {', '.join(sorted(unknown))}: the puddle world takes {', '.join(known)}")
    return options


def build_task(
    plan: int,
    size: int | Sequence[int] | None,
    map_seed: int | None,
    map: MapSource | None,
    window: int,
    max_moves: int | None,
) -> PuddleTask:
    """Return the task of these options after checking them; equal options share one."""
    check_number("plan", plan, least=1, most=MAX_PLAN, whole=True)
    check_number("window", window, least=3, most=MAX_WINDOW, whole=True)
    if window % 2 == 0:
        raise ValueError(f"window={window}: give an odd number, so that the agent is in the middle")
    check_number("max_moves", max_moves, least=1, most=MAX_MOVES, whole=True, optional=True)
    world = _load_map(size, map_seed, map)
    return _shared_task(world, int(plan), int(window), int(max_moves or world.default_max_moves))


@lru_cache(maxsize=4)
def _shared_task(map: PuddleMap, plan: int, window: int, max_moves: int) -> PuddleTask:
    """Return one task per set of options, so that training and evaluation share its tables."""
    return PuddleTask(map, plan, window, max_moves)


def _load_map(size: int | Sequence[int] | None, map_seed: int | None, map: MapSource | None) -> PuddleMap:
    if map is None:
        seed = check_number("map_seed", DEFAULT_MAP_SEED if map_seed is None else map_seed, whole=True)
        return PuddleMap.generate(DEFAULT_SIZE if size is None else size, seed)
    if size is not None or map_seed is not None:
        raise ValueError(f"map={map!r} with size={size}, map_seed={map_seed}: give a map, or what to generate one from")
    return load_map(map)


def _windows(map: PuddleMap, window: int) -> Obs:
    """Return the observation of every cell (cells, 3 * window**2), so that a step only looks it up."""
    check_memory(f"window={window} on {map.cells.size:,} cells", 2 * 3 * window**2 * map.cells.size)
    planes = np.stack([map.cells == PUDDLE, map.cells == GOAL, np.zeros(map.cells.shape, bool)]).astype(np.uint8)
    half = window // 2
    padded = np.pad(planes, ((0, 0), (half, half), (half, half)))
    padded[2] = np.pad(planes[2], half, constant_values=1)
    cut = np.lib.stride_tricks.sliding_window_view(padded, (window, window), axis=(1, 2))  # (3, rows, cols, side, side)
    return np.moveaxis(cut, 0, 2).reshape(map.cells.size, -1)
