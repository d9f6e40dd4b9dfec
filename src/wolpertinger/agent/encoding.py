"""Spaces, classes and settings as JSON, and back; what cannot be said in JSON is never run, but named."""

import pathlib
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from stable_baselines3.common import buffers, torch_layers
from stable_baselines3.her import her_replay_buffer
from stable_baselines3.her.goal_selection_strategy import GoalSelectionStrategy

from wolpertinger import archive
from wolpertinger.settings import Settings

# Classes that a checkpoint may name. Anything else must be given to `load` by the user.
KNOWN_CLASSES = {
    f"{prefix}.{name}": found
    for prefix, module, base in (
        ("torch.nn", torch.nn, torch.nn.Module),
        ("torch.optim", torch.optim, torch.optim.Optimizer),
        ("stable_baselines3", torch_layers, torch_layers.BaseFeaturesExtractor),
        ("stable_baselines3", buffers, buffers.ReplayBuffer),
        ("stable_baselines3", her_replay_buffer, buffers.ReplayBuffer),
    )
    for name, found in vars(module).items()
    if isinstance(found, type) and issubclass(found, base)
}
# What a file may say of a space, and how large its bounds may be: more than any picture, less than harm.
SPACES = {
    "Box": {"shape", "dtype", "low", "high"},
    "Discrete": {"n", "start", "dtype"},
    "MultiDiscrete": {"nvec", "start", "dtype"},
    "MultiBinary": {"n"},
    "Dict": {"spaces"},
}
DTYPES = {
    "bool",
    "float16",
    "float32",
    "float64",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
}
MAX_SPACE_BYTES = 1 << 22
CLASS_NAMES = {found: name for name, found in reversed(KNOWN_CLASSES.items())}


def encode_value(value: Any) -> Any:
    """A setting as JSON; raises TypeError for what JSON and the known classes cannot say."""
    if isinstance(value, Settings):
        value = value.to_json()
    if isinstance(value, dict):
        return {str(name): encode_value(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode_value(item) for item in value]
    if isinstance(value, type) and value in CLASS_NAMES:
        return {"class": CLASS_NAMES[value]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, GoalSelectionStrategy):
        return value.name.lower()
    raise TypeError(f"{value!r} cannot be saved: numbers, text, lists, dicts and the classes of torch and SB3 can")


def decode_value(value: Any) -> Any:
    if isinstance(value, dict):
        if value.keys() == {"class"}:
            return KNOWN_CLASSES[value["class"]]
        return {name: decode_value(item) for name, item in value.items()}
    if isinstance(value, list):
        return [decode_value(item) for item in value]
    return value


def encode_space(space: spaces.Space) -> dict[str, Any]:
    match space:
        case spaces.Box():
            bounds = {"low": _encode_array(space.low), "high": _encode_array(space.high)}
            return {"space": "Box", "shape": list(space.shape), "dtype": str(space.dtype), **bounds}
        case spaces.Discrete():
            return {"space": "Discrete", "n": int(space.n), "start": int(space.start), "dtype": str(space.dtype)}
        case spaces.MultiDiscrete():
            lists = {"nvec": space.nvec.tolist(), "start": space.start.tolist()}
            return {"space": "MultiDiscrete", **lists, "dtype": str(space.dtype)}
        case spaces.MultiBinary():
            return {"space": "MultiBinary", "n": encode_value(space.n)}
        case spaces.Dict():
            return {"space": "Dict", "spaces": {name: encode_space(part) for name, part in space.items()}}
    raise TypeError(f"{space} cannot be saved: Box, Discrete, MultiDiscrete, MultiBinary and Dict of them can")


def decode_space(encoded: dict[str, Any]) -> spaces.Space:
    """The space that `encode_space` described, if it is of a bounded size."""
    if (size := _space_bytes(encoded)) > MAX_SPACE_BYTES:
        raise ValueError(f"a space of {size:,} bytes: {MAX_SPACE_BYTES:,} at most are read")
    return _decode_space(encoded)


def _space_bytes(encoded: dict[str, Any]) -> int:
    """Memory of one bound of a space, if it is described as it should be."""
    if encoded.keys() != {"space"} | SPACES[encoded["space"]]:
        raise ValueError(f"a space is described by {', '.join(encoded)}")
    if (dtype := encoded.get("dtype", "int8")) not in DTYPES:
        raise ValueError(f"a space of {dtype!r}: {', '.join(sorted(DTYPES))} are known")
    if encoded["space"] == "Dict":
        return sum(map(_space_bytes, encoded["spaces"].values()))
    whole = [encoded[name] for name in ("shape", "n", "nvec", "start") if name in encoded]
    if any(np.asarray(numbers).dtype.kind not in "iu" and numbers != [] for numbers in whole):
        raise ValueError(f"a space of {whole}: whole numbers are needed")
    shape = encoded.get("shape", encoded["n"] if encoded["space"] == "MultiBinary" else ())
    sizes = shape if isinstance(shape, list | tuple) else [shape]
    if any(size < 0 for size in sizes):
        raise ValueError(f"a space of shape {shape}")
    return prod(sizes) * np.dtype(dtype).itemsize


def _decode_space(encoded: dict[str, Any]) -> spaces.Space:
    match encoded["space"]:
        case "Box":
            dtype, shape = np.dtype(encoded["dtype"]), tuple(encoded["shape"])
            low, high = (_decode_array(encoded[bound], shape, dtype) for bound in ("low", "high"))
            return spaces.Box(low, high, shape, dtype.type)
        case "Discrete":
            return spaces.Discrete(encoded["n"], start=encoded["start"], dtype=np.dtype(encoded["dtype"]).type)
        case "MultiDiscrete":
            dtype = np.dtype(encoded["dtype"])
            return spaces.MultiDiscrete(encoded["nvec"], dtype=dtype.type, start=encoded["start"])
        case "MultiBinary":
            return spaces.MultiBinary(encoded["n"])
        case "Dict":
            return spaces.Dict({name: _decode_space(part) for name, part in encoded["spaces"].items()})
    raise KeyError(encoded["space"])


def _encode_array(array: npt.NDArray[Any]) -> Any:
    """One number if they are all the same, as the bounds of images are."""
    return array.flat[0].item() if array.size and (array == array.flat[0]).all() else array.tolist()


def _decode_array(encoded: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    return np.broadcast_to(np.asarray(encoded, dtype=dtype), shape).copy()


def with_suffix(target: archive.Target) -> archive.Target:
    """Paths get .zip if they have no suffix, as in Stable-Baselines3."""
    if isinstance(target, str | pathlib.Path) and (path := pathlib.Path(target)).name and not path.suffix:
        return pathlib.Path(target).with_suffix(".zip")
    return target


def existing_path(source: archive.Target) -> archive.Target:
    if isinstance(source, str | pathlib.Path) and not pathlib.Path(source).is_file():
        return with_suffix(source)
    return source
