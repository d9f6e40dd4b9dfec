"""A tuner and contenders that answer at once, and a result made up from them."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from benchmarks.lookup.contenders import Entry, efforts
from wolpertinger.index import ExactIndex, Trial


class FakeTuner:
    """Always chooses the scan; `asked` keeps what it was asked."""

    def __init__(self, vectors, build_seconds):
        self.exact, self.asked = ExactIndex(vectors), []

    def build_for(self, k):
        pass

    def tune(self, queries, *, k, recall, batch):
        self.asked.append((len(queries), k, recall, batch))
        trials = [
            Trial("exact", "", np.float32(1.0), 1e-4, 0.1, 80.0, keeps=True, chosen=np.True_),
            Trial("IVF4,Flat", "nprobe 1", 0.5, 1e-5, 0.1, 88, keeps=False),
        ]
        return SimpleNamespace(index=self.exact, recipe="exact", trials=trials)


@dataclass
class FakeContender:
    """Finds the true neighbours but for a share of 1 - setting / 1,000 of the queries."""

    name: str = "fake"
    effort: str = "care"
    note: str = "built by hand"
    most: int = 1_000

    def build(self, vectors):
        self.exact = ExactIndex(vectors)

    def settings(self, k):
        return efforts(1, self.most)

    def search(self, queries, k, setting):
        found = self.exact.search(queries, k)
        found[np.abs(queries[:, 0] * 1e4).astype(int) % 1_000 >= setting] = -1
        return found


FAKES = {
    "good": Entry(FakeContender, "numpy", "numpy", is_flann=True),
    "poor": Entry(lambda: FakeContender("poor", most=800), "numpy", "numpy"),
    "absent": Entry(FakeContender, "no_such_module", "no-such-package", is_flann=True),
}


STOPPED = "stopped after 4 s at checks 9, recall 0.5"
NEVER = "no setting reached 0.99"


def made_up_result(
    ours_ms=0.1, ours_recall=0.992, flann_ms=0.8, other_ms=0.3, below_ms=0.9, n=1_000_000, target=0.99, note=STOPPED
):
    """A result of one k and one target as older files have it: only notes tell who was stopped, below at `below_ms`."""
    contenders = {
        "FLANN a": {"is_flann": True, "build_seconds": 2.0, "note": ""},
        "FLANN b": {"is_flann": True, "build_seconds": 3.0, "note": "chose a scan"},
        "other": {"is_flann": False, "build_seconds": 4.0, "note": ""},
        "absent": {"is_flann": False, "build_seconds": None, "note": "not installed: pip install absent"},
    }
    row = {"effort": "checks", "setting": 1_234, "recall": 0.991, "standard_error": 0.001, "queries": 64}
    missed = {"setting": None, "note": note, "ms_below": below_ms}
    ours = {"recipe": "IVF16,Flat", "setting": "nprobe 3", "promised": target, "recall": ours_recall, "ms": ours_ms}
    trials = [
        {"recipe": "exact", "recall": 1.0, "seconds": 7e-3, "chosen": False},
        {"recipe": "IVF16,Flat", "recall": 0.995, "seconds": 2e-4, "chosen": True},
    ]
    cell = {
        "k": 1,
        "target": target,
        "queries": 64,
        "ours": ours | {"standard_error": 0.002, "build_seconds": 1.0, "trials": trials},
        "contenders": {
            "FLANN a": missed if flann_ms is None else row | {"ms": flann_ms},
            "FLANN b": missed,
            "other": missed if other_ms is None else row | {"ms": other_ms, "effort": "ef"},
        },
    }
    points = [{"setting": 1, "recall": 0.2, "ms": 0.01}, {"setting": 9, "recall": 0.99, "ms": 0.3}]
    return {
        "set": "made-up",
        "description": "rows from nowhere",
        "n": n,
        "dim": 20,
        "batch": 64,
        "budget_seconds": 4.0,
        "targets": [target],
        "contenders": contenders,
        "cells": [cell],
        "curves": [{"k": 1, "points": {"FLANN a": points, "FLANN b": [], "other": points}}],
    }
