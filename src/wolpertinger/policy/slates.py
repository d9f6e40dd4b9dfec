"""Slates as candidates: filled slot by slot by the Wolpertinger policy, or the top items by their single values."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from wolpertinger.actions import ActionSet, Allowed, Slate
from wolpertinger.networks import Critic
from wolpertinger.policy.candidates import Candidates, RaggedCandidates
from wolpertinger.policy.scoring import evaluate
from wolpertinger.policy.sources import CandidateSource
from wolpertinger.policy.states import States
from wolpertinger.settings import Settings

ITEMS_AT_ONCE = 2**14


def require_slates(actions: ActionSet, name: str) -> Slate:
    """The set, if its actions are slates."""
    if not isinstance(actions, Slate):
        raise TypeError(f'candidates="{name}" makes slates of {actions!r}: give actions=Slate(items, size=...)')
    return actions


@dataclass(frozen=True)
class SlotBySlot(Settings):
    """Slates whose slots are filled one after the other, each with the best of k items given the slots before it."""

    kind: ClassVar[str] = "slots"
    needs_actor: ClassVar[bool] = True

    def __call__(self, actions: ActionSet, critic: Critic) -> CandidateSource:
        return SlotBySlotSource(require_slates(actions, self.kind), critic)


class SlotBySlotSource(CandidateSource):
    """The sequential policy of Slate MDPs (Sunehag et al., 2015), its slots filled by Algorithm 1.

    All slots begin with the items nearest to the proto-action. In turn each gets the best, by the critic of slates, of
    the k items nearest to its part of the proto-action; an item of a later slot changes places with it.
    """

    actions: Slate

    def find(self, states: States, k: int) -> Candidates:
        return Candidates(self._fill(states, k).unsqueeze(1), SlotBySlot.kind)

    def find_allowed(self, states: States, k: int) -> RaggedCandidates:
        return RaggedCandidates(Allowed(list(self._fill(states, k).unsqueeze(1).numpy(force=True))), (SlotBySlot.kind,))

    @torch.no_grad()
    def _fill(self, states: States, k: int) -> Tensor:
        """Slates (batch, size)."""
        assert states.proto is not None
        near = self.actions.near_items(states.proto.numpy(force=True), k + self.actions.slots - 1, states.allowed)
        slates, features = self.actions.fill(near), self.critic.features(states.obs)
        rows = np.arange(len(slates))
        for slot in range(self.actions.slots):
            tried = self._with_slot(slates, slot, near[:, slot], k)  # (batch, m, size)
            vectors = torch.from_numpy(self.actions.embed(tried)).to(features.device, torch.float32)
            best = evaluate(self.critic, features, vectors).argmax(dim=1).numpy(force=True)
            slates = tried[rows, best]
        return torch.from_numpy(slates).to(features.device)

    def _with_slot(self, slates: np.ndarray, slot: int, items: np.ndarray, k: int) -> np.ndarray:
        """Slates (batch, m, size) with one slot's item replaced by each of `items` (batch, m), k new ones at most."""
        tried = np.repeat(slates[:, None], items.shape[1], axis=1)
        tried[:, :, slot] = items
        if self.actions.repeats:
            return tried[:, :k]
        later = tried[:, :, slot + 1 :]
        later[:] = np.where(later == items[..., None], slates[:, None, slot, None], later)
        taken = (slates[:, None, :slot] == items[..., None]).any(axis=-1)  # by a slot before this one
        tried[taken] = np.broadcast_to(slates[:, None], tried.shape)[taken]
        first = np.argsort(taken, axis=1, kind="stable")[:, :k]  # those that are not taken, nearest first
        return np.take_along_axis(tried, first[..., None], axis=1)


@dataclass(frozen=True)
class TopItems(Settings):
    """The slate of the items with the largest single values, best first; for `critic="per-item"`, the best of all."""

    kind: ClassVar[str] = "top"
    needs_actor: ClassVar[bool] = False

    def __call__(self, actions: ActionSet, critic: Critic) -> CandidateSource:
        return TopItemsSource(require_slates(actions, self.kind), critic)


class TopItemsSource(CandidateSource):
    """Top-k of single-item values, out of all items."""

    needs_actor = False
    actions: Slate

    def __init__(self, actions: Slate, critic: Critic) -> None:
        super().__init__(actions, critic)
        if not all(hasattr(network, "of_item") for network in critic.networks):
            raise ValueError('candidates="top" needs values of single items: give critic="per-item"')

    @torch.no_grad()
    def find(self, states: States, k: int) -> Candidates:
        items, values = self._values(states)
        slots = 1 if self.actions.repeats else self.actions.slots
        best = items[values.topk(slots, dim=1).indices]
        return Candidates(best.expand(-1, self.actions.slots).unsqueeze(1), TopItems.kind)

    @torch.no_grad()
    def find_allowed(self, states: States, k: int) -> RaggedCandidates:
        assert states.allowed is not None
        items, values = self._values(states)
        ids, found = items.numpy(force=True), []
        for own, value in zip(states.allowed.states, values, strict=True):
            places = torch.from_numpy(np.searchsorted(ids, own)).to(value.device)
            slots = 1 if self.actions.repeats else self.actions.slots
            best = own[value[places].topk(slots).indices.numpy(force=True)].astype(np.int64)
            found.append(np.broadcast_to(best, (1, self.actions.slots)))
        return RaggedCandidates(Allowed(found), (TopItems.kind,))

    def _values(self, states: States) -> tuple[Tensor, Tensor]:
        """All items (n,), ascending, and their values in each state (batch, n): the least of several critics'."""
        features, scale = self.critic.features(states.obs), self.critic.scale
        networks = [network.in_states(features, scale) for network in self.critic.networks]
        items, values = [], []
        for block in self.actions.items.blocks(ITEMS_AT_ONCE):
            vectors = torch.from_numpy(self.actions.items.embed(block)).to(features.device, torch.float32)
            values.append(torch.stack([network.of_items(vectors) for network in networks]).amin(dim=0))
            items.append(torch.from_numpy(block))
        return torch.cat(items).to(features.device), torch.cat(values, dim=1)
