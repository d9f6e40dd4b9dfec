"""Training with many workers and one learner, into the same run folder as on one machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wolpertinger import runs
from wolpertinger.distributed.cluster import connected
from wolpertinger.distributed.learner import Learner
from wolpertinger.distributed.workers import PUBLISH_EVERY, SPARES, Workers
from wolpertinger.runs.checkpointing import EVERY_SECONDS
from wolpertinger.runs.config import RunConfig, read_config
from wolpertinger.runs.run_folder import check_folder
from wolpertinger.runs.signals import Stop
from wolpertinger.settings import check_number

WHAT = "training on Ray"
WORKERS, MAX_WORKERS = 2, 4_096  # unless the user says how many; at most


def train(
    config: RunConfig,
    folder: Path,
    *,
    workers: int = WORKERS,
    address: str | None = None,
    fragment_steps: int | None = None,
    publish_every: int = PUBLISH_EVERY,
    overwrite: bool = False,
    device: str = "auto",
    quiet: bool = False,
    checkpoint_seconds: float | None = EVERY_SECONDS,
    stop: Stop | None = None,
) -> Path:
    """`runs.train` with transitions from so many workers, each of which steps `config.n_envs` environments.

    :param address: of a Ray cluster; None: that of RAY_ADDRESS, or one that is started on this machine for the run.
    :param fragment_steps: steps of each environment between two messages of a worker; None: about 64 transitions.
    :param publish_every: updates between two publications of the weights.
    """
    check_folder(folder, overwrite)  # before processes start
    with _learner(config, workers, address, fragment_steps, publish_every) as learner:
        return runs.train(
            config, folder, overwrite=overwrite, device=device, quiet=quiet, checkpoint_seconds=checkpoint_seconds,
            stop=stop, agent_class=learner,
        )  # fmt: skip


def resume(
    folder: Path,
    *,
    workers: int = WORKERS,
    address: str | None = None,
    fragment_steps: int | None = None,
    publish_every: int = PUBLISH_EVERY,
    quiet: bool = False,
    stop: Stop | None = None,
) -> Path:
    """`runs.resume` with workers; the run may have begun with or without them."""
    with _learner(read_config(folder), workers, address, fragment_steps, publish_every) as learner:
        return runs.resume(folder, quiet=quiet, stop=stop, agent_class=learner)


@contextmanager
def _learner(
    config: RunConfig, workers: int, address: str | None, fragment_steps: int | None, publish_every: int
) -> Iterator[type[Learner]]:
    check_number("workers", workers, least=1, most=MAX_WORKERS, whole=True)
    check_number("fragment_steps", fragment_steps, least=1, whole=True, optional=True)
    check_number("publish_every", publish_every, least=1, whole=True)
    with connected(address, WHAT, processors=workers + SPARES) as ray:
        crew = Workers(ray, config, workers, steps=fragment_steps, publish_every=publish_every)
        try:
            yield Learner.with_workers(crew)
        finally:
            crew.close()
