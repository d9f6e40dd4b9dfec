"""The tables of README.md and docs/, rendered from the result files: `python -m benchmarks.tables`.

A result that is not there reads "missing"; no number is typed by hand, and a test compares the documents with this.
"""

from collections.abc import Callable
from pathlib import Path

from benchmarks import checkpoints
from benchmarks.distributed import tables as distributed
from benchmarks.learning import action_map, choosing_k, from_log, new_items, recommender_limits, search, search_swing
from benchmarks.learning import tables as learning
from benchmarks.lookup import tables as lookup
from benchmarks.speed import serving
from benchmarks.speed import tables as speed
from benchmarks.suite import tables as suite

ROOT = Path(__file__).parent.parent

TABLES: dict[tuple[str, str], Callable[[], str]] = {
    **learning.TABLES,
    **recommender_limits.TABLES,
    **search.TABLES,
    **search_swing.TABLES,
    **new_items.TABLES,
    **from_log.TABLES,
    **action_map.TABLES,
    **choosing_k.TABLES,
    **lookup.TABLES,
    **speed.TABLES,
    **serving.TABLES,
    **suite.TABLES,
    **checkpoints.TABLES,
    **distributed.TABLES,
}


def render(text: str, name: str, table: str) -> str:
    """Text with the part between the table's markers replaced."""
    begin, end = f"<!-- {name}: python -m benchmarks.tables -->", f"<!-- /{name} -->"
    before, rest = text.split(begin)
    return f"{before}{begin}\n{table.strip()}\n{end}{rest.split(end)[1]}"


def main() -> None:
    for (file, name), table in TABLES.items():
        path = ROOT / file
        path.write_text(render(path.read_text(), name, table()))


if __name__ == "__main__":
    main()
