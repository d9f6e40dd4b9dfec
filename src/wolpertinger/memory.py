"""Memory that is freed stays with the process, up to a limit, for whoever asks next."""

from functools import cache

import numpy as np

LARGEST = 2**25 - 2**16  # bytes: a little less than the most that glibc adapts to


@cache  # once is enough
def keep_freed_memory() -> None:
    """Let the C library (glibc) keep up to 64 MB of freed memory, in pieces of up to 32 MB.

    By default it gives back what a training step frees, and takes it anew, page by page, in the next: 4,500 page
    faults a step (recommender, k = 656), 60 at most with this. It stops once it has seen a large piece come and go.
    Nothing is written to that piece, so it takes no memory; where another C library runs, nothing happens.
    """
    np.empty(LARGEST, np.uint8)
