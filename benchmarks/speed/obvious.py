"""The obvious re-ranking: repeat each state k times, concatenate with the k vectors, one big forward.

As fast as it gets without leaving that idea: no autograd, and the states are repeated by the concatenation alone.
Lookup and weights are those of the library.
"""

import torch
from stable_baselines3.common.type_aliases import PyTorchObs
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.speed.flops import Networks
from wolpertinger.agent.networks import Critic, QNetwork
from wolpertinger.agent.policy import Choice, WolpertingerPolicy

MOST_BYTES = 8e9  # that it may take


class ObviousPolicy(WolpertingerPolicy):
    """`WolpertingerPolicy` with that re-ranking."""

    @torch.no_grad()
    def choose(self, obs: PyTorchObs, proto: Tensor, critic: Critic, search: object = None) -> Choice:
        with self.clock("lookup"):
            candidates = self.nearest(proto)
            vectors = self.embed(candidates)
        with self.clock("rerank"):
            q = rank(critic, obs, vectors)
            value, place = q.max(dim=1)
            chosen = torch.arange(len(proto)), place
        return Choice(proto, candidates[chosen], vectors[chosen], value, q.mean(dim=1), place == 0, self.k)


@torch.no_grad()
def rank(critic: Critic, obs: PyTorchObs, vectors: Tensor) -> Tensor:
    """What the library's `rank` gives: the values (batch, k) of vectors (batch, k, dim)."""
    inputs = critic.scale.to_inputs(vectors)
    repeated = critic.features(obs).unsqueeze(1).expand(-1, inputs.shape[1], -1)
    joined = torch.cat([repeated, inputs], dim=-1).flatten(0, 1)  # (batch * k, features + dim)
    values = [_forward(network, joined) for network in critic.networks]
    return torch.stack(values).amin(dim=0).view(inputs.shape[:2])


def _forward(network: nn.Module, joined: Tensor) -> Tensor:
    assert isinstance(network, QNetwork)
    if network.state_factor is not None:
        raise ValueError("interaction=True: an ordinary first layer holds no products of state and action")
    # Tens of microseconds to join the halves of the first layer, which an ordinary network would hold as one.
    first = torch.cat([network.state.weight, network.action.weight], dim=1)
    return network.rest(F.linear(joined, first, network.state.bias)).squeeze(-1)


def estimate_bytes(networks: Networks, states: int, k: int) -> int:
    """Memory it takes at its peak: vectors, scaled and joined to the states, and two layers of activations."""
    widths = (networks.critic[0], max(networks.critic))
    return 4 * states * k * (3 * networks.dim + networks.features + sum(widths))
