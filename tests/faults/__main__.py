"""All attacks with their full counts: `python -m tests.faults`; or some: `python -m tests.faults killed --count 10`.

Each round is added to benchmarks/results/faults.json, from which docs/reliability.md is rendered; --fresh begins anew.
"""

import argparse
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any

from benchmarks.measure import commit, read_result, say, write_result
from tests.faults import (
    arguments,
    bodies,
    commands,
    crafted,
    crafts,
    damage,
    killed,
    long,
    numbers,
    saving,
    serving,
    sharing,
    sharing_agent,
    tasks,
)

RESULT = "faults"
ATTACKS: dict[str, tuple[int, Callable[[int, int], dict[str, Any]]]] = {
    **{f"killed: {task}": (50, partial(killed.attack, task)) for task in tasks.TASKS},
    "killed while saving": (100, saving.kill_while_saving),
    "service: killed": (30, serving.chaos),
    "service: strange bodies": (10_000, bodies.strange_bodies),
    "disk full": (100, saving.fill_the_disk),
    "bad numbers": (100, numbers.bad_numbers),
    "rewards of 1e30": (100, numbers.large_rewards),
    "learning rate 10": (100, numbers.large_steps),
    "flipped bits": (1_000, damage.flips),
    "cut files": (300, damage.cuts),
    "crafted archives": (len(crafts.all_crafts()), crafted.crafted),
    "odd arguments": (2_000, arguments.odd_arguments),
    "odd commands": (500, commands.odd_commands),
    "long: predictions": (1_000_000, long.predictions),
    "long: training": (100_000, long.training),
    "long: rows that come and go": (500_000, long.changes),
    **{f"threads: {kind}": (100_000, partial(sharing.look_up_while_writing, kind)) for kind in sharing.KINDS},
    **{
        f"threads: {kind}": (10_000, partial(sharing_agent.predict_while_writing, kind))
        for kind in sharing_agent.AGENTS
    },
}
"""How often each is tried, and what tries it so many times with a seed."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "attacks", nargs="*", help=f"parts of the names of attacks (default: all): {', '.join(ATTACKS)}"
    )
    parser.add_argument("--count", type=int, help="tries of each (default: its full count)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fresh", action="store_true", help="forget the rounds before")
    options = parser.parse_args()
    chosen = [name for name in ATTACKS if not options.attacks or any(part in name for part in options.attacks)]
    for place, name in enumerate(chosen):
        full, attack = ATTACKS[name]
        start = monotonic()
        found = attack(options.count or full, options.seed)
        facts = {"attack": name, "seed": options.seed, "seconds": round(monotonic() - start, 1), "commit": commit()}
        before = [] if options.fresh and place == 0 else (read_result(RESULT) or {}).get("rounds", [])
        public = {key: value for key, value in found.items() if not key.startswith("_")}
        write_result(RESULT, {"command": "python -m tests.faults", "rounds": [*before, {**facts, **public}]})
        say(f"{name}: {public}")


if __name__ == "__main__":
    main()
