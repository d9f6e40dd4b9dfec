"""An action set given as a product: every combination of one level per factor, never enumerated."""

import copy
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from math import ceil, log2, prod
from typing import Literal, Self

import numpy as np
import numpy.typing as npt
import safetensors.numpy
from gymnasium import spaces

from wolpertinger.actions.allowed import Allowed
from wolpertinger.actions.allowed_levels import AllowedLevels
from wolpertinger.actions.base import MAX_ID, Actions, ActionSet, ActionSpace, same_actions
from wolpertinger.actions.factor import Digits, Factor, Reals, as_slice, check_levels, group_factors, share_factors
from wolpertinger.actions.fold import Fold, nearest_combinations
from wolpertinger.archive import Buffer, read_arrays, read_json, readable
from wolpertinger.index import as_array, check_ids, check_k, check_queries
from wolpertinger.settings import check_memory, show

Space = ActionSpace | Literal["discrete", "multidiscrete"]
CONFIG, LEVELS = "product.json", "levels.safetensors"

BLOCK_BYTES = 1 << 25  # temporaries of a lookup
TABLE_ROWS, MAX_FACTORS = 4096, 2**20


class ActionProduct(ActionSet):
    """Every combination of one level per factor: discretised controls, plans of n steps.

    `levels` holds, per factor, scalars (i,) or vectors (i, m); an action's vector is its levels side by side.
    Actions are ids, the first factor being the most significant digit, or digits where the ids would not fit 63 bits;
    `space` ("discrete", "multidiscrete" or a Gymnasium space of the right size) chooses.
    """

    kind = "product"

    def __init__(self, levels: Sequence[npt.ArrayLike], *, space: Space | None = None) -> None:
        is_text = isinstance(levels, str | bytes | np.ma.MaskedArray)
        if is_text or not isinstance(levels, Sequence | np.ndarray) or not getattr(levels, "ndim", 1):
            raise TypeError(f"levels={show(levels)}: give a list with the levels of each factor")
        if len(levels) > MAX_FACTORS:
            raise ValueError(f"levels of {len(levels):,} factors: give {MAX_FACTORS:,} at most")
        factors = share_factors([check_levels(number, factor) for number, factor in enumerate(levels)])
        if not len(levels):
            raise ValueError("levels are empty: give at least one factor, such as [np.linspace(-1, 1, 21)]")
        self._factors = factors
        self._scalar = [np.ndim(factor) == 1 for factor in levels]
        self._sizes = tuple(factor.n for factor in factors)
        self._nvec = np.array(self._sizes, np.int64)
        self._n = prod(self._sizes)
        self._dim = sum(factor.width for factor in factors)
        self._groups = group_factors(factors)
        self._parts, self._factor_of, self._start = _lay_out(factors)
        self._at_once: dict[int, int] = {}  # queries, by k
        self._space = self._resolve_space(space)

    @property
    def space(self) -> ActionSpace:
        """What the environment takes: ids (`Discrete`) or digits (`MultiDiscrete`)."""
        return self._space

    @property
    def n(self) -> int:
        """Number of actions: a Python int, which may be 2**100."""
        return self._n

    @property
    def dim(self) -> int:
        """Length of an action's vector."""
        return self._dim

    @property
    def levels(self) -> tuple[Reals, ...]:
        """The levels of each factor, (i,) or (i, m), read-only."""
        pairs = zip(self._factors, self._scalar, strict=True)
        return tuple(factor.levels[:, 0] if scalar else factor.levels for factor, scalar in pairs)

    @cached_property
    def low(self) -> npt.NDArray[np.float32]:
        """Smallest coordinate of any action, per dimension (dim,)."""
        return np.concatenate([factor.levels.min(axis=0) for factor in self._factors]).astype(np.float32)

    @cached_property
    def high(self) -> npt.NDArray[np.float32]:
        """Largest coordinate of any action, per dimension (dim,)."""
        return np.concatenate([factor.levels.max(axis=0) for factor in self._factors]).astype(np.float32)

    @cached_property
    def sha256(self) -> str:
        """Fingerprint of the levels: their type, shapes and bytes. The space is not part of it."""
        digest = hashlib.sha256()
        for factor in self._factors:
            digest.update(f"{factor.levels.dtype.str} {factor.levels.shape} ".encode())
            digest.update(factor.levels.data)
        return digest.hexdigest()

    @property
    def is_ordinal(self) -> bool:
        """Whether every factor is a scale of numbers."""
        return all(factor.width == 1 for factor in self._factors)

    def with_space(self, space: Space) -> "ActionProduct":
        """The same set with actions in the form of another space."""
        other = copy.copy(self)
        other._space = self._resolve_space(space)
        return other

    def digits(self, ids: npt.ArrayLike) -> Digits:
        """Digits (..., d), one per factor, of the actions with these ids (...)."""
        self._check_ids_fit()
        checked = check_ids(ids, self._n)
        if len(self._sizes) == 1:
            return checked[..., None].copy()
        # Half the time of a stack of the columns.
        columns = np.array(np.unravel_index(checked.ravel(), self._sizes), np.int64)
        return columns.T.reshape(*checked.shape, len(self._sizes))

    def ids(self, digits: npt.ArrayLike) -> Actions:
        """Ids (...) of the actions with these digits (..., d)."""
        self._check_ids_fit()
        return self._check_digits(digits) @ self._place_values

    def embed(self, actions: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Vectors (..., dim) of actions: ids (...) or digits (..., d), whichever the space has."""
        if not self._has_ids:
            return self._embed_digits(self._check_digits(actions))
        ids = check_ids(actions, self._n)
        if len(self._tables) == 1:
            return self._tables[0].take(ids, axis=0)
        vectors, end = np.empty((*ids.shape, self._dim), np.float32), self._dim
        for table in reversed(self._tables):
            ids, place = np.divmod(ids, len(table))
            vectors[..., end - table.shape[1] : end] = table.take(place, axis=0)
            end -= table.shape[1]
        return vectors

    def nearest(self, protos: npt.ArrayLike, k: int) -> Actions:
        """The k distinct actions closest to each proto-action (batch, dim), nearest first: ids (batch, k) or
        digits (batch, k, d). Exact in float64, ties by id. The cost follows k and the factors, not n.
        """
        k = check_k(k, self._n)
        check_queries(protos, self.dim)
        queries = np.asarray(protos, np.float64)
        if k not in self._at_once:
            check_memory(f"k={k:,}", needed := self._bytes_per_query(k))
            self._at_once[k] = max(1, BLOCK_BYTES // needed)
        step = self._at_once[k]
        if 0 < len(queries) <= step:
            return self._nearest(queries, k)
        shape = (k,) if self._has_ids else (k, len(self._factors))
        check_memory(f"k={k:,} for {len(queries):,} proto-actions", 8 * len(queries) * prod(shape))
        found = np.empty((len(queries), *shape), np.int64)
        for start in range(0, len(queries), step):
            found[start : start + step] = self._nearest(queries[start : start + step], k)
        return found

    def nearest_allowed(self, protos: npt.NDArray[np.floating], k: int, allowed: Allowed) -> Allowed:
        """The k of each state's allowed actions that are closest to its proto-action; exact, whatever n, for levels."""
        if not isinstance(allowed, AllowedLevels):
            return super().nearest_allowed(protos, k, allowed)
        queries = check_queries(protos, self.dim).astype(np.float64)
        return Allowed(nearest_combinations(self._factors, queries, k, allowed))

    @property
    def factors(self) -> tuple[int, ...]:
        """Levels of each factor."""
        return self._sizes

    def to_files(self) -> Mapping[str, Buffer]:
        """The levels, and the form of the actions."""
        levels = {f"levels.{number}": np.ascontiguousarray(level) for number, level in enumerate(self.levels)}
        config = {"factors": len(self._factors), "space": "discrete" if self._has_ids else "multidiscrete"}
        return {CONFIG: json.dumps(config).encode(), LEVELS: safetensors.numpy.save(levels)}

    @classmethod
    def from_files(cls, files: Mapping[str, bytes]) -> Self:
        """The product from what `to_files` gave."""
        with readable(CONFIG):
            config, levels = read_json(files[CONFIG]), read_arrays(files[LEVELS])
            if config["factors"] != len(levels) or config["space"] not in ("discrete", "multidiscrete"):
                raise ValueError(f"{config} for levels of {len(levels)} factors")
            return cls([levels[f"levels.{number}"] for number in range(len(levels))], space=config["space"])

    def __repr__(self) -> str:
        return f"ActionProduct(n={show(self._n)}, factors={len(self._factors)}, dim={self.dim}, space={self._space})"

    def _embed_digits(self, digits: Digits) -> npt.NDArray[np.float32]:
        places = digits[..., self._factor_of] + self._start
        return self._parts.take(places, axis=0).reshape(*digits.shape[:-1], self._dim)

    @cached_property
    def _tables(self) -> list[npt.NDArray[np.float32]]:
        """The vectors of all combinations of a few neighbouring factors at a time, of TABLE_ROWS at most if they are
        several: an id is so many places in them, and 5 times as fast to embed as by its digits.
        """
        runs: list[list[Factor]] = []
        for factor in self._factors:
            if runs and prod(other.n for other in runs[-1]) * factor.n <= TABLE_ROWS:
                runs[-1].append(factor)
            else:
                runs.append([factor])
        products = [ActionProduct([factor.levels for factor in run], space="multidiscrete") for run in runs]
        return [part._embed_digits(part.digits(np.arange(part.n))) for part in products]

    def _nearest(self, queries: Reals, k: int) -> Actions:
        if k == 1:
            digits = self._nearest_one(queries)[:, None]
            if not self._has_ids:
                return digits
            return digits[..., 0] if len(self._factors) == 1 else digits @ self._place_values
        fold = Fold(*self._nearest_levels(queries, k), self._sizes, k)
        return fold.ids() if self._has_ids else fold.digits()

    def _nearest_one(self, queries: Reals) -> Digits:
        """Digits (batch, d) of the nearest action: of the nearest level of each factor by itself."""
        if len(self._groups) == 1:  # all factors have the same levels, side by side
            return self._factors[0].nearest_one(queries.reshape(-1, self._factors[0].width)).reshape(len(queries), -1)
        digits = np.empty((len(queries), len(self._factors)), np.int64)
        for factor, _, numbers, columns in self._groups:
            digit = factor.nearest_one(queries[:, columns].reshape(-1, factor.width))
            digits[:, numbers] = digit.reshape(len(queries), -1)
        return digits

    def _nearest_levels(self, queries: Reals, k: int) -> tuple[list[Digits], list[Reals]]:
        """Per factor, digits and squared distances (batch, min(i, k)) of the levels nearest to its part of a query."""
        digits: list[Digits] = [np.empty(0, np.int64)] * len(self._factors)
        distances: list[Reals] = [np.empty(0)] * len(self._factors)
        for factor, _, numbers, columns in self._groups:
            digit, distance = factor.nearest(queries[:, columns].reshape(-1, factor.width), min(k, factor.n))
            shape = (len(queries), -1, digit.shape[1])
            for place, number in enumerate(np.arange(len(self._factors))[numbers]):
                digits[number] = digit.reshape(shape)[:, place]
                distances[number] = distance.reshape(shape)[:, place]
        return digits, distances

    def _bytes_per_query(self, k: int) -> int:
        levels = sum(group.factor.candidates(min(k, group.factor.n)) * group.size for group in self._groups)
        widest = max(min(k, group.factor.n) for group in self._groups)
        pairs = k * ceil(1 + log2(widest))
        return 8 * (8 * levels + 8 * pairs + 2 * k * len(self._factors))

    @cached_property
    def _place_values(self) -> Digits:
        """What a step of each digit adds to an id (d,)."""
        return np.array([prod(self._sizes[after:]) for after in range(1, len(self._sizes) + 1)], np.int64)

    @property
    def _has_ids(self) -> bool:
        return isinstance(self._space, spaces.Discrete)

    def _check_ids_fit(self) -> None:
        if self._n >= MAX_ID:
            raise ValueError(f"{show(self._n)} actions are too many for ids in 63 bits: use digits (MultiDiscrete)")

    def _check_digits(self, digits: npt.ArrayLike) -> Digits:
        array = as_array("digits", digits)
        if array.ndim == 0 or array.shape[-1] != len(self._nvec):
            raise ValueError(f"digits have shape {array.shape}: give (..., {len(self._nvec)}), one per factor")
        return check_ids(array, self._nvec)

    def _resolve_space(self, space: Space | None) -> ActionSpace:
        if space is None:
            space = "discrete" if self._n < MAX_ID else "multidiscrete"
        named = space if isinstance(space, str) else None
        if named == "multidiscrete":
            return spaces.MultiDiscrete(self._nvec)
        if named == "discrete" or isinstance(space, spaces.Discrete):
            self._check_ids_fit()
        if named == "discrete":
            return spaces.Discrete(self._n)
        if isinstance(space, spaces.Discrete | spaces.MultiDiscrete) and not np.any(space.start):
            own = spaces.Discrete(self._n) if isinstance(space, spaces.Discrete) else spaces.MultiDiscrete(self._nvec)
            if same_actions(own, space):
                return space
        raise ValueError(
            f"space={named or show(space)} does not fit {show(self._n)} actions of {len(self._nvec)} factors: "
            f'give Discrete({show(self._n)}), MultiDiscrete({show(self._nvec.tolist())}), "discrete" or "multidiscrete"'
        )


def _lay_out(factors: list[Factor]) -> tuple[npt.NDArray[np.float32], Digits | slice, Digits]:
    """All levels, those of equal factors once, cut into parts of one width; and, for each part of an action's vector,
    its factor and where the parts of that one's levels begin: one `take` embeds any number of actions.
    """
    width = int(np.gcd.reduce([factor.width for factor in factors]))
    cut = {
        factor: factor.levels.astype(np.float32).reshape(factor.n, -1, width).swapaxes(0, 1)  # (parts, levels, width)
        for factor in dict.fromkeys(factors)
    }
    parts = [levels.reshape(-1, width) for levels in cut.values()]
    first = dict(zip(cut, np.cumsum([0, *map(len, parts)]).tolist(), strict=False))
    factor_of = np.repeat(np.arange(len(factors)), [len(cut[factor]) for factor in factors])
    start = np.concatenate([first[factor] + factor.n * np.arange(len(cut[factor])) for factor in factors])
    return np.concatenate(parts), as_slice(factor_of), start
