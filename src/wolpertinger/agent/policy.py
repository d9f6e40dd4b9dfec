"""Algorithm 1: the actor proposes, the lookup finds the k nearest actions, the critic picks the best of them."""

from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.torch_layers import (
    BaseFeaturesExtractor,
    CombinedExtractor,
    FlattenExtractor,
    NatureCNN,
    get_actor_critic_arch,
)
from stable_baselines3.common.type_aliases import PyTorchObs, Schedule
from torch import Tensor, nn

from wolpertinger.actions import ActionSet, can_list, list_actions
from wolpertinger.agent.clock import Clock
from wolpertinger.agent.networks import Actor, Critic
from wolpertinger.agent.rerank import Best, exact
from wolpertinger.agent.screening import Favourites, screened
from wolpertinger.agent.search import CriticSearch, require_listed

CANDIDATES_AT_ONCE = 2**16  # looked up and embedded together: 10 MB of vectors of 40 numbers
RERANKERS = ("exact", "screened")
CRITICS = ("mlp", "two-tower")
CANDIDATES = ("nearest", "critic", "both")
PREDICTORS = ("critic", "target")


@dataclass(frozen=True)
class Pick:
    """What the policy picked in a batch of states."""

    proto: Tensor
    """Where the candidates were looked for (batch, dim)."""
    action: Tensor
    """The best candidate (batch, ...), or the only one."""


@dataclass(frozen=True)
class Choice(Pick):
    """The same, by the values of the candidates."""

    vector: Tensor
    """Of the action (batch, dim)."""
    value: Tensor
    """Its value (batch,)."""
    mean: Tensor
    """The candidates' mean value (batch,)."""
    is_nearest: Tensor | None
    """Whether it is the nearest candidate (batch,); None where all of A were candidates, which come in no order."""
    k: int
    """Candidates per state."""

    def join(self, other: "Choice") -> "Choice":
        """One choice for the states of both."""
        tensors = {name: ours for name, ours in vars(self).items() if isinstance(ours, Tensor)}
        joined: dict[str, Any] = {name: torch.cat([ours, vars(other)[name]]) for name, ours in tensors.items()}
        return replace(self, **joined)

    def or_better(self, other: "Choice") -> "Choice":
        """The better one in each state of two choices from different candidates."""
        better, k = other.value > self.value, self.k + other.k

        def pick(ours: Tensor, theirs: Tensor) -> Tensor:
            return torch.where(better.view(-1, *[1] * (ours.dim() - 1)), theirs, ours)

        return Choice(
            proto=self.proto,
            action=pick(self.action, other.action),
            vector=pick(self.vector, other.vector),
            value=pick(self.value, other.value),
            mean=(self.k * self.mean + other.k * other.mean) / k,
            is_nearest=None if self.is_nearest is None else self.is_nearest & ~better,
            k=k,
        )


