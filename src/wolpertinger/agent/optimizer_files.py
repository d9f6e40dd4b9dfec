"""Both optimisers as JSON and named tensors, and back: each tensor of the form that a step would have left."""

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch.optim import Optimizer

from wolpertinger.agent import encoding
from wolpertinger.settings import check_number, is_number

if TYPE_CHECKING:
    from wolpertinger.agent.base import ActionSetAlgorithm

NETWORKS = ("actor", "critic")
MOST = 1e300
Tensors = dict[str, torch.Tensor]
Forms = dict[str, tuple[torch.dtype, tuple[int, ...]]]
# Of torch's optimisers: means of squares and the like, of which a root is taken.
NEVER_NEGATIVE = {
    *("step", "exp_avg_sq", "max_exp_avg_sq", "square_avg", "acc_delta", "exp_inf", "sum"),
    *("variance", "row_var", "col_var"),
}


def describe(agent: "ActionSetAlgorithm") -> tuple[dict[str, Any], Tensors]:
    """Both optimisers' settings, and their moments as named tensors."""
    groups: dict[str, Any] = {}
    tensors: Tensors = {}
    for network in NETWORKS:
        state = getattr(agent, network).optimizer.state_dict()
        groups[network] = encoding.encode_value(state["param_groups"])
        for index, moments in state["state"].items():
            tensors |= {f"{network}.{index}.{name}": torch.as_tensor(value) for name, value in moments.items()}
    return groups, tensors


def restore(agent: "ActionSetAlgorithm", groups: dict[str, Any], tensors: Tensors) -> None:
    """Put what `describe` gave in place. torch itself would take moments of any shape, and write beyond them."""
    if strange := [key for key in tensors if key.split(".")[0] not in NETWORKS]:
        raise ValueError(f"{strange[0]} is of no optimiser")
    for network in NETWORKS:
        optimizer: Optimizer = getattr(agent, network).optimizer
        forms = _forms(optimizer)
        state: dict[str, Tensors] = {}
        for key, tensor in tensors.items():
            owner, index, name = key.split(".")
            if owner == network:
                state.setdefault(index, {})[name] = tensor
        for index, moments in state.items():
            if index not in forms:
                raise ValueError(f"{network} has no parameter {index}")
            _check_moments(f"{network}.{index}", moments, forms[index])
        own = optimizer.state_dict()["param_groups"]
        if not isinstance(groups[network], list) or len(groups[network]) != len(own):
            raise ValueError(f"{network} has {len(own)} groups of parameters, the file says {groups[network]}")
        merged = [_merge(now, saved) for now, saved in zip(own, groups[network], strict=True)]
        moments_by_place = {int(index): moments for index, moments in state.items()}
        optimizer.load_state_dict({"state": moments_by_place, "param_groups": merged})


def _forms(optimizer: Optimizer) -> dict[str, Forms]:
    """By the number of a parameter: name, type and shape of what a step keeps of it.

    Seen on tiny parameters in place of the real ones, whose axes have lengths 2, 3, 4, ...
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    tiny = [_tiny(parameter) for parameter in parameters]
    probe = copy.deepcopy(optimizer, {id(parameter): small for parameter, small in zip(parameters, tiny, strict=True)})
    for parameter, small in zip(parameters, tiny, strict=True):  # some keep sums from the beginning
        own = probe.state[small]
        own |= {name: torch.zeros_like(small) for name, value in own.items() if _has_shape(value, parameter)}
    probe.step()
    forms: dict[str, Forms] = {}
    for place, (parameter, small) in enumerate(zip(parameters, tiny, strict=True)):
        kept = {name: torch.as_tensor(value) for name, value in probe.state[small].items() if value is not None}
        forms[str(place)] = {name: (value.dtype, _shape(value, small, parameter)) for name, value in kept.items()}
    return forms


def _has_shape(value: Any, parameter: torch.Tensor) -> bool:
    return isinstance(value, torch.Tensor) and value.shape == parameter.shape


def _tiny(parameter: torch.Tensor) -> torch.Tensor:
    shape = [axis + 2 for axis in range(parameter.dim())]
    tiny = torch.zeros(shape, dtype=parameter.dtype, device=parameter.device, requires_grad=True)
    tiny.grad = torch.zeros_like(tiny)
    return tiny


def _shape(value: torch.Tensor, small: torch.Tensor, parameter: torch.Tensor) -> tuple[int, ...]:
    if value.dim() != small.dim():
        return tuple(value.shape)
    sizes = zip(value.shape, small.shape, parameter.shape, strict=True)
    return tuple(full if found == tiny else found for found, tiny, full in sizes)


def _check_moments(where: str, moments: Tensors, forms: Forms) -> None:
    if (found := {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in moments.items()}) != forms:
        raise ValueError(f"{where} has {found}, {forms} was expected")
    for name, tensor in moments.items():
        if not torch.isfinite(tensor).all() or (name in NEVER_NEGATIVE and (tensor < 0).any()):
            raise ValueError(f"{where}.{name} holds numbers that are not finite, or negative")


def _merge(own: dict[str, Any], saved: Any) -> dict[str, Any]:
    """The settings of a group of parameters: numbers as they were saved, all else by how the agent was made."""
    if not isinstance(saved, dict) or not saved.keys() <= own.keys() or saved.get("params") != own["params"]:
        raise ValueError(f"a group of parameters says {saved}, {own} was expected")
    merged = dict(own)
    for name, now in own.items():
        if name == "params" or name not in saved:
            continue
        if is_number(now):
            _check_number(name, saved[name], now)
            merged[name] = saved[name]
        elif isinstance(now, tuple):  # Adam's betas, Rprop's factors and bounds
            if not isinstance(saved[name], list) or len(saved[name]) != len(now):
                raise ValueError(f"{name}={saved[name]!r}: {len(now)} numbers were expected")
            for part, before in zip(saved[name], now, strict=True):
                _check_number(name, part, before)
            merged[name] = tuple(saved[name])
    return merged


def _check_number(name: str, value: Any, now: Any) -> None:
    """Refuse what is not finite, and what is negative where the optimiser's own is not."""
    if value is None and now is None:
        return
    check_number(name, value, least=-MOST if is_number(now) and now < 0 else 0)
    if name == "betas" and value >= 1:
        raise ValueError(f"{name} has {value!r}: less than 1 is needed")
