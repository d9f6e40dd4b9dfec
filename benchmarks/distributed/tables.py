"""The tables of docs/scale.md, rendered from the result files of benchmarks.distributed by benchmarks.tables."""

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.lookup import growth
from benchmarks.measure import read_result

MISSING = "missing"
SHARD = 10**8  # rows: the largest table that was measured
MACHINE = 128e9  # bytes, of those that the paper calculation is for
KINDS = {"waiting": "2 ms of waiting", "working": "2 ms of work", "dawdling": "20 ms of waiting"}
SIZES = (10**9, 10**10)


def lines(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table of Markdown; its first column is text, the others are numbers."""
    ruler = ["---", *["---:"] * (len(headings) - 1)]
    return [f"| {' | '.join(cells)} |" for cells in [headings, ruler, *rows]]


def told_by(found: dict[str, Any]) -> str:
    """Where a result was made: what else ran there decides."""
    machine = found["machine"]
    return f"{machine['cores']} cores, load {machine['load_at_end'][0]:.0f} at the end."


def throughput_table() -> str:
    """Two workers beside one process."""
    found = read_result("distributed.throughput")
    if found is None:
        return MISSING
    rows = []
    for kind, label in (each for each in KINDS.items() if each[0] in found):
        own = found[kind]
        rates = (f"{own[name]['median']:,.0f}" for name in ("one_process", "workers"))
        ratio = f"{own['ratio']['median']:.2f} ({own['ratio']['least']:.2f} to {own['ratio']['most']:.2f})"
        updates = (f"{own[f'updates_per_transition_{name}']:.4f}" for name in ("one_process", "workers"))
        age = f"{own['weights_age']['median']:.0f}, {own['weights_age']['most']:.0f}"
        rows.append([label, *rates, ratio, *updates, age])
    headings = ["a step takes", "one process, transitions/s", f"{found['workers']} workers", "ratio (rounds)"]
    headings += ["updates per transition, one process", "workers", "age of the weights in updates: median, most"]
    return "\n".join([*lines(headings, rows), "", told_by(found)])


def kills_table() -> str:
    """What kills did to a run, as far as there are results."""
    result = read_result("distributed.kills")
    if result is None:
        return MISSING
    parts = {"workers": _killed_workers, "learner": _killed_learner}
    return "\n".join([*(parts[name](result[name]) if name in result else MISSING for name in parts), told_by(result)])


def _killed_workers(found: dict[str, Any]) -> str:
    quiet, pauses = zip(
        *((part["transitions_per_second"], part["longest_pause"]) for part in found["quiet"]), strict=True
    )
    rows = [["before and after", " and ".join(f"{rate:,.0f}" for rate in quiet), f"{max(pauses):.1f}"]]
    for name, own in ((f"{found['kills']} workers killed", found["killing"]), ("a node killed", found["after_node"])):
        rows.append([name, f"{own['transitions_per_second']:,.0f}", f"{own['longest_pause']:.1f}"])
    who = (
        f"{found['count']} workers on {found['nodes']} nodes, one killed every {found['seconds_between_kills']:.0f} s."
    )
    return "\n".join([*lines(["", "transitions/s", "longest pause, s"], rows), "", f"{who} {_stored(found['stored'])}"])


def _killed_learner(found: dict[str, Any]) -> str:
    told = f"A learner killed after {found['killed_after']:,} transitions went on from {found['resumed_at']:,}."
    return f"{told} {_stored(found['stored'])}"


def _stored(found: dict[str, int]) -> str:
    counts = f"{found['transitions']:,} transitions, {found['corrupt']} corrupt, {found['twice']} twice"
    return f"In the replay buffer at the end: {counts}."


def shards_table() -> str:
    """Lookups in shards beside one table, and with a kill among them."""
    found = read_result("distributed.shards")
    if found is None:
        return MISSING
    rows, times = [], found["mapped"]["seconds_per_lookup"]
    for case in dict.fromkeys(name.partition(", ")[2] for name in times):
        own = (times[f"{name}, {case}"]["median"] for name in ("one_table", "shards"))
        rows.append([case, *(f"{1e3 * seconds:,.1f}" for seconds in own)])
    memory = found["mapped"]["anonymous_bytes"]
    rows.append(["memory of a process beside the file, MB", *(f"{own / 1e6:,.0f}" for own in memory.values())])
    whole = f"{found['mapped']['rows']:,} rows of {found['dim']}, exact, mapped from a file"
    text = [*lines([whole, "one table, ms", f"{found['shards']} shards, ms"], rows), ""]
    headings = ["a shard killed amid", "complete", "refused", "wrong or short", "whole again after, s"]
    kills = []
    for own in (found[name] for name in ("killed_alone", "killed_with_a_replica") if name in found):
        counts = (f"{own[name]:,}" for name in ("complete", "refused", "wrong_or_short"))
        name = f"{own['lookups']:,} lookups, {own['replicas']} replica{'s' if own['replicas'] > 1 else ''}"
        kills.append([name, *counts, f"{own['whole_again_after_seconds']:.1f}"])
    return "\n".join([*text, *lines(headings, kills), "", told_by(found)])


def pgvector_table() -> str:
    """Lookups in a database beside our own."""
    found = read_result("distributed.pgvector")
    if found is None:
        return MISSING
    rows = []
    for k, contenders in found["lookups"].items():
        cells = (f"{own['recall']:.3f}, {1e3 * own['seconds_per_query']['median']:,.2f}" for own in contenders.values())
        rows.append([f"{int(k):,}", *cells])
    headings = ["k", "pgvector (HNSW): recall, ms a query", "own index, recall 0.95", "own exact scan"]
    server = found["server"]
    text = (
        f"{found['rows']:,} vectors of {found['dim']}; their index took {found['seconds_to_index']:,.0f} s to build. "
        f"Server stopped: {server['errors']} of {server['asked_while_stopped']} lookups raised an error; started: "
        f"{server['same_as_before']} of {server['asked_after']} answers were as before. {told_by(found)}"
    )
    return "\n".join([*lines(headings, rows), "", text])


def paper_table() -> str:
    """What larger catalogues need, by what a table of 10^8 rows took; nothing of this was run."""
    measured = next((row for row in growth.results("clustered") if row["n"] == SHARD), None)
    if measured is None:
        return MISSING
    index, vector = (
        measured["index_bytes_per_vector"],
        measured["bytes_per_vector"] - measured["index_bytes_per_vector"],
    )
    rows = []
    for size in SIZES:
        machines = -(-size * measured["bytes_per_vector"] // MACHINE)
        on_disk = -(-size * index // MACHINE)
        cores = f"{1e-3 * measured['batch_ms'] * (size / SHARD) * 1_000:,.1f}"
        cells = [
            f"{size // SHARD}",
            f"{measured['one_ms']:.2f}",
            f"{size * index / 1e9:,.0f}",
            f"{size * vector / 1e9:,.0f}",
        ]
        rows.append([f"10^{len(str(size)) - 1}", *cells, f"{machines:,.0f}", f"{on_disk:,.0f}", cores])
    headings = [
        "vectors",
        "shards of 10^8",
        "a lookup in a shard alone, ms",
        "indexes, GB",
        "vectors, GB",
        "machines of 128 GB, all in memory",
    ]
    headings += ["with vectors on disk", "cores for 1,000 lookups/s"]
    return "\n".join(lines(headings, rows))


TABLES: dict[tuple[str, str], Callable[[], str]] = {
    ("docs/scale.md", "throughput"): throughput_table,
    ("docs/scale.md", "kills"): kills_table,
    ("docs/scale.md", "shards"): shards_table,
    ("docs/scale.md", "pgvector"): pgvector_table,
    ("docs/scale.md", "on paper"): paper_table,
}
