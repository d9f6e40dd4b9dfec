"""An agent as files, and back: safetensors for numbers, JSON for the rest, nothing pickled and nothing run."""

import json
import pathlib
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
import safetensors.numpy
import safetensors.torch
import torch
from gymnasium import spaces
from safetensors import SafetensorError
from stable_baselines3.common.buffers import DictReplayBuffer, NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.utils import check_for_correct_spaces

from wolpertinger import archive
from wolpertinger.actions import ActionProduct, ActionSet, ActionTable
from wolpertinger.agent.encoding import decode_space, decode_value, encode_space, encode_value
from wolpertinger.agent.exploration import Exploration
from wolpertinger.agent.match import offered_actions, require_same_actions
from wolpertinger.archive import CheckpointError

if TYPE_CHECKING:
    from wolpertinger.agent.base import ActionSetAlgorithm

ACTIONS, LEVELS = "actions/", "levels.safetensors"  # folder of the action set's files; those of a product
KIND, BUFFER_KIND = "wolpertinger agent", "wolpertinger replay buffer"
OPTIONAL = ("actions", "replay_buffer")  # what `exclude` and `include` may name
SETTINGS = (
    *(
        "learning_rate",
        "final_learning_rate",
        "actor_learning_rate",
        "buffer_size",
        "learning_starts",
        "batch_size",
        "tau",
        "gamma",
    ),
    *(
        "gradient_steps",
        "rerank",
        "critic_loss",
        "anchor",
        "gradient_at",
        "max_grad_norm",
        "replay_buffer_class",
        "replay_buffer_kwargs",
    ),
    *("optimize_memory_usage", "n_steps", "tensorboard_log", "verbose", "seed", "policy_kwargs"),
)
COUNTERS = ("num_timesteps", "_total_timesteps", "_episode_num", "_n_updates", "_current_progress_remaining")
BUFFER_ARRAYS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


def save(
    agent: "ActionSetAlgorithm", target: archive.Target, *, exclude: Iterable[str] | None, include: Iterable[str] | None
) -> None:
    """Write everything that `load` needs: with the action set unless excluded, with the replay buffer if included."""
    excluded, included = set(exclude or ()), set(include or ())
    if unknown := (excluded | included) - set(OPTIONAL):
        raise ValueError(f"unknown {', '.join(sorted(unknown))}: exclude and include take {', '.join(OPTIONAL)}")
    described, stored = ({"kind": "given"}, {}) if "actions" in excluded else _describe_actions(agent.actions)
    config = {
        "policy": next((name for name, found in agent.policy_aliases.items() if found is agent.policy_class), None),
        **_settings(agent),
        "observation_space": encode_space(agent.observation_space),
        "action_space": encode_space(_space(agent)),
        "n_envs": agent.n_envs,
        "counters": {name: getattr(agent, name) for name in COUNTERS},
        "actions": {
            **described,
            "sha256": getattr(agent.actions, "sha256", None),
            "from_env": agent._actions_from_env,
        },
        "versions": {name: version(name) for name in ("wolpertinger", "torch", "stable-baselines3")},
    }
    optimizer_groups, optimizer_state = _optimizers(agent)
    files: dict[str, archive.Buffer] = {
        "config.json": json.dumps({**config, "optimizers": optimizer_groups}, indent=1).encode(),
        "networks.safetensors": safetensors.torch.save(_contiguous(agent.policy.state_dict())),
        "optimizers.safetensors": safetensors.torch.save(optimizer_state),
    }
    files |= {ACTIONS + name: data for name, data in stored.items()}
    if "replay_buffer" in included:
        files |= _buffer_files(agent.replay_buffer)
    archive.write(_with_suffix(target), KIND, files)


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
    files = archive.read(_existing(source), KIND)
    wrapped = None if env is None else cls._wrap_env(env)
    with _readable("config.json"):
        config = json.loads(files["config.json"])
        saved = _decode_settings(config, settings)
        policy = settings.pop("policy", config["policy"])
        observation_space, action_space = (decode_space(config[f"{name}_space"]) for name in ("observation", "action"))
        counters = {name: config["counters"][name] for name in COUNTERS}
        n_envs, from_env = config["n_envs"], config["actions"]["from_env"]
    if policy is None:
        raise CheckpointError("the agent was saved with a policy class of the user's own: give policy= to load")
    action_set = _restore_actions(config["actions"], files, actions, wrapped)
    agent = cls(policy, wrapped, action_set, device=device, _init_setup_model=False, **{**saved, **settings})
    agent._actions_from_env = actions is None and from_env
    if wrapped is None:
        agent.observation_space, agent.action_space, agent.n_envs = observation_space, action_space, n_envs
    else:
        check_for_correct_spaces(wrapped, observation_space, action_space)
        if agent._actions_from_env:
            require_same_actions(action_set, wrapped)
    agent._setup_model()
    vars(agent).update(counters)
    with _readable("networks.safetensors"):
        state = safetensors.torch.load(files["networks.safetensors"])
        state.setdefault("favourites.recent", agent.policy.favourites.recent)  # files from before there were any
        _load_policy(agent.policy, state)
    with _readable("optimizers.safetensors"):
        _restore_optimizers(agent, config["optimizers"], safetensors.torch.load(files["optimizers.safetensors"]))
    if "replay_buffer.json" in files:
        _restore_buffer(agent.replay_buffer, files)
    return agent


