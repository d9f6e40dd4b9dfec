"""Nested states as JSON and named arrays, and back: numbers, text, lists, dicts, numpy's scalars and arrays."""

from typing import Any

import numpy as np
import torch

Arrays = dict[str, np.ndarray]
SCALARS = {
    *("bool", "float16", "float32", "float64", "float128"),
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
}


def pack(tree: Any, name: str = "state") -> tuple[Any, Arrays]:
    """What JSON can say of a tree, and the arrays in it by name."""
    arrays: Arrays = {}
    return _pack(tree, name, arrays), arrays


def _pack(tree: Any, name: str, arrays: Arrays) -> Any:
    if isinstance(tree, torch.Tensor):
        tree = tree.numpy(force=True)
    if isinstance(tree, np.ndarray) and tree.dtype.kind in "biuf":
        arrays[name] = np.array(tree, order="C")
        return {"array": name}
    if isinstance(tree, np.generic) and tree.dtype.kind in "biuf":
        return {"scalar": str(tree.dtype), "value": tree.item()}
    if isinstance(tree, dict):
        return {"dict": {_key(key): _pack(part, f"{name}.{key}", arrays) for key, part in tree.items()}}
    if isinstance(tree, list | tuple):
        return [_pack(part, f"{name}.{place}", arrays) for place, part in enumerate(tree)]
    if tree is None or isinstance(tree, bool | int | float | str):
        return tree
    raise TypeError(f"{name} is {tree!r}: numbers, text, lists, dicts and numpy arrays can be kept")


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"{key!r} is no name: the keys of a state are text")
    return key


def unpack(packed: Any, arrays: Arrays) -> Any:
    """The tree that `pack` took apart; tuples come back as lists, tensors as arrays."""
    if isinstance(packed, list):
        return [unpack(part, arrays) for part in packed]
    if not isinstance(packed, dict):
        return packed
    if packed.keys() == {"array"}:
        return arrays[packed["array"]]
    if packed.keys() == {"scalar", "value"}:
        if packed["scalar"] not in SCALARS or not isinstance(packed["value"], bool | int | float):
            raise ValueError(f"{packed} is no number")
        return np.dtype(packed["scalar"]).type(packed["value"])
    return {key: unpack(part, arrays) for key, part in packed["dict"].items()}
