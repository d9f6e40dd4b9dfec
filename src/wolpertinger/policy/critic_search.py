"""Candidates from the critic itself: the actions that a two-tower critic values most, out of all of A.

An action's part of such a critic, its key, does not depend on the state. Kept for all actions, the keys make "the best
of A" a matrix product, or an index for a million of them. They are refreshed every so many updates; until then the
search goes by a snapshot of the critic, and what it finds is re-ranked by the critic as it is.
"""

import copy
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, ClassVar

import torch
from stable_baselines3.common.type_aliases import PyTorchObs
from torch import Tensor

from wolpertinger.actions import ActionSet, TooManyActionsError
from wolpertinger.index import InnerProductIndex, largest_products
from wolpertinger.networks import Critic
from wolpertinger.networks.forms import check_forms
from wolpertinger.policy.allowed_search import best_allowed, narrow_by_keys
from wolpertinger.policy.candidates import Candidates, RaggedCandidates
from wolpertinger.policy.keys import Keys
from wolpertinger.policy.sources import CandidateSource, Nearest, SourceFactory, UnionSource
from wolpertinger.policy.states import States
from wolpertinger.settings import Settings, check_number, read_settings, show

MAX_KEYS = 2**24  # actions whose keys are kept: 4 GB of 65 numbers each
# Keys refreshed per update, on average, unless the user says how often: without and with an index, which has to be
# built anew as well, and at times tuned.
KEYS_PER_UPDATE, INDEXED_KEYS_PER_UPDATE = 400, 75
# A young critic changes fast: keys are at most this many updates old, or this share of all updates.
YOUNG_UPDATES, YOUNG_SHARE = 32, 1 / 8
INDEXED_FROM = 200_000  # actions from which on an index takes the place of a product with all keys, ...
SCANNED_QUERIES = 4_096  # ... once so many queries were asked of the same keys: fewer do not pay for tuning
RECALL = 0.95  # of that index
RECENT_STATES = 320  # by which an index over new keys is judged, ...
COMPARED_STATES = 64  # ... and on so many of them the search is compared before and after a refresh, ...
COMPARED_EVERY = 32  # ... updates apart at least


@dataclass(frozen=True)
class BestByCritic(Settings):
    """The k actions that a two-tower critic values most in all of A (several critics: by their mean)."""

    kind: ClassVar[str] = "critic"
    needs_actor: ClassVar[bool] = False
    refresh_every: int | None = None
    """Updates of the critic between two refreshes of the keys; None: more for larger sets."""

    def __post_init__(self) -> None:
        check_number("refresh_every", self.refresh_every, least=1, whole=True, optional=True)

    def __call__(self, actions: ActionSet, critic: Critic) -> CandidateSource:
        return CriticSearch(actions, critic, self.refresh_every)


@dataclass(frozen=True)
class Union(Settings):
    """k candidates from each of several sources."""

    kind: ClassVar[str] = "both"
    sources: tuple[SourceFactory, ...] = field(default_factory=lambda: (Nearest(), BestByCritic()))

    def __post_init__(self) -> None:
        if not isinstance(self.sources, list | tuple) or len(self.sources) < 2:
            raise ValueError(f"sources={show(self.sources)}: give two or more, such as (Nearest(), BestByCritic())")
        known = {"nearest": Nearest, "critic": BestByCritic}
        read = (part if isinstance(part, Settings) else read_settings("sources", part, known) for part in self.sources)
        object.__setattr__(self, "sources", tuple(read))

    @property
    def needs_actor(self) -> bool:
        """Whether any of the sources needs proto-actions."""
        return any(getattr(source, "needs_actor", True) for source in self.sources)

    def __call__(self, actions: ActionSet, critic: Critic) -> CandidateSource:
        return UnionSource(actions, critic, self.sources)


