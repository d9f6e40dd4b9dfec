"""The command line: `wolpertinger train recommender`, `wolpertinger evaluate RUN`, `wolpertinger watch RUN`, ..."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
from rich.console import Console
from rich.table import Table
from stable_baselines3.common.utils import get_device

from wolpertinger.agent import CheckpointError
from wolpertinger.cli.index import add_index
from wolpertinger.cli.options import at_least, explain_errors, number, recall, with_example
from wolpertinger.runs import Evaluation, evaluate, make_config, show, train, watch
from wolpertinger.runs.presets import PRESETS, TASKS, TaskPreset
from wolpertinger.runs.scores import share_of
from wolpertinger.threads import set_threads

TRAIN_EXAMPLE = """example:
  wolpertinger train recommender --items 835 --seed 1 --out runs/first
  wolpertinger train recommender --preset nearest --k 0.05
  wolpertinger train recommender --data complete-journey --median-best 0.5 --set learning_rate=3e-4
  wolpertinger train cart-pole --levels 1000000 --k 1
  wolpertinger train puddle-world --plan 20 --k 1
  wolpertinger train control --env-id Pendulum-v1 --levels 1001"""
DATA_CAVEAT = (
    "Data: the Complete Journey. Its R manual describes the lines as store receipts; "
    "the readme of the Python package has since 2025 called them simulated."
)
EVALUATE_EXAMPLE = """example:
  wolpertinger evaluate runs/first --episodes 5000"""
WATCH_EXAMPLE = """example:
  wolpertinger watch runs/first --episodes 3
  wolpertinger watch runs/first --out first.gif --every 2 --fps 10
  wolpertinger watch runs/first --human"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; bad input ends in one line on standard error and exit code 2."""
    options = _parser().parse_args(arguments)
    prog = f"wolpertinger {options.command}"
    return explain_errors(prog, lambda: options.run(options), CheckpointError, gym.error.Error)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="wolpertinger", description="Reinforcement learning with huge action sets.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    training = commands.add_parser(
        "train", help="train an agent on a task, into a run folder", **with_example(TRAIN_EXAMPLE)
    )
    tasks = training.add_subparsers(dest="task", required=True, metavar="TASK")
    for name, task in TASKS.items():
        _add_task(tasks.add_parser(name, help=f"{task.env_id}", **with_example(TRAIN_EXAMPLE)), task)

    evaluating = commands.add_parser("evaluate", help="score a run's agent", **with_example(EVALUATE_EXAMPLE))
    _add_run(evaluating)
    evaluating.add_argument(
        "--episodes", type=at_least(1), help="episodes to sample (default: 2,000 users, 100 cart-poles, ...)"
    )
    evaluating.add_argument("--json", action="store_true", help="print the numbers as JSON")
    evaluating.set_defaults(run=_evaluate)
    _add_watch(commands.add_parser("watch", help="film a run's agent at work", **with_example(WATCH_EXAMPLE)))
    add_index(commands)
    return parser


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", type=Path, help="a run folder that `wolpertinger train` made")
    parser.add_argument(
        "--checkpoint", default="best", choices=("best", "last"), help='"best" (default, by evaluation) or "last"'
    )


def _add_watch(parser: argparse.ArgumentParser) -> None:
    _add_run(parser)
    parser.add_argument("--out", type=Path, help="the film, .mp4 or .gif (default: RUN/watch.mp4)")
    parser.add_argument("--episodes", type=at_least(1), default=1, help="(default: %(default)s)")
    parser.add_argument("--seed", type=at_least(0), default=0, help="of the first episode (default: %(default)s)")
    parser.add_argument("--fps", type=float, help="pictures a second (default: the environment's own)")
    parser.add_argument("--every", type=at_least(1), default=1, help="keep one picture of so many (default: all)")
    parser.add_argument("--human", action="store_true", help="play in a window, and write nothing")
    parser.set_defaults(run=_watch)


def _add_task(parser: argparse.ArgumentParser, task: TaskPreset) -> None:
    options = parser.add_argument_group("the environment")
    for name, option in task.env.items():
        default = "" if option.default is None else f" (default: {option.default})"
        options.add_argument(
            f"--{name.replace('_', '-')}",
            dest=f"env_{name}",
            type=option.type,
            metavar=option.type.__name__.upper(),
            help=option.help + default,
        )
    own = "; nearest and paper have their own" if task.nearest else ""
    agent = parser.add_argument_group("the agent")
    agent.add_argument(
        "--k", type=number, help=f"candidates: a count, or a share of A with a point (default: {task.k}{own})"
    )
    agent.add_argument(
        "--recall",
        type=recall,
        help='of the lookup, where actions are a table: a share, or the paper\'s "slow" (0.99), "medium" (0.9), "fast" '
        "(0.7); an index is chosen and tuned to keep it (default: exact)",
    )
    agent.add_argument(
        "--table",
        action="store_true",
        help="look actions up in a table of their vectors even where their set has a lookup of its own",
    )
    agent.add_argument(
        "--preset",
        default="default",
        choices=PRESETS,
        help='"default"; "few-items": the same for catalogues of which few items are good for many users; "nearest": '
        'candidates around a proto-action, as in the paper, with our settings; or "paper": plain DDPG as published',
    )
    agent.add_argument(
        "--set", dest="changes", action="append", default=[], metavar="NAME=VALUE", type=_change,
        help="any other setting of the agent, in JSON; nested ones with a point: exploration.epsilon=0.5",
    )  # fmt: skip
    run = parser.add_argument_group("the run")
    run.add_argument("--steps", type=at_least(1), help=f"transitions (default: {task.steps:,}{own})")
    run.add_argument(
        "--seconds", type=float, help="of training, after which it ends even if steps are left (default: no limit)"
    )
    run.add_argument("--envs", type=at_least(1), help=f"environments stepped together (default: {task.n_envs}{own})")
    run.add_argument("--seed", type=int, default=0, help="(default: %(default)s)")
    run.add_argument("--out", type=Path, help="run folder (default: runs/TASK-SEED)")
    run.add_argument("--overwrite", action="store_true", help="replace a run that is in the folder already")
    run.add_argument("--device", default="auto", type=_device, help='"auto", "cpu" or "cuda" (default: %(default)s)')
    run.add_argument("--threads", type=at_least(1), help="for networks and lookups (default: as torch decides)")
    parser.set_defaults(run=_train)


