"""Settings as objects, frozen dataclasses that validate themselves and become JSON; and the checks of arguments."""

import resource
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from inspect import Parameter, signature
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

LARGEST, LARGEST_WHOLE = sys.float_info.max, 2**63 - 1
MAX_SEED = 2**32 - 1  # of numpy's global generator
SHOWN = 200  # characters of a value in an error
SMALL = 2**28  # bytes that nobody asks whether they fit
MEMINFO = Path("/proc/meminfo")
MEMORY = {"all": "MemTotal:", "free": "MemAvailable:"}  # its lines, in kB


class Settings:
    """Base of the frozen dataclasses that describe a part of the agent; calling one builds that part."""

    kind: ClassVar[str]
    """The name of the class in files, and of its defaults as an argument: `critic="two-tower"`."""

    def to_json(self) -> dict[str, Any]:
        """The kind and every field, in JSON's terms."""
        return {"kind": self.kind, **{field.name: _encode(getattr(self, field.name)) for field in fields(self)}}  # type: ignore[arg-type]


def _encode(value: Any) -> Any:
    if isinstance(value, Settings):
        return value.to_json()
    if isinstance(value, np.generic):
        return value.item()
    return [_encode(part) for part in value] if isinstance(value, list | tuple) else value


def read_settings(argument: str, value: Any, known: Mapping[str, type[Settings]], *, takes: Sequence[str] = ()) -> Any:
    """Settings from their short name or their JSON; objects and callables of the user's own that take what is named
    pass as they are.
    """
    accepted = ", ".join(f'"{kind}" or {cls.__name__}(...)' for kind, cls in known.items())
    if isinstance(value, str | Mapping):
        options = dict(value) if isinstance(value, Mapping) else {"kind": value}
        kind: Any = options.pop("kind", None)
        if not isinstance(kind, str) or kind not in known:
            raise ValueError(f"{argument}={show(value)}: give one of {accepted}")
        names = [field.name for field in fields(known[kind])]  # type: ignore[arg-type]
        if unknown := sorted(map(str, options.keys() - set(names))):
            raise ValueError(
                f"{argument}: {known[kind].__name__} has no {', '.join(unknown)}; it has {', '.join(names)}"
            )
        return known[kind](**options)
    is_other = isinstance(value, Settings) and not isinstance(value, tuple(known.values()))  # of another part
    is_class = isinstance(value, type) and issubclass(value, Settings)  # without its ()
    if not callable(value) or is_other or is_class:
        raise TypeError(f"{argument}={show(value)}: give one of {accepted}")
    if takes and not isinstance(value, Settings):
        check_takes(argument, value, takes)
    return value


def show(value: Any) -> str:
    """A value as an error shows it: its repr, cut short, or its type where it has none."""
    try:
        text = repr(value)
    except Exception:  # of the user's own class; or an int of more digits than Python prints
        size = f" of {value.bit_length():,} bits" if isinstance(value, int) else ""
        return f"<{type(value).__name__}{size}>"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def check_number(
    name: str,
    value: Any,
    *,
    least: float = 0,
    most: float | None = None,
    above: bool = False,
    whole: bool = False,
    optional: bool = False,
) -> Any:
    """Return a finite number of at least `least`, or above it, and at most `most` (or None, where that is an option);
    refuse all else.
    """
    if value is None and optional:
        return value
    top = (LARGEST_WHOLE if whole else LARGEST) if most is None else most
    number = value.item() if isinstance(value, np.generic) else value  # float32 does not compare with `LARGEST`
    fits = is_number(value, whole=whole) and max(least, -LARGEST) <= number <= top
    if not fits or (above and number == least):
        kind = "a whole number" if whole else "a number" if top == float("inf") else "a finite number"
        bound = f"{'above' if above else 'of at least'} {least}"
        if (most is not None and top < float("inf")) or (is_number(value) and top < number < float("inf")):
            bound = f"above {least}, {top} at most" if above else f"from {least} to {top}"
        raise ValueError(f"{name}={show(value)}: give {kind} {bound}{' or None' if optional else ''}")
    return value


