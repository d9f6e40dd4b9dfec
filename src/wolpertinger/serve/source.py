"""Where the policy comes from: an agent's file, or a run folder."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from wolpertinger.agent import CheckpointError, Wolpertinger
from wolpertinger.runs.build import make_env
from wolpertinger.runs.config import learned_from_log, read_config
from wolpertinger.serve.observations import ObservationReader, Parts

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
EXAMPLES, EXAMPLE_SEED = 8, 10_000


@dataclass(frozen=True)
class Source:
    """A path that an agent is loaded from, again and again."""

    path: Path
    checkpoint: str = "best"
    """Of a run folder: "best" or "last"."""

    @property
    def file(self) -> Path:
        """The agent's file."""
        return self.path / "checkpoints" / f"{self.checkpoint}.zip" if self.path.is_dir() else self.path

    @property
    def name(self) -> str:
        """What clients call the model unless told otherwise: of a run, its folder's name."""
        whole = self.path.resolve()
        found = NAME.match(whole.name if whole.is_dir() else whole.stem)
        return found.group() if found else "policy"

    def stamp(self) -> tuple[int, ...]:
        """Changes when another file takes the place of this one."""
        facts = self.file.stat()
        return facts.st_ino, facts.st_mtime_ns, facts.st_size

    def load(self) -> Wolpertinger:
        """The agent as it is in the file now."""
        if not self.file.exists():
            what = "no run folder with that checkpoint" if self.path.is_dir() else "no file"
            raise FileNotFoundError(f"{self.path} is {what}: give a run folder or a file of agent.save")
        agent = Wolpertinger.load(self.file, device="cpu")
        if agent.actions.has_offered_vectors:
            raise CheckpointError("its actions come with the state, vectors and all, which requests cannot carry")
        return agent

    @cached_property
    def _task(self) -> tuple[Any, Sequence[str] | None]:
        """First observations of some episodes, and the names of the actions, where there is a run to ask."""
        if not self.path.is_dir() or learned_from_log(self.path):
            return None, None
        env = make_env(read_config(self.path), EXAMPLES)
        env.seed(EXAMPLE_SEED)
        task = env.get_attr("task", indices=0)[0] if env.has_attr("task") else None
        return env.reset(), getattr(task, "names", None)

    @property
    def names(self) -> Sequence[str] | None:
        """What the run's task calls its actions, by id; None: nothing."""
        return self._task[1]

    def examples(self, reader: ObservationReader) -> Parts:
        """States to try: first ones of the run's episodes, or such as the observation space has."""
        observed = self._task[0]
        if observed is None:
            reader.space.seed(EXAMPLE_SEED)
            drawn = [reader.space.sample() for _ in range(EXAMPLES)]
            named = [one if isinstance(one, dict) else dict.fromkeys(reader.parts, one) for one in drawn]
            return reader.check({name: np.stack([one[name] for one in named]) for name in reader.parts})
        return reader.check(observed if isinstance(observed, dict) else dict.fromkeys(reader.parts, observed))
