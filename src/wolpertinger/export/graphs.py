"""The networks as ONNX takes them: fixed, with tensors in and out, all scaling inside."""

import copy
from collections.abc import Sequence

import torch
from stable_baselines3.common.type_aliases import PyTorchObs
from torch import Tensor, nn

from wolpertinger.networks import Actor, Critic
from wolpertinger.networks.hashed_embedding import HashedEmbedding


class FixedEmbedding(nn.Module):
    """A hashed embedding that learns no more: what is known of each row, its optimism included, in one table."""

    is_new: Tensor
    table: Tensor
    learned: Tensor
    places: Tensor

    def __init__(self, own: HashedEmbedding) -> None:
        super().__init__()
        self.own, self.neighbours = own, own.neighbours
        table = own.scale * own.rows.detach()
        if own.optimism:
            table[..., -1] += own.optimism / (1 + own.tries)
        self.register_buffer("table", table)
        if self.neighbours and own.tries.any():
            self.register_buffer("is_new", own.tries == 0)
            known = own.tries.nonzero().squeeze(1)
            self.register_buffer("learned", own.scale * own.rows.detach()[known])
            self.register_buffer("places", own.vectors[known])

    def forward(self, vectors: Tensor) -> Tensor:
        row = self.own.row(vectors)
        known = nn.functional.embedding(row, self.table)
        if not hasattr(self, "places"):
            return known
        # |x - y|^2 less |x|^2, which all of a state's distances share.
        distances = self.places.square().sum(dim=1) - 2 * vectors @ self.places.t()
        near = distances.topk(min(self.neighbours, len(self.places)), dim=-1, largest=False).indices
        mean = nn.functional.embedding(near, self.learned).mean(dim=-2)
        return torch.where(self.is_new[row].unsqueeze(-1), mean, known)


class _Graph(nn.Module):
    """A network in a form of its own, of the same weights, that takes an observation's tensors in order."""

    def __init__(self, network: Actor | Critic, names: Sequence[str], *, named: bool) -> None:
        super().__init__()
        self.network = copy.deepcopy(network).requires_grad_(False)
        self.network.set_training_mode(False)
        self._names, self._named = names, named
        for module in list(self.network.modules()):
            for name, child in module.named_children():
                if isinstance(child, HashedEmbedding):
                    setattr(module, name, FixedEmbedding(child))

    def observation(self, parts: Sequence[Tensor]) -> PyTorchObs:
        return dict(zip(self._names, parts, strict=True)) if self._named else parts[0]


class ActorGraph(_Graph):
    """Observations become proto-actions (batch, dim)."""

    network: Actor

    def forward(self, *parts: Tensor) -> Tensor:
        return self.network(self.observation(parts))


class CriticGraph(_Graph):
    """Observations, and k actions' vectors for each (batch, k, dim), become values (batch, k): the least of several
    critics'.
    """

    network: Critic

    def forward(self, *parts: Tensor) -> Tensor:
        return self.network(self.observation(parts[:-1]), parts[-1]).amin(dim=0)


class StateTowerGraph(_Graph):
    """Observations become queries (batch, critics, width) and offsets (batch, critics), in the units of the return:
    the product of a query with an action's key, plus the offset, is a critic's value.
    """

    network: Critic

    def forward(self, *parts: Tensor) -> tuple[Tensor, Tensor]:
        features, values = self.network.features(self.observation(parts)), self.network.values
        queries, offsets = zip(*(network.query(features) for network in self.network.networks), strict=True)
        return torch.stack(queries, dim=1) * values.spread, values.invert(torch.stack(offsets, dim=1))


class ActionTowerGraph(_Graph):
    """Actions' vectors (n, dim) become keys (n, critics, width)."""

    network: Critic

    def forward(self, vectors: Tensor) -> Tensor:
        inputs = self.network.scale.to_inputs(vectors)
        return torch.stack([network.key(inputs) for network in self.network.networks], dim=1)
