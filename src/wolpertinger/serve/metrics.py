"""Figures for Prometheus."""

from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from wolpertinger.serve.repository import Repository

LATENCIES = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
STAGES = {"lookup": "lookup", "rerank": "scoring"}  # sections of the policy's timer


class Metrics:
    """Counts of one service, in a registry of its own."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        name = "wolpertinger_{}".format
        self.requests = Counter(name("requests"), "Requests.", ["route", "status"], registry=registry)
        self.seconds = Histogram(
            name("request_seconds"), "From request to answer.", ["route"], buckets=LATENCIES, registry=registry
        )
        self.stages = Counter(name("stage_seconds"), "The policy's time by stage.", ["stage"], registry=registry)
        self.waited = Histogram(
            name("queue_seconds"), "A batch's oldest request waited.", buckets=LATENCIES, registry=registry
        )
        self.batches = Histogram(name("batch_states"), "States of a batch.", buckets=SIZES, registry=registry)
        self.loads = Counter(name("loads"), "Policies loaded or refused.", ["outcome"], registry=registry)
        self.changes = Counter(name("changes"), "Actions added or removed.", ["kind"], registry=registry)
        self._gauges = {
            key: Gauge(name(key), told, registry=registry)
            for key, told in {
                "queue_states": "States that wait.",
                "policy_version": "Version of the policy, which grows with every load.",
                "actions": "Actions of the set.",
                "recall": "Recall of the index on the lookups that were checked; 1 for an exact scan.",
                "recall_checked": "Lookups that were checked.",
            }.items()
        }
        self._seen: tuple[Any, dict[str, float]] = (None, {})

    def on_batch(self, repository: Repository, states: int, waited: float) -> None:
        """A batch is about to be answered."""
        self.batches.observe(states)
        self.waited.observe(waited)
        self._count_stages(repository)

    def _count_stages(self, repository: Repository) -> None:
        """What the policy's timer has added since it was last looked at."""
        served = repository.served
        seconds = {stage: served.agent.policy.timer.seconds.get(section, 0.0) for section, stage in STAGES.items()}
        before = self._seen[1] if self._seen[0] is served else {}
        for stage, spent in seconds.items():
            self.stages.labels(stage).inc(max(0.0, spent - before.get(stage, 0.0)))
        self._seen = served, seconds

    def render(self, repository: Repository) -> bytes:
        """All figures as they are now, in Prometheus' text form."""
        self._count_stages(repository)
        actions, k = repository.served.agent.actions, repository.served.agent.k
        stats = actions.stats(k)
        figures = {
            "queue_states": repository.batcher.states,
            "policy_version": repository.served.version,
            "actions": actions.n,
            "recall": stats.get("recall", 1.0 if "index" not in stats else float("nan")),
            "recall_checked": stats.get("checked", 0),
        }
        for key, value in figures.items():
            self._gauges[key].set(float(value))
        return generate_latest(self._registry)


class CountRequests:
    """Middleware: counts every request by its route and status, and how long it took."""

    def __init__(self, app: Callable[..., Awaitable[None]], metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = perf_counter(), 500

        async def note(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, note)
        finally:
            route = getattr(scope.get("route"), "path", "unknown")  # not the path: clients choose that
            self.metrics.requests.labels(route, str(status)).inc()
            self.metrics.seconds.labels(route).observe(perf_counter() - start)