def is_number(value: Any, *, whole: bool = False) -> bool:
    """Whether it is a (whole) number, numpy's too; True and False are none."""
    return not isinstance(value, bool) and isinstance(value, Integral if whole else Real)


def check_choice(name: str, value: Any, choices: Collection[str], *, optional: bool = False) -> None:
    """Refuse what is not one of the named choices (or None, where that is an option)."""
    if not (value is None and optional) and (not isinstance(value, str) or value not in choices):
        named = ", ".join(map(repr, choices))
        raise ValueError(f"{name}={show(value)}: give {f'{named} or None' if optional else f'one of {named}'}")


def check_flag(name: str, value: Any, *, optional: bool = False) -> None:
    """Refuse what is neither True nor False (nor None, where that is an option)."""
    if not isinstance(value, bool) and not (value is None and optional):
        raise ValueError(f"{name}={show(value)}: give True or False{' or None' if optional else ''}")


def check_kind(name: str, value: Any, kinds: Any, accepted: str) -> None:
    """Refuse what is of no accepted type."""
    if not isinstance(value, kinds):
        raise TypeError(f"{name}={show(value)}: give {accepted}")


def check_class(name: str, value: Any, base: type) -> None:
    """Refuse what is not a subclass of `base`."""
    if not (isinstance(value, type) and issubclass(value, base)):
        raise TypeError(f"{name}={show(value)}: give a subclass of {base.__name__}")


def check_seed(name: str, seed: Any) -> None:
    """Refuse what no generator takes as a seed."""
    check_number(name, seed, most=MAX_SEED, whole=True, optional=True)


def check_names(name: str, given: Iterable[str] | None, known: Collection[str]) -> set[str]:
    """Return what is named, which is a list of some of the known names; None names nothing."""
    if given is None:
        return set()
    if not isinstance(given, list | tuple | set | frozenset):
        raise TypeError(f"{name}={show(given)}: give a list of names of {', '.join(known)}")
    listed = list(given)
    if unknown := sorted(str(part) for part in listed if not isinstance(part, str) or part not in known):
        raise ValueError(f"unknown {', '.join(unknown)}: {name} takes {', '.join(known)}")
    return set(listed)


def check_takes(name: str, call: Callable[..., Any], parts: Sequence[str]) -> None:
    """Refuse what cannot be called with these arguments, one after the other."""
    try:
        known = signature(call)
    except (TypeError, ValueError):  # some built-in things do not say what they take
        return
    try:
        known.bind(*parts)
    except TypeError as error:
        raise TypeError(f"{name}={show(call)} is called with {', '.join(parts)}: {error}") from None


def check_keywords(name: str, given: Any, call: Callable[..., Any], *, without: Collection[str] = ()) -> None:
    """Refuse what is not a dict of arguments that `call` takes by name."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{name}={show(given)}: give a dict of settings by name")
    known = signature(call).parameters.values()
    names = [part.name for part in known if part.name not in without and part.kind is not Parameter.VAR_KEYWORD]
    takes_any = any(part.kind is Parameter.VAR_KEYWORD for part in known)
    if unknown := sorted(str(part) for part in given if not isinstance(part, str) or not (takes_any or part in names)):
        raise TypeError(f"{name} has no {', '.join(unknown)}: it has {', '.join(names)}")


def check_memory(what: str, nbytes: int, *, of: str = "free") -> None:
    """Refuse what does not fit into "free" memory; into "all" of it, where it is filled little by little."""
    if nbytes > SMALL and nbytes > (room := count_memory(of)):
        raise ValueError(f"{what} would take {nbytes:,} bytes of memory, {room:,} are there: give less")


def count_memory(of: str) -> int:
    """Bytes of "free" memory, or "all" of it, or that the process may still take, if that is less."""
    line = MEMORY[of]
    if not MEMINFO.exists():  # not Linux: nobody knows
        return LARGEST_WHOLE
    told = {part[0]: int(part[1]) for part in map(str.split, MEMINFO.read_text().splitlines())}
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return told[line] * 1024
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    return max(0, min(told[line] * 1024, limit - used))
