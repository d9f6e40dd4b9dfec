"""Candidates from the critic itself: the actions that a two-tower critic values most, out of all of A.

An action's part of such a critic, its key, does not depend on the state. Kept for all actions, the keys make "the best
of A" a matrix product, or an index for a million of them. They are worked out anew every so many updates; until then
the search goes by a copy of the critic as it was, and what it finds is re-ranked by the critics as they are.
"""

import copy
from time import perf_counter
from typing import Any

import torch
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.type_aliases import PyTorchObs
from torch import Tensor, nn

from wolpertinger.actions import ActionSet, ActionTable, can_list, list_actions
from wolpertinger.agent.networks import Critic
from wolpertinger.index import InnerProductIndex, largest_products

MOST = 2**24  # actions whose keys are kept: 4 GB of 65 numbers each
# Actions whose keys are worked out per update, on average, unless the user says how often: without and with an index,
# which has to be built anew as well, and at times tuned.
PER_UPDATE, PER_UPDATE_INDEXED = 400, 75
INDEXED = 200_000  # actions from which on an index takes the place of a product with all keys
RECALL = 0.95  # of that index
CHUNK = 2**14  # actions whose keys are worked out together
ASKED = 320  # states, the last ones: by those an index over new keys is judged, ...
COMPARED = 64  # ... and on so many of them the search is compared before and after a refresh


