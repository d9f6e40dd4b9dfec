"""An agent as files, and back: safetensors for numbers, JSON for the rest, nothing pickled and nothing run."""

import json
import pathlib
import warnings
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import safetensors.numpy
import safetensors.torch
import torch
from gymnasium import spaces

from wolpertinger import archive
from wolpertinger.actions import ActionSet
from wolpertinger.agent import encoding, optimizer_files
from wolpertinger.agent.buffer_files import buffer_files, restore_allowed, restore_buffer
from wolpertinger.agent.rebuild import ACTIONS, CONFIG, build
from wolpertinger.agent.schema import COUNTERS, check_config
from wolpertinger.agent.segments import checkpoints_in, newest_of, read_list, read_segments
from wolpertinger.agent.training_check import check_training_state
from wolpertinger.agent.training_state import get_random_state, get_training_state, random_numbers_untouched
from wolpertinger.agent.trees import pack, unpack
from wolpertinger.archive import CheckpointError, read_arrays, read_json, readable
from wolpertinger.networks.forms import check_forms
from wolpertinger.settings import check_names

if TYPE_CHECKING:
    from wolpertinger.agent.base import ActionSetAlgorithm

KIND = "wolpertinger agent"
NETWORKS, OPTIMIZERS = "networks.safetensors", "optimizers.safetensors"
CANDIDATES = "candidates.safetensors"
TRAINING, TRAINING_ARRAYS = "training.json", "training.safetensors"
SEGMENTS = "segments.json"  # of the replay buffer, in files beside the archive
OPTIONAL = ("actions", "replay_buffer", "training")  # what `exclude` and `include` may name


def save(
    agent: "ActionSetAlgorithm", target: archive.Target, *, exclude: Iterable[str] | None, include: Iterable[str] | None
) -> None:
    """Write everything that `load` needs: with the action set unless excluded, with the replay buffer if included."""
    excluded, included = (check_names(*given, OPTIONAL) for given in (("exclude", exclude), ("include", include)))
    files = agent_files(agent, with_actions="actions" not in excluded)
    if included:
        files |= buffer_files(agent.replay_buffer)
    if "training" in included:
        files |= training_files(agent)
    archive.write(encoding.with_suffix(target), KIND, files)


def agent_files(agent: "ActionSetAlgorithm", *, with_actions: bool) -> dict[str, archive.Buffer]:
    """Networks, optimisers, candidate source and settings."""
    stored: Mapping[str, archive.Buffer] = agent.actions.to_files() if with_actions else {}
    groups, moments = optimizer_files.describe(agent)
    config = {
        **_describe(agent),
        "actions": {
            "kind": agent.actions.kind if stored else None,
            "sha256": agent.actions.sha256,
            "from_env": agent._actions_from_env,
        },
        "optimizers": groups,
    }
    files: dict[str, archive.Buffer] = {
        CONFIG: json.dumps(config, indent=1).encode(),
        NETWORKS: safetensors.torch.save(_contiguous(agent.policy.state_dict())),
        OPTIMIZERS: safetensors.torch.save(_contiguous(moments)),
        CANDIDATES: safetensors.torch.save(_contiguous(agent.policy.behaviour.source.state_dict())),
    }
    return files | {ACTIONS + name: data for name, data in stored.items()}


def training_files(agent: Any, *, with_env: bool = True) -> dict[str, archive.Buffer]:
    """What else a training goes on from, but for the replay buffer."""
    if agent._resume_from is None and agent.env is None:
        raise ValueError('include=["training"]: the agent has no environment, and so no training to go on from')
    tree, arrays = pack(agent._resume_from or get_training_state(agent, with_env=with_env))
    return {TRAINING: json.dumps(tree).encode(), TRAINING_ARRAYS: safetensors.numpy.save(arrays)}


def _describe(agent: "ActionSetAlgorithm") -> dict[str, Any]:
    """The agent without its numbers."""
    # Actions may have been added since the agent was made for its environment.
    action_space: spaces.Space = agent.actions.space if agent.actions.version else agent.action_space
    return {
        "policy": next((name for name, found in agent.policy_aliases.items() if found is agent.policy_class), None),
        **_settings(agent),
        "observation_space": encoding.encode_space(agent.observation_space),
        "action_space": encoding.encode_space(action_space),
        "n_envs": agent.n_envs,
        "restricted_by_env": agent.restrictions.from_env,
        "counters": {name: getattr(agent, name) for name in COUNTERS},
        "versions": _versions(),
    }


