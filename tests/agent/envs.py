"""Small environments, small agents, and the loops that the agent's own code is compared with."""

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.torch_layers import FlattenExtractor

from wolpertinger import MLP, ActionTable, Exploration, Wolpertinger

# The paper's parts, whatever the class chooses by itself.
PLAIN = {
    "critic": "mlp",
    "candidates": "nearest",
    "learner": "ddpg",
    "learning_rate": 1e-3,
    "gamma": 0.99,
    "tau": 0.005,
    "train_freq": 1,
    "gradient_steps": 1,
    "n_steps": 1,
    "standardize": False,
}
PLAIN_NETWORKS = {
    "net_arch": [16, 16],
    "layer_norm": False,
    "unit_features": False,
    "dropout": 0.0,
    "n_critics": 1,
    "predict_by": "critic",
}
SMALL = {
    **PLAIN,
    "policy_kwargs": PLAIN_NETWORKS,
    "buffer_size": 1_000,
    "learning_starts": 20,
    "batch_size": 16,
    "seed": 0,
}


def grid(points_per_axis, dim):
    axes = [np.linspace(-1, 1, points_per_axis)] * dim
    return ActionTable(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, dim))


class TargetEnv(gym.Env):
    """The observation is a point, the reward minus the distance from it to the vector of the chosen action.

    An episode has `length` steps and then terminates; None: it goes on for ever.
    """

    def __init__(self, actions=None, *, points_per_axis=32, dim=2, length=1, offer=True):
        self.set = grid(points_per_axis, dim) if actions is None else actions
        if offer:
            self.actions = self.set
        self.action_space = self.set.space
        self.observation_space = spaces.Box(-1, 1, (self.set.dim,), np.float32)
        self.length, self.step_number = length, 0
        self.target = np.zeros(self.set.dim, np.float32)
        self.executed = []

    def observe(self):
        return self.target.copy()

    def _draw(self):
        self.target = self.np_random.uniform(-1, 1, self.set.dim).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.step_number = 0
        self._draw()
        return self.observe(), {}

    def step(self, action):
        self.executed.append(np.array(action))
        reward = -float(np.linalg.norm(self.set.embed(np.asarray(action)) - self.target))
        self.step_number += 1
        self._draw()
        return self.observe(), reward, self.step_number == self.length, False, {}


class DictEnv(TargetEnv):
    """The target in one part of the observation, the step's number in another."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.observation_space = spaces.Dict({"target": self.observation_space, "step": spaces.Discrete(8)})

    def observe(self):
        return {"target": self.target.copy(), "step": self.step_number % 8}


class ImageEnv(TargetEnv):
    """A grey picture whose brightness is the target."""

    def __init__(self, **kwargs):
        super().__init__(**{"dim": 1, **kwargs})
        self.observation_space = spaces.Box(0, 255, (36, 36, 1), np.uint8)

    def observe(self):
        return np.full((36, 36, 1), round(127.5 * (self.target[0] + 1)), np.uint8)


class RoomEnv(TargetEnv):
    """One of five rooms, each with a target of its own: a Discrete observation."""

    def __init__(self, **kwargs):
        super().__init__(**{"dim": 1, **kwargs})
        self.observation_space = spaces.Discrete(5)

    def _draw(self):
        self.room = int(self.np_random.integers(5))
        self.target = np.array([self.room / 2 - 1], np.float32)

    def observe(self):
        return self.room


class GuidedEnv(TargetEnv):
    """Offers the three actions nearest to the current target, and keeps what it offered with what was executed."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.pairs = []

    def guided_actions(self):
        return self.set.nearest(self.target[None], 3)[0]

    def step(self, action):
        self.pairs.append((self.guided_actions(), np.array(action)))
        return super().step(action)


class NormalisedExtractor(FlattenExtractor):
    """Batch normalisation: its running statistics are buffers, not parameters."""

    def __init__(self, observation_space):
        super().__init__(observation_space)
        self.norm = torch.nn.BatchNorm1d(self.features_dim)

    def forward(self, observations):
        return self.norm(super().forward(observations))


def small_agent(env=None, policy="MlpPolicy", **kwargs):
    env = TargetEnv(length=5) if env is None else env
    settings = {"k": 8, **SMALL, "exploration": Exploration(epsilon=0.1), **kwargs}
    settings["policy_kwargs"] = {**PLAIN_NETWORKS, **settings["policy_kwargs"]}
    return Wolpertinger(policy, env, **settings)


def greedy(**kwargs):
    """No exploration at all, but what is given."""
    return Exploration(**{"noise": None, **kwargs})


def scramble(module, seed, scale=0.5):
    """Random weights: networks that start near 0 would hide most mistakes."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(scale * torch.randn(parameter.shape, generator=generator))


def scramble_all(agent):
    for seed, network in enumerate((agent.actor, agent.critic, agent.actor_target, agent.critic_target)):
        scramble(network, seed)


def all_actions(actions):
    """Every member of A, in the form of its space."""
    if isinstance(actions.space, spaces.Discrete):
        return np.arange(actions.n)
    return np.indices(tuple(actions.space.nvec)).reshape(len(actions.space.nvec), -1).T


def value(critic, state, vector):
    """Q of one single pair."""
    return critic(state[None], torch.as_tensor(np.asarray(vector))[None]).min().item()


def best_of(critic, state, actions, candidates):
    """Algorithm 1's last lines as a loop: one candidate after the other, one pair at a time."""
    best, best_q = None, -np.inf
    for candidate in candidates:
        q = value(critic, state, actions.embed(candidate))
        if q > best_q:
            best, best_q = candidate, q
    return best, best_q


CRITICS = {  # constructor arguments for every kind of MLP critic
    "plain": {},
    "layer norm": {"policy_kwargs": {"layer_norm": True}},
    "unit features": {"policy_kwargs": {"unit_features": True}},
    "interaction": {"critic": MLP(interaction=True)},
    "twins": {"policy_kwargs": {"n_critics": 2}},
    "tanh": {"policy_kwargs": {"activation_fn": torch.nn.Tanh}},
    "one layer": {"policy_kwargs": {"net_arch": [48]}},
    "three layers": {"policy_kwargs": {"net_arch": [48, 40, 32]}},
    "state layers": {
        "critic": MLP(interaction=True),
        "policy_kwargs": {"state_arch": [24, 16], "layer_norm": True},
    },
    "all": {"critic": MLP(interaction=True), "policy_kwargs": {"layer_norm": True, "n_critics": 2}},
}


def with_critic(name, **policy_kwargs):
    """The constructor arguments for one of `CRITICS`, which go before the given `policy_kwargs`."""
    arguments = CRITICS[name]
    return {**arguments, "policy_kwargs": {**policy_kwargs, **arguments.get("policy_kwargs", {})}}
