"""Validation of the agent's arguments: kinds and ranges, before anything is built from them."""

import warnings
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import TrainFreq
from stable_baselines3.common.utils import get_device

from wolpertinger.agent.policies import WolpertingerPolicy
from wolpertinger.index import as_array
from wolpertinger.networks.critic import MAX_CRITICS
from wolpertinger.settings import (
    MAX_SEED,
    check_choice,
    check_class,
    check_flag,
    check_keywords,
    check_kind,
    check_memory,
    check_number,
    count_memory,
    is_number,
    show,
)

NUMBERS: dict[str, dict[str, Any]] = {
    "final_learning_rate": {"optional": True},
    "actor_learning_rate": {"optional": True},
    "gamma": {"most": 1, "optional": True},
    "tau": {"most": 1, "optional": True},
    "n_steps": {"least": 1, "most": 10_000, "whole": True, "optional": True},
    "batch_size": {"least": 1, "most": 2**20, "whole": True, "optional": True},
    "learning_starts": {"whole": True},
    "gradient_steps": {"least": -1, "most": 10_000, "whole": True, "optional": True},
    "buffer_size": {"least": 1, "whole": True},
    "stats_window_size": {"least": 1, "whole": True},
    "verbose": {"whole": True},
    "seed": {"most": MAX_SEED, "whole": True, "optional": True},
}
"""Ranges of the constructor's numbers."""
OWN = {"actions", "k", "rerank", "critic", "candidates"}  # of the policy's, given to the agent itself
OF_SPACES = {"observation_space", "action_space", "lr_schedule"}
OF_BUFFER = {"buffer_size", "observation_space", "action_space", "device", "n_envs", "optimize_memory_usage"}
MAX_WIDTH, MAX_LAYERS = 2**16, 64
DEFAULT_BUFFER = 1_000_000  # transitions
BUFFER_SHARE = 0.5  # of the machine's memory that a replay buffer of the default size may take


def check_arguments(given: dict[str, Any], policy: Any, aliases: Mapping[str, type], device: Any) -> None:
    """Refuse arguments of `Wolpertinger` of the wrong kind or out of range."""
    for name, bounds in NUMBERS.items():
        check_number(name, given[name], **bounds)
    check_flag("optimize_memory_usage", given["optimize_memory_usage"])
    check_flag("standardize", given["standardize"], optional=True)
    check_kind("tensorboard_log", given["tensorboard_log"], str | Path | None, "the path of a folder or None")
    _check_learning_rate(given["learning_rate"], given["final_learning_rate"])
    _check_train_freq(given["train_freq"])
    check_device(device)
    if isinstance(policy, str):
        check_choice("policy", policy, aliases)
        policy = WolpertingerPolicy
    check_class("policy", policy, WolpertingerPolicy)
    if given["policy_kwargs"] is not None:
        _check_policy_kwargs(given["policy_kwargs"], policy)
    buffer = ReplayBuffer if given["replay_buffer_class"] is None else given["replay_buffer_class"]
    check_class("replay_buffer_class", buffer, ReplayBuffer)
    if given["replay_buffer_kwargs"] is not None:
        check_keywords("replay_buffer_kwargs", given["replay_buffer_kwargs"], buffer, without=OF_BUFFER)