class CriticSearch(nn.Module):
    """The keys of all actions, by a copy of the critic, and the search in them. The copy is saved, the keys are not."""

    def __init__(self, actions: ActionSet, critic: Critic, refresh_every: int | None) -> None:
        super().__init__()
        require_listed(actions)
        if refresh_every is not None and refresh_every < 1:
            raise ValueError(f"refresh_every={refresh_every}: give a number of updates of at least 1, or None")
        self.actions = actions
        self.refresh_every = refresh_every
        self.critic = copy.deepcopy(critic).requires_grad_(False)
        self.critic.set_training_mode(False)
        self.age = 0
        """Updates of the critic since the copy was made."""
        self.agreement: float | None = None
        """In what share of the last states was the best action the same before and after the last refresh?"""
        self._keys: Tensor | None = None
        self._members = torch.empty(0)  # the actions, in the order of their keys
        self._version = 0  # of the table whose keys these are
        self._index: InnerProductIndex | None = None
        self._asked: list[tuple[int, Any]] = []  # the last batches of states, and how many each has
        self._k = 1  # that was asked for last
        self._seconds = 0.0  # without the tuning of the present index, which knows that of those before it

    @property
    def every(self) -> int:
        """Updates from one refresh to the next."""
        per_update = PER_UPDATE if self.actions.n < INDEXED else PER_UPDATE_INDEXED
        return max(1, self.actions.n // per_update) if self.refresh_every is None else self.refresh_every

    @property
    def seconds(self) -> float:
        """Spent on keys and their index, in all."""
        return self._seconds + self._tuning_seconds

    @property
    def _tuning_seconds(self) -> float:
        return 0.0 if self._index is None else self._index.tuning_seconds

    def tick(self) -> None:
        """The critic was updated."""
        self.age += 1

    def catch_up(self, critic: Critic, *, now: bool = False) -> None:
        """Go by this critic as it is, if it is time to, or `now`."""
        if self.age < (1 if now else self.every):
            return
        before = None if self._keys is None or self._has_changed or not self._asked else self._best_of_asked()
        self.critic.load_state_dict(critic.state_dict())
        self.age, self._keys = 0, None
        if before is not None:
            same = before == self._best_of_asked()
            self.agreement = same.flatten(1).all(dim=1).float().mean().item()

    def _best_of_asked(self) -> Tensor:
        return self.best(self._query(self._last_states(COMPARED)), self._k)[:, :1]  # an index is tuned for that k

    @torch.no_grad()
    def query(self, obs: PyTorchObs) -> Tensor:
        """What to look for in each state (batch, width): its product with a key is an action's value, but for u(s).

        Several critics are searched by their mean: all their queries side by side, and all their keys.
        """
        before = self._asked
        if before and _form(before[-1][1]) != _form(obs):
            before = []  # Discrete observations come otherwise from a buffer than from an environment
        asked = [*before, (_count(obs), obs)]
        while sum(count for count, _ in asked[1:]) >= ASKED:
            del asked[0]
        self._asked = asked  # in one step: other threads may predict
        return self._query(obs)

    def _last_states(self, count: int) -> PyTorchObs:
        """At most so many of the states that were asked about."""
        parts = [part for _, part in self._asked]
        if isinstance(parts[-1], dict):
            return {name: torch.cat([part[name] for part in parts])[-count:] for name in parts[-1]}
        return torch.cat(parts)[-count:]

    @torch.no_grad()
    def _query(self, obs: PyTorchObs) -> Tensor:
        features = self.critic.features(obs)
        return torch.cat([network.query(features)[0] for network in self.critic.towers], dim=1)

    @torch.no_grad()
    def best(self, query: Tensor, k: int) -> Tensor:
        """The k actions of A with the largest products, the largest first (batch, k, ...)."""
        keys = self.keys()
        k = min(k, len(keys))
        self._k = k
        if self._index is not None:
            return self._members[torch.from_numpy(self._index.search(query.numpy(force=True), k)).to(query.device)]
        return self._members[largest_products(query, keys, k)]

    def record(self, logger: Logger) -> None:
        """Write how old the keys are, what a refresh changed, and what all of them cost."""
        logger.record("search/age", self.age)
        logger.record("search/seconds", self.seconds)
        if self.agreement is not None:
            logger.record("search/agreement", self.agreement)

    @property
    def _has_changed(self) -> bool:
        """Whether actions were added or removed since the keys were worked out."""
        return isinstance(self.actions, ActionTable) and self.actions.version != self._version

    def keys(self) -> Tensor:
        """The keys of all actions (n, width), as of the last refresh."""
        if self._keys is None or self._has_changed:
            start = perf_counter() - self.seconds
            version = self.actions.version if isinstance(self.actions, ActionTable) else 0
            keys, members = self._work_out()
            self._index = self._index_over(keys, like=self._index)
            self._keys, self._members, self._version = keys, members, version
            self._seconds = perf_counter() - start - self._tuning_seconds
        return self._keys

    def _index_over(self, keys: Tensor, like: InnerProductIndex | None) -> InnerProductIndex | None:
        if len(keys) < INDEXED:
            return None
        is_next = like is not None and bool(self._asked)
        expected = self._query(self._last_states(ASKED)).numpy(force=True) if is_next else None
        return InnerProductIndex(keys.numpy(force=True), RECALL, previous=like, expected_queries=expected)

    @torch.no_grad()
    def _work_out(self) -> tuple[Tensor, Tensor]:
        assert can_list(self.actions)
        device = self.critic.scale.middle.device
        keys, members = [], []
        for block in list_actions(self.actions, CHUNK):
            vectors = torch.from_numpy(self.actions.embed(block)).to(device, torch.float32)
            keys.append(self.critic.keys(self.critic.scale.to_inputs(vectors)))
            members.append(torch.from_numpy(block))
        return torch.cat(keys), torch.cat(members).to(device)

    def get_extra_state(self) -> Tensor:
        return torch.tensor(self.age)

    def set_extra_state(self, state: Tensor) -> None:
        self.age, self._keys = int(state), None

    def _apply(self, *args: Any, **kwargs: Any) -> Any:  # to another device
        self._keys, self._asked = None, []
        return super()._apply(*args, **kwargs)  # type: ignore[no-untyped-call]

    def __getstate__(self) -> dict[str, Any]:  # of a copy, whose table may come to other actions
        return {**vars(self), "_keys": None, "_asked": [], "_index": None}


def _form(obs: PyTorchObs) -> Any:
    """What batches must share to be put together."""
    return {name: part.shape[1:] for name, part in obs.items()} if isinstance(obs, dict) else obs.shape[1:]


def _count(obs: PyTorchObs) -> int:
    """States of a batch."""
    return len(next(iter(obs.values())) if isinstance(obs, dict) else obs)


def require_listed(actions: ActionSet) -> None:
    """Refuse sets that cannot be gone through."""
    if not can_list(actions) or actions.n > MOST:
        raise ValueError(
            f"{actions!r} is too large to go through: {actions.n} actions, {MOST} at most; "
            'with candidates="nearest" the critic need not'
        )
