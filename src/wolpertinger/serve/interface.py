"""Our own interface below /v1: ranked lists, explanations, single actions, and changes of the set."""

import asyncio
from collections.abc import Coroutine
from math import isfinite
from typing import Annotated, Any, TypeVar

import numpy as np
import numpy.typing as npt
from fastapi import APIRouter, Path, Request, Response

from wolpertinger.serve.refused import RefusedError
from wolpertinger.serve.served import Question, Served
from wolpertinger.serve.service import Service, describe_body, json_response, read_timeout
from wolpertinger.serve.tensors import read_json
from wolpertinger.settings import show

Result = TypeVar("Result")
Id = Annotated[int, Path(ge=0, lt=2**63)]
NUMBERS = {"description": "numbers, nested as the observation space's shape; one more level is a batch"}
ALLOWED = {"type": "array", "description": "ids of what may be done; for a batch, a list for each state"}
TIMEOUT = {"type": "number", "exclusiveMinimum": 0, "description": "milliseconds"}
ASKING = {"observation": NUMBERS, "allowed": ALLOWED, "timeout_ms": TIMEOUT}


def make_interface(service: Service) -> APIRouter:
    """The routes below /v1."""
    router = APIRouter(prefix="/v1", tags=["wolpertinger"])
    _add_questions(router, service)
    _add_views(router, service)
    _add_changes(router, service)
    return router


def _add_questions(router: APIRouter, service: Service) -> None:
    @router.post("/rank", openapi_extra=describe_body("observation", **ASKING, top={"type": "integer", "minimum": 1}))
    async def rank(request: Request) -> Response:
        """The best actions of a state, or of each state of a batch, best first."""
        given = _check_fields(read_json(await service.read_body(request)), {*ASKING, "top"})
        top = given.get("top", min(10, service.served.agent.actions.n))
        question = Question("rank", service.read_count("top", top))
        served, answers, batched = await _ask(service, question, given)
        rows = [_ranked(served, answers, row) for row in range(len(answers["actions"]))]
        return json_response({"version": served.version, "ranked": rows if batched else rows[0]})

    @router.post("/explain", openapi_extra=describe_body("observation", **ASKING, k={"type": "integer", "minimum": 1}))
    async def explain(request: Request) -> Response:
        """What the policy sees and picks: the proto-action, its candidates with values, and the pick."""
        given = _check_fields(read_json(await service.read_body(request)), {*ASKING, "k"})
        k = None if given.get("k") is None else service.read_count("k", given["k"])
        served, answers, batched = await _ask(service, Question("explain", k), given)
        rows = [_explained(served, answers, row, service.limits.shown) for row in range(len(answers["actions"]))]
        return json_response({"version": served.version, "explained": rows if batched else rows[0]})


def _add_views(router: APIRouter, service: Service) -> None:
    @router.get("/actions/{action}")
    async def action(action: Id) -> Response:
        """An action's vector, position on the map, and name."""
        served = service.served
        try:
            return json_response(await service.repository.batcher.call(lambda: served.describe_action(action)))
        except KeyError as error:
            raise RefusedError(404, f"there is no action {action}") from error

    @router.get("/map")
    async def draw(box: str | None = None) -> Response:
        """The actions on a plane; `box` is left,bottom,right,top."""
        edges, served = _read_box(box), service.served
        drawn = await service.repository.batcher.call(lambda: served.map.draw(edges, service.limits.shown))
        return json_response(drawn)

    @router.get("/about")
    async def about() -> Response:
        """What the page shows of the model: its name, k, states to try."""
        served = service.served
        space = served.agent.observation_space
        told = {"name": service.name, "version": served.version, "k": served.agent.k}
        told |= {"actions": str(served.agent.actions.n), "changeable": service.access.token is not None}
        told |= {"needs_allowed": served.needs_allowed, "dim": served.agent.actions.dim}
        shapes = {name: list(part.shape or ()) for name, part in served.reader.parts.items()}
        named = hasattr(space, "spaces")
        return json_response({**told, "inputs": shapes, "named": named, "examples": served.examples})


