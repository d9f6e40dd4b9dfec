"""All that the next training step depends on beside networks, optimisers and replay buffer."""

import random
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from wolpertinger.agent import env_state

if TYPE_CHECKING:
    from wolpertinger.agent.base import ActionSetAlgorithm


def get_random_state() -> dict[str, Any]:
    """Python's, numpy's and torch's global random numbers."""
    kind, keys, *rest = np.random.get_state(legacy=True)  # noqa: NPY002 - Stable-Baselines3 draws from it
    in_use = torch.cuda.is_available() and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return {
        "python": random.getstate(),
        "numpy": [kind, keys, *rest],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if in_use else [],
    }


def set_random_state(state: dict[str, Any]) -> None:
    """Put back what `get_random_state` gave."""
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    np.random.set_state(tuple(state["numpy"]))  # noqa: NPY002
    torch.set_rng_state(torch.as_tensor(state["torch"]))
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all([torch.as_tensor(part) for part in state["cuda"]])


@contextmanager
def random_numbers_untouched() -> Iterator[None]:
    """Whatever seeds the global random numbers inside, the host's go on as if nothing had been."""
    state = get_random_state()
    try:
        yield
    finally:
        set_random_state(state)


def get_training_state(agent: "ActionSetAlgorithm", *, with_env: bool = True) -> dict[str, Any]:
    """A tree of numbers, text and arrays; without the environments, which may be amid a step, they begin anew."""
    assert agent.env is not None
    env = env_state.get_state(agent.env)
    if agent.acts_elsewhere or not with_env:
        env["inner"] = None
    logger = getattr(agent, "_logger", None)
    get_learner = getattr(agent.learner, "state_dict", None)
    return {
        "random": get_random_state(),
        "explorer": agent.explorer.state_dict(),
        "learner": {} if get_learner is None else get_learner(),
        "predictor": agent.policy.predictor.source.state_dict(),
        "faults": agent.faults.state_dict(),
        "diagnostics": agent.diagnostics.state_dict(),
        "seconds": dict(agent.policy.timer.seconds),
        "log": {} if logger is None else _get_log(logger),
        "episodes": list(agent.ep_info_buffer or ()),
        "successes": list(agent.ep_success_buffer or ()),
        "last_obs": agent._last_obs,
        "last_original_obs": agent._last_original_obs,
        "env": env,
    }


def set_training_state(agent: "ActionSetAlgorithm", state: dict[str, Any]) -> None:
    """Go on from what `get_training_state` gave; where an environment cannot, say so and begin new episodes."""
    assert agent.env is not None
    agent.explorer.load_state_dict(state["explorer"])
    if (set_learner := getattr(agent.learner, "load_state_dict", None)) is not None:
        set_learner(state["learner"])
    predictor = {name: torch.as_tensor(part) for name, part in state["predictor"].items()}
    agent.policy.predictor.source.load_state_dict(predictor)
    agent.faults.load_state_dict(state["faults"])
    agent.diagnostics.load_state_dict(state["diagnostics"])
    agent.policy.timer.seconds.update(state["seconds"])
    agent.ep_info_buffer = deque(state["episodes"], maxlen=agent._stats_window_size)
    agent.ep_success_buffer = deque(state["successes"], maxlen=agent._stats_window_size)
    if getattr(agent, "_logger", None) is not None:
        _set_log(agent._logger, state["log"])
    set_random_state(state["random"])
    if env_state.set_state(agent.env, state["env"]):
        agent._last_obs, agent._last_original_obs = state["last_obs"], state["last_original_obs"]
        return
    agent._last_obs = None  # `learn` resets
    agent.explorer.reset(np.ones(agent.n_envs, dtype=np.bool_))
    agent.env.seed(((agent.seed or 0) + agent.num_timesteps) % 2**31)  # not the first episodes once more
    warnings.warn(
        "the environment's state was not kept or cannot be restored: new episodes begin, so the run goes on otherwise "
        "than without the interruption (get_state() and set_state(state) of the environment would change that)",
        stacklevel=3,
    )


def _get_log(logger: Any) -> dict[str, Any]:
    """What was recorded and not yet written."""
    return {
        name: [value, logger.name_to_count.get(name, 0), list(logger.name_to_excluded[name])]
        for name, value in logger.name_to_value.items()
        if isinstance(value, bool | int | float | str | np.generic)
    }


def _set_log(logger: Any, entries: dict[str, Any]) -> None:
    for name, (value, count, excluded) in entries.items():
        logger.record(name, value, tuple(excluded))
        if count:
            logger.name_to_count[name] = count
