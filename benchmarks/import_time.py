"""How long importing the package takes beside Stable-Baselines3: `python -m benchmarks.import_time`.

Fresh interpreters in turn, their own start included; results/import_time.json holds seconds and ratios of medians.
"""

import statistics
import subprocess
import sys
from collections.abc import Mapping

from benchmarks.measure import summarise, time_rounds, write_result

ROUNDS = 15
MOST = 1.15  # times Stable-Baselines3
BESIDE = "import stable_baselines3"
STATEMENTS = (BESIDE, "import wolpertinger", "from wolpertinger import Wolpertinger")


def measure(rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Seconds of an interpreter that executes each statement, once per round, after a round that warms the disk."""
    contenders = {statement: lambda statement=statement: _execute(statement) for statement in STATEMENTS}
    time_rounds(contenders, 1)
    return time_rounds(contenders, rounds)


def _execute(statement: str) -> int:
    subprocess.run([sys.executable, "-c", statement], check=True)
    return 1


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
