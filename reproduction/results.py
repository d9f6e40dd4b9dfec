"""Result files: one for each run, written whole or not at all, and only read as what they are."""

import json
from pathlib import Path
from typing import Any

from reproduction.plan import Run, Variant

Result = dict[str, Any]


class Results:
    """The result files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, run: Run) -> Path:
        return self.folder / "runs" / f"{run.name}.json"

    def read(self, run: Run) -> Result | None:
        """A run's result; None if there is none, or only one with other settings than the run has now."""
        path = self.path(run)
        try:
            found = json.loads(path.read_text())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise ValueError(f"{path} is no result file ({error}): remove it, and reproduce it again") from error
        return found if _given(found.get("spec", {})) == _given(run.spec()) else None

    def write(self, run: Run, result: Result) -> None:
        """Keep a result; a process that is killed meanwhile leaves none."""
        path = self.path(run)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps({"run": run.name, "spec": run.spec(), **result}, indent=1) + "\n")
        draft.replace(path)

    def of(self, variant: Variant) -> list[Result]:
        """The results of all seeds that have one."""
        found = (self.read(Run(variant, seed)) for seed in range(variant.seeds))
        return [result for result in found if result is not None]


def _given(spec: dict[str, Any]) -> dict[str, Any]:
    """What is not None: an option that came later, and is left out, makes no other run.

    Nor does the name of a preset, whose settings are all there.
    """
    return {name: value for name, value in spec.items() if value is not None and name != "preset"}
