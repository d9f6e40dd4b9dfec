"""All that a run depends on: `RunConfig` is the configuration, the options of `wolpertinger train`, and config.json."""

import json
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from wolpertinger.envs.puddle_map import load_map
from wolpertinger.index.tune import check_recall
from wolpertinger.policy import make_source_settings
from wolpertinger.runs.presets import PRESET_NAMES, find_preset, merge
from wolpertinger.settings import MAX_SEED, check_kind, show

VERSION = 1  # of config.json
LOG_TASK = "log"  # of runs that learned from a log
MAX_ENVS = 2**16


@dataclass(frozen=True)
class Setting:
    """What a field says of its option on the command line, and of the values it takes."""

    help: str
    group: str
    """Of the options, in the command's help."""
    option: str | None = None
    """Its name, if not the field's."""
    absent: str | None = None
    """What happens if it is None, in words."""
    least: int | None = None
    most: int | None = None
    above: float | None = None
    choices: tuple[str, ...] | None = None


def _setting(help: str, group: str, default: Any = MISSING, **about: Any) -> Any:
    """A field with a `Setting`; without a default its value comes from the task's preset."""
    return field(default=default, metadata={"setting": Setting(help, group, **about)})


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """A run's settings in full, enough to repeat it; `make_config` fills in what the user leaves out."""

    task: str
    env: dict[str, Any]
    """The environment's options."""
    agent: dict[str, Any]
    """The agent's settings in full; `build.agent_arguments` turns them into arguments."""
    preset: str = _setting(
        '"default", "few-items" (are good for many), "nearest" (to a proto-action) or "paper" (plain DDPG)',
        "the agent",
        "default",
        choices=PRESET_NAMES,
    )
    k: int | float | None = _setting(
        "candidates: a count, or a share of A with a point", "the agent", absent="as the actions ask for"
    )
    recall: float | str | None = _setting(
        'of the lookup: a share, or "slow" (0.99), "medium" (0.9), "fast" (0.7)',
        "the agent",
        None,
        absent="exact",
    )
    table: bool = _setting("look actions up in a table, whatever their set", "the agent", False)
    build_seconds: float | None = _setting(
        "on building indexes in one tuning, at most", "the agent", None, absent="as ActionTable has it"
    )
    steps: int = _setting("transitions", "the run", least=1)
    seconds: float | None = _setting(
        "of training alone, after which it ends",
        "the run",
        None,
        absent="no limit",
        above=0,
    )
    n_envs: int = _setting("environments stepped together", "the run", option="envs", least=1, most=MAX_ENVS)
    seed: int = _setting("of networks, exploration and environments", "the run", 0, least=0, most=MAX_SEED)

    def __post_init__(self) -> None:
        hints = get_type_hints(RunConfig)
        for each in fields(self):
            _check(each.name, getattr(self, each.name), hints[each.name], each.metadata.get("setting"))
        _check_env(self.env, self.task, self.preset)
        if self.recall is not None:
            object.__setattr__(self, "recall", check_recall(self.recall))
        source = make_source_settings(self.agent.get("candidates", "nearest"))
        if (self.recall is not None or self.table) and not getattr(source, "needs_actor", True):
            given = "table=True" if self.recall is None else f"recall={self.recall!r}"
            raise ValueError(
                f'{given}: with candidates="critic" nothing is looked up; leave it out, or use preset="nearest" '
                "(--preset nearest on the command line)"
            )

    @classmethod
    def from_dict(cls, settings: dict[str, Any]) -> "RunConfig":
        """The config of settings by name, all of which must be there unless they have a default."""
        known = {each.name: each.default for each in fields(cls)}
        if unknown := settings.keys() - known.keys():
            raise ValueError(f"unknown settings: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
        if missing := [name for name, default in known.items() if default is MISSING and name not in settings]:
            raise ValueError(f"missing settings: {', '.join(missing)}")
        return cls(**settings)


def make_config(
    task: str,
    *,
    preset: str | None = None,
    env: dict[str, Any] | None = None,
    changes: dict[str, Any] | None = None,
    **settings: Any,
) -> RunConfig:
    """A task's preset with what the user changes; None leaves a setting as it is.

    :param env: options of the environment.
    :param changes: settings of the agent, laid over the preset's.
    :param settings: any other field of `RunConfig`.
    """
    for name, given in (("env", env), ("changes", changes)):
        check_kind(name, given, dict | None, "settings by name")
    preset = "default" if preset is None else preset
    chosen = find_preset(task, preset)
    options = {name: option.default for name, option in chosen.env.items()} | _given(env or {})
    if options.get("map") is not None:  # the map itself: its file may have changed when the run is evaluated
        options["map"] = load_map(options["map"]).to_text()
    if options.get("vectors") is not None:  # the run may be evaluated from another folder
        options["vectors"] = str(Path(options["vectors"]).resolve())
    return RunConfig.from_dict(
        {"n_envs": chosen.n_envs, "steps": chosen.steps, "k": chosen.k, "preset": preset}
        | _given(settings)
        | {"task": task, "env": _given(options), "agent": merge(chosen.agent, changes or {})}
    )


def write_config(folder: Path, config: RunConfig) -> None:
    """Write a run folder's config.json."""
    text = json.dumps({"version": VERSION, **asdict(config)}, indent=1)
    (folder / "config.json").write_text(text + "\n")


def learned_from_log(folder: Path) -> bool:
    """Whether a run folder is of a run that had no environment."""
    path = folder / "config.json"
    return path.exists() and f'"task": "{LOG_TASK}"' in path.read_text()


def read_config(folder: Path) -> RunConfig:
    """The config of a run folder."""
    path = folder / "config.json"
    if not path.exists():
        raise FileNotFoundError(f"{folder} is no run folder: it holds no config.json (wolpertinger train makes one)")
    try:
        found = json.loads(path.read_text())
        version = found.pop("version", None)
        if version != VERSION:
            raise ValueError(f"it is of version {version}, and only {VERSION} can be read; train the run again")
        if found.get("task") == LOG_TASK:
            raise ValueError("the run learned from a log and has no environment: evaluate it with --log FILE")
        return RunConfig.from_dict(found)
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def members(hint: Any) -> set[type]:
    """The types that a field takes, None left out."""
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    return {get_origin(kind) or kind for kind in kinds} - {NoneType}


def _given(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


def _check(name: str, value: Any, hint: Any, setting: Setting | None) -> None:
    """Refuse a value of another type than the field's, or out of its range."""
    if value is None and NoneType in get_args(hint):
        return
    kinds = members(hint)
    _check_kind(name, value, kinds)
    if setting is None:
        return
    if setting.least is not None and value < setting.least:
        raise ValueError(f"{name}={value!r}: give at least {setting.least}")
    if setting.most is not None and value > setting.most:
        raise ValueError(f"{name}={value!r}: give {setting.most:,} at most")
    if setting.above is not None and not value > setting.above:
        raise ValueError(f"{name}={value!r}: give more than {setting.above:g}")


def _check_kind(name: str, value: Any, kinds: set[type]) -> None:
    accepted = kinds | {int} if float in kinds else kinds
    is_flag = isinstance(value, bool) and bool not in kinds  # True is no 1
    if is_flag or not isinstance(value, tuple(accepted)):
        names = {int: "a whole number", float: "a number", str: "text", bool: "true or false", dict: "settings by name"}
        wanted = " or ".join(sorted(names[kind] for kind in kinds))
        raise TypeError(f"{name}={show(value)}: give {wanted}")


def _check_env(env: dict[str, Any], task: str, preset: str) -> None:
    """Refuse options that the task's environment does not have, or of another type."""
    options = find_preset(task, preset).env
    if unknown := env.keys() - options.keys():
        raise ValueError(f"unknown options of {task}: {', '.join(unknown)}; there are {', '.join(options)}")
    for name, value in env.items():
        _check_kind(name, value, {options[name].type})
