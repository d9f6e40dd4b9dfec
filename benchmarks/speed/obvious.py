"""The obvious re-ranking: repeat each state k times, concatenate with the k vectors, one big forward.

As fast as it gets without leaving that idea: no autograd, and the states are repeated by the concatenation alone.
Lookup and weights are those of the library.
"""

import torch
from stable_baselines3.common.type_aliases import PyTorchObs
from torch import Tensor
from torch.nn import functional as F

from benchmarks.speed.flops import Networks
from wolpertinger.agent.policies import WolpertingerPolicy
from wolpertinger.networks import Critic
from wolpertinger.networks.mlp import MLPNetwork
from wolpertinger.policy import Policy, Ranking, States
from wolpertinger.policy.ranking import Best

MOST_BYTES = 8e9  # that it may take


class ObviousRanking(Policy):
    """`Policy` with that re-ranking."""

    @torch.no_grad()
    def rank(self, states: States, critic: Critic, top: int = 1) -> Ranking:
        with self.timer("lookup"):
            candidates = self.source.find(states, self.k)
            vectors = self.embed(candidates.actions)
        with self.timer("rerank"):
            q = rank(critic, states.obs, vectors)
            best = Best.of(candidates.actions, vectors, q, q.mean(dim=1), top)
        return Ranking(states, candidates, lambda _: best)


class ObviousPolicy(WolpertingerPolicy):
    """`WolpertingerPolicy` that ranks so."""

    policy_class = ObviousRanking


@torch.no_grad()
def rank(critic: Critic, obs: PyTorchObs, vectors: Tensor) -> Tensor:
    """What the library's `rank` gives: the values (batch, k) of vectors (batch, k, dim)."""
    inputs = critic.scale.to_inputs(vectors)
    repeated = critic.features(obs).unsqueeze(1).expand(-1, inputs.shape[1], -1)
    joined = torch.cat([repeated, inputs], dim=-1).flatten(0, 1)  # (batch * k, features + dim)
    values = [_forward(network, joined) for network in critic.networks]
    return critic.values.invert(torch.stack(values).amin(dim=0).view(inputs.shape[:2]))


def _forward(network: MLPNetwork, joined: Tensor) -> Tensor:
    if network.state_factor is not None:
        raise ValueError("interaction=True: an ordinary first layer holds no products of state and action")
    # Tens of microseconds to join the halves of the first layer, which an ordinary network would hold as one.
    first = torch.cat([network.state.weight, network.action.weight], dim=1)
    return network.rest(F.linear(joined, first, network.state.bias)).squeeze(-1)


def estimate_bytes(networks: Networks, states: int, k: int) -> int:
    """Memory it takes at its peak: vectors, scaled and joined to the states, and two layers of activations."""
    widths = (networks.critic[0], max(networks.critic))
    return 4 * states * k * (3 * networks.dim + networks.features + sum(widths))
