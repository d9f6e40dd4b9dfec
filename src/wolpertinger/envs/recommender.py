"""The paper's recommender: recommend the next item of a catalogue to a simulated user at some item."""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from inspect import signature
from typing import Any, NoReturn

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from wolpertinger.actions import ActionTable
from wolpertinger.envs.acceptance import Acceptance, Ids, as_numbers
from wolpertinger.envs.batch_env import BatchEnv, read_action
from wolpertinger.envs.catalogue import Catalogue, load_catalogue
from wolpertinger.envs.rendering import RENDER_MODES, Screen
from wolpertinger.envs.rendering.canvas import Frame
from wolpertinger.envs.rendering.recommender import Choice, PcaProjection, Recommendation, RecommenderView, Session
from wolpertinger.envs.state import Restorable
from wolpertinger.envs.user_model import STAY_ACCEPTED, STAY_REFUSED, UserModel
from wolpertinger.index import as_array, read_ids
from wolpertinger.settings import check_kind, check_number, show

DEFAULT_GUIDED = 30  # items in the subset for guided exploration


class RecommenderTask:
    """Shared by the single and the vectorised environment: the user model, the items' vectors, the spaces."""

    def __init__(self, catalogue: Catalogue, guided: int | None) -> None:
        self.model = UserModel(catalogue.acceptance, catalogue.rewards)
        self.actions = ActionTable(catalogue.vectors)
        if self.actions.n != self.model.n:
            raise ValueError(f"{self.actions.n} vectors for {self.model.n} items: give one vector per item")
        guided = min(DEFAULT_GUIDED, self.model.n) if guided is None else guided
        check_number("guided", guided, least=1, most=self.model.n, whole=True)
        check_kind("names", catalogue.names, list | tuple | np.ndarray | None, "a list with a name per item")
        if catalogue.names is not None and len(catalogue.names) != self.model.n:
            raise ValueError(f"{len(catalogue.names)} names for {self.model.n} items: give one name per item")
        self.names = None if catalogue.names is None else list(catalogue.names)
        self.n_guided = guided
        self.observation_space = spaces.Box(self.actions.low, self.actions.high, dtype=np.float32)
        self._guided: Ids | None = None

    def observe(self, states: int | Ids) -> npt.NDArray[np.float32]:
        """Return a copy of the vectors of states; without the checks of `actions.embed`, as states are valid items."""
        return self.actions.vectors.take(states, axis=0)

    def refuse(self, actions: Any) -> NoReturn:
        """Raise the error for actions that are no items."""
        raise ValueError(f"action {actions} is no item: give integers from 0 to {self.model.n - 1}")

    @property
    def guided(self) -> Ids:
        """The items with the largest W_ij * r_j for each state, best first (items, guided); made on first use."""
        if self._guided is None:
            self._guided = self.model.acceptance.top(self.model.rewards, self.n_guided)
        return self._guided

    @cached_property
    def view(self) -> RecommenderView:
        """The drawing of items and sessions; made on first use."""
        return RecommenderView(PcaProjection(self.actions.vectors), self.model.rewards, self.names)


