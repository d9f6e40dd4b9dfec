"""What commands print, where somebody reads only the beginning of it."""

import subprocess
import sys

WOLPERTINGER = [sys.executable, "-m", "wolpertinger"]


def test_whoever_reads_the_beginning_only_is_no_error(run_folder):
    """As `wolpertinger evaluate | head -1`, whose exit code was 1."""
    command = [*WOLPERTINGER, "evaluate", str(run_folder), "--episodes", "20", "--top", "300"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.read(1)
        process.stdout.close()
        error = process.stderr.read()
        assert process.wait() == 0
    assert error == b""
