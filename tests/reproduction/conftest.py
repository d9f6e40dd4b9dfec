import json
from dataclasses import replace

import pytest

from reproduction.perform import perform
from reproduction.plan import Run
from reproduction.results import Results
from tests.reproduction.tiny import tiny_variants
from wolpertinger.runs.presets import TASKS


@pytest.fixture(scope="session")
def everything(tmp_path_factory):
    """A folder with a tiny result of every run of the plan."""
    folder = tmp_path_factory.mktemp("results")
    results, done = Results(folder), {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wolpertinger.runs.training.SELECTION_EPISODES", 1)
        patch.setitem(TASKS, "cart-pole", replace(TASKS["cart-pole"], episodes=2))
        for variant in tiny_variants().values():
            run = Run(variant, 0)
            same = json.dumps([run.spec(), variant.studied])  # tiny, many runs are alike
            if same not in done:
                done[same] = perform(run, folder / "work" / run.name)
            results.write(run, done[same])
    return results