class CriticSearch(CandidateSource):
    """The keys of all actions, by a snapshot of the critic, and the search in them."""

    needs_actor = False
    finds_all = True

    def __init__(self, actions: ActionSet, critic: Critic, refresh_every: int | None) -> None:
        super().__init__(actions, critic)
        if not critic.has_keys:
            raise ValueError('candidates="critic" needs a critic that can search all of A: give critic="two-tower"')
        if not actions.is_listable or actions.n > MAX_KEYS:
            raise TooManyActionsError(
                f"{actions!r} is too large to go through: {actions.n} actions, {MAX_KEYS} at most; "
                'with candidates="nearest" the critic need not'
            )
        self.refresh_every = refresh_every
        self.snapshot = copy.deepcopy(critic).requires_grad_(False)
        self.snapshot.set_training_mode(False)
        self.age = 0
        """Updates of the critic since the snapshot."""
        self.agreement: float | None = None
        """Share of recent states whose best action was the same before and after the last refresh."""
        self._expired = False
        self._updates = 0
        self._compared_at: int | None = None  # by updates
        self._forget()
        self._seconds = 0.0  # without the tuning of the present index, which counts its own

    def _forget(self) -> None:
        self._keys: Keys | None = None
        self._last_index: InnerProductIndex | None = None  # which the next one goes on from
        self._recent: list[States] = []
        self._recent_count = 0
        self._k = 1  # of the last search

    @property
    def every(self) -> int:
        """Updates from one refresh to the next."""
        if self.refresh_every is not None:
            return self.refresh_every
        per_update = KEYS_PER_UPDATE if self.actions.n < INDEXED_FROM else INDEXED_KEYS_PER_UPDATE
        while_young = max(YOUNG_UPDATES, int(self._updates * YOUNG_SHARE))
        return max(1, min(self.actions.n // per_update, while_young))

    @property
    def seconds(self) -> float:
        """Spent on keys and their index, in all."""
        return self._seconds + self._tuning_seconds

    @property
    def _tuning_seconds(self) -> float:
        return 0.0 if self._last_index is None else self._last_index.tuning_seconds

    def critic_updated(self) -> None:
        self.age += 1
        self._updates += 1

    def expire(self) -> None:
        self._expired = True

    @torch.no_grad()
    def find(self, states: States, k: int) -> Candidates:
        self._refresh_if_due()
        self._remember(states)
        return Candidates(self.best(self.snapshot.queries(states.obs), k), BestByCritic.kind)

    @torch.no_grad()
    def find_allowed(self, states: States, k: int) -> RaggedCandidates:
        assert states.allowed is not None
        self._refresh_if_due()
        return RaggedCandidates(best_allowed(self, states, k), (BestByCritic.kind,))

    @torch.no_grad()
    def narrow(self, states: States, k: int) -> States:
        self._refresh_if_due()
        return narrow_by_keys(self, states, k)

    def _refresh_if_due(self) -> None:
        if self.snapshot.scale.middle.device != self.critic.scale.middle.device:  # the policy was moved
            self.snapshot.to(self.critic.scale.middle.device)
            self._forget()
        if self.age < (1 if self._expired else self.every):
            return
        is_comparable = self._keys is not None and self._keys.version == self.actions.version and self._recent
        # Only the log needs it, so it is not done at every refresh of small sets, which come with every update.
        is_due = self._compared_at is None or self._updates - self._compared_at >= COMPARED_EVERY
        before = self._best_of_recent() if is_comparable and is_due else None
        self.snapshot.load_state_dict(self.critic.state_dict())
        self.age, self._keys, self._expired = 0, None, False
        if before is not None:
            same = before == self._best_of_recent()
            self.agreement = same.flatten(1).all(dim=1).float().mean().item()
            self._compared_at = self._updates

    def _best_of_recent(self) -> Tensor:
        # For the k of the last search, which an index is tuned for.
        return self.best(self.snapshot.queries(self._recent_obs(COMPARED_STATES)), self._k)[:, :1]

    def _remember(self, states: States) -> None:
        count, before = self._recent_count, self._recent
        if before and _form(before[-1].obs) != _form(states.obs):
            count, before = 0, []  # Discrete observations come otherwise from a buffer than from an environment
        recent, count, first = [*before, States(states.obs)], count + len(states), 0
        while count - len(recent[first]) >= RECENT_STATES:
            count, first = count - len(recent[first]), first + 1
        self._recent, self._recent_count = recent[first:], count  # in one step: other threads may predict

    def _recent_obs(self, count: int) -> PyTorchObs:
        parts: list[Any] = [states.obs for states in self._recent]
        if isinstance(parts[-1], dict):
            return {name: torch.cat([part[name] for part in parts])[-count:] for name in parts[-1]}
        return torch.cat(parts)[-count:]

    @torch.no_grad()
    def best(self, queries: Tensor, k: int) -> Tensor:
        """The k actions of A with the largest products with each query, the largest first (batch, k, ...)."""
        keys = self.keys()
        self._k = k = min(k, len(keys))
        keys.asked += len(queries)
        if keys.index is None and keys.asked > SCANNED_QUERIES and len(keys) >= INDEXED_FROM:
            keys.index = self._last_index = self._index_over(keys.vectors)
        if keys.index is None:
            return keys.members[largest_products(queries, keys.vectors, k)]
        return keys.members[torch.from_numpy(keys.index.search(queries.numpy(force=True), k)).to(queries.device)]

    @property
    def has_index(self) -> bool:
        """Whether a search does without a product with all keys."""
        return self._keys is not None and self._keys.index is not None

    def keys(self) -> Keys:
        """The keys of all actions, as of the last refresh."""
        keys = self._keys
        if keys is None or keys.version != self.actions.version:
            start = perf_counter()
            self._keys = keys = Keys.of(self.actions, self.snapshot)
            self._seconds += perf_counter() - start
        return keys

    def _index_over(self, keys: Tensor) -> InnerProductIndex:
        start = perf_counter() - self.seconds
        previous, expected = self._last_index, None
        if previous is not None and self._recent:
            expected = self.snapshot.queries(self._recent_obs(RECENT_STATES)).numpy(force=True)
        index = InnerProductIndex(keys.numpy(force=True), RECALL, previous=previous, expected_queries=expected)
        self._seconds = perf_counter() - start - index.tuning_seconds
        return index

    def stats(self) -> dict[str, float]:
        """Key staleness in updates, what the last refresh changed, and what all of them cost."""
        agreement = {} if self.agreement is None else {"agreement": self.agreement}
        return {"staleness": self.age, "seconds": self.seconds, **agreement}

    def state_dict(self) -> dict[str, Tensor]:
        snapshot = {f"snapshot.{name}": tensor for name, tensor in self.snapshot.state_dict().items()}
        counts = {"staleness": self.age, "updates": self._updates, "expired": self._expired}
        return {**{name: torch.tensor(count) for name, count in counts.items()}, **snapshot}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        check_forms(state, self.state_dict())
        own = {name: tensor for name, tensor in state.items() if name.startswith("snapshot.")}
        self.snapshot.load_state_dict({name.removeprefix("snapshot."): tensor for name, tensor in own.items()})
        age, updates = int(state["staleness"]), int(state["updates"])
        if not 0 <= age <= updates:
            raise ValueError(f"keys are {age} updates old, after {updates} updates")
        self.age, self._updates, self._expired, self._keys = age, updates, bool(state["expired"]), None

    def __getstate__(self) -> dict[str, Any]:  # of a copy, whose table may come to other actions
        return {**vars(self), "_keys": None, "_recent": [], "_recent_count": 0, "_last_index": None}


def _form(obs: PyTorchObs) -> Any:
    """What batches must share to be put together."""
    return {name: part.shape[1:] for name, part in obs.items()} if isinstance(obs, dict) else obs.shape[1:]
