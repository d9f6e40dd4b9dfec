"""Slates: ordered lists of distinct items, never enumerated."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import permutations, product
from math import perm
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from wolpertinger.actions.allowed import Actions, Allowed, Chosen, NoAllowedActionError, Vectors
from wolpertinger.actions.allowed_levels import MOST
from wolpertinger.actions.base import ActionSet, Floats, check_draw
from wolpertinger.actions.table import ActionTable
from wolpertinger.archive import Buffer, read_json, readable
from wolpertinger.index import check_k, check_queries, read_ids
from wolpertinger.settings import check_flag, check_number, show

CONFIG, ITEMS = "slate.json", "items/"
MAX_SLOTS = 1_024  # the number of slates takes that many digits, and their vectors the memory


class Slate(ActionSet):
    """Every ordered list of `size` items of another set, an environment's `MultiDiscrete([n] * size)`.

    :param items: the items, a set of ids such as `ActionTable(vectors)`.
    :param repeats: whether a slate may hold an item twice.

    A slate's vector is its items' vectors side by side. A state may allow some of the items.
    """

    kind = "slate"
    slots: int

    def __init__(self, items: ActionSet, size: int = 10, *, repeats: bool = False) -> None:
        if not isinstance(items, ActionSet) or not isinstance(items.space, spaces.Discrete):
            raise TypeError(f"items={show(items)}: give a set of ids, such as ActionTable(vectors)")
        check_number("size", size, least=1, most=MAX_SLOTS, whole=True)
        check_flag("repeats", repeats)
        if not repeats and items.n < size:
            raise ValueError(f"size={size}: {items.n} items do not fill a slate; give fewer slots or repeats=True")
        self.items, self.slots, self.repeats = items, int(size), repeats

    @property
    def space(self) -> spaces.MultiDiscrete:
        """One item per slot."""
        return spaces.MultiDiscrete([int(self.items.space.n)] * self.slots)  # type: ignore[union-attr]

    @property
    def n(self) -> int:
        """Number of slates."""
        return self.items.n**self.slots if self.repeats else perm(self.items.n, self.slots)

    @property
    def dim(self) -> int:
        """Length of a slate's vector."""
        return self.slots * self.items.dim

    @property
    def low(self) -> Floats:
        """Smallest coordinate, per dimension (dim,)."""
        return np.tile(self.items.low, self.slots)

    @property
    def high(self) -> Floats:
        """Largest coordinate, per dimension (dim,)."""
        return np.tile(self.items.high, self.slots)

    @property
    def is_listable(self) -> bool:
        """Never: slates are made, not looked up."""
        return False

    @property
    def version(self) -> int:
        """Changes whenever items are added or removed."""
        return self.items.version

    @property
    def sha256(self) -> str:
        """Fingerprint of items, slots and whether items may repeat."""
        return hashlib.sha256(f"{self.items.sha256} {self.slots} {self.repeats}".encode()).hexdigest()

    def embed(self, actions: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Vectors (..., dim) of slates (..., size)."""
        vectors = self.items.embed(self._read(actions))
        return vectors.reshape(*vectors.shape[:-2], self.dim)

    def holds(self, actions: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Whether each of these (..., size) is a slate: of items that are there, each once unless they may repeat."""
        slates = self._read(actions)
        return self.items.holds(slates).all(axis=-1) & (self.repeats | ~has_repeats(slates))

    def _read(self, actions: npt.ArrayLike) -> Actions:
        slates = read_ids(actions)
        if slates.shape[-1:] != (self.slots,):
            raise ValueError(f"slates have shape {slates.shape}: give (..., {self.slots}), an item per slot")
        return slates

    def sample(self, rng: np.random.Generator, n: int) -> Actions:
        """n slates drawn uniformly (n, size)."""
        check_draw(rng, n, self.slots * (self.items.n if self.slots**2 > self.items.n else 1))
        drawn = self.items.sample(rng, n * self.slots).reshape(n, self.slots)
        while not self.repeats and (again := has_repeats(drawn)).any():
            if self.slots * self.slots > self.items.n:  # most would have to be drawn again and again
                everything = np.concatenate(list(self.items.blocks(2**16)))
                return everything[rng.random((n, len(everything))).argsort(axis=1)[:, : self.slots]]
            drawn[again] = self.items.sample(rng, int(again.sum()) * self.slots).reshape(-1, self.slots)
        return drawn

    def near_items(self, protos: npt.NDArray[np.floating], m: int, allowed: Allowed | None = None) -> Actions:
        """For each slot the m items nearest to its part of a proto-action, nearest first (batch, size, m'); at least as
        many as there are slots, m' of them where fewer are allowed.
        """
        points = np.asarray(protos).reshape(-1, self.items.dim)
        wanted = min(max(m, 1 if self.repeats else self.slots), self.items.n)
        if allowed is None:
            near = self.items.nearest_at_most(points, wanted)
            return near.reshape(-1, self.slots, near.shape[1])
        each = allowed.states
        found = self.items.nearest_allowed(points, wanted, Allowed([own for own in each for _ in range(self.slots)]))
        longest = max(map(len, found.states))  # a short one repeats its last
        padded = [np.pad(own, (0, longest - len(own)), mode="edge") for own in found.states]
        return np.stack(padded).astype(np.int64).reshape(-1, self.slots, longest)

    def fill(self, near: Actions) -> Actions:
        """Slates (batch, size): each slot has the first of its items (batch, size, m) that no slot before it has."""
        slates = near[:, :, 0].copy()
        for slot in range(0 if self.repeats else self.slots):
            taken = (near[:, slot, :, None] == slates[:, None, :slot]).any(axis=-1)
            slates[:, slot] = np.take_along_axis(near[:, slot], taken.argmin(axis=1)[:, None], axis=1)[:, 0]
        return slates

    def nearest(self, protos: npt.ArrayLike, k: int) -> Actions:
        """k slates near each proto-action (batch, k, size), nearest first: one filled slot by slot, and those with one
        item exchanged.
        """
        return self._nearest(check_queries(protos, self.dim), check_k(k, self.n), None)

    def nearest_allowed(self, protos: npt.NDArray[np.floating], k: int, allowed: Allowed) -> Allowed:
        """The same of allowed items."""
        return Allowed(list(self._nearest(check_queries(protos, self.dim), k, allowed)))

    def _nearest(self, protos: npt.NDArray[np.float32], k: int, allowed: Allowed | None) -> Actions:
        near = self.near_items(protos, self.slots + k, allowed)
        first = self.fill(near)
        if k == 1:
            return first[:, None]
        others = np.repeat(first[:, None], near.shape[1] * near.shape[2], axis=1)
        others = others.reshape(*near.shape, self.slots)
        for slot in range(self.slots):
            others[:, slot, :, slot] = near[:, slot]
        slates = np.concatenate([first[:, None], others.reshape(len(near), -1, self.slots)], axis=1)
        # Equal ones stand beside each other after a stable sort by distance: what was there already goes last.
        distances = np.linalg.norm(self.embed(slates) - protos[:, None], axis=-1)
        distances[:, 1:][(slates[:, 1:] == first[:, None]).all(axis=-1)] = np.inf
        if not self.repeats:
            distances[has_repeats(slates)] = np.inf
        order = distances.argsort(axis=1, kind="stable")[:, :k]
        found = np.take_along_axis(slates, order[..., None], axis=1)
        short = np.isinf(np.take_along_axis(distances, order, axis=1))
        return np.where(short[..., None], first[:, None], found)  # where there are fewer, the first one again

    def to_files(self) -> Mapping[str, Buffer]:
        """The items' files, and how many slots there are; nothing if the items have none."""
        own = self.items.to_files() if self.items.kind == ActionTable.kind else {}
        config = json.dumps({"size": self.slots, "repeats": self.repeats}).encode()
        return {CONFIG: config, **{ITEMS + name: data for name, data in own.items()}} if own else {}

    @classmethod
    def from_files(cls, files: Mapping[str, bytes]) -> Self:
        """The slates from what `to_files` gave."""
        with readable(CONFIG):
            config = read_json(files[CONFIG])
            own = {name.removeprefix(ITEMS): data for name, data in files.items() if name.startswith(ITEMS)}
            check_number("size", config["size"], least=1, whole=True)
            if config["size"] > MAX_SLOTS:
                raise ValueError(f"size={config['size']}: {MAX_SLOTS} at most are read")
            return cls(ActionTable.from_files(own), config["size"], repeats=config["repeats"])

    def __repr__(self) -> str:
        return f"Slate({self.items!r}, size={self.slots}{', repeats=True' if self.repeats else ''})"


class AllowedItems(Allowed):
    """The allowed items of each state: whatever slates they make are allowed."""

    form = "items"

    def __init__(self, states: Sequence[npt.NDArray[Any]], slots: int, repeats: bool) -> None:
        super().__init__(states)
        self.slots, self.repeats = slots, repeats

    @cached_property
    def counts(self) -> Actions:
        """Slates per state (batch,), 2**62 where they are more."""
        own = [len(items) ** self.slots if self.repeats else perm(len(items), self.slots) for items in self.states]
        return np.array([min(count, MOST) for count in own], np.int64)

    def rows(self, chosen: Chosen) -> "AllowedItems":
        return AllowedItems(super().rows(chosen).states, self.slots, self.repeats)

    def listed(self) -> Allowed:
        """All slates."""
        made = ((product(own.tolist(), repeat=self.slots) if self.repeats else permutations(own.tolist(), self.slots))
                for own in self.states)  # fmt: skip
        return Allowed([np.array(list(slates), np.int64) for slates in made])

    def holds(self, actions: Sequence[Actions] | Actions) -> list[npt.NDArray[np.bool_]]:
        inside = [np.isin(own, items).all(axis=-1) for own, items in zip(actions, self.states, strict=True)]
        return [own & (self.repeats | ~has_repeats(slates)) for own, slates in zip(inside, actions, strict=True)]

    def sample(self, rng: np.random.Generator) -> Actions:
        return np.stack([rng.choice(own, self.slots, replace=self.repeats) for own in self.states]).astype(np.int64)

    def thin(self, rng: np.random.Generator, most: int) -> Allowed:
        return Allowed(list(np.stack([self.sample(rng) for _ in range(most)], axis=1)))

    def unpack(
        self, packed: Sequence[npt.NDArray[Any]], own_vectors: Sequence[Vectors] | None = None
    ) -> "AllowedItems":
        return AllowedItems(packed, self.slots, self.repeats)

    def only(self, actions: Actions, vectors: Vectors | None = None) -> "AllowedItems":
        """Just the items of one slate per state (batch, size)."""
        return AllowedItems([np.unique(own) for own in actions], self.slots, self.repeats)


def read_items(items: Allowed, slates: Slate, where: Any) -> AllowedItems:
    """The allowed slates of each state from its allowed items, if there are enough."""
    for number, own in enumerate(items.states):
        if not slates.repeats and len(own) < slates.slots:
            raise NoAllowedActionError(f"{where(number)} allows {len(own)} items: a slate holds {slates.slots}")
    return AllowedItems(items.states, slates.slots, slates.repeats)


def has_repeats(slates: Actions) -> npt.NDArray[np.bool_]:
    """Which slates (..., size) hold an item twice."""
    ordered = np.sort(slates, axis=-1)
    return (ordered[..., 1:] == ordered[..., :-1]).any(axis=-1)
