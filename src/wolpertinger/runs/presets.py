"""Every setting that the paper does not give, in one place: how each task is trained, and why so."""

from dataclasses import dataclass, field, replace
from typing import Any

from wolpertinger.settings import check_choice


@dataclass(frozen=True)
class EnvOption:
    """An option of a task's environment, as the command line offers it."""

    default: Any
    type: type
    help: str


@dataclass(frozen=True)
class Preset:
    """How a task is trained."""

    env_id: str
    env: dict[str, EnvOption]
    n_envs: int
    """Environments stepped together: one lookup, one re-ranking and one update for all of them."""
    steps: int
    """Transitions to train for."""
    k: int | float | None
    """None: what the action set asks for."""
    episodes: int
    """What `wolpertinger evaluate` plays."""
    episode_steps: int
    """About how many steps an episode takes: the log has a line for so many episodes."""
    evaluations: int = 20
    """Points on a learning curve; the best of them is kept as a checkpoint."""
    agent: dict[str, Any] = field(default_factory=dict)
    """Arguments of `Wolpertinger` in JSON's terms; parts such as `critic` by their kind and fields."""
    nearest: dict[str, Any] = field(default_factory=dict)
    """What is different where candidates are looked up around a proto-action, as in the paper, if the default does
    something else: n_envs, steps, k, agent."""


# What no preset leaves to the class, whose own defaults follow the action set (agent/defaults.py): results stay what
# they were made with.
PLAIN: dict[str, Any] = {
    "gamma": 0.99,
    "tau": 0.005,
    "train_freq": 1,
    "gradient_steps": 1,
    "n_steps": 1,
    "standardize": False,
}
NETWORKS: dict[str, Any] = {"layer_norm": False, "dropout": 0.0, "n_critics": 1, "predict_by": "critic"}

# The DDPG paper's settings, which the Wolpertinger paper builds on and does not restate: plain networks of 400 and 300
# units, slow targets, Ornstein-Uhlenbeck noise. Guided epsilon is the Wolpertinger paper's, for its recommender.
# It keeps the task's number of environments: one update follows one step of all of them.
PAPER: dict[str, Any] = {
    **PLAIN,
    "learning_rate": 1e-3,
    "actor_learning_rate": 1e-4,
    "tau": 1e-3,
    "batch_size": 64,
    "critic": {"kind": "mlp", "interaction": False},
    "candidates": {"kind": "nearest"},
    "learner": {"kind": "ddpg", "critic_loss": "mse", "anchor": 0.0, "gradient_at": "proto"},
    "policy_kwargs": {**NETWORKS, "net_arch": [400, 300], "bound": "tanh"},
    "exploration": {"noise": "ornstein-uhlenbeck", "theta": 0.15, "sigma": 0.2, "epsilon": 0.1, "guided": 1.0},
}

# The recommender by a critic that searches the whole catalogue; the measurements are in docs/search.md. All that users
# give is tosses of a coin: so many of them are stepped together, each toss is learned from about once, and the learning
# rate goes to nothing, which averages over them.
SEARCH: dict[str, Any] = {
    **PLAIN,
    "learner": {"kind": "ddpg"},
    "critic": {"kind": "two-tower", "width": 32, "state_embedding": 8.0, "action_embedding": 8.0},
    "candidates": {"kind": "critic"},
    "learning_rate": 2e-3,
    "final_learning_rate": 1e-6,
    "tau": 0.01,
    "batch_size": 1_024,
    "learning_starts": 20_000,
    "policy_kwargs": {**NETWORKS, "net_arch": [256, 128], "layer_norm": True},
    "exploration": {"noise": None, "epsilon": 0.3, "guided": 0.8},
}

# What to change where a few items are good for many users and chances are low, as in the Complete Journey: few numbers
# for each item, no embedding of single ones, and smaller steps; or it takes luck for value. The embedding of states has
# rows to spare, as two states may share one, and a small scale: what is accepted one time in ten has to be averaged
# over many tries. docs/search.md has the figures. `--preset few-items`.
FEW_ITEMS: dict[str, Any] = {
    "learning_rate": 1e-3,
    "critic": {"kind": "two-tower", "width": 8, "state_embedding": 8.0, "action_embedding": 0, "embedding_scale": 0.5},
    "policy_kwargs": {"net_arch": [128, 64]},
    "exploration": {"epsilon": 0.1},
}

