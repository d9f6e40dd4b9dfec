"""What it is worth to let glibc keep freed memory: `python -m benchmarks.speed.allocator`.

A program does so by freeing one large piece of memory before anything else; glibc then stops giving pieces of up to
that size back to the system. It lasts for the whole process, so every sample is a process of its own, in turn.
"""

import statistics
import subprocess
import sys
from collections.abc import Sequence

import numpy as np

from benchmarks.measure import time_rounds, write_result

LARGEST = 2**25 - 2**16  # bytes: a little less than the most that glibc adapts to
PAIRS, ROUNDS = 5, 5
FORMS = {"recommender, k = 656": ("paper", 656), "recommender, preset nearest, k = 656": ("nearest", 656)}


def child(form: str) -> float:
    """The median seconds of a training step."""
    from benchmarks.speed.agents import Trainer, make_agent, make_env, preset

    networks, k = FORMS[form]
    trainer = Trainer(make_agent(make_env("recommender"), k=k, **preset("recommender", networks)))
    trainer.warm_up(5, 0.5)
    return statistics.median(time_rounds({form: trainer}, ROUNDS)[form])


def main(arguments: Sequence[str] = ()) -> None:
    if arguments:
        form, keeps = arguments
        if keeps == "keeps":
            np.empty(LARGEST, np.uint8)
        print(child(form))
        return
    rows = []
    for form in FORMS:
        pairs = [[_run(form, keeps) for keeps in ("keeps", "returns")] for _ in range(PAIRS)]
        ratio = statistics.median(returns / keeps for keeps, returns in pairs)
        rows.append({"step": form, "seconds": pairs, "times_without": ratio})
        print(f"{form}: {ratio:.3f} times as long without")
    write_result("speed.allocator", {"pairs": PAIRS, "rows": rows})


def _run(form: str, keeps: str) -> float:
    command = [sys.executable, "-m", "benchmarks.speed.allocator", form, keeps]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
