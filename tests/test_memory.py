"""Freed memory is there for the next who asks."""

import platform
import subprocess
import sys

import pytest

COUNT = """
import resource
import numpy as np
from wolpertinger.memory import keep_freed_memory

def count_faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    arrays = [np.ones(2**17) for _ in range(20)]  # of a megabyte
    del arrays
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

keep_freed_memory()
print(*(count_faults() for _ in range(3)))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it is glibc that is told")
def test_memory_that_was_freed_is_not_taken_anew():
    first, *later = map(int, subprocess.check_output([sys.executable, "-c", COUNT], timeout=60).split())
    assert first > 1_000  # or nothing is counted here
    assert max(later) < 100
