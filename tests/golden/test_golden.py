"""The same seed gives the same run as before the code was rearranged: actions, predictions and weights, to the bit."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from wolpertinger.policy.screening import has_fast_products
from wolpertinger.threads import using_threads

from .cases import FOLDER, PRESETS, SETS, agent_of, agent_over, trace

CHECKSUMS = json.loads((FOLDER / "checksums.json").read_text())
RECORDED_ON = CHECKSUMS.pop("machine")
SCREENED = "table-screened"


def machine():
    """What the last bit of a product of matrices depends on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    cpu = f"{torch.backends.cpu.get_cpu_capability()} {models[0] if models else 'unknown'}"
    return {"torch": torch.__version__, "numpy": np.__version__, "cpu": cpu}


def differences():
    """What is other here than where the traces were recorded, in words."""
    pairs = {name: (found, RECORDED_ON[name]) for name, found in machine().items()}
    return "; ".join(f"{name} {found}, recorded with {then}" for name, (found, then) in pairs.items() if found != then)


def test_every_set_has_its_trace():
    with np.load(FOLDER / "traces.npz") as traces:
        recorded = {name.removeprefix("set.") for name in CHECKSUMS if name.startswith("set.")}
        assert recorded == SETS.keys()
        assert {name.rpartition(".")[0] for name in traces.files} == CHECKSUMS.keys()


same_machine = pytest.mark.skipif(bool(differences()), reason=f"other machines round otherwise: {differences()}")


def check(name, agent):
    with using_threads(1), np.load(FOLDER / "traces.npz") as traces:
        actions, predicted, checksum = trace(agent)
        np.testing.assert_array_equal(actions, traces[f"{name}.actions"])
        np.testing.assert_array_equal(predicted, traces[f"{name}.predicted"])
    assert checksum == CHECKSUMS[name]


@same_machine
@pytest.mark.parametrize("name", SETS)
def test_the_run_is_the_recorded_one(name):
    if name == SCREENED and not has_fast_products():
        pytest.skip("this machine has no fast 8-bit products")
    check(f"set.{name}", agent_over(name))


@pytest.mark.slow
@same_machine
@pytest.mark.parametrize(("task", "preset"), PRESETS)
def test_the_run_of_a_preset_is_the_recorded_one(task, preset):
    check(f"{task}.{preset}", agent_of(task, preset))