TASKS: dict[str, Preset] = {
    "recommender": Preset(
        env_id="wolpertinger/Recommender-v0",
        env={
            "items": EnvOption(835, int, "in the catalogue (the paper: 49, 835, 13138)"),
            "dim": EnvOption(20, int, "of an item's vector (the paper: 20, 200)"),
            "data": EnvOption("generated", str, 'or "complete-journey" (extra [data])'),
            "reward": EnvOption(None, str, 'of the Complete Journey: "price" (default) or "novelty"'),
            "median_best": EnvOption(None, float, "scale chances: that of a median best item"),
            "data_seed": EnvOption(0, int, "seed of what is generated or split"),
            "guided": EnvOption(None, int, "items that guided exploration draws from (30)"),
        },
        n_envs=1_024,
        steps=3_000_000,
        k=1,
        episodes=2_000,
        episode_steps=6,
        agent=SEARCH,
        nearest={
            "n_envs": 256,
            "steps": 1_000_000,
            "k": 0.05,
            "agent": {
                **PLAIN,
                "learning_rate": 2e-3,
                "final_learning_rate": 1e-4,
                "tau": 0.01,
                "batch_size": 256,
                "learning_starts": 20_000,
                "critic": {"kind": "mlp", "interaction": True},
                "candidates": {"kind": "nearest"},
                "learner": {"kind": "ddpg", "anchor": 0.1},
                "policy_kwargs": {**NETWORKS, "net_arch": [256, 128], "layer_norm": True},
                "exploration": {"noise": "gaussian", "sigma": 0.1, "epsilon": 0.3, "guided": 0.8},
            },
        },
    ),
    "cart-pole": Preset(
        env_id="wolpertinger/CartPoleSwingUp-v0",
        env={"levels": EnvOption(1_000_000, int, "forces to choose from")},
        n_envs=16,
        steps=600_000,
        k=1,
        episodes=100,
        episode_steps=500,
        evaluations=50,
        agent={
            **PLAIN,
            "learning_rate": 1e-3,
            "actor_learning_rate": 3e-4,
            "batch_size": 256,
            "n_steps": 5,
            "critic": {"kind": "mlp"},
            "candidates": {"kind": "nearest"},
            "learner": {"kind": "ddpg"},
            "policy_kwargs": {**NETWORKS, "net_arch": [256, 256]},
            # Reward is rare and far: only pushes that go on for a while swing the pole up. One cart in sixteen follows
            # the policy nearly as it is, another one is all but random.
            "exploration": {
                "noise": "ornstein-uhlenbeck",
                "theta": 0.15,
                "sigma": 1.0,
                "final_sigma": 0.03,
                "ladder": True,
            },
        },
    ),
    "puddle-world": Preset(
        env_id="wolpertinger/PuddleWorld-v0",
        env={
            "plan": EnvOption(20, int, "moves in a plan, n: there are 2**n actions (the paper: 1, 3, 5, 10, 20)"),
            "size": EnvOption(None, int, "rows and columns of a generated map (default: 50)"),
            "map_seed": EnvOption(None, int, "seed of a generated map (default: 0)"),
            "map": EnvOption(None, str, "a text file with a map: . empty, ~ puddle, S start, G goal"),
            "window": EnvOption(11, int, "side of the square window that the agent sees"),
            "max_moves": EnvOption(None, int, "moves after which an episode is cut (default: twice rows and columns)"),
        },
        n_envs=8,
        steps=200_000,
        k=1,
        episodes=1,
        episode_steps=10,
        evaluations=100,
        agent={
            **PLAIN,
            "learning_rate": 1e-3,
            "final_learning_rate": 1e-4,
            "actor_learning_rate": 3e-4,
            "batch_size": 64,
            # Plans are the corners of a cube: a proto-action between them says nothing of any plan, so the actor learns
            # at the corner that it is rounded to, and must be able to leave it again.
            "learner": {"kind": "ddpg", "gradient_at": "action"},
            "critic": {"kind": "mlp", "interaction": True},
            "candidates": {"kind": "nearest"},
            "policy_kwargs": {**NETWORKS, "net_arch": [256, 128], "layer_norm": True, "bound": "inverted gradients"},
            "exploration": {"noise": "gaussian", "sigma": 0.6, "final_sigma": 0.05, "ladder": True},
        },
    ),
    "control": Preset(
        env_id="wolpertinger/Discretized-v0",
        env={
            "env_id": EnvOption("Pendulum-v1", str, "a Gymnasium environment whose actions are a bounded Box"),
            "levels": EnvOption(1001, int, "levels of each of the d dimensions: levels**d actions"),
        },
        n_envs=1,
        steps=20_000,
        k=1,
        episodes=50,
        episode_steps=200,
        agent={},
    ),
    "environment": Preset(
        env_id="wolpertinger/Own-v0",
        env={
            "env_id": EnvOption(
                "CartPole-v1", str, "your environment, with Discrete or MultiDiscrete actions: my_module:MyEnv-v0"
            ),
            "vectors": EnvOption(None, str, "a .npy file with a vector for each action (default: the environment's)"),
            "options": EnvOption(None, dict, "the environment's own options, as JSON"),
        },
        n_envs=1,
        steps=20_000,
        k=None,
        episodes=50,
        episode_steps=100,
        agent={},
    ),
}


PRESET_NAMES = ("default", "few-items", "nearest", "paper")


def find_preset(task: str, preset: str) -> Preset:
    """A task as we train it ("default"), with the paper's candidates ("nearest"), or with its plain DDPG ("paper").

    "few-items" is for catalogues of which few items are good for many users.
    """
    check_choice("task", task, TASKS)
    check_choice("preset", preset, PRESET_NAMES)
    default = TASKS[task]
    if preset == "few-items":
        if task != "recommender":
            raise ValueError(f"preset={preset!r} is for the recommender, not for {task}")
        return replace(default, agent=merge(default.agent, FEW_ITEMS))
    nearest = replace(default, **default.nearest)
    if preset == "default":
        return default
    if preset == "nearest":
        return nearest
    plain = {**PAPER, "learning_starts": nearest.agent.get("learning_starts", 1_000)}
    if task != "recommender":  # the others offer nothing to guide exploration
        epsilon = 0.1 if task == "environment" else 0.0  # where all actions may be candidates, noise explores nothing
        plain["exploration"] = {**PAPER["exploration"], "epsilon": epsilon, "guided": 0.0}
    return replace(nearest, agent=plain)


def merge(settings: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Settings with changes laid over them, into nested ones too."""
    merged = dict(settings)
    for name, value in changes.items():
        nested = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = merge(merged[name], value) if nested else value
    return merged
