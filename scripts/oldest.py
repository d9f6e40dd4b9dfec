"""Print the lowest version of every dependency in pyproject.toml as pip constraints: `python scripts/oldest.py`.

Arguments replace pins of the same package: `python scripts/oldest.py torch==2.13.0`.
"""

import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

PYPROJECT = Path(__file__).parent.parent / "pyproject.toml"
BOUND = re.compile(r"(?P<name>[\w.-]+)>=(?P<version>[\w.]+)")


def oldest(project: dict, replacements: Sequence[str] = ()) -> list[str]:
    """Return `name==version` for the dependencies and extras of a [project] table, each once."""
    extras = project["optional-dependencies"].values()
    pins: dict[str, str] = {}
    for requirement in [*project["dependencies"], *(one for extra in extras for one in extra)]:
        if requirement.startswith(f"{project['name']}["):  # an extra made of others
            continue
        bound = BOUND.fullmatch(requirement)
        if bound is None:
            raise ValueError(f"{requirement!r} has no plain lower bound: write it as name>=version")
        pin = f"{bound['name']}=={bound['version']}"
        if pins.setdefault(bound["name"], pin) != pin:
            raise ValueError(f"{requirement!r} stands beside {pins[bound['name']]!r}: give both the same bound")
    for replacement in replacements:
        name = replacement.partition("==")[0]
        if name not in pins:
            raise ValueError(f"{replacement!r} replaces nothing: give one of {', '.join(pins)} as name==version")
        pins[name] = replacement
    return list(pins.values())


if __name__ == "__main__":
    print("\n".join(oldest(tomllib.loads(PYPROJECT.read_text())["project"], sys.argv[1:])))
