"""Late imports: public names at first use, and optional packages whose absence names the extra that brings them."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's `__getattr__` and `__dir__` (PEP 562): a name of `homes`, module to names, loads at first use.

    No name may be that of a submodule: importing the submodule would put the module in its place.
    """
    home = {name: module for module, names in homes.items() for name in names}

    def getattribute(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home[name]), name)
        setattr(sys.modules[package], name, value)  # the next use does not come here
        return value

    def directory() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home})

    return getattribute, directory


@contextmanager
def needs_extra(extra: str, what: str) -> Iterator[None]:
    """Import optional packages within: one that is not installed is an `ImportError` that says what needs it, and the
    extra to install.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or str(error)).partition(".")[0]
        raise ImportError(
            f'{what} needs {package}, which is not installed: pip install "wolpertinger[{extra}]"', name=package
        ) from error
