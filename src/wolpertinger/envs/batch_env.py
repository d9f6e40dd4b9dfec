"""The base class of our vectorised environments."""

from abc import abstractmethod
from typing import Any, ClassVar

from gymnasium import spaces
from gymnasium.spaces.utils import flatdim
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from wolpertinger.actions import ActionSet
from wolpertinger.envs.state import Restorable
from wolpertinger.index import check_ids
from wolpertinger.settings import check_memory, check_number

MAX_ENVS = 2**20


def read_action(action: Any, n: int) -> int:
    """Return the id of one action, if it is one of n."""
    if (ids := check_ids(action, n)).ndim:
        raise ValueError(f"an action of shape {ids.shape}: give one integer from 0 to {n - 1}")
    return int(ids)


class BatchEnv(Restorable, VectorEnv):
    """A batch of copies of one environment, stepped at once: one random generator for all, same-step autoreset."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}  # noqa: RUF012 - Gymnasium's own form
    bytes_per_env: ClassVar[int] = 64
    """Beside observations."""

    def __init__(self, num_envs: int, observation_space: spaces.Space, actions: ActionSet) -> None:
        self.num_envs = int(check_number("num_envs", num_envs, least=1, most=MAX_ENVS, whole=True))
        check_memory(f"num_envs={num_envs:,}", self.num_envs * (self.bytes_per_env + 32 * flatdim(observation_space)))
        self.actions = actions
        self.single_observation_space, self.single_action_space = observation_space, actions.space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.render_mode = None

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed[0] if isinstance(seed, list) and seed else seed)
        return self._begin()

    @abstractmethod
    def _begin(self) -> tuple[Any, dict[str, Any]]:
        """Start an episode in every environment; return observations and infos."""
