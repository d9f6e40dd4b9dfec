"""A folder with the policy: networks, actions, and a program that picks by them."""

import json
import logging
import shutil
import warnings
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from wolpertinger.actions.base import MAX_CANDIDATES
from wolpertinger.agent import Wolpertinger
from wolpertinger.export.graphs import ActionTowerGraph, ActorGraph, CriticGraph, StateTowerGraph
from wolpertinger.policy import Policy
from wolpertinger.policy.critic_search import CriticSearch
from wolpertinger.policy.sources import CandidateSource, EverythingSource, NearestSource, UnionSource
from wolpertinger.serve.observations import Parts, count

KIND = "wolpertinger policy"
VECTORS, OPSET = "vectors", 18
AT_ONCE = 1 << 16  # actions
LARGEST_FILE = 1 << 30  # of a network's weights in its own file; a larger one has them beside it
NEEDED = ("onnxruntime", "faiss-cpu", "numpy")


def find_sources(agent: Wolpertinger) -> list[str]:
    """Where the policy's candidates come from, in the words of the exported program."""
    predictor = agent.policy.predictor
    source, actions = predictor.source, agent.actions
    if type(predictor) is not Policy or type(agent).predict is not Wolpertinger.predict:
        raise ValueError("the agent ranks by a class of its own, which ONNX does not hold")
    if agent.restrictions.is_used or actions.slots is not None:
        what = "slates" if actions.slots is not None else "actions that the state allows"
        raise ValueError(f"the agent picks {what}, which the exported program does not: use wolpertinger serve")
    if not actions.is_listable or actions.n > MAX_CANDIDATES:
        raise ValueError(f"{actions!r} is no table: {actions.n} actions, {MAX_CANDIDATES} at most can be exported")
    if source.finds_all and min(predictor.k, actions.n) == actions.n:
        return ["all"]
    return [_name_of(part) for part in (source.sources if isinstance(source, UnionSource) else [source])]


def _name_of(source: CandidateSource) -> str:
    kinds = {NearestSource: "nearest", CriticSearch: "critic", EverythingSource: "all"}
    if type(source) not in kinds:
        raise ValueError(f"candidates of {type(source).__name__} cannot be exported: {', '.join(kinds.values())} can")
    return kinds[type(source)]


def write_policy(agent: Wolpertinger, examples: Parts, folder: Path) -> dict[str, Any]:
    """Write networks, actions, `policy.json` and `policy.py` into a folder that is there; what `policy.json` says."""
    sources, actions = find_sources(agent), agent.actions
    members = np.concatenate(list(actions.blocks(AT_ONCE)))
    blocks = np.array_split(members, 1 + len(members) // AT_ONCE)
    np.save(folder / "actions.npy", members)
    np.save(folder / "vectors.npy", np.concatenate([actions.embed(block) for block in blocks]).astype(np.float32))
    networks = _write_networks(agent, sources, examples, folder)
    k = len(members) if sources == ["all"] else min(agent.policy.predictor.k, len(members))
    told = {
        "kind": KIND,
        "wolpertinger": version("wolpertinger"),
        "inputs": {name: [str(part.dtype), *part.shape[1:]] for name, part in examples.items()},
        "networks": networks,
        "sources": sources,
        "k": k,
        "candidates": k * len(sources),
        "actions": len(members),
        "dim": actions.dim,
        "action": list(members.shape[1:]),
    }
    (folder / "policy.json").write_text(json.dumps(told, indent=1) + "\n")
    (folder / "requirements.txt").write_text("".join(f"{name}=={version(name)}\n" for name in NEEDED))
    ship("policy.py", folder)
    return told


def ship(name: str, folder: Path) -> None:
    """Copy one of the programs that go with an export."""
    with (files("wolpertinger.export") / "shipped" / name).open("rb") as source, (folder / name).open("wb") as target:
        shutil.copyfileobj(source, target)


def _write_networks(agent: Wolpertinger, sources: Sequence[str], examples: Parts, folder: Path) -> list[str]:
    policy, named = agent.policy, isinstance(agent.observation_space, spaces.Dict)
    critic, names = policy.predicting_critic, list(examples)
    # Two of everything: the exporter takes an axis of length 1 for one that never changes.
    obs = {name: torch.from_numpy(np.resize(part, (2, *part.shape[1:]))) for name, part in examples.items()}
    vectors, written = torch.zeros(2, 3, agent.actions.dim), []
    if "nearest" in sources:
        written.append(_save(ActorGraph(policy.actor, names, named=named), obs, ["proto"], folder / "actor.onnx"))
    if critic.has_keys:
        towers = {kind: kind(critic, names, named=named) for kind in (StateTowerGraph, ActionTowerGraph)}
        written.append(_save(towers[StateTowerGraph], obs, ["query", "offset"], folder / "state_tower.onnx"))
        of_action = {VECTORS: vectors[0]}
        written.append(_save(towers[ActionTowerGraph], of_action, ["key"], folder / "action_tower.onnx"))
    else:
        given = {**obs, VECTORS: vectors}
        written.append(_save(CriticGraph(critic, names, named=named), given, ["values"], folder / "critic.onnx"))
    return written


def _save(graph: nn.Module, given: Mapping[str, Tensor], outputs: list[str], path: Path) -> str:
    """Write a network that takes these tensors, any number of states and actions; its name."""
    axes: Any = [{0: "batch", 1: "candidates"} if part.dim() == 3 and name == VECTORS else {0: "batch"}
                 for name, part in given.items()]  # fmt: skip
    size = sum(tensor.nbytes for tensor in graph.state_dict().values())
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)  # of operators of packages that are not here
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch's own parts to each other
            parts = tuple(given.values())
            shapes = {"vectors": axes[0]} if isinstance(graph, ActionTowerGraph) else {"parts": tuple(axes)}
            program = torch.onnx.export(
                graph.eval(),
                parts,
                dynamo=True,
                input_names=list(given),
                output_names=outputs,
                dynamic_shapes=shapes,
                opset_version=OPSET,
                verbose=False,
            )
        assert program is not None
        program.save(str(path), external_data=size > LARGEST_FILE)
    finally:
        log.setLevel(level)
    return path.stem


def count_equal(agent: Wolpertinger, states: Parts, folder: Path) -> tuple[int, int]:
    """In how many of so many states the exported program picks what `predict` does."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("exported_policy", folder / "policy.py")
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    picks = program.Policy(folder).pick(states)
    named = isinstance(agent.observation_space, spaces.Dict)
    expected, _ = agent.predict(dict(states) if named else next(iter(states.values())), deterministic=True)
    return int((picks == expected).reshape(len(picks), -1).all(axis=1).sum()), count(states)
