"""What a checkpoint's config.json may say: its fields, and for every setting its kind and range.

Whatever decides how much memory or time a part takes is checked here, before that part is built. What only the part
itself can judge, such as the name of a kernel, it refuses when it is built.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

from wolpertinger.actions.base import MAX_CANDIDATES
from wolpertinger.agent.exploration import Exploration
from wolpertinger.agent.schedules import check_learning_rate
from wolpertinger.learners import make_learner_settings
from wolpertinger.networks import make_critic_settings
from wolpertinger.policy import make_source_settings
from wolpertinger.settings import check_flag, check_number, read_settings

Check = Callable[[str, Any], Any]

COUNTERS = ("num_timesteps", "_total_timesteps", "_episode_num", "_n_updates", "_current_progress_remaining")
MAX_COUNT = 2**62
MAX_ENVS = 2**20
MAX_WIDTH, MAX_LAYERS, MAX_CRITICS = 2**24, 64, 64  # how large networks are, the tensors in the file say
MAX_STEPS, MAX_BATCH, MAX_SOURCES = 10_000, 2**24, 16


def number(least: float = 0, most: float = math.inf, **options: Any) -> Check:
    """A check of finite numbers in a range."""

    def check(name: str, value: Any) -> None:
        check_number(name, value, least=least, **options)
        if value is not None and value > most:
            raise ValueError(f"{name}={value!r}: {most} at most")

    return check


def count(most: float, least: int = 0, **options: Any) -> Check:
    """A check of whole numbers in a range."""
    return number(least, most, whole=True, **options)


def kind(*kinds: type, optional: bool = False) -> Check:
    """A check of types."""

    def check(name: str, value: Any) -> None:
        if not (isinstance(value, kinds) or (optional and value is None)):
            raise TypeError(f"{name}={value!r}: {' or '.join(found.__name__ for found in kinds)} is needed")

    return check


def check_fields(name: str, found: Any, expected: Any) -> None:
    """Refuse a dict that has other fields than those expected."""
    if not isinstance(found, dict) or found.keys() != set(expected):
        strange = sorted(found.keys() ^ set(expected)) if isinstance(found, dict) else [repr(found)]
        raise ValueError(f"{name}: {', '.join(strange)} missing or unknown")


def subclass(base: type) -> Check:
    """A check of classes, of which the file names only known ones."""

    def check(name: str, value: Any) -> None:
        if not (isinstance(value, type) and issubclass(value, base)):
            raise TypeError(f"{name}={value!r}: a subclass of {base.__name__} is needed")

    return check


def plain(name: str, value: Any) -> None:
    """Arguments of a class by name: numbers, text, flags, lists of them, and dicts of all that."""
    if isinstance(value, dict):
        for key, part in value.items():
            plain(f"{name}.{key}", part)
    elif isinstance(value, list):
        for part in value:
            plain(name, part)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number(-MAX_COUNT, MAX_COUNT)(name, value)
    elif not isinstance(value, type):
        kind(bool, str, optional=True)(name, value)


def _options(name: str, value: Any) -> None:
    kind(dict, optional=True)(name, value)
    plain(name, value)


def _of_replay_buffer(name: str, value: Any) -> None:
    _options(name, value)
    count(MAX_STEPS, 1)("n_steps", (value or {}).get("n_steps", 1))


def _layers(name: str, value: Any) -> None:
    """Widths of layers, or those of actor and critic by name."""
    parts = list(value.values()) if isinstance(value, dict) else [value]
    for layers in (part for part in parts if part is not None):
        kind(list)(name, layers)
        if len(layers) > MAX_LAYERS:
            raise ValueError(f"{name} has {len(layers)} layers: {MAX_LAYERS} at most")
        for width in layers:
            count(MAX_WIDTH, 1)(name, width)


def _part(make: Callable[[Any], Any]) -> Check:
    """Settings of a part, which validate themselves; only their JSON is in a file."""

    def check(name: str, value: Any) -> None:
        kind(dict, optional=True)(name, value)
        if value is not None:
            make(value)

    return check


def _candidates(name: str, value: Any) -> None:
    _part(make_source_settings)(name, value)
    if value is not None and len(value.get("sources", ())) > MAX_SOURCES:
        raise ValueError(f"{name} has more than {MAX_SOURCES} sources")


def _k(name: str, value: Any) -> None:
    number(optional=True)(name, value)
    if isinstance(value, int):
        count(MAX_CANDIDATES, 1)(name, value)


def _train_freq(name: str, value: Any) -> None:
    if isinstance(value, list):
        value, unit = value
        kind(str)(name, unit)
    count(MAX_COUNT, 1, optional=True)(name, value)


def _none(name: str, value: Any) -> None:
    if value is not None:
        raise TypeError(f"{name}={value!r}: functions are not in files")


OPTIMIZER: type = torch.optim.Optimizer
POLICY: dict[str, Check] = {
    "predict_by": kind(str),
    "net_arch": _layers,
    "activation_fn": subclass(torch.nn.Module),
    "layer_norm": check_flag,
    "unit_features": check_flag,
    "n_critics": count(MAX_CRITICS, 1),
    "state_arch": _layers,
    "dropout": number(0, 1),
    "bound": kind(str),
    "features_extractor_class": subclass(BaseFeaturesExtractor),
    "features_extractor_kwargs": _options,
    "normalize_images": check_flag,
    "optimizer_class": subclass(OPTIMIZER),
    "optimizer_kwargs": _options,
}
"""Arguments of `WolpertingerPolicy`; a policy of the user's own may have others, and it refuses what it has not."""


