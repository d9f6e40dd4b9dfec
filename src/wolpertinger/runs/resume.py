"""Go on with a run that was interrupted, from its last checkpoint, as if nothing had happened."""

import shutil
import sys
from pathlib import Path
from typing import Any

from wolpertinger import archive
from wolpertinger.agent import Wolpertinger
from wolpertinger.agent.checkpoint import KIND
from wolpertinger.agent.segments import checkpoints_in, newest_of
from wolpertinger.archive import read_json, readable
from wolpertinger.runs import presets, training
from wolpertinger.runs.build import make_actions, make_agent, make_env, make_scorer
from wolpertinger.runs.checkpointing import EVERY_SECONDS, LOG, RUN, Checkpointing
from wolpertinger.runs.config import RunConfig, read_config
from wolpertinger.runs.curve import LearningCurve
from wolpertinger.runs.logs import restore_logs
from wolpertinger.runs.plot import plot_curve
from wolpertinger.runs.run_folder import STATE, lock
from wolpertinger.runs.signals import Stop
from wolpertinger.threads import set_threads


def resume(
    folder: Path,
    *,
    quiet: bool = False,
    stop: Stop | None = None,
    agent_class: type[Wolpertinger] = Wolpertinger,
) -> Path:
    """Train a run to its end from its last checkpoint, with the device and the number of threads it had.

    With one thread and environments that can be restored (ours), everything is bit-equal to a run that was never
    interrupted. One that was interrupted before its first checkpoint begins anew, which comes to the same.
    """
    config = read_config(folder)
    if (folder / "result.json").exists():
        if not (folder / "curve.png").exists():  # the last thing that a run does
            plot_curve(folder)
            return folder
        raise ValueError(f"{folder} is finished: nothing is left to resume; wolpertinger evaluate {folder} scores it")
    with lock(folder):
        scorer = make_scorer(config, training.SELECTION_EPISODES, training.SELECTION_SEED)
        task = presets.TASKS[config.task]
        curve = LearningCurve(folder, scorer, task, steps=config.steps, seconds=config.seconds, quiet=quiet)
        every, path = EVERY_SECONDS, None
        if checkpoints_in(folder / STATE):
            agent, run, path = newest_of(folder / STATE, lambda found: _load(config, folder, found, agent_class))
            with readable(RUN):
                curve.load_state_dict(run["curve"])
                every = float(run["every"])
        else:
            _begin_anew(folder)
            agent = make_agent(config, make_env(config), agent_class=agent_class)
        saving = Checkpointing(folder, curve, every=every, stop=stop or Stop(), resumed=path)
        return training.carry_out(config, agent, curve, saving)


def _load(
    config: RunConfig, folder: Path, path: Path, agent_class: type[Wolpertinger]
) -> tuple[Wolpertinger, dict[str, Any], Path]:
    files = archive.read(path, KIND)
    with readable(RUN):
        run = read_json(files[RUN])
        set_threads(int(run["threads"]), small_work=bool(run.get("small_work", False)))
        device, events = str(run["device"]), {str(name): int(size) for name, size in run["events"].items()}
        if device.partition(":")[0] not in ("cpu", "cuda", "mps") or min(events.values(), default=0) < 0:
            raise ValueError(f"device {device}, logs {events}")
    env = make_env(config)
    agent = agent_class.load(path, env=env, device=device, actions=make_actions(config, env))
    restore_logs(folder / "logs", files[LOG], events)
    return agent, run, path


def _begin_anew(folder: Path) -> None:
    print(f"{folder} was interrupted before its first checkpoint: it begins anew", file=sys.stderr)
    for name in ("logs", STATE):
        shutil.rmtree(folder / name, ignore_errors=True)
    (folder / "checkpoints").mkdir(exist_ok=True)