def _load_policy(policy: Any, state: dict[str, torch.Tensor]) -> None:
    """The saved tensors; those of the critic's search as well, unless the agent now finds candidates another way."""
    own, searched = policy.state_dict(), "search."
    saved = any(name.startswith(searched) for name in state)
    kept = {name: tensor for name, tensor in state.items() if not name.startswith(searched) or name in own}
    policy.load_state_dict({name: tensor for name, tensor in own.items() if name.startswith(searched)} | kept)
    if not saved:
        policy.tick()
        policy.refresh()


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """Whatever is wrong with the content of a file, its name comes with it."""
    try:
        yield
    except CheckpointError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, SafetensorError) as error:
        raise CheckpointError(f"{name} in the file does not fit: {type(error).__name__}: {error}") from error


def save_buffer(buffer: ReplayBuffer, target: archive.Target) -> None:
    """Write a replay buffer on its own."""
    archive.write(_with_suffix(target), BUFFER_KIND, _buffer_files(buffer))


def load_buffer(buffer: ReplayBuffer, source: archive.Target) -> None:
    """Fill a replay buffer of the same shape with what `save_buffer` wrote."""
    _restore_buffer(buffer, archive.read(_existing(source), BUFFER_KIND))


def _with_suffix(target: archive.Target) -> archive.Target:
    """Paths get .zip if they have no suffix, as in Stable-Baselines3."""
    if isinstance(target, str | pathlib.Path) and not pathlib.Path(target).suffix:
        return pathlib.Path(target).with_suffix(".zip")
    return target


def _existing(source: archive.Target) -> archive.Target:
    if isinstance(source, str | pathlib.Path) and not pathlib.Path(source).is_file():
        return _with_suffix(source)
    return source


def _settings(agent: "ActionSetAlgorithm") -> dict[str, Any]:
    """The constructor's arguments, as far as JSON can say them, and the names of those that `load` must ask for."""
    values = {name: getattr(agent, name) for name in SETTINGS} | agent.forms
    # A share, or the default, would be another count by now if actions came or went.
    values["k"] = agent.k if isinstance(agent.actions, ActionTable) and agent.actions.has_changed else agent._k
    values["exploration"] = asdict(agent.exploration)
    values["train_freq"] = [agent.train_freq.frequency, agent.train_freq.unit.value]  # type: ignore[union-attr]
    values["stats_window_size"] = agent._stats_window_size
    values["policy_kwargs"] = {
        name: v for name, v in agent.policy_kwargs.items() if name not in ("actions", "k", "rerank", *agent.forms)
    }
    if agent.replay_buffer_class is _usual_buffer(agent):  # which Stable-Baselines3 chooses, with these arguments
        values["replay_buffer_class"] = None
        values["replay_buffer_kwargs"] = {
            name: v for name, v in agent.replay_buffer_kwargs.items() if name not in ("n_steps", "gamma")
        }
    if callable(agent.learning_rate):
        values["learning_rate"] = agent.lr_schedule(agent._current_progress_remaining)
        warnings.warn(
            "the learning rate's schedule is a function and cannot be saved: "
            f"its value now, {values['learning_rate']}, is; give learning_rate= to load",
            stacklevel=4,
        )
    encoded, unsaved = {}, []
    for name, value in values.items():
        try:
            encoded[name] = encode_value(value)
        except TypeError:
            unsaved.append(name)
    return {"settings": encoded, "unsaved_settings": unsaved}


def _space(agent: "ActionSetAlgorithm") -> spaces.Space:
    """What the agent may choose: actions may have been added since it was made for its environment."""
    return agent.actions.space if isinstance(agent.actions, ActionTable) else agent.action_space


def _usual_buffer(agent: "ActionSetAlgorithm") -> type[ReplayBuffer]:
    if isinstance(agent.observation_space, spaces.Dict):
        return DictReplayBuffer
    return NStepReplayBuffer if agent.n_steps > 1 else ReplayBuffer


