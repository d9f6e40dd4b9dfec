"""The state of vectorised environments with everything wrapped around them, as far as it can be kept."""

from operator import attrgetter
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    VecEnv,
    VecEnvWrapper,
    VecMonitor,
    VecNormalize,
    VecTransposeImage,
)

from wolpertinger.envs.allowed_info import AllowedInInfo
from wolpertinger.envs.discretized import Discretized
from wolpertinger.envs.sb3_vec_env import GymnasiumVecEnv

# What each kind of wrapper keeps between two steps; of another kind it is not known.
VECTORISED: dict[type, tuple[str, ...]] = {
    VecMonitor: ("episode_returns", "episode_lengths", "episode_count"),
    VecNormalize: ("obs_rms", "ret_rms", "returns", "old_obs", "old_reward"),
    VecTransposeImage: (),
}
SINGLE: dict[type, tuple[str, ...]] = {
    Monitor: ("rewards", "needs_reset", "total_steps", "current_reset_info"),
    TimeLimit: ("_elapsed_steps",),
    OrderEnforcing: ("_has_reset",),
    PassiveEnvChecker: ("checked_reset", "checked_step", "checked_render", "close_called"),
    Discretized: (),
    AllowedInInfo: (),
}


def get_state(env: VecEnv) -> dict[str, Any]:
    """The state of known wrappers, outermost first, and of the environments; None if that cannot be kept."""
    wrappers, inner = _vectorised(env)
    is_known = all(type(wrapper) in VECTORISED for wrapper in wrappers)
    kept = [_read(wrapper, VECTORISED.get(type(wrapper), ())) for wrapper in wrappers]
    return {"wrappers": kept, "inner": _inner_state(inner) if is_known else None}


def set_state(env: VecEnv, state: dict[str, Any]) -> bool:
    """Put a state back; whether the environments go on from it, as those without one begin new episodes."""
    wrappers, inner = _vectorised(env)
    if [kept["kind"] for kept in state["wrappers"]] != [type(wrapper).__name__ for wrapper in wrappers]:
        saved, found = (
            ", ".join(names) or "none"
            for names in (
                [kept["kind"] for kept in state["wrappers"]],
                [type(wrapper).__name__ for wrapper in wrappers],
            )
        )
        raise ValueError(f"the run was saved with the wrappers {saved}, this environment has {found}")
    for wrapper, kept in zip(wrappers, state["wrappers"], strict=True):
        _write(wrapper, kept)
    if state["inner"] is None or _inner_state(inner) is None:
        return False
    _set_inner(inner, state["inner"])
    inner._reset_seeds()  # that wait for the next reset
    return True


def _vectorised(env: VecEnv) -> tuple[list[VecEnvWrapper], VecEnv]:
    wrappers = []
    while isinstance(env, VecEnvWrapper):
        wrappers.append(env)
        env = env.venv
    return wrappers, env


def _inner_state(env: VecEnv) -> Any:
    if (batch := _batch(env)) is not None:
        return batch.get_state()
    singles = _singles(env)
    states = [_single_state(single) for single in singles]
    return states if singles and None not in states else None


def _set_inner(env: VecEnv, state: Any) -> None:
    if (batch := _batch(env)) is not None:
        batch.set_state(state)
        return
    for single, kept in zip(_singles(env), state, strict=True):
        wrappers = _wrappers(single)
        for wrapper, part in zip(wrappers, kept["wrappers"], strict=True):
            _write(wrapper, part)
        single.unwrapped.set_state(kept["env"])  # type: ignore[attr-defined]


def _batch(env: VecEnv) -> Any:
    """A Gymnasium vector environment that keeps the state of all at once, or None."""
    inner = env.env if isinstance(env, GymnasiumVecEnv) else None
    return inner if hasattr(inner, "get_state") and hasattr(inner, "set_state") else None


def _singles(env: VecEnv) -> list[gym.Env]:
    """The separate environments behind it, if they are in this process."""
    if isinstance(env, GymnasiumVecEnv) and isinstance(env.env, SyncVectorEnv):
        return list(env.env.envs)
    return list(env.envs) if isinstance(env, DummyVecEnv) else []


def _single_state(env: gym.Env) -> dict[str, Any] | None:
    wrappers, base = _wrappers(env), env.unwrapped
    is_known = all(type(wrapper) in SINGLE for wrapper in wrappers)
    if not (is_known and hasattr(base, "get_state") and hasattr(base, "set_state")):
        return None
    return {"wrappers": [_read(wrapper, SINGLE[type(wrapper)]) for wrapper in wrappers], "env": base.get_state()}


def _wrappers(env: gym.Env) -> list[gym.Wrapper]:
    wrappers = []
    while isinstance(env, gym.Wrapper):
        wrappers.append(env)
        env = env.env
    return wrappers


def _read(wrapper: Any, names: tuple[str, ...]) -> dict[str, Any]:
    values = {name: _plain(getattr(wrapper, name)) for name in names if hasattr(wrapper, name)}
    return {"kind": type(wrapper).__name__, "values": values}


def _write(wrapper: Any, kept: dict[str, Any]) -> None:
    names = {**VECTORISED, **SINGLE}.get(type(wrapper), ())
    if kept["kind"] != type(wrapper).__name__ or not kept["values"].keys() <= set(names):
        raise ValueError(f"a state of {kept['kind']} does not fit {type(wrapper).__name__}")
    restored = {name: _restored(value) for name, value in kept["values"].items()}
    for name, value in restored.items():
        if not _fits(getattr(wrapper, name, None), value):
            raise ValueError(f"{name} of {type(wrapper).__name__} is {value!r}")
    for name, value in restored.items():
        setattr(wrapper, name, value)


def _fits(now: Any, value: Any) -> bool:
    """Whether a value has the form of what is there; where nothing is there yet, any is taken but text."""
    if isinstance(now, RunningMeanStd):
        names = ("mean", "var", "count")
        return isinstance(value, RunningMeanStd) and all(_fits(getattr(now, n), getattr(value, n)) for n in names)
    if isinstance(now, dict):
        return isinstance(value, dict)
    if isinstance(now, list):  # rewards of an episode
        return isinstance(value, list) and all(isinstance(part, int | float | np.generic) for part in value)
    if isinstance(now, np.ndarray):
        found = np.asarray(value)  # a number, where it was an array of none
        same = now.shape in (found.shape, (0,)) and found.dtype.kind == now.dtype.kind  # (0,): nothing yet
        return same and bool(np.isfinite(found).all())
    if isinstance(now, bool | int | float):
        return isinstance(value, bool) == isinstance(now, bool) and isinstance(value, int | float | np.generic)
    return not isinstance(value, str)


def _plain(value: Any) -> Any:
    """Running means by their numbers, whether one or by the parts of an observation."""
    if isinstance(value, RunningMeanStd):
        mean, var, count = attrgetter("mean", "var", "count")(value)
        return {"mean": mean, "var": var, "count": count}
    return {name: _plain(part) for name, part in value.items()} if isinstance(value, dict) else value


def _restored(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {"mean", "var", "count"}:
        statistics = RunningMeanStd()
        vars(statistics).update(value)
        return statistics
    return {name: _restored(part) for name, part in value.items()} if isinstance(value, dict) else value
