"""`wolpertinger train`: a task into a run folder; the options are the fields of `RunConfig` and the task's own."""

import argparse
import json
import math
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, get_type_hints

from wolpertinger.agent.arguments import check_device
from wolpertinger.cli.options import add_json, at_least, file_path, number, number_or_name, say, with_example
from wolpertinger.cli.train_log import add_log_options, given_options, train_log
from wolpertinger.cli.train_ray import add_ray_options, refuse_ray, resumer, trainer
from wolpertinger.runs import make_config
from wolpertinger.runs.checkpointing import EVERY_SECONDS
from wolpertinger.runs.config import RunConfig, Setting, members
from wolpertinger.runs.presets import TASKS, Preset
from wolpertinger.runs.signals import catch_signals
from wolpertinger.settings import LARGEST_WHOLE, show
from wolpertinger.threads import MAX_THREADS, set_threads

EXAMPLE = """example:
  wolpertinger train recommender --items 835 --seed 1 --out runs/first
  wolpertinger train cart-pole --ray --workers 8
  wolpertinger train environment --env-id my_module:MyEnv-v0
  wolpertinger train --resume runs/first
  wolpertinger train --log log.parquet --actions vectors.npy --out runs/logged"""
EXAMPLES = {
    "recommender": "--data complete-journey --median-best 0.5",
    "cart-pole": "--levels 1000000 --k 1",
    "puddle-world": "--plan 20 --k 1",
    "control": "--env-id Pendulum-v1 --levels 1001",
    "environment": "--env-id mine:Env-v0 --vectors v.npy",
}
METAVARS = {"preset": "NAME", "build_seconds": "SECONDS", "n_envs": "N", "steps": "N"}
PARSERS: dict[frozenset[type], Any] = {
    frozenset({str}): str,
    frozenset({int}): int,
    frozenset({float}): float,
    frozenset({int, float}): number,
    frozenset({float, str}): number_or_name,
}


def add_train(commands: Any) -> None:
    """Add `train` and its tasks."""
    parser = commands.add_parser(
        "train", help="train an agent on a task, into a run folder", **with_example(EXAMPLE, short=True)
    )
    add_json(parser)
    parser.add_argument(
        "--resume", type=file_path, metavar="RUN", help="go on with an interrupted run; takes no other option but --ray"
    )
    add_ray_options(parser)
    add_log_options(parser, _change, _device)
    parser.set_defaults(run=_resume)
    tasks = parser.add_subparsers(dest="task", metavar="TASK", prog="wolpertinger train")
    for name, preset in TASKS.items():
        example = f"example:\n  wolpertinger train {name} {EXAMPLES[name]}"
        _add_task(tasks.add_parser(name, help=preset.env_id, **with_example(example, short=True)), preset)


def _add_task(parser: argparse.ArgumentParser, preset: Preset) -> None:
    groups = {name: parser.add_argument_group(name) for name in ("the environment", "the agent", "the run")}
    for name, option in preset.env.items():
        default = "" if option.default is None else f" (default: {option.default})"
        groups["the environment"].add_argument(
            _flag(name), dest=f"env_{name}", type=_json_object if option.type is dict else option.type,
            metavar="JSON" if option.type is dict else option.type.__name__.upper(),
            help=option.help + default,
        )  # fmt: skip
    for field in fields(RunConfig):
        if (setting := field.metadata.get("setting")) is not None:
            _add_setting(groups[setting.group], field, setting, preset)
    groups["the agent"].add_argument(
        "--set", dest="changes", action="append", default=[], metavar="NAME=VALUE", type=_change,
        help="any other setting, as exploration.epsilon=0.5",
    )  # fmt: skip
    run = groups["the run"]
    # As before the TASK; a default of its own would undo what was given there.
    run.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print what came out as JSON")
    run.add_argument("--out", type=file_path, help="run folder (default: runs/TASK-SEED)")
    run.add_argument("--overwrite", action="store_true", help="replace a run that is in the folder already")
    run.add_argument(
        "--checkpoint-every", type=float, default=EVERY_SECONDS, metavar="SECONDS",
        help="for --resume (default: %(default)s); 0: never",
    )  # fmt: skip
    run.add_argument("--device", default="auto", type=_device, help='"auto", "cpu" or "cuda" (default: %(default)s)')
    run.add_argument(
        "--threads", type=at_least(1, MAX_THREADS),
        help="of networks and lookups (default: by the work)",
    )  # fmt: skip
    add_ray_options(run, default=argparse.SUPPRESS)  # given before the TASK they stand as well
    parser.set_defaults(run=_train)