def _decode_settings(config: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    if missing := [name for name in config["unsaved_settings"] if name not in given]:
        raise CheckpointError(f"the agent was saved with {', '.join(missing)} of the user's own: give it to load again")
    settings = {name: decode_value(value) for name, value in config["settings"].items()}
    settings["exploration"] = Exploration(**settings["exploration"])
    settings["train_freq"] = tuple(settings["train_freq"])
    return settings


def _describe_actions(actions: ActionSet) -> tuple[dict[str, Any], dict[str, archive.Buffer]]:
    if isinstance(actions, ActionTable):
        return {"kind": "table"}, actions.to_files()
    if isinstance(actions, ActionProduct):
        levels = {f"levels.{i}": np.ascontiguousarray(level) for i, level in enumerate(actions.levels)}
        return {"kind": "product", "space": encode_space(actions.space)}, {LEVELS: safetensors.numpy.save(levels)}
    return {"kind": "given"}, {}


def _restore_actions(saved: dict[str, Any], files: dict[str, bytes], given: ActionSet | None, env: Any) -> ActionSet:
    """The set that the user gives, else the stored one, else the environment's; its hash must be the saved one."""
    if given is None and saved["kind"] == "given":
        given = offered_actions(env)
    if given is not None:
        found = getattr(given, "sha256", None)
        if saved["sha256"] is not None and found != saved["sha256"]:
            raise CheckpointError(
                f"the given action set has SHA-256 {found}, the agent was saved with {saved['sha256']}"
            )
        return given
    if saved["kind"] == "given":
        raise CheckpointError(
            f"the file holds no action set, only its SHA-256 {saved['sha256']}: give actions= to load"
        )
    own = {name.removeprefix(ACTIONS): data for name, data in files.items() if name.startswith(ACTIONS)}
    if saved["kind"] == "table":
        return ActionTable.from_files(own)
    with _readable(ACTIONS + LEVELS):
        arrays = safetensors.numpy.load(own[LEVELS])
        levels = [arrays[f"levels.{i}"] for i in range(len(arrays))]
        return ActionProduct(levels, space=decode_space(saved["space"]))  # type: ignore[arg-type]


def _optimizers(agent: "ActionSetAlgorithm") -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Both optimisers' settings, and their moments as named tensors."""
    groups: dict[str, Any] = {}
    tensors: dict[str, torch.Tensor] = {}
    for network in ("actor", "critic"):
        state = getattr(agent, network).optimizer.state_dict()
        groups[network] = encode_value(state["param_groups"])
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


def _buffer_files(buffer: ReplayBuffer) -> dict[str, bytes]:
    """The filled part of a replay buffer, and one row more: there may be the last step's next observation."""
    filled = buffer.buffer_size if buffer.full else buffer.pos + 1
    facts = {"pos": buffer.pos, "full": buffer.full, "buffer_size": buffer.buffer_size, "n_envs": buffer.n_envs}
    arrays = {name: np.ascontiguousarray(array[:filled]) for name, array in _buffer_arrays(buffer).items()}
    return {
        "replay_buffer.json": json.dumps(facts).encode(),
        "replay_buffer.safetensors": safetensors.numpy.save(arrays),
    }


def _restore_buffer(buffer: ReplayBuffer, files: dict[str, bytes]) -> None:
    with _readable("replay_buffer.json"):
        facts = json.loads(files["replay_buffer.json"])
        saved = safetensors.numpy.load(files["replay_buffer.safetensors"])
        position, full = int(facts["pos"]), bool(facts["full"])
    if (facts["buffer_size"], facts["n_envs"]) != (buffer.buffer_size, buffer.n_envs):
        raise CheckpointError(
            f"the replay buffer was saved with {facts['buffer_size']} steps of {facts['n_envs']} environments, "
            f"this agent's has {buffer.buffer_size} of {buffer.n_envs}"
        )
    own = _buffer_arrays(buffer)
    filled = buffer.buffer_size if full else position + 1
    expected = {name: (array.dtype, (filled, *array.shape[1:])) for name, array in own.items()}
    found = {name: (array.dtype, array.shape) for name, array in saved.items()}
    if found != expected or not 0 <= position < buffer.buffer_size:
        raise CheckpointError(f"the replay buffer holds {found}, this agent's {expected}")
    for name, array in saved.items():
        own[name][:filled] = array
    buffer.pos, buffer.full = position, full


def _buffer_arrays(buffer: ReplayBuffer) -> dict[str, np.ndarray]:
    """The buffer's own arrays by name; those of Dict observations one by one."""
    arrays: dict[str, np.ndarray] = {}
    for name in BUFFER_ARRAYS:
        value = getattr(buffer, name, None)
        if isinstance(value, dict):
            arrays |= {f"{name}.{key}": part for key, part in value.items()}
        elif value is not None:
            arrays[name] = value
    return arrays
