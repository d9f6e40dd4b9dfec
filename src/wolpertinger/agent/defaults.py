"""What the agent does where the user says nothing: chosen by the action set and the length of the run.

Every number here is ours, not the paper's, and was measured: docs/decisions/023-defaults.md. `preset="paper"` is the
paper's plain DDPG instead.
"""

from dataclasses import dataclass, replace
from typing import Any

from gymnasium import spaces

from wolpertinger.actions import ActionSet
from wolpertinger.agent.exploration import Exploration
from wolpertinger.learners import DDPG, TD3, Offline
from wolpertinger.networks import MLP, Factored, PerItem, TwoTower
from wolpertinger.policy import BestByCritic, BestByFactor, Nearest, TopItems
from wolpertinger.settings import check_choice

PRESETS = ("auto", "paper")
MAX_SEARCHED = 2**20  # actions that the critic searches all of, unless they are levels of controls
# Updates that a run is worth, if it is long enough: with fewer a short run learns little, with more it takes longer
# than it gains.
SEARCH_UPDATES, ACTOR_UPDATES, FACTOR_UPDATES, NEIGHBOUR_UPDATES = 2_500, 200_000, 5_000, 1_250
# Of a critic that searches many actions: what an action changes within some ten steps. Values of a longer horizon are
# so much larger than what tells actions apart that their errors decide.
SEARCH_HORIZON = {"gamma": 0.9, "tau": 0.01}
# Where there are few actions, noise of one try is soon averaged out: more updates, a longer horizon and returns of
# three steps pay.
FEW_ACTIONS, FEW_UPDATES, FEW_GAMMA = 64, 5_000, 0.98
PAPER_UPDATES = 10**18  # one after every transition
FEW_TRANSITIONS = 4  # per update of few actions and of factors, however long the run: what it sees it learns from
MAX_FACTORS = 256  # of controls whose levels are searched one by one: a few outputs of the network for each
EXACT_TARGETS = 10_000  # actions up to which line 13 searches all of A, and does not sample
COMMON = {"learning_rate": 1e-3, "gamma": 0.99, "tau": 0.005, "batch_size": 256, "n_steps": 1, "standardize": True}
NEIGHBOURS = 64  # candidates around a proto-action


