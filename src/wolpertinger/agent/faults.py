"""What the world and the optimiser get wrong: transitions that are no numbers, updates that would do harm."""

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.logger import Logger

from wolpertinger.learners import REJECTED
from wolpertinger.settings import check_number

if TYPE_CHECKING:
    from wolpertinger.agent.base import ActionSetAlgorithm

ON_BAD_TRANSITION = ("raise", "skip")
IN_A_ROW = 10  # rejected updates after which a warning says so
Mask = npt.NDArray[np.bool_]


class BadTransitionError(ValueError):
    """An environment gave a number that is not finite; the message says which one, when and where."""


class Faults:
    """Counts of what was refused."""

    def __init__(self) -> None:
        self.bad_transitions, self.rejected_updates = 0, 0
        self._in_a_row = 0
        self.unknown: Mask = np.zeros(0, dtype=np.bool_)
        """Environments whose present observation was bad, and so their next transition is."""

    def count_update(self, losses: dict[str, torch.Tensor]) -> None:
        """Take note of a rejected update, and take it out of the losses."""
        if losses.pop(REJECTED, None) is None:
            self._in_a_row = 0
            return
        self.rejected_updates += 1
        self._in_a_row += 1
        if self._in_a_row == IN_A_ROW:
            warnings.warn(
                f"{IN_A_ROW} updates in a row were rejected, as their gradients were not finite: rewards may be too "
                "large, or the learning rate too high; the networks stay as they are",
                stacklevel=4,
            )

    def record(self, logger: Logger) -> None:
        """Write the counts to the log."""
        logger.record("train/rejected_updates", self.rejected_updates)
        if self.bad_transitions:
            logger.record("rollout/bad_transitions", self.bad_transitions)

    def state_dict(self) -> dict[str, Any]:
        counts = {"bad_transitions": self.bad_transitions, "rejected_updates": self.rejected_updates}
        return {**counts, "in_a_row": self._in_a_row, "unknown": self.unknown}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        counts = [state[name] for name in ("bad_transitions", "rejected_updates", "in_a_row")]
        for count in counts:
            check_number("faults", count, whole=True)
        if state["unknown"].dtype != np.bool_ or state["unknown"].ndim != 1:
            raise ValueError(f"unknown={state['unknown']!r}: one flag per environment")
        (self.bad_transitions, self.rejected_updates, self._in_a_row), self.unknown = counts, state["unknown"]


def require_finite_start(obs: Any) -> None:
    """Refuse a first observation that is not finite."""
    if not all_finite(obs):
        raise BadTransitionError(_describe("observation", 0, obs))


class GuardedBuffer:
    """What Stable-Baselines3 stores a step into: looks at the transitions before the replay buffer gets them."""

    def __init__(self, agent: "ActionSetAlgorithm", buffer: ReplayBuffer, new_obs: Any) -> None:
        self._agent, self._buffer, self._new_obs = agent, buffer, new_obs

    def add(self, obs: Any, next_obs: Any, actions: Any, rewards: Any, dones: Any, infos: Any) -> None:
        """Store a step of all environments, if it is finite; else raise, or store what is."""
        agent, new_obs = self._agent, self._new_obs
        are_known = not agent.faults.unknown.any()
        if are_known and all_finite(rewards) and all_finite(next_obs) and all_finite(new_obs):
            self._buffer.add(obs, next_obs, actions, rewards, dones, infos)
            agent._rows_stored += 1
            return
        if agent.on_bad_transition == "raise":
            step = agent.num_timesteps // agent.n_envs
            fields = {"reward": rewards, "observation": new_obs, "terminal observation": next_obs}
            field, values = next((name, part) for name, part in fields.items() if not all_finite(part))
            raise BadTransitionError(_describe(field, step, values))
        unknown = ~_finite_rows(new_obs)
        bad = ~(_finite_rows(rewards) & _finite_rows(next_obs)) | unknown
        if not are_known:
            bad |= agent.faults.unknown
        agent.faults.unknown = unknown
        agent.faults.bad_transitions += int(bad.sum())
        self._add_others(bad, obs, next_obs, actions, rewards, dones, infos)

    def _add_others(
        self, bad: Mask, obs: Any, next_obs: Any, actions: Any, rewards: Any, dones: Any, infos: Any
    ) -> None:
        """Store the transitions that are right; in the place of each other one, another environment's once more."""
        good = np.flatnonzero(~bad)
        cut_returns(self._buffer, bad)
        if good.size:
            take = np.arange(len(bad))
            take[bad] = good[0]
            rows = (_rows(part, take) for part in (obs, next_obs, actions, rewards, dones))
            self._buffer.add(*rows, [infos[i] for i in take])  # type: ignore[call-arg]
            self._agent._rows_stored += 1
            cut_returns(self._buffer, bad)

    def observed(self, last_obs: Any) -> Any:
        """What to act by next: where the new observation is bad, the last one that was not."""
        unknown = self._agent.faults.unknown
        return _merge(unknown, last_obs, self._new_obs) if unknown.any() else self._new_obs


def cut_returns(buffer: ReplayBuffer, bad: Mask) -> None:
    """Let no n-step return go on beyond the last row in these environments."""
    if buffer.full or buffer.pos:
        row = buffer.pos - 1
        buffer.timeouts[row, bad & (buffer.dones[row] == 0)] = 1


def _rows(obs: Any, rows: Any) -> Any:
    return {name: part[rows] for name, part in obs.items()} if isinstance(obs, dict) else obs[rows]


def _merge(where: Mask, first: Any, second: Any) -> Any:
    """The rows of `first` where told, else of `second`."""
    if isinstance(second, dict):
        return {name: _merge(where, first[name], part) for name, part in second.items()}
    merged = second.copy()
    merged[where] = first[where]
    return merged


def _finite(numbers: Any) -> Mask:
    """Whether numbers are finite in the float32 that networks see."""
    if numbers.dtype.kind != "f":
        return np.ones(numbers.shape, dtype=np.bool_)
    if numbers.dtype.itemsize > 4:
        with np.errstate(over="ignore"):
            numbers = numbers.astype(np.float32)
    return np.isfinite(numbers)


def all_finite(values: Any) -> bool:
    if isinstance(values, dict):
        return all(all_finite(part) for part in values.values())
    return values.dtype.kind != "f" or bool(_finite(values).all())


def _finite_rows(values: Any) -> Mask:
    if isinstance(values, dict):
        return np.logical_and.reduce([_finite_rows(part) for part in values.values()])
    return np.all(_finite(values).reshape(len(values), -1), axis=1)


def _describe(field: str, step: int, values: Any) -> str:
    if isinstance(values, dict):
        name = next(name for name, part in values.items() if not all_finite(part))
        field, values = f"{field}[{name!r}]", values[name]
    place = np.argwhere(~_finite(values))[0]
    return (
        f"environment {place[0]}, step {step:,}: the {field} holds {values[tuple(place)]}, which is no finite number "
        "in float32; nothing of that step was stored. Mend the environment, or leave out such transitions: "
        'on_bad_transition="skip"'
    )
