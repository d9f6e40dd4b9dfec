"""Settings as objects: frozen dataclasses that validate themselves and become JSON."""

from collections.abc import Mapping
from dataclasses import fields
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np


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


def read_settings(argument: str, value: Any, known: Mapping[str, type[Settings]]) -> Any:
    """Settings from their short name or their JSON; objects and callables of the user's own pass as they are."""
    accepted = ", ".join(f'"{kind}" or {cls.__name__}(...)' for kind, cls in known.items())
    if isinstance(value, str | Mapping):
        options = dict(value) if isinstance(value, Mapping) else {"kind": value}
        kind: Any = options.pop("kind", None)
        if not isinstance(kind, str) or kind not in known:
            raise ValueError(f"{argument}={value!r}: give one of {accepted}")
        names = [field.name for field in fields(known[kind])]  # type: ignore[arg-type]
        if unknown := sorted(options.keys() - set(names)):
            raise ValueError(
                f"{argument}: {known[kind].__name__} has no {', '.join(unknown)}; it has {', '.join(names)}"
            )
        return known[kind](**options)
    is_other = isinstance(value, Settings) and not isinstance(value, tuple(known.values()))  # of another part
    is_class = isinstance(value, type) and issubclass(value, Settings)  # without its ()
    if not callable(value) or is_other or is_class:
        raise TypeError(f"{argument}={value!r}: give one of {accepted}")
    return value


def check_number(
    name: str, value: Any, *, least: float = 0, above: bool = False, whole: bool = False, optional: bool = False
) -> None:
    """Refuse what is not a finite number of at least `least`, or above it (or None, where that is an option)."""
    if value is None and optional:
        return
    if not (is_number(value, whole=whole) and least <= value < float("inf") and not (above and value == least)):
        kind, bound = "a whole number" if whole else "a finite number", "above" if above else "of at least"
        raise ValueError(f"{name}={value!r}: give {kind} {bound} {least}{' or None' if optional else ''}")


def is_number(value: Any, *, whole: bool = False) -> bool:
    """Whether it is a (whole) number, numpy's too; True and False are none."""
    return not isinstance(value, bool) and isinstance(value, Integral if whole else Real)


def check_choice(name: str, value: Any, choices: Mapping[str, Any] | tuple[str, ...]) -> None:
    """Refuse what is not one of the named choices."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name}={value!r}: give one of {', '.join(map(repr, choices))}")


def check_flag(name: str, value: Any) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name}={value!r}: give True or False")