@dataclass(frozen=True)
class Defaults:
    """Arguments of `Wolpertinger`, and one line that says why."""

    arguments: dict[str, Any]
    updates: int
    """That a run is worth: `update_ratio` turns it into train_freq and gradient_steps."""
    policy_kwargs: dict[str, Any]
    why: str
    most_transitions: int = 16
    """For each update, however long the run."""

    def update_ratio(self, transitions: int, n_envs: int) -> tuple[int, int]:
        """Steps of all environments between two trainings, and updates in each, for a run of so many transitions."""
        per_update = min(self.most_transitions, max(1, round(transitions / self.updates)))
        return max(1, per_update // n_envs), max(1, n_envs // per_update)


def choose_defaults(given: dict[str, Any], actions: ActionSet, observations: spaces.Space) -> Defaults:
    """The defaults for an action set, beside the arguments that were given: by the critic's search or by an actor."""
    check_choice("preset", given["preset"], PRESETS)
    if given["preset"] == "paper":
        return _paper(actions)
    if actions.slots is not None and _is_any(given["candidates"], TopItems) and _is_any(given["critic"], PerItem):
        return _with_top_items(actions)
    is_searched = actions.is_listable and actions.n <= MAX_SEARCHED and not actions.is_ordinal
    if isinstance(given["candidates"], BestByFactor) or isinstance(given["critic"], Factored):
        return _with_factors(actions, can_look_ahead=_can_look_ahead(given, observations))
    if given["candidates"] is not None:
        is_searched = not getattr(given["candidates"], "needs_actor", True)
    elif given["critic"] is not None:
        is_searched = is_searched and given["critic"].has_keys
    if is_searched and actions.n <= FEW_ACTIONS:
        return _with_few(actions, can_look_ahead=_can_look_ahead(given, observations))
    if is_searched:
        return _with_search(actions)
    if actions.is_ordinal and _is_factored(given, actions):
        return _with_factors(actions, can_look_ahead=_can_look_ahead(given, observations))
    if actions.is_ordinal:
        return _with_actor(actions, unit_features=_is_any(given["learner"], TD3))
    return _with_neighbours(actions)


def _can_look_ahead(given: dict[str, Any], observations: spaces.Space) -> bool:
    """Whether there may be returns of several steps: Stable-Baselines3's buffers of Dict observations, and buffers of
    one's own, know none.
    """
    has_own_buffer = given["replay_buffer_class"] is not None or given["optimize_memory_usage"]
    return not (has_own_buffer or isinstance(observations, spaces.Dict))


def _is_factored(given: dict[str, Any], actions: ActionSet) -> bool:
    """Whether a critic of factors fits what the user has said; TD3, learning from a log, and noise on the proto-action
    alone ask for an actor.
    """
    exploration = given["exploration"]
    has_noise_alone = exploration is not None and not (exploration.epsilon or exploration.final_epsilon)
    asks_for_actor = isinstance(given["learner"], TD3 | Offline) or has_noise_alone
    fits = given["critic"] is None and given["candidates"] is None and not asks_for_actor
    return fits and actions.levels is not None and len(actions.levels) <= MAX_FACTORS


def _is_any(given: Any, kind: type) -> bool:
    return given is None or isinstance(given, kind)


def _with_search(actions: ActionSet) -> Defaults:
    """Two towers find the best of all actions: no actor that has to be right first."""
    return Defaults(
        arguments={
            "k": 1,
            "critic": TwoTower(width=32, linear=True),
            "candidates": BestByCritic(),
            "learner": DDPG(target_samples=256 if actions.n > EXACT_TARGETS else 0),
            "exploration": Exploration(noise=None, epsilon=0.2),
            **COMMON,
            **SEARCH_HORIZON,
        },
        updates=SEARCH_UPDATES,
        policy_kwargs={"net_arch": [128, 128], "layer_norm": True, "dropout": 0.2, "predict_by": "target"},
        why=f"{_describe(actions)}: two towers search all of them",
    )


def _with_few(actions: ActionSet, *, can_look_ahead: bool) -> Defaults:
    """The same for sets of which every action is tried again and again: what is far away is learned in time."""
    many = _with_search(actions)
    ahead = {"gamma": FEW_GAMMA, "n_steps": 3 if can_look_ahead else 1}
    arguments = {**many.arguments, **COMMON, "batch_size": 128, **ahead}
    return replace(many, arguments=arguments, updates=FEW_UPDATES, most_transitions=FEW_TRANSITIONS)


def _with_top_items(actions: ActionSet) -> Defaults:
    """Slates of the items that are worth most by themselves: as above, with a critic that is a mean over the slots."""
    searched = _with_search(actions)
    arguments = {"critic": PerItem(), "candidates": TopItems(), "learner": DDPG()}
    return replace(
        searched,
        arguments={**searched.arguments, **arguments},
        why=f"slates of {actions.slots} items in {actions.dim:,} numbers: the top items by their single values",
    )


def _with_neighbours(actions: ActionSet) -> Defaults:
    """The paper's form: the critic picks among the actions nearest to the proto-action."""
    k = min(NEIGHBOURS, actions.n)
    return Defaults(
        arguments={
            "k": k,
            "critic": MLP(interaction=True),
            "candidates": Nearest(),
            "learner": DDPG(anchor=0.1),
            "exploration": Exploration(sigma=0.1, epsilon=0.2, final_epsilon=0.05),
            **COMMON,
        },
        updates=NEIGHBOUR_UPDATES,
        policy_kwargs={"net_arch": [256, 128], "layer_norm": True, "predict_by": "target"},
        why=f"{_describe(actions)}: the critic picks among the {k} nearest to the actor's proposal",
    )


def _with_factors(actions: ActionSet, *, can_look_ahead: bool) -> Defaults:
    """Each factor's best level by a critic that is a sum over the factors: no actor that runs into a corner.

    With features of length 1 what has never been seen is not promised much; without, values of some controls diverge.
    """
    return Defaults(
        arguments={
            "k": 1,
            "critic": Factored(),
            "candidates": BestByFactor(),
            "learner": DDPG(),
            "exploration": Exploration(noise=None, epsilon=0.1),
            **COMMON,
            "n_steps": 3 if can_look_ahead else 1,
        },
        updates=FACTOR_UPDATES,
        most_transitions=FEW_TRANSITIONS,
        policy_kwargs={"net_arch": [256, 256], "unit_features": True, "n_critics": 2},
        why=f"{_describe(actions)}: each factor's best level by a critic that is a sum over the factors",
    )


def _with_actor(actions: ActionSet, *, unit_features: bool) -> Defaults:
    """TD3 on the proto-action, rounded to the nearest action: for levels of controls, and sets too large to search.

    With features of any length TD3's actor can run into a corner of the box, where tanh is flat, and stay there. Other
    learners, which it was not measured with, have plain networks.
    """
    return Defaults(
        arguments={
            "k": 1,
            "critic": MLP(),
            "candidates": Nearest(),
            "learner": TD3(),
            "exploration": Exploration(sigma=0.1),
            **COMMON,
        },
        updates=ACTOR_UPDATES,
        policy_kwargs={"net_arch": [256, 256], "unit_features": unit_features, "n_critics": 2},
        why=f"{_describe(actions)}: an actor proposes and the nearest action is taken (TD3)",
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
            **COMMON,
            "actor_learning_rate": 1e-4,
            "tau": 1e-3,
            "batch_size": 64,
            "standardize": False,
        },
        updates=PAPER_UPDATES,
        policy_kwargs={"net_arch": [400, 300]},
        why=f"{_describe(actions)}: the paper's DDPG, {min(NEIGHBOURS, actions.n)} nearest candidates",
    )


def _describe(actions: ActionSet) -> str:
    if actions.is_numbered:
        return f"{actions.n:,} actions without vectors"
    return f"{actions.n:,} actions in {actions.dim:,} number{'' if actions.dim == 1 else 's'}"
