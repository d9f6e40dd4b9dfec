"""What the agent does where the user says nothing: chosen by the action set and the number of environments.

Every number here is ours, not the paper's, and was measured: docs/decisions/023-defaults.md. `preset="paper"` is the
paper's plain DDPG instead.
"""

from dataclasses import dataclass, field
from typing import Any

from wolpertinger.actions import ActionSet
from wolpertinger.agent.exploration import Exploration
from wolpertinger.learners import DDPG, TD3
from wolpertinger.networks import MLP, TwoTower
from wolpertinger.policy import BestByCritic, Nearest
from wolpertinger.settings import check_choice

PRESETS = ("auto", "paper")
MAX_SEARCHED = 2**20  # actions that the critic searches all of, unless they are levels of controls
TRANSITIONS_PER_UPDATE = 8  # of a critic that searches: more updates fit it to the noise of the last transitions
NEIGHBOURS = 64  # candidates around a proto-action


@dataclass(frozen=True)
class Defaults:
    """Arguments of `Wolpertinger`, and one line that says why."""

    arguments: dict[str, Any]
    policy_kwargs: dict[str, Any] = field(default_factory=dict)
    why: str = ""


def choose_defaults(given: dict[str, Any], actions: ActionSet, n_envs: int) -> Defaults:
    """The defaults for an action set, beside the arguments that were given: by the critic's search or by an actor."""
    check_choice("preset", given["preset"], PRESETS)
    if given["preset"] == "paper":
        return _paper(actions)
    is_searched = actions.is_listable and actions.n <= MAX_SEARCHED and not actions.is_ordinal
    if given["candidates"] is not None:
        is_searched = not getattr(given["candidates"], "needs_actor", True)
    elif given["critic"] is not None:
        is_searched = is_searched and isinstance(given["critic"], TwoTower)
    if is_searched:
        return _with_search(actions, n_envs)
    return _with_actor(actions) if actions.is_ordinal else _with_neighbours(actions, n_envs)


def _with_search(actions: ActionSet, n_envs: int) -> Defaults:
    """Two towers find the best of all actions: no actor that has to be right first."""
    steps, updates = _update_ratio(n_envs)
    return Defaults(
        arguments={
            "k": 1,
            "critic": TwoTower(width=32, linear=True),
            "candidates": BestByCritic(),
            "learner": DDPG(target_samples=256),
            "exploration": Exploration(noise=None, epsilon=0.2, final_epsilon=0.05),
            "learning_rate": 1e-3,
            "tau": 0.005,
            "batch_size": 256,
            "train_freq": steps,
            "gradient_steps": updates,
        },
        policy_kwargs={"net_arch": [256, 128], "layer_norm": True, "dropout": 0.2, "predict_by": "target"},
        why=f"{_describe(actions)}: two towers search all of them; "
        f"{_count(n_envs, 'environment')}: {_count(updates, 'update')} of 256 per {steps * n_envs} transitions",
    )


def _with_neighbours(actions: ActionSet, n_envs: int) -> Defaults:
    """The paper's form: the critic picks among the actions nearest to the proto-action."""
    steps, updates = _update_ratio(n_envs)
    k = min(NEIGHBOURS, actions.n)
    return Defaults(
        arguments={
            "k": k,
            "critic": MLP(interaction=True),
            "candidates": Nearest(),
            "learner": DDPG(anchor=0.1),
            "exploration": Exploration(sigma=0.1, epsilon=0.2, final_epsilon=0.05),
            "learning_rate": 1e-3,
            "tau": 0.005,
            "batch_size": 256,
            "train_freq": steps,
            "gradient_steps": updates,
        },
        policy_kwargs={"net_arch": [256, 128], "layer_norm": True, "predict_by": "target"},
        why=f"{_describe(actions)}: the critic picks among the {k} nearest to the actor's proposal; "
        f"{_count(n_envs, 'environment')}: {_count(updates, 'update')} of 256 per {steps * n_envs} transitions",
    )


def _with_actor(actions: ActionSet) -> Defaults:
    """TD3 on the proto-action, rounded to the nearest action: for levels of controls, and sets too large to search."""
    return Defaults(
        arguments={
            "k": 1,
            "critic": MLP(),
            "candidates": Nearest(),
            "learner": TD3(),
            "exploration": Exploration(sigma=0.1),
            "learning_rate": 1e-3,
            "tau": 0.005,
            "batch_size": 256,
            "train_freq": 1,
            "gradient_steps": 1,
        },
        policy_kwargs={"net_arch": [256, 256], "n_critics": 2},
        why=f"{_describe(actions)}: an actor proposes and the nearest action is taken (TD3); "
        "one update of 256 per step of all environments",
    )


def _paper(actions: ActionSet) -> Defaults:
    """The DDPG paper's settings, which the Wolpertinger paper builds on and does not restate."""
    return Defaults(
        arguments={
            "k": min(NEIGHBOURS, actions.n),
            "critic": MLP(),
            "candidates": Nearest(),
            "learner": DDPG(),
            "exploration": Exploration(noise="ornstein-uhlenbeck", theta=0.15, sigma=0.2),
            "learning_rate": 1e-3,
            "actor_learning_rate": 1e-4,
            "tau": 1e-3,
            "batch_size": 64,
            "train_freq": 1,
            "gradient_steps": 1,
        },
        policy_kwargs={"net_arch": [400, 300]},
        why=f"{_describe(actions)}: the paper's DDPG, {min(NEIGHBOURS, actions.n)} nearest candidates",
    )


def _update_ratio(n_envs: int) -> tuple[int, int]:
    """Steps of all environments between two trainings, and updates in each."""
    return max(1, TRANSITIONS_PER_UPDATE // n_envs), max(1, n_envs // TRANSITIONS_PER_UPDATE)


def _describe(actions: ActionSet) -> str:
    return f"{actions.n:,} actions in {_count(actions.dim, 'number')}"


def _count(n: int, thing: str) -> str:
    return f"{n:,} {thing}{'' if n == 1 else 's'}"
