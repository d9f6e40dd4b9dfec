"""Observations as requests carry them: named tensors, one for each part of the observation space."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from wolpertinger.agent.arguments import check_observation

Parts = dict[str, npt.NDArray]
"""A batch of observations by the names of their tensors, each with the batch as first axis."""
ONLY = "observation"  # the tensor of a space that has no names of its own
DATATYPES = {
    "BOOL": np.bool_,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
}
"""Of the Open Inference Protocol, as far as they are numbers."""
NAMES = {np.dtype(kind): name for name, kind in DATATYPES.items()}


@dataclass(frozen=True)
class ObservationReader:
    """Reads and checks observations of a space."""

    space: spaces.Space

    @cached_property
    def parts(self) -> dict[str, spaces.Space]:
        """The tensors by name."""
        return dict(self.space.items()) if isinstance(self.space, spaces.Dict) else {ONLY: self.space}

    def describe(self) -> list[dict[str, Any]]:
        """Name, datatype and shape of each tensor, as the metadata of the Open Inference Protocol has them."""
        return [
            {"name": name, "datatype": NAMES[np.dtype(part.dtype)], "shape": [-1, *(part.shape or ())]}
            for name, part in self.parts.items()
        ]

    def read(self, given: Any) -> tuple[Parts, bool]:
        """Observations from JSON, and whether they are a batch; one observation becomes a batch of one."""
        named = isinstance(self.space, spaces.Dict)
        if named and not (isinstance(given, Mapping) and given.keys() == self.parts.keys()):
            raise ValueError(f"give the observation as an object of {', '.join(self.parts)}")
        parts = {name: _as_array(name, given[name] if named else given) for name in self.parts}
        is_batch = {part.ndim > len(self.parts[name].shape or ()) for name, part in parts.items()}
        if len(is_batch) > 1:
            raise ValueError("some parts of the observation are batches, and some are not")
        batched = is_batch.pop()
        return self.check(parts if batched else {name: part[None] for name, part in parts.items()}), batched

    def check(self, parts: Mapping[str, npt.NDArray]) -> Parts:
        """A batch by the names of its tensors, of the space's own types, if it fits."""
        if parts.keys() != self.parts.keys():
            raise ValueError(f"the inputs are {', '.join(parts) or 'none'}: give {', '.join(self.parts)}")
        if len({len(part) if part.ndim else -1 for part in parts.values()}) > 1:
            raise ValueError("the inputs have different numbers of states")
        for name, part in parts.items():
            if not (part.ndim and len(part)):
                raise ValueError(f"{name} has shape {part.shape}: give one state at least")
        check_observation(self.to_observation(parts), self.space)
        return {name: _as_type(name, part, self.parts[name]) for name, part in parts.items()}

    def to_observation(self, parts: Mapping[str, npt.NDArray]) -> Any:
        """What an agent takes."""
        return dict(parts) if isinstance(self.space, spaces.Dict) else parts[ONLY]


def count(parts: Mapping[str, npt.NDArray]) -> int:
    """States of a batch."""
    return len(next(iter(parts.values())))


def join(batches: Sequence[Parts]) -> Parts:
    """One batch of several."""
    if len(batches) == 1:
        return batches[0]
    return {name: np.concatenate([parts[name] for parts in batches]) for name in batches[0]}


def _as_array(name: str, given: Any) -> npt.NDArray:
    try:
        return np.asarray(given)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{name} is no array of numbers: its rows have different lengths") from error


def _as_type(name: str, part: npt.NDArray, space: spaces.Space) -> npt.NDArray:
    kind = np.dtype(space.dtype)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        if part.dtype.kind not in "iub" or part.min() < info.min or part.max() > info.max:
            raise ValueError(f"{name} holds {part.dtype}: give whole numbers from {info.min} to {info.max}")
    return part.astype(kind, copy=False)