def _device(text: str) -> str:
    try:
        get_device(text)
    except RuntimeError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no device here: {str(error).splitlines()[0]}") from error
    return text


def _change(text: str) -> tuple[list[str], Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    try:
        return name.split("."), json.loads(value)
    except json.JSONDecodeError:
        return name.split("."), value


def _train(options: argparse.Namespace) -> None:
    changes: dict[str, Any] = {}
    for path, value in options.changes:
        place = changes
        for name in path[:-1]:
            place = place.setdefault(name, {})
        place[path[-1]] = value
    env = {name: getattr(options, f"env_{name}") for name in TASKS[options.task].env}
    config = make_config(
        options.task,
        env={name: value for name, value in env.items() if value is not None},
        n_envs=options.envs,
        steps=options.steps,
        seed=options.seed,
        k=options.k,
        preset=options.preset,
        changes=changes,
        recall=options.recall,
        table=options.table,
        seconds=options.seconds,
    )
    if options.threads is not None:
        set_threads(options.threads)
    folder = options.out or Path("runs") / f"{options.task}-{options.seed}"
    train(config, folder, overwrite=options.overwrite, device=options.device)
    Console().print(f"run folder: {folder}\nplot: {folder / 'curve.png'}", highlight=False)


def _evaluate(options: argparse.Namespace) -> None:
    found = evaluate(options.folder, checkpoint=options.checkpoint, episodes=options.episodes)
    if options.json:
        score = {"value": found.score.value, "share": found.score.share, "distinct": found.score.distinct}
        sampled, baselines = vars(found.sampled), found.baselines
        print(json.dumps({"score": score, "exact": found.exact, "sampled": sampled, "baselines": baselines}))
        return
    console = Console()
    console.print(_score_table(found))
    if found.recommendations:
        console.print(_recommendation_table(found))
    if found.config.env.get("data") == "complete-journey":
        console.print(DATA_CAVEAT)
    if (plot := options.folder / "curve.png").exists():  # not if the run was interrupted
        console.print(f"plot: {plot}", highlight=False)


def _watch(options: argparse.Namespace) -> None:
    choice = {name: getattr(options, name) for name in ("checkpoint", "episodes", "seed", "fps", "every")}
    if options.human and options.out is not None:
        raise ValueError(f"--human writes nothing: leave out --out {options.out}")
    film = show(options.folder, **choice) if options.human else watch(options.folder, options.out, **choice)
    returns = ", ".join(f"{score:.2f}" for score in film.returns)
    cut = " (cut: the last episode goes on)" if film.cut else ""
    where = f"film: {film.path}, " if film.path else ""
    Console().print(f"{where}{film.frames} pictures, return {returns}{cut}", highlight=False, soft_wrap=True)


def _score_table(found: Evaluation) -> Table:
    score, sampled = found.score, found.sampled
    options = ", ".join(f"{name} {value}" for name, value in found.config.env.items())
    table = Table(title=f"{found.config.task}: {options}; k = {found.config.k}", caption=_speed(found))
    table.add_column("policy", no_wrap=True)
    for heading in ("exact return" if found.exact else "return", "share", "episodes (95 %)", "distinct actions"):
        table.add_column(heading, justify="right")
    interval = f"{sampled.mean:.3f}" if sampled.half_width is None else f"{sampled.mean:.3f} ± {sampled.half_width:.3f}"
    table.add_row(f"agent ({found.checkpoint})", *_cells(score.value, score.best), interval, str(score.distinct))
    if found.candidates is not None and found.config.k != 1:
        table.add_row("best of its candidates", *_cells(found.candidates, score.best))
    for name, value in reversed(found.baselines.items()):
        table.add_row(name, *_cells(value, score.best))
    return table


def _cells(value: float, best: float | None) -> tuple[str, str]:
    share = share_of(value, best)
    return f"{value:.3f}", "" if share is None else f"{share:.1%}"


def _speed(found: Evaluation) -> str:
    training = found.training_steps_per_second
    trained = f"trained at {training:,.0f} steps/s, " if training else ""
    return f"{trained}acted at {found.sampled.steps_per_second:,.0f} steps/s"


def _recommendation_table(found: Evaluation) -> Table:
    table = Table(title="some recommendations")
    for heading, justify in (
        ("to a user at", "left"),
        ("recommends", "left"),
        ("chance", "right"),
        ("reward", "right"),
    ):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    for row in found.recommendations:
        table.add_row(row.at, row.item, f"{row.chance:.2f}", f"{row.reward:.2f}")
    return table


if __name__ == "__main__":
    sys.exit(main())
