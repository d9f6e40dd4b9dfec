"""The Open Inference Protocol, version 2, over HTTP: what `tritonclient.http` and KServe's client speak."""

from importlib.metadata import version
from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response

from wolpertinger.serve.observations import DATATYPES, NAMES
from wolpertinger.serve.refused import RefusedError
from wolpertinger.serve.served import Question, Served
from wolpertinger.serve.service import Service, describe_body, json_response, read_timeout
from wolpertinger.serve.tensors import HEADER, LOWEST, read_json, read_request, write_response

EXTENSIONS = ["binary_tensor_data", "model_repository"]
TENSOR = {
    "type": "object",
    "required": ["name", "shape", "datatype", "data"],
    "properties": {
        "name": {"type": "string"},
        "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
        "datatype": {"enum": list(DATATYPES)},
        "data": {"type": "array"},
    },
}
INFER = describe_body(
    "inputs",
    inputs={"type": "array", "items": TENSOR},
    outputs={"type": "array", "items": {"type": "object", "required": ["name"]}},
    parameters={"type": "object", "properties": {"top": {"type": "integer", "minimum": 1}}},
    id={"type": "string"},
)
MODEL, VERSIONED = "/v2/models/{name}", "/v2/models/{name}/versions/{version}"


def make_protocol(service: Service) -> APIRouter:
    """The routes below /v2."""
    router = APIRouter(tags=["Open Inference Protocol"])
    _add_health(router, service)
    _add_models(router, service)
    _add_repository(router, service)
    return router


def _add_health(router: APIRouter, service: Service) -> None:
    @router.get("/v2")
    async def server() -> Response:
        """Name, version and extensions of the server."""
        return json_response({"name": "wolpertinger", "version": version("wolpertinger"), "extensions": EXTENSIONS})

    @router.get("/v2/health/live")
    async def live() -> Response:
        """Whether the process answers."""
        return json_response({"live": True})

    @router.get("/v2/health/ready")
    async def ready() -> Response:
        """Whether it can take a request now."""
        service.repository.batcher.require_room()
        return json_response({"ready": True})


def _add_models(router: APIRouter, service: Service) -> None:
    @router.get(MODEL)
    @router.get(VERSIONED)
    async def metadata(name: str, version: str | None = None) -> Response:
        """Inputs and outputs of the model."""
        service.require_model(name, version)
        return json_response(_describe(service.name, service.served))

    @router.get(MODEL + "/ready")
    @router.get(VERSIONED + "/ready")
    async def model_ready(name: str, version: str | None = None) -> Response:
        """Whether the model can be asked."""
        service.require_model(name, version)
        return json_response({"name": service.name, "ready": True})

    @router.post(MODEL + "/infer", openapi_extra=INFER)
    @router.post(VERSIONED + "/infer", openapi_extra=INFER)
    async def infer(name: str, request: Request, version: str | None = None) -> Response:
        """The policy's actions; with the parameter `top`, so many of the best, with their values and distances."""
        service.require_model(name, version)
        body = await service.read_body(request)
        return await _infer(service, body, request.headers.get(HEADER))


def _add_repository(router: APIRouter, service: Service) -> None:
    @router.post("/v2/repository/index")
    async def index() -> Response:
        """The models that are here: one."""
        return json_response([{"name": service.name, "version": str(service.served.version), "state": "READY"}])

    @router.post("/v2/repository/models/{name}/load")
    async def load(name: str, request: Request) -> Response:
        """Serve what is in the model's file now; a file that cannot be served leaves the old policy in place."""
        service.access.require(request)
        service.require_model(name)
        if read_json(await service.read_body(request)).get("parameters"):
            raise ValueError("parameters: a model is loaded from its own file as it is; give none")
        try:
            await service.repository.load()
        except RefusedError:
            service.metrics.loads.labels("refused").inc()
            raise
        service.metrics.loads.labels("loaded").inc()
        return json_response({"name": service.name, "version": str(service.served.version)})


def _describe(name: str, served: Served) -> dict[str, Any]:
    action = {"name": "action", "datatype": "INT64", "shape": [-1, *served.digits]}
    return {
        "name": name,
        "versions": [str(served.version)],
        "platform": "wolpertinger",
        "inputs": served.reader.describe(),
        "outputs": [action],
        "parameters": {"k": served.agent.k, "actions": str(served.agent.actions.n)},
    }


async def _infer(service: Service, body: bytes, header: str | None) -> Response:
    served = service.served
    request, tensors = read_request(body, header)
    parameters = request.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise ValueError("parameters: give an object")
    timeout = read_timeout(parameters.get("timeout"), 1e-6)
    top = None if parameters.get("top") is None else service.read_count("top", parameters["top"])
    question = Question("pick") if top is None else Question("rank", top)
    found = await service.ask(served, question, served.reader.check(tensors), None, timeout)
    outputs = {"action": found["actions"].astype(np.int64, copy=False)}
    if top is not None:
        is_real = np.isfinite(found["values"])
        outputs["value"] = np.where(is_real, found["values"], LOWEST).astype(np.float32)
        outputs["distance"] = np.where(is_real, found["distances"], -LOWEST).astype(np.float32)
    assert all(part.dtype in NAMES for part in outputs.values())
    told = {"model_name": service.name, "model_version": str(served.version)}
    if isinstance(request.get("id"), str):
        told["id"] = request["id"]
    content, headers = write_response(told, outputs, request)
    return Response(content, headers=headers)