def plain_numbers(given: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers among the arguments as Python's own: Stable-Baselines3 refuses numpy's, and JSON does not know them."""
    found = {name: given[name] for name in ("learning_rate", *NUMBERS) if is_number(given[name])}
    return {name: int(value) if is_number(value, whole=True) else float(value) for name, value in found.items()}


def _check_learning_rate(first: Any, final: Any) -> None:
    if not callable(first):
        check_number("learning_rate", first, optional=True)
        return
    if final is not None:
        raise ValueError("learning_rate is a schedule already: leave out final_learning_rate")
    check_number("learning_rate(1.0)", first(1.0))


def _check_train_freq(given: Any) -> None:
    if given is None or isinstance(given, TrainFreq):
        return
    steps, unit = given if isinstance(given, tuple) and len(given) == 2 else (given, "step")
    try:
        check_number("train_freq", steps, least=1, whole=True)
        check_choice("train_freq", unit, ("step", "episode"))
    except ValueError:
        accepted = 'a whole number of steps, 1 at least, or a pair such as (1, "episode")'
        raise ValueError(f"train_freq={show(given)}: give {accepted}") from None


def check_device(device: Any) -> None:
    """Refuse what is no device, or not on this machine."""
    try:
        if (found := get_device(device)).type == "meta":
            raise RuntimeError("tensors there hold no numbers")
        torch.empty(0, device=found)
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f'device={show(device)} is no device here: give "auto", "cpu" or "cuda" ({reason})') from error


def _check_policy_kwargs(given: Any, policy: type[WolpertingerPolicy]) -> None:
    if isinstance(given, Mapping) and (own := OWN & given.keys()):
        raise ValueError(f"policy_kwargs holds {', '.join(sorted(own))}: give it to Wolpertinger itself")
    check_keywords("policy_kwargs", given, policy, without=OF_SPACES | OWN)
    for name in {"layer_norm", "unit_features", "normalize_images"} & given.keys():
        check_flag(name, given[name])
    check_number("n_critics", given.get("n_critics", 1), least=1, most=MAX_CRITICS, whole=True)
    for name in {"net_arch", "state_arch"} & given.keys():
        arch = given[name]
        is_pair = name == "net_arch" and isinstance(arch, Mapping) and arch.keys() == {"pi", "qf"}
        if arch is not None and not all(map(_is_arch, arch.values() if is_pair else [arch])):
            accepted = f"a list of layers, each a whole number from 1 to {MAX_WIDTH}, {MAX_LAYERS} at most"
            raise ValueError(f"{name}={show(arch)}: give {accepted}")
    for name, base in (("features_extractor_class", BaseFeaturesExtractor), ("optimizer_class", torch.optim.Optimizer)):
        if name in given:
            check_class(name, given[name], base)
        options = given.get(name.replace("class", "kwargs"))
        if options is not None:
            known = given.get(name, torch.optim.Adam if base is torch.optim.Optimizer else _any_options)
            check_keywords(name.replace("class", "kwargs"), options, known, without={"params", "observation_space"})
    if not callable(given.get("activation_fn", callable)):
        raise TypeError(f"activation_fn={show(given['activation_fn'])}: give a class, such as torch.nn.ReLU")


def _any_options(**options: Any) -> None:
    """Stands for a features extractor that the policy chooses."""


def _is_arch(layers: Any) -> bool:
    try:
        for width in layers if isinstance(layers, list | tuple) else [None]:
            check_number("width", width, least=1, most=MAX_WIDTH, whole=True)
    except ValueError:
        return False
    return len(layers) <= MAX_LAYERS


def fit_buffer(size: int, observations: spaces.Space, actions: spaces.Space, *, shares: bool) -> int:
    """The size of a replay buffer that this machine can fill: another is refused, the default is made smaller."""
    parts = observations.values() if isinstance(observations, spaces.Dict) else [observations]
    each = sum(prod(part.shape or (1,)) * np.dtype(part.dtype).itemsize for part in parts)
    row = (1 if shares else 2) * each + 8 * prod(actions.shape or (1,)) + 12
    room = int(BUFFER_SHARE * count_memory("all")) // row
    if size == DEFAULT_BUFFER and size > room > 0:
        text = f"observations of {each:,} bytes: the replay buffer keeps the last {room:,} transitions, not {size:,}"
        warnings.warn(f"{text}, as the memory here has no room for more; buffer_size= says how many", stacklevel=5)
        return room
    check_memory(f"buffer_size={size:,}", size * row, of="all")
    return size


def check_learn(steps: Any, callback: Any, log_interval: Any, log_name: Any, **flags: Any) -> None:
    """Refuse arguments of `learn` of the wrong kind or out of range."""
    check_number("total_timesteps", steps)
    check_number("log_interval", log_interval, whole=True, optional=True)
    check_kind("tb_log_name", log_name, str, "a name")
    for name, value in flags.items():
        check_flag(name, value)
    parts = callback if isinstance(callback, list) else [callback]
    if not all(part is None or callable(part) or isinstance(part, BaseCallback) for part in parts):
        raise TypeError(f"callback={show(callback)}: give a callback, a list of them, or a function")


def check_observation(given: Any, space: spaces.Space) -> None:
    """Refuse what is no observation of a space, nor a batch of them: by shape, kind and finite numbers."""
    if not isinstance(space, spaces.Dict):
        _check_part("the observation", given, space)
        return
    if not isinstance(given, Mapping) or given.keys() != space.keys():
        raise ValueError(f"the observation is {show(given)}: give a dict of {', '.join(space)}")
    for name, part in space.items():
        _check_part(f"the observation[{name!r}]", given[name], part)


def _check_part(name: str, given: Any, space: spaces.Space) -> None:
    array, shape = as_array(name, given), tuple(space.shape or ())
    fitting = [shape, (*shape[1:], shape[0])] if len(shape) == 3 else [shape]  # pictures, channels first or last
    if array.dtype.kind not in "fiub" or not (array.shape in fitting or array.shape[1:] in fitting):
        accepted = f"numbers of shape {shape}, or a batch of them"
        raise ValueError(f"{name} is {array.dtype} of shape {array.shape}: give {accepted}")
    check_memory(f"{name} of shape {array.shape}", 16 * array.nbytes)
    sizes = space.n if isinstance(space, spaces.Discrete) else getattr(space, "nvec", None)
    if sizes is not None and (array.dtype.kind not in "iu" or ((array < 0) | (array >= sizes)).any()):
        raise ValueError(f"{name} is {show(array)}: give integers of {space}")
    with np.errstate(over="ignore"):
        if array.dtype.kind == "f" and not np.isfinite(array.astype(np.float32, copy=False)).all():
            raise ValueError(f"{name} holds numbers that are not finite in float32: {show(array)}")