def _of_policy(name: str, value: Any) -> None:
    kind(dict, optional=True)(name, value)
    for key, part in (value or {}).items():
        check: Check = POLICY.get(key, plain)
        check(f"{name}.{key}", part)


SETTINGS: dict[str, Check] = {
    "k": _k,
    "critic": _part(make_critic_settings),
    "candidates": _candidates,
    "rerank": kind(str),
    "allowed": _none,
    "exploration": _part(lambda value: read_settings("exploration", value, {Exploration.kind: Exploration})),
    "learner": _part(make_learner_settings),
    "learning_rate": check_learning_rate,
    "final_learning_rate": number(optional=True),
    "actor_learning_rate": number(optional=True),
    "gamma": number(0, 1, optional=True),
    "tau": number(0, 1, optional=True),
    "n_steps": count(MAX_STEPS, 1, optional=True),
    "batch_size": count(MAX_BATCH, 1, optional=True),
    "learning_starts": number(),
    "train_freq": _train_freq,
    "gradient_steps": count(MAX_COUNT, -1, optional=True),
    "standardize": kind(bool, optional=True),
    "preset": kind(str),
    "buffer_size": count(2**40, 1),
    "replay_buffer_class": lambda name, value: None if value is None else subclass(ReplayBuffer)(name, value),
    "replay_buffer_kwargs": _of_replay_buffer,
    "optimize_memory_usage": check_flag,
    "policy_kwargs": _of_policy,
    "stats_window_size": count(2**20, 1),
    "verbose": kind(int),
    "seed": count(2**32 - 1, optional=True),
    "on_bad_transition": kind(str),
}
"""The constructor's arguments. Paths are not among them: where to write is for who loads the file to say."""
FIELDS: dict[str, Check] = {
    "policy": kind(str, optional=True),
    "settings": kind(dict),
    "unsaved_settings": kind(list),
    "observation_space": kind(dict),
    "action_space": kind(dict),
    "n_envs": count(MAX_ENVS, 1),
    "restricted_by_env": check_flag,
    "counters": lambda name, value: check_fields(name, value, COUNTERS),
    "versions": kind(dict),
    "actions": lambda name, value: check_fields(name, value, ("kind", "sha256", "from_env")),
    "optimizers": lambda name, value: check_fields(name, value, ("actor", "critic")),
}


def check_config(config: Any) -> dict[str, Any]:
    """Return config.json as it was parsed, if it has the fields that one has, each of its kind."""
    check_fields("config", config, FIELDS)
    for name, check in FIELDS.items():
        check(name, config[name])
    for name, value in config["counters"].items():
        check = number(-MAX_COUNT, 1) if name == "_current_progress_remaining" else count(MAX_COUNT)
        check(name, value)
    saved = config["actions"]
    kind(str, optional=True)("kind", saved["kind"])
    kind(str)("sha256", saved["sha256"])
    check_flag("from_env", saved["from_env"])
    return config


def check_settings(settings: dict[str, Any], unsaved: list[Any]) -> dict[str, Any]:
    """Return the settings of a file, decoded, if they are all that an agent has, each of its kind and in its range."""
    settings = {name: value for name, value in settings.items() if name != "tensorboard_log"}  # of older files
    check_fields("settings", {**settings, **dict.fromkeys(unsaved)}, SETTINGS)
    for name, value in settings.items():
        SETTINGS[name](name, value)
    return settings
