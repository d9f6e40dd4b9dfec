import tomllib

import pytest

from scripts.oldest import PYPROJECT, oldest

CORE = {"torch", "stable-baselines3", "gymnasium", "numpy", "scipy", "faiss-cpu", "safetensors"}


def project(*dependencies, **extras):
    return {"name": "mine", "dependencies": list(dependencies), "optional-dependencies": extras}


def test_lower_bounds_become_pins_each_once():
    table = project("numpy>=2.0", draw=["pillow>=10.3"], show=["pillow>=10.3", "rich>=13"], all=["mine[draw,show]"])
    assert oldest(table) == ["numpy==2.0", "pillow==10.3", "rich==13"]


def test_an_argument_replaces_a_pin():
    assert oldest(project("torch>=2.8", "numpy>=2.0"), ["torch==2.13.0"]) == ["torch==2.13.0", "numpy==2.0"]


@pytest.mark.parametrize(
    ("table", "replacements", "message"),
    [
        (project("numpy"), [], "'numpy' has no plain lower bound: write it as name>=version"),
        (project("numpy>=2,<3"), [], "'numpy>=2,<3' has no plain lower bound"),
        (project("rich>=13", cli=["rich>=14"]), [], "'rich>=14' stands beside 'rich==13': give both the same bound"),
        (project("numpy>=2"), ["torch==2.8"], "'torch==2.8' replaces nothing: give one of numpy as name==version"),
    ],
)
def test_what_has_no_one_pin_is_refused(table, replacements, message):
    with pytest.raises(ValueError, match=message):
        oldest(table, replacements)


def test_the_core_is_these_seven_and_every_dependency_has_a_lower_bound():
    table = tomllib.loads(PYPROJECT.read_text())["project"]
    pins = oldest(table)
    assert {requirement.partition(">=")[0] for requirement in table["dependencies"]} == CORE
    assert len(pins) == len({pin.partition("==")[0] for pin in pins}) > len(CORE)
    assert table["optional-dependencies"]["all"] == ["wolpertinger[control,cli,data,logs,serve,onnx]"]
