"""The actors that hold a catalogue's shards: who is there, who answers, and who comes back."""

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wolpertinger.distributed.cluster import cause_of
from wolpertinger.distributed.shard import Change, Facts, Shard, Source

BEGUN_WITHIN = 60.0  # seconds, after which a warning says so
logger = logging.getLogger("wolpertinger")


class ShardUnavailableError(ConnectionError):
    """Shards did not answer; `shards` are their numbers."""

    def __init__(self, shards: tuple[int, ...], told: str) -> None:
        super().__init__(told)
        self.shards = shards


@dataclass
class Replica:
    """One of the actors that hold a shard's rows."""

    actor: Any
    ready: Any
    """A reference to the facts that `begin` returns."""
    has_begun: bool = False


@dataclass
class Place:
    """A shard: where its rows come from, all that was changed since, and its replicas."""

    source: Source
    sent: Any
    """A reference to the vectors, if they are sent."""
    changes: list[Change] = field(default_factory=list)
    replicas: list[Replica] = field(default_factory=list)
    n: int = 0
    turn: int = 0
    """Which replica answered last."""
    revived: int = 0


class Shards:
    """A shard that dies is begun anew, from its source and with all changes, as soon as somebody asks for it.

    :param options: of each shard's `ActionTable`.
    :param wait: seconds that a question waits for shards that are being begun anew.
    :param resources: of each actor, as Ray's `options` takes them.
    """

    def __init__(
        self,
        ray: Any,
        sources: list[tuple[Source, Any]],
        options: Mapping[str, Any],
        *,
        replicas: int,
        wait: float,
        resources: Mapping[str, Any],
    ) -> None:
        self.ray, self.options, self.wait = ray, dict(options), wait
        spread = {"num_cpus": 0, "scheduling_strategy": "SPREAD"}
        self.resources = {**spread, **resources, "max_restarts": 0, "max_task_retries": 0}
        self.places = [Place(source, sent) for source, sent in sources]
        self._lock = threading.Lock()
        for place in self.places:
            place.replicas = [self._begin(place) for _ in range(replicas)]

    def facts(self) -> list[Facts]:
        """Of each shard, once all have begun."""
        found: list[Facts] = []
        for number, place in enumerate(self.places):
            while (replica := self._ready(place, time.monotonic() + BEGUN_WITHIN)) is None:
                logger.warning("shard %d has not begun yet: is there room for it in the cluster?", number)
            found.append(self.ray.get(replica.ready))
            place.n = found[-1].n
        return found

    def ask(self, method: str, questions: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
        """Call a method of some shards, by number; whoever is missing from the answers is not there."""
        until = time.monotonic() + self.wait
        answers: dict[int, Any] = {}
        open_ones = dict(questions)
        while open_ones:
            asked = {}
            for number, arguments in open_ones.items():
                replica = self._ready(self.places[number], until)
                if replica is not None:
                    asked[number] = replica, getattr(replica.actor, method).remote(*arguments)
            open_ones = {}
            for number, (replica, answer) in asked.items():
                try:
                    answers[number] = self.ray.get(answer)
                except self.ray.exceptions.RayTaskError as error:
                    raise cause_of(error) from error
                except self.ray.exceptions.RayError as error:
                    self._revive(self.places[number], replica, error)
                    open_ones[number] = questions[number]
        return answers

    def change(self, number: int, change: Change) -> None:
        """Change a shard, and whoever takes its place."""
        place = self.places[number]
        with self._lock:  # a replica is told of it, or begins with it, never both
            place.changes.append(change)
            place.n += -len(change.ids) if change.vectors is None else len(change.ids)
            sent = [(own, own.actor.change.remote(change)) for own in place.replicas]
        for replica, answer in sent:
            try:
                self.ray.get(answer)
            except self.ray.exceptions.RayTaskError as error:
                raise cause_of(error) from error
            except self.ray.exceptions.RayError as error:
                self._revive(place, replica, error)  # which reads the changes

    def close(self) -> None:
        """End the actors."""
        for place in self.places:
            for replica in place.replicas:
                self.ray.kill(replica.actor)

    def _ready(self, place: Place, until: float) -> Replica | None:
        """A replica that has begun, each in its turn; waits until then for one that has not."""
        place.turn = (place.turn + 1) % len(place.replicas)
        while True:
            candidates = place.replicas[place.turn :] + place.replicas[: place.turn]
            replica = next((own for own in candidates if own.has_begun or self._is_answered(own)), None)
            if replica is None:
                begun, _ = self.ray.wait([own.ready for own in candidates], timeout=max(0.0, until - time.monotonic()))
                if not begun:
                    return None
                replica = next(own for own in candidates if own.ready == begun[0])
            if replica.has_begun:
                return replica
            try:
                self.ray.get(replica.ready)
                replica.has_begun = True
                return replica
            except self.ray.exceptions.RayTaskError as error:
                raise cause_of(error) from error
            except self.ray.exceptions.RayError as error:  # it died amid its beginning
                self._revive(place, replica, error)

    def _is_answered(self, replica: Replica) -> bool:
        """Whether it has begun, or has failed to."""
        return bool(self.ray.wait([replica.ready], timeout=0)[0])

    def _revive(self, place: Place, replica: Replica, error: Exception) -> None:
        with self._lock:
            if not any(own is replica for own in place.replicas):  # another thread was faster
                return
            self.ray.kill(replica.actor)
            place.replicas = [self._begin(place) if own is replica else own for own in place.replicas]
            place.revived += 1
        number = self.places.index(place)
        logger.warning("shard %d was lost and begins anew: %s", number, type(error).__name__)

    def _begin(self, place: Place) -> Replica:
        actor = self.ray.remote(Shard).options(**self.resources).remote()
        return Replica(actor, actor.begin.remote(place.source, place.sent, self.options, list(place.changes)))
