import json
from dataclasses import replace

import pytest

from tests.paper.tiny import tiny_variants
from wolpertinger.paper.perform import perform
from wolpertinger.paper.plan import Run
from wolpertinger.paper.results import Results
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
