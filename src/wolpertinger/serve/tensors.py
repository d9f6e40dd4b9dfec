"""Tensors of the Open Inference Protocol: in JSON, or as bytes behind it (the extension for binary data)."""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from wolpertinger.serve.observations import DATATYPES, NAMES
from wolpertinger.settings import show

HEADER = "inference-header-content-length"
MAX_SIDES = 16
LOWEST = np.finfo(np.float32).min  # for values of places that a state does not fill: JSON has no -inf


def read_json(body: bytes) -> dict[str, Any]:
    """A JSON object; NaN, infinities and nesting without end are no JSON."""
    try:
        value = orjson.loads(body or b"{}")
    except orjson.JSONDecodeError as error:
        raise ValueError(f"the body is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"the body is {show(value)}: give a JSON object")
    return value


def read_request(body: bytes, header: str | None) -> tuple[dict[str, Any], dict[str, npt.NDArray]]:
    """The JSON part of a request for inference, and its inputs by name."""
    if header is None:
        length = len(body)
    elif not (header.isascii() and header.isdigit() and int(header) <= len(body)):
        raise ValueError(f"{HEADER}: {show(header)}: give the length of the JSON, of {len(body)} bytes in all")
    else:
        length = int(header)
    request, rest = read_json(body[:length]), memoryview(body)[length:]
    inputs = request.get("inputs")
    if not isinstance(inputs, list):
        raise ValueError("inputs: give a list of tensors")
    tensors: dict[str, npt.NDArray] = {}
    for given in inputs:
        name, array, rest = _read_tensor(given, rest)
        if name in tensors:
            raise ValueError(f"the input {show(name)} is given twice")
        tensors[name] = array
    if len(rest):
        raise ValueError(f"{len(rest)} bytes follow the last tensor")
    return request, tensors


def _read_tensor(given: Any, rest: memoryview) -> tuple[str, npt.NDArray, memoryview]:
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        raise ValueError(f"an input is {show(given)}: give name, shape, datatype and data")
    name, kind, shape = given["name"], given.get("datatype"), given.get("shape")
    if not isinstance(kind, str) or kind not in DATATYPES:
        raise ValueError(f"{show(name)} has datatype {show(kind)}: give one of {', '.join(DATATYPES)}")
    if not (isinstance(shape, list) and len(shape) <= MAX_SIDES and all(_is_side(one) for one in shape)):
        raise ValueError(f"{show(name)} has shape {show(shape)}: give a list of whole numbers")
    dtype, parameters = np.dtype(DATATYPES[kind]), given.get("parameters", {})
    size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
    if size is None:
        array = _from_json(name, given.get("data"), dtype)
    elif type(size) is not int or not 0 <= size <= len(rest) or size % dtype.itemsize:
        raise ValueError(f"{show(name)} has {show(size)} bytes of {dtype}, where {len(rest)} follow the JSON")
    else:
        array, rest = np.frombuffer(rest[:size], dtype.newbyteorder("<")).astype(dtype, copy=False), rest[size:]
    if array.size != prod(shape):
        raise ValueError(f"{show(name)} has shape {shape} and {array.size} numbers")
    return name, array.reshape(shape), rest


def _is_side(given: Any) -> bool:
    return type(given) is int and 0 <= given < 2**31


def _from_json(name: str, data: Any, dtype: np.dtype) -> npt.NDArray:
    try:
        array = np.asarray(data)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{show(name)}: its rows have different lengths") from error
    if array.dtype.kind not in "fiub" or (array.dtype.kind == "f" and dtype.kind != "f" and array.size):
        raise ValueError(f"{show(name)}: give its data as a list of numbers of {dtype}")
    if dtype.kind in "iu" and array.size:
        info = np.iinfo(dtype)
        if array.min() < info.min or array.max() > info.max:
            raise ValueError(f"{show(name)} is out of the range of {dtype}")
    with np.errstate(over="ignore"):
        return array.astype(dtype).ravel()


def write_response(
    told: Mapping[str, Any], outputs: Mapping[str, npt.NDArray], request: Mapping[str, Any]
) -> tuple[bytes, dict[str, str]]:
    """The body and headers of an answer, each tensor in the form that the request asks for."""
    wanted = _wanted(request, outputs)
    described: list[dict[str, Any]] = []
    binary: list[bytes] = []
    for name, as_bytes in wanted.items():
        array = np.ascontiguousarray(outputs[name])
        own: dict[str, Any] = {"name": name, "datatype": NAMES[array.dtype], "shape": list(array.shape)}
        if as_bytes:
            binary.append(array.tobytes())
            own["parameters"] = {"binary_data_size": len(binary[-1])}
        else:
            own["data"] = array.ravel().tolist()
        described.append(own)
    text = orjson.dumps({**told, "outputs": described})
    if not binary:
        return text, {"Content-Type": "application/json"}
    return b"".join([text, *binary]), {"Content-Type": "application/octet-stream", HEADER: str(len(text))}


def _wanted(request: Mapping[str, Any], outputs: Mapping[str, npt.NDArray]) -> dict[str, bool]:
    """The outputs that are asked for, by default all, and whether as bytes."""
    parameters, asked = request.get("parameters") or {}, request.get("outputs") or []
    by_default = isinstance(parameters, dict) and parameters.get("binary_data_output") is True
    if not isinstance(asked, list):
        raise ValueError("outputs: give a list of names")
    wanted: dict[str, bool] = {}
    for one in asked:
        name = one.get("name") if isinstance(one, dict) else None
        if not isinstance(name, str) or name not in outputs:
            raise ValueError(f"there is no output {show(name)}: ask for {', '.join(outputs)}")
        own = one.get("parameters") or {}
        wanted[name] = own.get("binary_data", by_default) is True if isinstance(own, dict) else by_default
    return wanted or dict.fromkeys(outputs, by_default)