class WolpertingerPolicy(BasePolicy):
    """Actor, critic and their targets over an action set; `choose` is the whole idea."""

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        lr_schedule: Schedule,
        actions: ActionSet,
        k: int,
        rerank: str = "exact",
        critic: str = "mlp",
        candidates: str = "nearest",
        refresh_every: int | None = None,
        predict_by: str = "critic",
        tower_kwargs: dict[str, Any] | None = None,
        net_arch: list[int] | dict[str, list[int]] | None = None,
        activation_fn: type[nn.Module] = nn.ReLU,
        layer_norm: bool = False,
        interaction: bool = False,
        n_critics: int = 1,
        state_arch: list[int] | None = None,
        bound: str = "tanh",
        features_extractor_class: type[BaseFeaturesExtractor] = FlattenExtractor,
        features_extractor_kwargs: dict[str, Any] | None = None,
        normalize_images: bool = True,
        optimizer_class: type[torch.optim.Optimizer] = torch.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
    ) -> None:
        if optimizer_kwargs is None and optimizer_class is torch.optim.Adam:
            optimizer_kwargs = {"fused": True}  # one kernel for all parameters, on every device
        super().__init__(
            observation_space,
            action_space,
            features_extractor_class,
            features_extractor_kwargs,
            normalize_images=normalize_images,
            optimizer_class=optimizer_class,
            optimizer_kwargs=optimizer_kwargs,
        )
        self.actions = actions
        self.k = k
        self.rerank = rerank
        self.favourites = Favourites()
        self.clock = Clock()
        actor_arch, critic_arch = get_actor_critic_arch([256, 128] if net_arch is None else net_arch)
        if not (actor_arch and critic_arch):
            raise ValueError(
                f"net_arch={net_arch!r}: give actor and critic at least one hidden layer, such as [256, 128]"
            )
        shared: dict[str, Any] = {"activation_fn": activation_fn, "layer_norm": layer_norm}
        self.actor, self.actor_target = (
            self._network(Actor, net_arch=actor_arch, bound=bound, **shared) for _ in range(2)
        )
        shared |= {"interaction": interaction, "n_critics": n_critics, "state_arch": state_arch, "form": critic}
        shared |= {"tower_kwargs": tower_kwargs}
        self.critic, self.critic_target = (self._network(Critic, net_arch=critic_arch, **shared) for _ in range(2))
        self.candidates = candidates
        self.learning = False
        """Whether `learn` is running: its callbacks get the policy as it acts, others one with fresh keys."""
        if candidates == "nearest" and refresh_every is not None:
            raise ValueError(f'refresh_every={refresh_every} is for candidates="critic" or "both"')
        self.search = None if candidates == "nearest" else CriticSearch(actions, self.critic, refresh_every)
        if predict_by not in PREDICTORS:
            raise ValueError(f"predict_by={predict_by!r}: give one of {', '.join(map(repr, PREDICTORS))}")
        self.predict_by = predict_by
        # One, once somebody asks; in a list, as torch would save it with the policy otherwise.
        self._target_search: list[CriticSearch] = []
        for network, target in ((self.actor, self.actor_target), (self.critic, self.critic_target)):
            target.load_state_dict(network.state_dict())  # line 2 of Algorithm 2
            target.set_training_mode(False)
            target.requires_grad_(False)
            parameters: Any = network.parameters()
            network.optimizer = optimizer_class(parameters, **{"lr": lr_schedule(1), **self.optimizer_kwargs})

    def _network(self, network_class: type, **kwargs: Any) -> Any:
        return network_class(
            self.observation_space,
            self.action_space,
            self.actions,
            features_extractor=self.make_features_extractor(),
            normalize_images=self.normalize_images,
            **kwargs,
        )

    def propose(self, actor: Actor, obs: PyTorchObs) -> Tensor:
        """Proto-actions (batch, dim); where the critic alone finds candidates nobody asks the actor for them."""
        if self.candidates != "critic":
            return actor(obs)
        batch = len(next(iter(obs.values())) if isinstance(obs, dict) else obs)
        return actor.scale.middle.expand(batch, -1)

    def nearest(self, proto: Tensor) -> Tensor:
        """g_k: the k actions of A closest to each proto-action (batch, k, ...)."""
        k = min(self.k, self.actions.n)  # actions may have been removed since k was set
        return torch.from_numpy(self.actions.nearest(proto.numpy(force=True), k)).to(proto.device)

    def embed(self, actions: Tensor) -> Tensor:
        """The vectors of actions, as float tensors on the actions' device."""
        return torch.from_numpy(self.actions.embed(actions.numpy(force=True))).to(actions.device, torch.float32)

    @torch.no_grad()
    def choose(self, obs: PyTorchObs, proto: Tensor, critic: Critic, search: CriticSearch | None = None) -> Choice:
        """The best by `critic` of the k actions nearest to `proto` (Algorithm 1 after its first line).

        Or of the k that the critic itself finds in all of A, or of both, as `candidates` says; by another `search` than
        that of training, if one is given.
        """
        features = critic.features(obs)
        if self.k >= self.actions.n and can_list(self.actions):  # nothing to look up
            blocks = list_actions(self.actions, max(1, CANDIDATES_AT_ONCE // max(1, len(proto))))
            shared = (torch.from_numpy(block).to(proto.device) for block in blocks)
            choice = reduce(Choice.or_better, (self._best_of(block, features, proto, critic) for block in shared))
        else:
            search = search or self._search_of_training()
            states = max(1, CANDIDATES_AT_ONCE // self.k)  # the candidates of a whole batch may not fit
            whole = features, proto, self.query(obs, proto, search)
            parts = zip(*(torch.split(tensor, states) for tensor in whole), strict=True)
            choice = reduce(Choice.join, (self._best_candidate(critic, search, *part) for part in parts))
        return choice

    def act(self, obs: PyTorchObs, proto: Tensor, critic: Critic, search: CriticSearch | None = None) -> Pick:
        """As `choose`, for those who want the action only: the value of a single candidate is of no use to them.

        A policy that chooses otherwise overrides this as well.
        """
        if self.k > 1 or self.candidates == "both":
            return self.choose(obs, proto, critic, search)
        search = search or self._search_of_training()
        with torch.no_grad(), self.clock("lookup"):
            return Pick(proto, self.find(proto, self.query(obs, proto, search), search)[:, 0])

    def _search_of_training(self) -> CriticSearch | None:
        """That of the critic as it was when it was last time to look."""
        if self.search is not None:
            with self.clock("search"):
                self.search.catch_up(self.critic)
        return self.search

    def query(self, obs: PyTorchObs, proto: Tensor, search: CriticSearch | None) -> Tensor:
        """What the critic's own candidates are looked for by (batch, width); the proto-action if there are none."""
        if search is None:
            return proto
        with self.clock("search"):
            return search.query(obs)

    def find(self, proto: Tensor, query: Tensor, search: CriticSearch | None) -> Tensor:
        """The candidates (batch, k, ...): those nearest to the proto-action first, then those that the critic finds."""
        if search is None:
            return self.nearest(proto)
        with self.clock("search"):
            found = search.best(query, self.k)
        return found if self.candidates == "critic" else torch.cat([self.nearest(proto), found], dim=1)

    def sources(self, candidates: Tensor) -> np.ndarray:
        """Where each of the candidates that `find` gave came from (batch, k)."""
        if self.candidates != "both":
            return np.full(candidates.shape[:2], self.candidates)
        digits = candidates.flatten(2) if candidates.dim() > 2 else candidates.unsqueeze(-1)
        whole = np.ascontiguousarray(digits.cpu().numpy())
        nearest, found = np.split(whole.view(np.dtype((np.void, whole[0, 0].nbytes)))[..., 0], 2, axis=1)
        rows = zip(nearest, found, strict=True)
        twice = np.stack([np.concatenate([np.isin(near, best), np.isin(best, near)]) for near, best in rows])
        return np.where(twice, "both", np.repeat(["nearest", "critic"], nearest.shape[1]))

    def _best_candidate(
        self, critic: Critic, search: CriticSearch | None, features: Tensor, proto: Tensor, query: Tensor
    ) -> Choice:
        with self.clock("lookup"):
            candidates = self.find(proto, query, search)  # (batch, k, ...)
        parts = torch.split(candidates, CANDIDATES_AT_ONCE, dim=1)  # one, unless k is huge
        return reduce(Choice.or_better, (self._best_of(part, features, proto, critic) for part in parts))

    def _best_of(self, candidates: Tensor, features: Tensor, proto: Tensor, critic: Critic) -> Choice:
        """The best of each state's own candidates (batch, k, ...), or of those that all states share (k, ...)."""
        with self.clock("lookup"):
            vectors = self.embed(candidates)  # ([batch,] k, dim)
        with self.clock("rerank"):
            best = self.best(critic, features, candidates, vectors)
            k = vectors.shape[-2]
            if vectors.dim() == 2:
                return Choice(proto, candidates[best.place], vectors[best.place], best.value, best.mean, None, k)
            chosen = torch.arange(len(proto), device=proto.device), best.place
            is_nearest = None if self.candidates == "critic" else best.place == 0
            return Choice(proto, candidates[chosen], vectors[chosen], best.value, best.mean, is_nearest, k)

    def best(self, critic: Critic, features: Tensor, candidates: Tensor, vectors: Tensor) -> Best:
        """The best by `critic` of given candidates and their vectors, re-ranked as `rerank` says."""
        if self.rerank == "exact":
            return exact(critic, features, vectors)
        has_ids = candidates.dim() == vectors.dim() - 1
        return screened(critic, features, vectors, lambda: self.favourites.among(candidates) if has_ids else None)

    def remember(self, choice: Choice) -> None:
        """What screening is to know of a choice in training; the policy as such has no memory."""
        if self.rerank == "screened":
            self.favourites.add(choice.action)

    def tick(self) -> None:
        """The critic has been updated."""
        for search in (self.search, *self._target_search):
            if search is not None:
                search.tick()

    def refresh(self) -> None:
        """Search by the critics as they are now."""
        self._target_search.clear()
        if self.search is not None:
            self.search.catch_up(self.critic, now=True)

    def predictor(self) -> tuple[Critic, CriticSearch | None]:
        """The critic that `predict` and `explain` go by, and its search: of now, or in `learn` of its last refresh.

        The target critic is an average of the critics of late: what one update believes in hardly sways it.
        """
        critic, search = self.critic, self.search
        if self.predict_by == "target":
            if search is not None and not self._target_search:
                self._target_search.append(CriticSearch(self.actions, self.critic_target, search.refresh_every))
            critic, search = self.critic_target, next(iter(self._target_search), None)
        if search is not None:
            with self.clock("search"):
                search.catch_up(critic, now=not self.learning)
        return critic, search

    @torch.no_grad()
    def action_vectors(self) -> Tensor:
        """psi of every action by a two-tower critic (n, width), those of several critics side by side."""
        if not self.critic.towers:
            raise ValueError('critic="mlp" learns no vectors of actions: make the agent with critic="two-tower"')
        require_listed(self.actions)
        assert can_list(self.actions)
        blocks = (
            torch.from_numpy(self.actions.embed(block)) for block in list_actions(self.actions, CANDIDATES_AT_ONCE)
        )
        inputs = (self.critic.scale.to_inputs(block.to(self.device, torch.float32)) for block in blocks)
        return torch.cat([self.critic.keys(block, values=False) for block in inputs])

    def forward(self, obs: PyTorchObs, deterministic: bool = False) -> Tensor:
        return self._predict(obs, deterministic)

    def _predict(self, observation: PyTorchObs, deterministic: bool = False) -> Tensor:
        return self.act(observation, self.propose(self.actor, observation), *self.predictor()).action

    def _apply(self, *args: Any, **kwargs: Any) -> Any:  # to another device
        self._target_search = []
        return super()._apply(*args, **kwargs)  # type: ignore[no-untyped-call]

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        self._target_search = []
        return super().load_state_dict(*args, **kwargs)

    def set_training_mode(self, mode: bool) -> None:
        _switch(self.actor, mode)
        _switch(self.critic, mode)
        self.training = mode

    def _get_constructor_parameters(self) -> dict[str, Any]:
        raise TypeError("a policy is saved with its agent: use agent.save(path) and Wolpertinger.load(path)")


def _switch(module: nn.Module, mode: bool) -> None:
    """`module.train(mode)`, which is called twice a step, in a tenth of its time."""
    if type(module).train is not nn.Module.train or isinstance(module, torch.jit.ScriptModule):  # its own ways
        module.train(mode)
        return
    vars(module)["training"] = mode
    for child in module._modules.values():
        if child is not None:
            _switch(child, mode)


class CnnPolicy(WolpertingerPolicy):
    """For images: Stable-Baselines3's NatureCNN in front."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"features_extractor_class": NatureCNN, **kwargs})


class MultiInputPolicy(WolpertingerPolicy):
    """For Dict observations: Stable-Baselines3's CombinedExtractor in front."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"features_extractor_class": CombinedExtractor, **kwargs})


@dataclass(frozen=True)
class Explanation:
    """Why the policy picked what it picked; the first axis is the batch when one was given."""

    proto: np.ndarray
    """The actor's proto-action (dim,); the middle of all vectors with candidates="critic", which asks no actor."""
    actions: np.ndarray
    """The k candidates, nearest first (k, ...); behind them those that the critic found, best first."""
    distances: np.ndarray
    """From the proto-action to each candidate (k,)."""
    q: np.ndarray
    """The critic's value of each candidate (k,)."""
    chosen: np.ndarray
    """The candidate with the largest value."""
    sources: np.ndarray
    """Where each candidate came from (k,): "nearest", "critic", or "both", which then stands twice."""
