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
from stable_baselines3.common.utils import check_for_correct_spaces

from wolpertinger import archive
from wolpertinger.actions import STORED, ActionSet
from wolpertinger.agent import encoding
from wolpertinger.agent.buffer_files import buffer_files, restore_allowed, restore_buffer
from wolpertinger.agent.segments import checkpoints_in, newest_of, read_list, read_segments
from wolpertinger.agent.training_state import get_random_state, get_training_state, random_numbers_untouched
from wolpertinger.agent.trees import pack, unpack
from wolpertinger.agent.validation import offered_actions, require_same_actions
from wolpertinger.archive import CheckpointError
from wolpertinger.settings import check_names

if TYPE_CHECKING:
    from wolpertinger.agent.base import ActionSetAlgorithm

KIND = "wolpertinger agent"
ACTIONS = "actions/"  # folder of the action set's files
CONFIG, NETWORKS, OPTIMIZERS = "config.json", "networks.safetensors", "optimizers.safetensors"
CANDIDATES = "candidates.safetensors"
TRAINING, TRAINING_ARRAYS = "training.json", "training.safetensors"
SEGMENTS = "segments.json"  # of the replay buffer, in files beside the archive
OPTIONAL = ("actions", "replay_buffer", "training")  # what `exclude` and `include` may name
COUNTERS = ("num_timesteps", "_total_timesteps", "_episode_num", "_n_updates", "_current_progress_remaining")


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
    groups, moments = _optimizers(agent)
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
        OPTIMIZERS: safetensors.torch.save(moments),
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
    values = dict(agent._arguments)
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
    with encoding.readable(CONFIG):
        config = json.loads(files[CONFIG])
    wrapped = None if env is None else cls._wrap_env(env)
    with random_numbers_untouched():
        agent = _build(cls, config, files, wrapped, actions, settings, device)
        agent._seeded_random = None if agent.seed is None else get_random_state()
    with encoding.readable(NETWORKS):
        agent.policy.load_state_dict(safetensors.torch.load(files[NETWORKS]))
    with encoding.readable(OPTIMIZERS):
        _restore_optimizers(agent, config["optimizers"], safetensors.torch.load(files[OPTIMIZERS]))
    if not _finds_otherwise(config, settings):
        with encoding.readable(CANDIDATES):
            agent.policy.behaviour.source.load_state_dict(safetensors.torch.load(files[CANDIDATES]))
    if "replay_buffer.json" in files:
        restore_buffer(agent.replay_buffer, files, agent.actions)
        agent._rows_stored = -1
    if SEGMENTS in files:
        _restore_segments(agent, files[SEGMENTS], source)
        restore_allowed(agent.replay_buffer, files, agent.actions)
    if TRAINING in files:
        with encoding.readable(TRAINING):
            agent._resume_from = unpack(json.loads(files[TRAINING]), safetensors.numpy.load(files[TRAINING_ARRAYS]))
    return agent


def _restore_segments(agent: Any, listed: bytes, source: archive.Target) -> None:
    if not isinstance(source, str | pathlib.Path):
        raise CheckpointError("the replay buffer is in files beside the checkpoint: give its path, not an open file")
    with encoding.readable(SEGMENTS):
        stored, found = read_list(listed)
    read_segments(pathlib.Path(source).parent, agent.replay_buffer, stored, found)
    agent._rows_stored = stored


def _finds_otherwise(config: dict[str, Any], given: dict[str, Any]) -> bool:
    """Whether `load` was told to find candidates in another way; a source of the user's own is just given again."""
    if "critic" in given or "candidates" not in given:
        return "critic" in given
    return "candidates" not in config["unsaved_settings"] or _can_save(given["candidates"])


def _build(
    cls: Any,
    config: dict[str, Any],
    files: dict[str, bytes],
    env: Any,
    given: ActionSet | None,
    settings: dict[str, Any],
    device: torch.device | str,
) -> Any:
    """The agent with fresh networks."""
    with encoding.readable(CONFIG):
        saved = _decode_settings(config, settings)
        policy = settings.pop("policy", config["policy"])
        observation_space, action_space = (
            encoding.decode_space(config[f"{name}_space"]) for name in ("observation", "action")
        )
        counters = {name: config["counters"][name] for name in COUNTERS}
        n_envs, from_env = config["n_envs"], config["actions"]["from_env"]
    if policy is None:
        raise CheckpointError("the agent was saved with a policy class of the user's own: give policy= to load")
    action_set = _restore_actions(config["actions"], files, given, env)
    agent = cls(policy, env, action_set, device=device, _init_setup_model=False, **{**saved, **settings})
    agent._actions_from_env = given is None and from_env
    if env is None:
        agent.observation_space, agent.action_space, agent.n_envs = observation_space, action_space, n_envs
    else:
        check_for_correct_spaces(env, observation_space, action_space)
        if agent._actions_from_env:
            require_same_actions(action_set, env)
    agent._setup_model()
    vars(agent).update(counters)
    if counters["_n_updates"] and bool(agent.standardize) != bool(saved["standardize"]):
        raise ValueError(
            f"standardize={agent.standardize!r}: the agent learned with {saved['standardize']!r}, and its networks "
            "would read everything in other units; leave it out"
        )
    agent.restrictions.from_env = config["restricted_by_env"] and agent.restrictions.function is None
    return agent


def _decode_settings(config: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    if missing := [name for name in config["unsaved_settings"] if name not in given]:
        raise CheckpointError(f"the agent was saved with {', '.join(missing)} of the user's own: give it to load again")
    settings = {name: encoding.decode_value(value) for name, value in config["settings"].items()}
    if isinstance(settings["train_freq"], list):
        settings["train_freq"] = tuple(settings["train_freq"])
    return settings


def _restore_actions(saved: dict[str, Any], files: dict[str, bytes], given: ActionSet | None, env: Any) -> ActionSet:
    """The set that the user gives, else the stored one, else the environment's; its hash must be the saved one."""
    if given is None and saved["kind"] is None:
        given = offered_actions(env)
    if given is not None:
        if given.sha256 != saved["sha256"]:
            raise CheckpointError(
                f"the given action set has SHA-256 {given.sha256}, the agent was saved with {saved['sha256']}"
            )
        return given
    if saved["kind"] is None:
        raise CheckpointError(
            f"the file holds no action set, only its SHA-256 {saved['sha256']}: give actions= to load"
        )
    with encoding.readable(CONFIG):
        kind = STORED[saved["kind"]]
    return kind.from_files(
        {name.removeprefix(ACTIONS): data for name, data in files.items() if name.startswith(ACTIONS)}
    )


def _optimizers(agent: "ActionSetAlgorithm") -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Both optimisers' settings, and their moments as named tensors."""
    groups: dict[str, Any] = {}
    tensors: dict[str, torch.Tensor] = {}
    for network in ("actor", "critic"):
        state = getattr(agent, network).optimizer.state_dict()
        groups[network] = encoding.encode_value(state["param_groups"])
        for index, moments in state["state"].items():
            tensors |= {f"{network}.{index}.{name}": torch.as_tensor(value) for name, value in moments.items()}
    return groups, _contiguous(tensors)


def _restore_optimizers(agent: "ActionSetAlgorithm", groups: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    for network in ("actor", "critic"):
        state: dict[int, dict[str, torch.Tensor]] = {}
        for key, tensor in tensors.items():
            owner, index, name = key.split(".")
            if owner == network:
                state.setdefault(int(index), {})[name] = tensor
        getattr(agent, network).optimizer.load_state_dict({"state": state, "param_groups": groups[network]})


def _contiguous(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
