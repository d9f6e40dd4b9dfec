"""The learner's side of the workers: orders out, fragments in, weights published, lost workers replaced."""

import logging
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from wolpertinger.agent import Wolpertinger
from wolpertinger.distributed.cluster import cause_of
from wolpertinger.distributed.fragments import Fragment, Order
from wolpertinger.distributed.worker import Worker, read_weights
from wolpertinger.runs.config import RunConfig

TRANSITIONS = 64  # of a fragment, at least
RETURNS = 10  # n-step returns end with a fragment: it is so many of them long
ORDERED = 2  # fragments that a worker is asked for ahead: one to work on, one to go on with
PUBLISH_EVERY = 10  # updates
SPARES = 1
PATIENCE = 1.0  # seconds between two looks at whether the run is to stop
LONGEST_PAUSE = 60.0  # seconds before a worker that dies again and again is replaced once more

logger = logging.getLogger("wolpertinger")


@dataclass
class Place:
    """A worker's place: who is in it now, and what was ordered."""

    number: int
    incarnation: int = -1
    actor: Any = None
    ordered: int = 0
    """Of this incarnation."""
    pending: deque[Any] = field(default_factory=deque)
    """References to fragments, oldest first."""
    stored: int = -1
    """Number of the last fragment that was taken of this incarnation."""
    deaths: int = 0
    """In a row, without a fragment between them."""
    due: float = 0.0
    """When a lost worker is replaced."""


class Workers:
    """So many workers of a run, on Ray.

    Each has at most two fragments ordered, which is how neither side runs ahead: a worker waits until the learner has
    taken what it made, and the learner until there is something to take. An order carries the weights to act by; a
    worker that is lost, with its process or its machine, loses what was ordered, and a new one takes its place.

    :param steps: of each environment in a fragment; None: about 64 transitions, more where returns have many steps.
    :param publish_every: updates between two publications of the weights.
    :param spares: processes that have started and wait for a worker to be lost, which takes seconds otherwise.
    """

    def __init__(
        self,
        ray: Any,
        config: RunConfig,
        count: int,
        *,
        steps: int | None = None,
        publish_every: int = PUBLISH_EVERY,
        spares: int = SPARES,
    ) -> None:
        self.ray, self.config, self.count = ray, config, count
        self.steps, self.publish_every = steps or fragment_steps(config), publish_every
        self.places = [Place(number) for number in range(count)]
        self.lost, self.dropped, self.fragments = 0, 0, 0
        """Workers that were replaced; fragments that had come before; fragments taken."""
        self.waited = 0.0
        """Seconds in which the learner had nothing to learn from."""
        self._weights: Any = None
        self._published = -1
        # All start now, while the learner is made.
        for place in self.places:
            place.actor, place.incarnation = self._start(), 0
        self._spares = deque(self._start_spare() for _ in range(spares))

    def stats(self) -> dict[str, float]:
        """What the log shows of them."""
        counts = {"fragments": self.fragments, "lost": self.lost, "dropped": self.dropped}
        return {**counts, "waiting_seconds": self.waited}

    def take(self, learner: Wolpertinger) -> Fragment | None:
        """The next fragment of any worker; None if none came within a second."""
        self._order(learner)
        oldest = {place.pending[0]: place for place in self.places if place.pending}
        began = time.perf_counter()
        ready = self.ray.wait(list(oldest), timeout=PATIENCE)[0] if oldest else []
        if not oldest:  # all of them were lost again and again
            time.sleep(PATIENCE)
        self.waited += time.perf_counter() - began
        if not ready:
            return None
        place = oldest[ready[0]]
        self.places.remove(place)
        self.places.append(place)  # the others' turn, or their fragments would grow old while the learner is busy
        return self._receive(place, learner)

    def _receive(self, place: Place, learner: Wolpertinger) -> Fragment | None:
        errors = self.ray.exceptions
        try:
            fragment: Fragment = self.ray.get(place.pending[0])
        except errors.RayTaskError as error:
            raise cause_of(error) from error  # of the environment or the policy: it ends a run on one machine as well
        except errors.RayError as error:
            self._bury(place, error)
            return None
        place.pending.popleft()
        if fragment.order.serial != (place.number, place.incarnation, place.stored + 1):
            self.dropped += 1
            logger.warning("fragment %s came out of turn and is dropped", fragment.order.serial)
            return None
        place.stored, place.deaths, self.fragments = place.stored + 1, 0, self.fragments + 1
        self._order(learner, in_hand=1)
        return fragment

    def _bury(self, place: Place, error: Exception) -> None:
        """A worker is gone: what was ordered of it goes to others."""
        self.ray.kill(place.actor)  # it may only have been out of reach, and is not to come back beside its successor
        self.lost += 1
        pause = min(LONGEST_PAUSE, 2.0**place.deaths) if place.deaths else 0.0
        place.deaths, place.actor, place.due = place.deaths + 1, None, time.monotonic() + pause
        place.pending.clear()
        cause = str(error).strip().partition("\n")[0]
        logger.warning("worker %d was lost and is replaced: %s: %s", place.number, type(error).__name__, cause)

    def _order(self, learner: Wolpertinger, in_hand: int = 0) -> None:
        """Give every worker enough to do; so many fragments are taken, and not stored yet."""
        for place in self.places:
            if place.actor is None:
                if time.monotonic() < place.due:
                    continue
                self._hire(place)
            while len(place.pending) < ORDERED:
                ahead = in_hand + sum(len(other.pending) for other in self.places)
                position = learner.num_timesteps + ahead * self.steps * self.config.n_envs
                serial = place.number, place.incarnation, place.ordered
                order = Order(serial, self._publish(learner), position, learner._total_timesteps)
                place.pending.append(place.actor.collect.remote(order, self._weights))
                place.ordered += 1

    def _hire(self, place: Place) -> None:
        """Put a spare process in the place, if one has started, else a new one."""
        place.incarnation, place.ordered, place.stored = place.incarnation + 1, 0, -1
        place.actor = self._spare() or self._start()

    def _spare(self) -> Any:
        started = self.ray.wait([answer for _, answer in self._spares], timeout=0)[0] if self._spares else []
        if not started:
            return None
        self._spares.append(self._start_spare())
        actor = next(actor for actor, answer in self._spares if answer == started[0])
        self._spares = deque(spare for spare in self._spares if spare[0] is not actor)
        return actor

    def _start_spare(self) -> tuple[Any, Any]:
        actor = self._start()
        return actor, actor.stand_by.remote()

    def _start(self) -> Any:
        actor = self.ray.remote(Worker).options(num_cpus=1, max_restarts=0, max_task_retries=0)
        return actor.remote(self.config, self.steps)

    def _publish(self, learner: Wolpertinger) -> int:
        """Put the weights where workers find them, if they are old; returns the updates that they have."""
        if self._weights is None or learner._n_updates - self._published >= self.publish_every:
            self._weights, self._published = self.ray.put(read_weights(learner)), learner._n_updates
        return self._published

    def close(self) -> None:
        """End all workers."""
        for actor in (*(place.actor for place in self.places), *(actor for actor, _ in self._spares)):
            if actor is not None:
                self.ray.kill(actor)


def fragment_steps(config: RunConfig) -> int:
    """Steps of each environment in a fragment, unless the user says how many."""
    returns = RETURNS * (config.agent.get("n_steps") or 1)
    enough = -(-TRANSITIONS // config.n_envs)
    return max(enough, returns) if (config.agent.get("n_steps") or 1) > 1 else enough
