"""How long importing the package takes beside Stable-Baselines3: `python -m benchmarks.import_time`.

Fresh interpreters in turn, their own start included; results/import_time.json holds seconds and ratios of medians. The
seconds are the processor's: what else the machine does would hide a difference of a tenth.
"""

import os
import statistics
import subprocess
import sys
from collections.abc import Mapping

from benchmarks.measure import summarise, write_result

ROUNDS = 15
MOST = 1.15  # times Stable-Baselines3
BESIDE = "import stable_baselines3"
STATEMENTS = (BESIDE, "import wolpertinger", "from wolpertinger import Wolpertinger")


def measure(rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Seconds of an interpreter that executes each statement, once per round, after a round that warms the disk."""
    seconds: dict[str, list[float]] = {statement: [] for statement in STATEMENTS}
    for warm in [False] + [True] * rounds:
        for statement, samples in seconds.items():
            spent = _execute(statement)
            if warm:
                samples.append(spent)
    return seconds


def _execute(statement: str) -> float:
    before = os.times()
    subprocess.run([sys.executable, "-c", statement], check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def ratios(seconds: Mapping[str, list[float]]) -> dict[str, float]:
    """Median seconds of each statement over those of Stable-Baselines3."""
    median = {statement: statistics.median(samples) for statement, samples in seconds.items()}
    return {statement: round(median[statement] / median[BESIDE], 3) for statement in seconds if statement != BESIDE}


def main() -> None:
    seconds = measure()
    found = ratios(seconds)
    summary = {statement: summarise(samples) for statement, samples in seconds.items()}
    path = write_result("import_time", {"rounds": ROUNDS, "seconds": summary, "ratios": found, "at_most": MOST})
    for statement, ratio in found.items():
        print(f"{statement}: {ratio:.2f} times {BESIDE} ({'holds' if ratio <= MOST else 'fails'}: at most {MOST})")
    print(path)


if __name__ == "__main__":
    main()