@cache
def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("wolpertinger", "torch", "stable-baselines3")}


def _settings(agent: "ActionSetAlgorithm") -> dict[str, Any]:
    """The constructor's arguments, as far as JSON can say them, and the names of those that `load` must ask for."""
    values = {name: value for name, value in agent._arguments.items() if name != "tensorboard_log"}  # a path of here
    for name in values.keys() - {"k"}:  # plain numbers and words may have been set since
        now = getattr(agent, name, None)
        if isinstance(values[name], bool | int | float | str) and isinstance(now, bool | int | float | str):
            values[name] = now
    if agent.actions.version:  # a share, or the default, would be another count by now
        values["k"] = agent.k
    if callable(agent.learning_rate):
        values["learning_rate"] = agent.lr_schedule(agent._current_progress_remaining)
        warnings.warn(
            "the learning rate's schedule is a function and cannot be saved: "
            f"its value now, {values['learning_rate']}, is; give learning_rate= to load",
            stacklevel=6,
        )
    unsaved = [name for name, value in values.items() if not _can_save(value)]
    encoded = {name: encoding.encode_value(value) for name, value in values.items() if name not in unsaved}
    return {"settings": encoded, "unsaved_settings": unsaved}


def _can_save(value: Any) -> bool:
    try:
        encoding.encode_value(value)
    except TypeError:
        return False
    return True


def load(
    cls: Any,
    source: archive.Target,
    *,
    env: Any,
    device: torch.device | str,
    actions: ActionSet | None,
    settings: dict[str, Any],
) -> Any:
    """Build the agent anew from its settings and put the saved numbers in place."""
    if isinstance(source, str | pathlib.Path) and checkpoints_in(pathlib.Path(source)):
        given = {"env": env, "device": device, "actions": actions}
        return newest_of(pathlib.Path(source), lambda path: load(cls, path, **given, settings=dict(settings)))
    source = encoding.existing_path(source)
    files = archive.read(source, KIND)
    with readable(CONFIG):
        config = check_config(read_json(files[CONFIG]))
    with readable(NETWORKS):
        networks = _read_tensors(files[NETWORKS])
    wrapped = None if env is None else cls._wrap_env(env)
    with random_numbers_untouched():
        agent = build(cls, config, files, wrapped, actions, settings, device, networks)
        agent._seeded_random = None if agent.seed is None else get_random_state()
    with readable(NETWORKS):
        check_forms(networks, agent.policy.state_dict())
        agent.policy.load_state_dict(networks)
    with readable(OPTIMIZERS):
        optimizer_files.restore(agent, config["optimizers"], _read_tensors(files[OPTIMIZERS]))
    if not _finds_otherwise(config, settings):
        with readable(CANDIDATES):
            agent.policy.behaviour.source.load_state_dict(_read_tensors(files[CANDIDATES]))
    _restore_training(agent, files, source)
    return agent


def _restore_training(agent: Any, files: dict[str, bytes], source: archive.Target) -> None:
    """The replay buffer, and what else a training goes on from, as far as they are in the file."""
    if "replay_buffer.json" in files:
        restore_buffer(agent.replay_buffer, files, agent.actions)
        agent._rows_stored = -1
    if SEGMENTS in files:
        _restore_segments(agent, files[SEGMENTS], source)
        restore_allowed(agent.replay_buffer, files, agent.actions)
    if TRAINING in files:
        with readable(TRAINING):
            state = unpack(read_json(files[TRAINING]), read_arrays(files[TRAINING_ARRAYS]))
            agent._resume_from = check_training_state(agent, state)


def _read_tensors(data: bytes) -> dict[str, torch.Tensor]:
    tensors = safetensors.torch.load(archive.check_header(data))
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise ValueError(f"{name} holds numbers that are not finite")
    return tensors


def _restore_segments(agent: Any, listed: bytes, source: archive.Target) -> None:
    if not isinstance(source, str | pathlib.Path):
        raise CheckpointError("the replay buffer is in files beside the checkpoint: give its path, not an open file")
    with readable(SEGMENTS):
        stored, found = read_list(listed)
        read_segments(pathlib.Path(source).parent, agent.replay_buffer, stored, found)
    agent._rows_stored = stored


def _finds_otherwise(config: dict[str, Any], given: dict[str, Any]) -> bool:
    """Whether `load` was told to find candidates in another way; a source of the user's own is just given again."""
    if "critic" in given or "candidates" not in given:
        return "critic" in given
    return "candidates" not in config["unsaved_settings"] or _can_save(given["candidates"])


def _contiguous(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
