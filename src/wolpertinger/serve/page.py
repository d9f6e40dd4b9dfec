"""What people look at: the page, and the figures for Prometheus."""

from importlib.resources import files

from fastapi import APIRouter, Response

from wolpertinger.serve.service import Service

FILES = {
    "/": ("page.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
}
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src data:; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def make_page(service: Service) -> APIRouter:
    """The routes of the page, and /metrics."""
    router = APIRouter(include_in_schema=False)

    @router.get("/metrics")
    async def metrics() -> Response:
        shown = await service.repository.batcher.call(lambda: service.metrics.render(service.repository))
        return Response(shown, media_type="text/plain; version=0.0.4; charset=utf-8")

    for path, (name, kind) in FILES.items():
        _add_file(router, path, name, kind)
    return router


def _add_file(router: APIRouter, path: str, name: str, kind: str) -> None:
    content = (files("wolpertinger.serve") / "static" / name).read_bytes()

    @router.get(path)
    async def file() -> Response:
        return Response(content, headers=HEADERS, media_type=kind)
