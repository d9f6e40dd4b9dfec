"""A policy as a file of its own, and back: networks, actions and settings, without what only training needs."""

import json
from typing import Any

import torch
from stable_baselines3.common.utils import ConstantSchedule

from wolpertinger import archive
from wolpertinger.actions import ActionSet, same_actions
from wolpertinger.agent import encoding
from wolpertinger.agent.budget import Budget
from wolpertinger.agent.network_files import NETWORKS, read_tensors, write_networks
from wolpertinger.agent.rebuild import ACTIONS, CONFIG, require_dim, restore_actions
from wolpertinger.agent.schema import POLICY, SETTINGS, Check, check_fields, kind, plain
from wolpertinger.archive import CheckpointError, read_json, readable
from wolpertinger.networks import make_critic_settings
from wolpertinger.networks.forms import check_forms
from wolpertinger.policy import make_source_settings
from wolpertinger.settings import check_flag

KIND = "wolpertinger policy"
OF_AGENT = ("k", "rerank", "critic", "candidates")
LEARNING_RATE = 1e-3  # of optimisers that nobody has used yet


def save_policy(policy: Any, target: archive.Target) -> None:
    """Write what `load_policy` needs."""
    settings = {**policy.made_with, "k": policy.k}
    config = {
        "settings": {name: encoding.encode_value(value) for name, value in settings.items()},
        "observation_space": encoding.encode_space(policy.observation_space),
        "action_space": encoding.encode_space(policy.action_space),
        "actions": {"kind": policy.actions.kind, "sha256": policy.actions.sha256, "from_env": False},
    }
    files = {CONFIG: json.dumps(config, indent=1).encode(), NETWORKS: write_networks(policy)}
    stored = {ACTIONS + name: data for name, data in policy.actions.to_files().items()}
    archive.write(encoding.with_suffix(target), KIND, files | stored)


def load_policy(cls: Any, source: archive.Target, device: torch.device | str, actions: ActionSet | None) -> Any:
    """The policy in a file, its settings of the known kinds only, its networks no larger than what is there."""
    files = archive.read(encoding.existing_path(source), KIND)
    with readable(CONFIG):
        config = read_json(files[CONFIG])
        check_fields("config", config, ("settings", "observation_space", "action_space", "actions"))
        settings = _read_settings(config["settings"])
        _check_actions(config["actions"])
        observations, space = (encoding.decode_space(config[f"{name}_space"]) for name in ("observation", "action"))
    action_set = restore_actions(config["actions"], files, actions, None, space)
    if action_set.sha256 == config["actions"]["sha256"] and not same_actions(action_set.space, space):
        raise CheckpointError(f"a policy for {space} has {action_set.space} in its file")
    with readable(NETWORKS):
        networks = read_tensors(files[NETWORKS])
        with Budget(sum(tensor.numel() for tensor in networks.values())):
            require_dim(networks, action_set)
            policy = cls(observations, action_set.space, ConstantSchedule(LEARNING_RATE), action_set, **settings)
        check_forms(networks, policy.state_dict())
        policy.load_state_dict(networks)
    policy.set_training_mode(False)
    return policy.to(device)


def _read_settings(encoded: Any) -> dict[str, Any]:
    kind(dict)("settings", encoded)
    settings = {name: encoding.decode_value(value) for name, value in encoded.items()}
    for name, value in settings.items():
        check: Check = SETTINGS[name] if name in OF_AGENT else POLICY.get(name, plain)
        if value is not None:
            check(name, value)
    makers = {"critic": make_critic_settings, "candidates": make_source_settings}
    made = {name: make(settings[name]) for name, make in makers.items() if settings.get(name) is not None}
    return settings | made


def _check_actions(saved: Any) -> None:
    check_fields("actions", saved, ("kind", "sha256", "from_env"))
    kind(str, optional=True)("kind", saved["kind"])
    kind(str)("sha256", saved["sha256"])
    check_flag("from_env", saved["from_env"])
