"""An agent as files, and back: safetensors for numbers, JSON for the rest, nothing pickled and nothing run."""

import json
import pathlib
import warnings
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from importlib.metadata import version
from inspect import signature
from typing import TYPE_CHECKING, Any

import safetensors.numpy
import torch

from wolpertinger import archive
from wolpertinger.actions import ActionSet
from wolpertinger.agent import encoding, optimizer_files
from wolpertinger.agent.buffer_files import buffer_files, end_episodes, restore_allowed, restore_buffer
from wolpertinger.agent.network_files import NETWORKS, read_tensors, write_networks, write_tensors
from wolpertinger.agent.rebuild import ACTIONS, CONFIG, build
from wolpertinger.agent.schedules import encode_schedule
from wolpertinger.agent.schema import COUNTERS, check_config, check_fields
from wolpertinger.agent.segments import checkpoints_in, newest_of, read_list, read_segments
from wolpertinger.agent.training_check import check_observations, check_training_state
from wolpertinger.agent.training_state import get_random_state, get_training_state, random_numbers_untouched
from wolpertinger.agent.trees import pack, unpack
from wolpertinger.archive import CheckpointError, read_arrays, read_json, readable
from wolpertinger.networks.forms import check_forms
from wolpertinger.settings import check_names

if TYPE_CHECKING:
    from wolpertinger.agent.base import ActionSetAlgorithm

KIND = "wolpertinger agent"
OPTIMIZERS = "optimizers.safetensors"
CANDIDATES = "candidates.safetensors"
TRAINING, TRAINING_ARRAYS = "training.json", "training.safetensors"
LAST_OBS, LAST_OBS_ARRAYS = "last_obs.json", "last_obs.safetensors"
SEGMENTS = "segments.json"  # of the replay buffer, in files beside the archive
OPTIONAL = ("actions", "replay_buffer", "training")  # what `exclude` and `include` may name, beside ...
# ... settings that say how to go on; without one the class's default stands in. Those of networks are needed.
SETTINGS = (
    *("buffer_size", "learning_starts", "learning_rate", "final_learning_rate", "actor_learning_rate", "batch_size"),
    *("gamma", "tau", "train_freq", "gradient_steps", "exploration", "stats_window_size", "verbose", "seed"),
    *("on_bad_transition", "optimize_memory_usage"),
)
TOOLS = "data"  # the name of Stable-Baselines3's own settings, which the Hugging Face Hub's tool shows
NEVER = ("env", "device", "tensorboard_log")  # in no file, excluded or not


def save(
    agent: "ActionSetAlgorithm", target: archive.Target, *, exclude: Iterable[str] | None, include: Iterable[str] | None
) -> None:
    """Write everything that `load` needs: with the action set unless excluded, with the replay buffer if included."""
    excluded = check_names("exclude", exclude, (*OPTIONAL, *SETTINGS, *NEVER))
    included = check_names("include", include, (*OPTIONAL, *SETTINGS))
    excluded -= included
    files = agent_files(agent, with_actions="actions" not in excluded, without=excluded.intersection(SETTINGS))
    if included.intersection(OPTIONAL[1:]):
        files |= buffer_files(agent.replay_buffer)
    files |= training_files(agent) if "training" in included else _last_obs_files(agent)
    archive.write(encoding.with_suffix(target), KIND, files)


def agent_files(
    agent: "ActionSetAlgorithm", *, with_actions: bool, without: Collection[str] = ()
) -> dict[str, archive.Buffer]:
    """Networks, optimisers, candidate source and settings, some of which may be left at the class's defaults."""
    stored: Mapping[str, archive.Buffer] = agent.actions.to_files() if with_actions else {}
    groups, moments = optimizer_files.describe(agent)
    config = {
        **_describe(agent, without),
        "actions": {
            "kind": agent.actions.kind if stored else None,
            "sha256": agent.actions.sha256,
            "from_env": agent._actions_from_env,
        },
        "optimizers": groups,
    }
    files: dict[str, archive.Buffer] = {
        CONFIG: (said := json.dumps(config, indent=1).encode()),
        TOOLS: said,
        NETWORKS: write_networks(agent.policy),
        OPTIMIZERS: write_tensors(moments),
        CANDIDATES: write_tensors(agent.policy.behaviour.source.state_dict()),
    }
    return files | {ACTIONS + name: data for name, data in stored.items()}


def training_files(agent: Any, *, with_env: bool = True) -> dict[str, archive.Buffer]:
    """What else a training goes on from, but for the replay buffer."""
    if agent._resume_from is None and agent.env is None:
        raise ValueError('include=["training"]: the agent has no environment, and so no training to go on from')
    tree, arrays = pack(agent._resume_from or get_training_state(agent, with_env=with_env))
    return {TRAINING: json.dumps(tree).encode(), TRAINING_ARRAYS: safetensors.numpy.save(arrays)}


def _last_obs_files(agent: Any) -> dict[str, archive.Buffer]:
    """What the environments showed last, from where `load(..., force_reset=False)` goes on."""
    if agent._last_obs is None:
        return {}
    tree, arrays = pack({"last_obs": agent._last_obs, "last_original_obs": agent._last_original_obs})
    return {LAST_OBS: json.dumps(tree).encode(), LAST_OBS_ARRAYS: safetensors.numpy.save(arrays)}