def _add_setting(group: Any, field: Field[Any], setting: Setting, preset: Preset) -> None:
    """The option of one field of `RunConfig`; it is None unless it is given, and the field or preset says what then."""
    flag, kinds = _flag(setting.option or field.name), members(get_type_hints(RunConfig)[field.name])
    if kinds == {bool}:
        group.add_argument(flag, dest=field.name, action="store_true", default=None, help=setting.help)
        return
    own = ", or the preset's" if preset.nearest else ""
    default = field.default
    if default is MISSING:
        preset_value = getattr(preset, field.name)
        default = setting.absent if preset_value is None else f"{preset_value:,}{own}"
    parse = PARSERS[frozenset(kinds)]
    if kinds == {int} and setting.least is not None:
        parse = at_least(setting.least, LARGEST_WHOLE if setting.most is None else setting.most)
    group.add_argument(
        flag, dest=field.name, type=parse, choices=setting.choices, metavar=METAVARS.get(field.name),
        help=f"{setting.help} (default: {default if default is not None else setting.absent})",
    )  # fmt: skip


def _json_object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is no JSON object: give one such as '{{\"size\": 5}}'")
    return found


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _device(text: str) -> str:
    try:
        check_device(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def _change(text: str) -> tuple[list[str], Any]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    try:
        return name.split("."), json.loads(value)
    except (ValueError, RecursionError):  # no JSON, or too long or too deep for it
        return name.split("."), value


def _resume(options: argparse.Namespace) -> None:
    if options.log is not None and options.resume is None:
        refuse_ray(options)
        folder = train_log(options, _nested)
        say(options, {"folder": folder, **_result(options, folder)}, f"run folder: {folder}")
        return
    if options.resume is None:
        raise ValueError(f"no TASK: give one of {', '.join(TASKS)}, or --resume RUN, or --log FILE")
    _refuse_log_options(options, "--resume takes no other option")
    with catch_signals() as stop:
        resumer(options)(options.resume, stop=stop)
    _say_where(options, options.resume)


def _refuse_log_options(options: argparse.Namespace, why: str) -> None:
    if given := [*(["log"] if options.log is not None else []), *given_options(options)]:
        raise ValueError(f"--{given[0]}: {why}")


def _train(options: argparse.Namespace) -> None:
    _refuse_log_options(options, "give it after the TASK, or leave out the TASK to learn from a --log")
    if options.resume is not None:
        raise ValueError(f"--resume {options.resume}: leave out the task, the run knows it")
    if not 0 <= options.checkpoint_every < math.inf:
        raise ValueError(f"--checkpoint-every {options.checkpoint_every}: give seconds, or 0 for no checkpoints")
    settings = {field.name: getattr(options, field.name) for field in fields(RunConfig) if "setting" in field.metadata}
    env = {name: getattr(options, f"env_{name}") for name in TASKS[options.task].env}
    config = make_config(options.task, env=env, changes=_nested(options.changes), **settings)
    if options.threads is not None:
        set_threads(options.threads)
    folder = options.out or Path("runs") / f"{options.task}-{config.seed}"
    every = options.checkpoint_every or None
    train = trainer(options)
    with catch_signals() as stop:
        train(config, folder, overwrite=options.overwrite, device=options.device, checkpoint_seconds=every, stop=stop)
    _say_where(options, folder)


def _say_where(options: argparse.Namespace, folder: Path) -> None:
    plot = folder / "curve.png"
    say(options, {"folder": folder, "plot": plot, **_result(options, folder)}, f"run folder: {folder}\nplot: {plot}")


def _result(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """What the run came to, for those who read JSON."""
    return json.loads((folder / "result.json").read_text()) if options.json else {}


def _nested(changes: list[tuple[list[str], Any]]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for path, value in changes:
        place = nested
        for name in path[:-1]:
            place = place.setdefault(name, {})
            if not isinstance(place, dict):
                raise ValueError(f"--set {'.'.join(path)}: {name} is set to {show(place)} already")
        place[path[-1]] = value
    return nested
