"""An agent built anew by the word of a file: no larger than what is in it, and by settings of the known kind only."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.buffers import DictReplayBuffer
from stable_baselines3.common.utils import check_for_correct_spaces

from wolpertinger.actions import STORED, ActionSet
from wolpertinger.agent import encoding
from wolpertinger.agent.budget import Budget
from wolpertinger.agent.schedules import decode_schedule
from wolpertinger.agent.schema import COUNTERS, check_settings
from wolpertinger.agent.validation import offered_actions, require_same_actions
from wolpertinger.archive import CheckpointError, readable

CONFIG = "config.json"
ACTIONS = "actions/"  # folder of the action set's files
BOX = "actor.scale.middle"  # of the networks: one number per dimension of the actions' vectors


def build(
    cls: Any,
    config: dict[str, Any],
    files: dict[str, bytes],
    env: Any,
    given: ActionSet | None,
    settings: dict[str, Any],
    device: torch.device | str,
    networks: dict[str, torch.Tensor],
) -> Any:
    """The agent with fresh networks, no larger than the tensors of those in the file."""
    with readable(CONFIG):
        saved = _decode_settings(config, settings)
        policy = settings.pop("policy", config["policy"])
        observation_space, action_space = (
            encoding.decode_space(config[f"{name}_space"]) for name in ("observation", "action")
        )
        n_envs, saved_actions = config["n_envs"], config["actions"]
    if policy is None:
        raise CheckpointError("the agent was saved with a policy class of the user's own: give policy= to load")
    action_set = restore_actions(saved_actions, files, given, env, action_space)
    if action_set.sha256 != saved_actions["sha256"]:  # it has grown since
        action_space = action_set.space
    is_envs = given is None and saved_actions["from_env"]
    with _blaming_the_file(settings):  # outside of the budget: environments in other processes send their table
        if env is not None:
            check_for_correct_spaces(env, observation_space, action_space)
            if is_envs:
                require_same_actions(action_set, env)
    with _blaming_the_file(settings), Budget(sum(tensor.numel() for tensor in networks.values())):
        require_dim(networks, action_set)
        agent = cls(policy, env, action_set, device=device, _init_setup_model=False, **{**saved, **settings})
        agent._actions_from_env = is_envs
        if env is None:
            agent.observation_space, agent.action_space, agent.n_envs = observation_space, action_space, n_envs
        _set_up(agent)
    vars(agent).update({name: config["counters"][name] for name in COUNTERS})
    _check_units(agent, saved["standardize"])
    agent.restrictions.from_env = config["restricted_by_env"] and agent.restrictions.function is None
    return agent


def _set_up(agent: Any) -> None:
    """Without an environment to ask for rewards, leave HerReplayBuffer to the first `set_env`."""
    made, kwargs = agent.replay_buffer_class, agent.replay_buffer_kwargs
    waits = agent.env is None and made is not None and issubclass(made, HerReplayBuffer)
    if waits:
        agent.replay_buffer_class, agent.replay_buffer_kwargs = DictReplayBuffer, {}
    agent._setup_model()
    if waits:
        agent.replay_buffer_class, agent.replay_buffer_kwargs, agent.replay_buffer = made, kwargs, None


def _check_units(agent: Any, standardize: Any) -> None:
    if agent._n_updates and bool(agent.standardize) != bool(standardize):
        raise ValueError(
            f"standardize={agent.standardize!r}: the agent learned with {standardize!r}, and its networks "
            "would read everything in other units; leave it out"
        )


def require_dim(networks: dict[str, torch.Tensor], actions: ActionSet) -> None:
    """Refuse actions of other dimensions than the networks', before anything is sampled from them."""
    if BOX in networks and networks[BOX].shape != (actions.dim,):
        raise ValueError(f"networks for vectors {tuple(networks[BOX].shape)}, actions of {actions.dim} dimensions")


@contextmanager
def _blaming_the_file(given: dict[str, Any]) -> Iterator[None]:
    """What cannot be built is the file's fault, unless `load` was given settings that may be wrong themselves."""
    with readable(CONFIG):
        try:
            yield
        except (ValueError, TypeError) as error:
            if not given:
                raise
            mistake = error
        else:
            return
    raise mistake


def _decode_settings(config: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    if missing := [name for name in config["unsaved_settings"] if name not in given]:
        raise CheckpointError(f"the agent was saved with {', '.join(missing)} of the user's own: give it to load again")
    decoded = {name: encoding.decode_value(value) for name, value in config["settings"].items()}
    settings = check_settings(decoded, config["unsaved_settings"])
    if isinstance(settings["train_freq"], list):
        settings["train_freq"] = tuple(settings["train_freq"])
    if "learning_rate" in settings:
        settings["learning_rate"] = decode_schedule(settings["learning_rate"])
    return settings


def restore_actions(
    saved: dict[str, Any], files: dict[str, bytes], given: ActionSet | None, env: Any, space: spaces.Space
) -> ActionSet:
    """The set that the user gives, else the stored one, else the environment's: the saved one, or one that it grew to.

    By its fingerprint, or by that of as many rows as there were.
    """
    stored = _read_actions(saved, files)
    offered = offered_actions(env)
    if given is None and (stored is None or (saved["from_env"] and _is_grown(offered, stored, saved, space))):
        given = offered
    if given is None and stored is None:
        raise CheckpointError(
            f"the file holds no action set, only its SHA-256 {saved['sha256']}: give actions= to load"
        )
    if given is None:
        assert stored is not None
        return stored
    if given.sha256 != saved["sha256"] and not _is_grown(given, stored, saved, space):
        raise CheckpointError(
            f"the given action set has SHA-256 {given.sha256}, the agent was saved with {saved['sha256']}, and it is "
            "no table that begins with the same rows: ids and vectors of what the agent has learned of must stay"
        )
    return given


def _is_grown(given: ActionSet | None, stored: ActionSet | None, saved: dict[str, Any], space: spaces.Space) -> bool:
    """Whether a table has the actions of before, under the same ids, whatever was removed or added since."""
    if given is None or not isinstance(space, spaces.Discrete) or given.sha256 == saved["sha256"]:
        return False
    before = saved["sha256"] if stored is None else stored.first_sha256(int(space.n))
    return before is not None and given.first_sha256(int(space.n)) == before


def _read_actions(saved: dict[str, Any], files: dict[str, bytes]) -> ActionSet | None:
    """The set in the file, if there is one."""
    if saved["kind"] is None:
        return None
    with readable(CONFIG):
        kind = STORED[saved["kind"]]
    own = {name.removeprefix(ACTIONS): data for name, data in files.items() if name.startswith(ACTIONS)}
    found = kind.from_files(own)
    if found.sha256 != saved["sha256"]:
        raise CheckpointError(f"the action set in the file has SHA-256 {found.sha256}, not {saved['sha256']}")
    return found