def _describe(agent: "ActionSetAlgorithm", without: Collection[str]) -> dict[str, Any]:
    """The agent without its numbers."""
    return {
        "policy": next((name for name, found in agent.policy_aliases.items() if found is agent.policy_class), None),
        **_settings(agent, without),
        "observation_space": encoding.encode_space(agent.observation_space),
        "action_space": encoding.encode_space(agent.action_space),
        "n_envs": agent.n_envs,
        "restricted_by_env": agent.restrictions.from_env,
        "counters": {name: getattr(agent, name) for name in COUNTERS},
        "versions": _versions(),
    }


@cache
def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("wolpertinger", "torch", "stable-baselines3")}


def _settings(agent: "ActionSetAlgorithm", without: Collection[str]) -> dict[str, Any]:
    """The constructor's arguments, as far as JSON can say them, and the names of those that `load` must ask for."""
    values = {name: value for name, value in agent._arguments.items() if name != "tensorboard_log"}  # a path of here
    for name in values.keys() - {"k"}:  # plain numbers and words may have been set since
        now = getattr(agent, name, None)
        if isinstance(values[name], bool | int | float | str) and isinstance(now, bool | int | float | str):
            values[name] = now
    if agent.actions.version:  # a share, or the default, would be another count by now
        values["k"] = agent.k
    if callable(agent.learning_rate) and "learning_rate" not in without:
        values["learning_rate"] = _describe_schedule(agent)
    defaults = signature(type(agent)).parameters
    values |= {name: defaults[name].default for name in without}
    unsaved = [name for name, value in values.items() if not _can_save(value)]
    encoded = {name: encoding.encode_value(value) for name, value in values.items() if name not in unsaved}
    return {"settings": encoded, "unsaved_settings": unsaved}


def _describe_schedule(agent: Any) -> Any:
    try:
        return encode_schedule(agent.learning_rate)
    except Exception as error:  # of the user's own function
        now = agent.lr_schedule(agent._current_progress_remaining)
        warnings.warn(
            f"the learning rate's schedule cannot be saved ({error}): its value now, {now}, is; "
            "give learning_rate= to load",
            stacklevel=8,
        )
        return now


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
    force_reset: bool = True,
) -> Any:
    """Build the agent anew from its settings and put the saved numbers in place."""
    if isinstance(source, str | pathlib.Path) and checkpoints_in(pathlib.Path(source)):
        given = {"env": env, "device": device, "actions": actions, "force_reset": force_reset}
        return newest_of(pathlib.Path(source), lambda path: load(cls, path, **given, settings=dict(settings)))
    source = encoding.existing_path(source)
    files = archive.read(source, KIND)
    with readable(CONFIG):
        config = check_config(read_json(files[CONFIG]))
    with readable(NETWORKS):
        networks = read_tensors(files[NETWORKS])
    wrapped = None if env is None else cls._wrap_env(env)
    with random_numbers_untouched():
        agent = build(cls, config, files, wrapped, actions, settings, device, networks)
        agent._seeded_random = None if agent.seed is None else get_random_state()
    with readable(NETWORKS):
        check_forms(networks, agent.policy.state_dict())
        agent.policy.load_state_dict(networks)
    with readable(OPTIMIZERS):
        optimizer_files.restore(agent, config["optimizers"], read_tensors(files[OPTIMIZERS]))
    if not _finds_otherwise(config, settings):
        with readable(CANDIDATES):
            agent.policy.behaviour.source.load_state_dict(read_tensors(files[CANDIDATES]))
    _restore_training(agent, files, source)
    if not force_reset and TRAINING not in files:
        _restore_last_obs(agent, files)
    return agent


def _restore_training(agent: Any, files: dict[str, bytes], source: archive.Target) -> None:
    """The replay buffer, and what else a training goes on from, as far as they are in the file."""
    if "replay_buffer.json" in files:
        if agent.replay_buffer is None:
            raise CheckpointError("the file's HerReplayBuffer asks the environment for rewards: give env= to load")
        restore_buffer(agent.replay_buffer, files, agent.actions)
        agent._rows_stored = -1
        if TRAINING not in files:  # the next `learn` begins new episodes
            end_episodes(agent.replay_buffer)
    if SEGMENTS in files:
        _restore_segments(agent, files[SEGMENTS], source)
        restore_allowed(agent.replay_buffer, files, agent.actions)
    if TRAINING in files:
        with readable(TRAINING):
            state = unpack(read_json(files[TRAINING]), read_arrays(files[TRAINING_ARRAYS]))
            agent._resume_from = check_training_state(agent, state)


def _restore_last_obs(agent: Any, files: dict[str, bytes]) -> None:
    if LAST_OBS not in files:
        raise CheckpointError("force_reset=False: the agent was saved before it had seen its environment")
    with readable(LAST_OBS):
        seen = unpack(read_json(files[LAST_OBS]), read_arrays(files[LAST_OBS_ARRAYS]))
        check_fields("last_obs", seen, ("last_obs", "last_original_obs"))
        for obs in seen.values():
            check_observations(agent, obs)
    agent._last_obs, agent._last_original_obs = seen["last_obs"], seen["last_original_obs"]


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