class Recommender(Restorable, gym.Env[npt.NDArray[np.float32], np.int64]):
    """Recommend one item after another to a simulated user, as in Section 6.3 of the paper.

    ## Action space
    `Discrete(items)`: the item to recommend. `actions` holds the items' vectors.

    ## Observation space
    `Box(dim)`: the vector of the item that the user is consuming.

    ## Reward
    The user at item i accepts item j with chance `acceptance[i, j]`, which pays `rewards[j]` and moves the user to j.
    Otherwise the user moves to an item drawn uniformly from all, and the reward is 0.

    ## Episode end
    After an accepted recommendation with chance 0.1, after a refused one with chance 0.2. Never truncated.
    The start is an item drawn uniformly.

    `guided_actions()` offers the likely good items of the current state, which guided exploration draws from;
    `model` computes exact values: `model.optimum`, `model.best_fixed`, `model.random_value`, `model.evaluate(policy)`.
    `show_choice(proto, candidates)`, before a step, adds what the agent saw to its picture.
    """

    metadata = {"render_modes": RENDER_MODES, "render_fps": 2}  # noqa: RUF012 - Gymnasium's own form
    state_names = ("state",)

    def __init__(
        self,
        *,
        acceptance: Any,
        rewards: npt.ArrayLike,
        vectors: npt.ArrayLike,
        guided: int | None = None,
        names: Sequence[str] | None = None,
        render_mode: str | None = None,
    ) -> None:
        catalogue = Catalogue(Acceptance.of(acceptance), rewards, vectors, names)
        self._set_task(RecommenderTask(catalogue, guided), render_mode)

    def _set_task(self, task: RecommenderTask, render_mode: str | None) -> None:
        self.task, self.model, self.actions, self.names = task, task.model, task.actions, task.names
        self.observation_space = task.observation_space
        self.action_space = spaces.Discrete(self.actions.n)
        self.render_mode = render_mode
        self.screen = Screen(render_mode, title="Recommender", fps=self.metadata["render_fps"])
        self.state = 0
        self.session = Session(self.state)
        self._choice: Choice | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        self.state = int(self.np_random.integers(self.actions.n))
        self.session, self._choice = Session(self.state), None
        self.screen.refresh(self._draw)
        return self.task.observe(self.state), {"item": self.state}

    def step(self, action: np.int64) -> tuple[npt.NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        action, at = np.int64(read_action(action, self.model.n)), self.state
        accepted = bool(self.np_random.random() < self.model.acceptance.at(at, action))
        self.state = int(action) if accepted else int(self.np_random.integers(self.actions.n))
        reward = float(self.model.rewards[action]) if accepted else 0.0
        ended = bool(self.np_random.random() >= (STAY_ACCEPTED if accepted else STAY_REFUSED))
        self.session.record(Recommendation(at, int(action), accepted, reward, self._choice), self.state)
        self._choice = None
        self.screen.refresh(self._draw)
        return self.task.observe(self.state), reward, ended, False, {"item": self.state, "accepted": accepted}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self.session, self._choice = Session(self.state), None  # of pictures, which begin anew

    def guided_actions(self) -> Ids:
        """Return items that are likely good for the current state."""
        return self.task.guided[self.state]

    def show_choice(self, proto: npt.ArrayLike | None, candidates: npt.ArrayLike) -> None:
        """Draw the proto-action (dim,), if any, and the candidates (k,) of the agent with the next step."""
        point, candidates = None if proto is None else as_numbers("proto", proto), read_ids(candidates)
        if (point is not None and point.shape != (self.actions.dim,)) or candidates.ndim != 1:
            proposed = "no proto" if point is None else f"proto of shape {point.shape}"
            raise ValueError(
                f"{proposed} and candidates of shape {candidates.shape}: "
                f"give those of one state, ({self.actions.dim},) and (k,)"
            )
        if wrong := [item for item in candidates if not 0 <= item < self.model.n]:
            self.task.refuse(wrong[0])
        self._choice = Choice(point, candidates)

    def render(self) -> Frame | None:
        return self.screen.render(self._draw)

    def _draw(self) -> Frame:
        return self.task.view.draw(self.session, self._choice)

    def close(self) -> None:
        self.screen.close()

    def vector(self, num_envs: int) -> "RecommenderVector":
        """Return a batch of users of this recommender."""
        return RecommenderVector(self.task, num_envs)


class RecommenderVector(BatchEnv):
    """A batch of users of one `Recommender`, stepped in numpy."""

    state_names = ("states",)

    def __init__(self, task: RecommenderTask, num_envs: int) -> None:
        super().__init__(num_envs, task.observation_space, task.actions)
        self.task, self.model, self.names = task, task.model, task.names
        self.states = np.zeros(self.num_envs, dtype=np.int64)

    def _begin(self) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        self.states = self.model.start(self.num_envs, self.np_random)
        return self.task.observe(self.states), {"item": self.states}

    def step(self, actions: Ids) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        actions = self._check(as_array("actions", actions))
        states, rewards, ended = self.model.respond(self.states, actions, self.np_random)
        obs = self.task.observe(states)
        info: dict[str, Any] = {"item": states}
        over = ended.nonzero()[0]
        if over.size:
            info["final_obs"], info["_final_obs"] = obs, ended
            states[over] = self.model.start(over.size, self.np_random)
            obs = self.task.observe(states)
        self.states = states
        return obs, rewards, ended, np.zeros(self.num_envs, dtype=np.bool_), info

    def _check(self, actions: npt.NDArray[Any]) -> Ids:
        """Return one item per user as int64."""
        if actions.shape != (self.num_envs,) or actions.dtype.kind not in "iu":
            raise ValueError(
                f"actions of shape {actions.shape}, {actions.dtype}: give one item, an integer, per user, "
                f"shape ({self.num_envs},)"
            )
        actions = actions.astype(np.int64, copy=False)
        if actions.view(np.uint64).max() >= self.model.n:  # seen as unsigned, negative numbers are too large as well
            self.task.refuse(actions[(actions < 0) | (actions >= self.model.n)][0])
        return actions

    def guided_actions(self) -> Ids:
        """Return items that are likely good for each user's current state (num_envs, guided)."""
        return self.task.guided[self.states]


def make(*, guided: int | None = None, render_mode: str | None = None, **catalogue: Any) -> Recommender:
    """Entry point of `wolpertinger/Recommender-v0`; `catalogue` holds the options of `load_catalogue`."""
    env = Recommender.__new__(Recommender)
    env._set_task(_shared_task(guided, _every_option(guided, catalogue)), render_mode)
    return env


def make_vector(num_envs: int = 1, *, guided: int | None = None, **catalogue: Any) -> RecommenderVector:
    """Entry point of `gymnasium.make_vec("wolpertinger/Recommender-v0", num_envs=...)`."""
    return RecommenderVector(_shared_task(guided, _every_option(guided, catalogue)), num_envs)


@lru_cache(maxsize=4)
def _shared_task(guided: int | None, options: tuple[tuple[str, Any], ...]) -> RecommenderTask:
    """Return one task per set of options, so that training and evaluation share its tables."""
    return RecommenderTask(load_catalogue(**dict(options)), guided)


def _every_option(guided: Any, given: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Return all options of a catalogue, defaults included, so that a default spelled out is the same task."""
    known = {name: option.default for name, option in signature(load_catalogue).parameters.items()}
    if unknown := given.keys() - known:
        raise TypeError(
            f"unknown option {', '.join(sorted(unknown))}: the recommender takes guided, {', '.join(known)}"
        )
    for name, value in {"guided": guided, **given}.items():  # of what can be a key
        if not isinstance(value, str | int | float | np.number | None):  # no TypeError: Gymnasium would rewrite it
            raise ValueError(f"{name}={show(value)}: give a number or a name")
    return tuple({**known, **given}.items())
