"""What people look at: the page, and the figures for Prometheus."""

from fastapi import APIRouter, Response

from wolpertinger.serve.service import Service

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'",
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

    return router