def _add_changes(router: APIRouter, service: Service) -> None:
    @router.post("/actions", openapi_extra=describe_body("vectors", vectors={"type": "array"}), status_code=201)
    async def add(request: Request) -> Response:
        """New actions with these vectors; their ids. When this is answered, they survive the end of the process."""
        service.access.require(request)
        given = _check_fields(read_json(await service.read_body(request)), {"vectors"})
        ids = await _whole(service.repository.add(_read_vectors(given.get("vectors"), service)))
        service.metrics.changes.labels("added").inc(len(ids))
        return json_response({"ids": ids}, 201)

    @router.delete("/actions/{action}")
    async def remove(action: Id, request: Request) -> Response:
        """Take an action out: once this is answered, no answer names it."""
        service.access.require(request)
        await _whole(service.repository.remove(action))
        service.metrics.changes.labels("removed").inc()
        return json_response({"removed": action})


async def _whole(change: Coroutine[Any, Any, Result]) -> Result:
    """A change is made or not, whatever becomes of the client that asked for it."""
    return await asyncio.shield(asyncio.ensure_future(change))


def _check_fields(given: dict[str, Any], known: Any) -> dict[str, Any]:
    if unknown := sorted(given.keys() - set(known)):
        raise ValueError(f"there is no {', '.join(map(show, unknown[:3]))}: give {', '.join(sorted(known))}")
    return given


async def _ask(service: Service, question: Question, given: dict[str, Any]) -> tuple[Served, Any, bool]:
    if "observation" not in given:
        raise ValueError("there is no observation: give one, or a batch")
    served = service.served
    parts, batched = served.reader.read(given["observation"])
    allowed = given.get("allowed")
    if allowed is not None:
        allowed = _read_allowed(allowed if batched else [allowed], len(next(iter(parts.values()))))
    timeout = read_timeout(given.get("timeout_ms"), 1e-3)
    return served, await service.ask(served, question, parts, allowed, timeout), batched


def _read_allowed(given: Any, states: int) -> list[npt.NDArray]:
    if not isinstance(given, list) or len(given) != states or not all(isinstance(own, list) for own in given):
        raise ValueError(f"allowed: give a list of ids for each of {states} states")
    try:
        rows = [np.asarray(own) for own in given]
    except (ValueError, OverflowError) as error:
        raise ValueError("allowed: give lists of ids") from error
    if any(row.dtype.kind not in "iu" for row in rows):
        raise ValueError("allowed: give lists of ids, one at least")
    return rows


def _read_vectors(given: Any, service: Service) -> npt.NDArray[np.float32]:
    if not isinstance(given, list) or not 1 <= len(given) <= service.limits.shown:
        raise ValueError(f"vectors: give a list of 1 to {service.limits.shown} vectors")
    try:
        array = np.asarray(given)
    except (ValueError, OverflowError) as error:
        raise ValueError("vectors: their lengths differ") from error
    if array.dtype.kind not in "fiu":
        raise ValueError("vectors: give lists of numbers")
    with np.errstate(over="ignore"):
        return array.astype(np.float32)


def _read_box(box: str | None) -> tuple[float, float, float, float] | None:
    if box is None:
        return None
    try:
        left, bottom, right, top = map(float, box.split(","))
    except ValueError as error:
        raise ValueError(f"box={show(box)}: give left,bottom,right,top") from error
    if not all(map(isfinite, (left, bottom, right, top))) or not (left < right and bottom < top):
        raise ValueError(f"box={show(box)}: give left,bottom,right,top, each finite, left below right")
    return left, bottom, right, top


def _ranked(served: Served, answers: Any, row: int) -> list[dict[str, Any]]:
    """One state's ranked list; places that it does not fill are left out."""
    parts = zip(*(answers[name][row].tolist() for name in ("actions", "values", "distances", "sources")), strict=True)
    return [
        {"action": action, "value": value, "distance": distance, "source": source, "name": served.name_of(action)}
        for action, value, distance, source in parts
        if source
    ]


def _explained(served: Served, answers: Any, row: int, most: int) -> dict[str, Any]:
    names = ("actions", "q", "distances", "sources", "positions")
    parts = zip(*(answers[name][row][:most].tolist() for name in names), strict=True)
    keys = ("action", "value", "distance", "source", "position")
    candidates = [dict(zip(keys, own, strict=True)) for own in parts if own[3]]
    for own in candidates:
        own["name"] = served.name_of(own["action"])
    return {
        "proto": answers["proto"][row],
        "proto_position": answers["proto_position"][row],
        "chosen": answers["chosen"][row].tolist(),
        "candidates": candidates,
        "k": answers["actions"].shape[1],
    }
