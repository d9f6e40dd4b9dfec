"""Settings: to JSON and back, and what is refused, with what would be accepted."""

import json
import re
import subprocess
import sys
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import numpy as np
import pytest

import wolpertinger
from wolpertinger import (
    DDPG,
    MLP,
    TD3,
    BestByCritic,
    BestByFactor,
    Everything,
    Exploration,
    Factored,
    Nearest,
    Offline,
    PerItem,
    SlotBySlot,
    TopItems,
    TwoTower,
    Union,
)
from wolpertinger.agent.encoding import decode_value, encode_value
from wolpertinger.learners import LEARNERS, make_learner_settings
from wolpertinger.networks import CRITICS, make_critic_settings
from wolpertinger.policy import SOURCES, make_source_settings
from wolpertinger.settings import (
    Settings,
    check_choice,
    check_keywords,
    check_memory,
    check_names,
    check_number,
    read_settings,
)

KNOWN = {**CRITICS, **SOURCES, **LEARNERS, Exploration.kind: Exploration}
EXAMPLES = [  # of every class, each field other than by default
    MLP(interaction=True),
    TwoTower(
        width=7,
        state_embedding=50,
        action_embedding=1.5,
        embedding_scale=0.5,
        linear=True,
        state_neighbours=4,
        optimism=0.5,
    ),
    PerItem(of=MLP(interaction=True)),
    Factored(knots=7),
    Nearest(),
    Everything(),
    SlotBySlot(),
    TopItems(),
    BestByFactor(),
    BestByCritic(refresh_every=3),
    Union((BestByCritic(refresh_every=2), Nearest(), BestByCritic())),
    DDPG(critic_loss="huber", anchor=0.5, gradient_at="action", max_grad_norm=2.0, target_samples=9),
    TD3(
        critic_loss="huber",
        anchor=0.5,
        gradient_at="action",
        max_grad_norm=2.0,
        target_samples=9,
        policy_delay=3,
        target_noise=0.1,
        target_noise_clip=0.25,
    ),
    Offline(
        critic_loss="huber",
        anchor=0.5,
        gradient_at="action",
        max_grad_norm=2.0,
        target_samples=9,
        conservative=0.5,
        temperature=0.5,
        pull=0.5,
    ),
    Exploration(
        noise="ornstein-uhlenbeck",
        sigma=0.4,
        final_sigma=0.1,
        theta=0.3,
        epsilon=0.5,
        final_epsilon=0.25,
        guided=0.125,
        decay=0.5,
        ladder=True,
    ),
]


def test_there_is_an_example_of_every_class_and_every_field():
    source = (path.read_text() for path in Path(wolpertinger.__file__).parent.rglob("*.py"))
    written = {name for text in source for name in re.findall(r"^class (\w+)\((?:Settings|DDPG)\)", text, re.MULTILINE)}
    assert {type(example) for example in EXAMPLES} == set(KNOWN.values())
    assert {type(example).__name__ for example in EXAMPLES} == written
    assert all(isinstance(example, Settings) for example in EXAMPLES)
    for example in EXAMPLES:
        defaults = type(example)()
        for field in fields(example):
            assert getattr(example, field.name) != getattr(defaults, field.name), field.name


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.kind)
def test_settings_go_to_json_and_back(example):
    for settings in (example, type(example)()):
        written = json.dumps(settings.to_json())
        back = read_settings("part", json.loads(written), KNOWN)
        assert back == settings
        assert type(back) is type(settings)
        assert json.dumps(back.to_json()) == written
        assert decode_value(encode_value(settings)) == settings.to_json()  # as a checkpoint holds it


@pytest.mark.parametrize("kind", KNOWN)
def test_a_kind_is_the_name_of_its_defaults(kind):
    assert KNOWN[kind].kind == kind
    assert read_settings("part", kind, KNOWN) == read_settings("part", {"kind": kind}, KNOWN) == KNOWN[kind]()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.kind)
def test_settings_are_frozen_and_pass_as_they_are(example):
    assert read_settings("part", example, KNOWN) is example
    with pytest.raises(FrozenInstanceError, match="cannot assign"):
        example.kind = "other"


def test_callables_of_the_users_own_pass_as_they_are():
    class Mine:
        def __init__(self, *args):
            pass

    assert make_source_settings(Mine) is Mine
    assert make_learner_settings(Mine) is Mine


PARTS = {
    "critic": (make_critic_settings, CRITICS),
    "candidates": (make_source_settings, SOURCES),
    "learner": (make_learner_settings, LEARNERS),
}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize(
    ("given", "error"),
    [
        ("fastest", ValueError),
        ({"kind": "fastest"}, ValueError),
        ({"width": 3}, ValueError),
        ({"kind": ["mlp"]}, ValueError),
        (None, TypeError),
        (3, TypeError),
        (Exploration(), TypeError),  # another part's
        (Exploration, TypeError),
    ],
    ids=repr,
)
def test_unknown_kinds_are_refused_with_what_would_be_accepted(name, given, error):
    make, known = PARTS[name]
    accepted = ", ".join(f'"{kind}" or {cls.__name__}(...)' for kind, cls in known.items())
    with pytest.raises(error, match=re.escape(f"{name}={given!r}: give one of {accepted}")):
        make(given)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.kind)
def test_a_class_is_no_object(example):
    with pytest.raises(TypeError, match=re.escape(f"part={type(example)!r}: give one of")):
        read_settings("part", type(example), KNOWN)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.kind)
def test_unknown_fields_are_refused_with_those_there_are(example):
    cls = type(example)
    there_are = re.escape(", ".join(field.name for field in fields(cls)))
    with pytest.raises(ValueError, match=f"part: {cls.__name__} has no breadth, wide; it has {there_are}$"):
        read_settings("part", {**cls().to_json(), "wide": 3, "breadth": 3}, KNOWN)
    with pytest.raises(TypeError, match="breadth"):
        cls(breadth=3)


WHOLE = "give a whole number of at least 1"
NUMBER = "give a finite number of at least 0"
ROWS = "give rows, a whole number from 0 to 67,108,864, or with a point how many times as many"
CHANCE = "give a finite number from 0 to 1"
SHARE = "give a finite number above 0, 1 at most"
FLAG = "give True or False"
NAN, INFINITE = float("nan"), float("inf")
BAD = {
    (MLP, "interaction"): (FLAG, [None, 1, "yes"]),
    (TwoTower, "width"): ("give a whole number from 1 to 65536", [0, -3, 2.5, 8.0, True, "8", None, NAN]),
    (TwoTower, "state_embedding"): (ROWS, [-1, -0.5, 2**26 + 1, NAN, INFINITE, "8", None, True]),
    (TwoTower, "action_embedding"): (ROWS, [-1, -0.5, 2**26 + 1, NAN, INFINITE, "8", None, True]),
    (TwoTower, "embedding_scale"): ("give a finite number", [0, 0.0, -1.0, NAN, INFINITE, "2", None, True]),
    (TwoTower, "linear"): ("give True or False", [0, 1, "yes", None]),
    (TwoTower, "state_neighbours"): ("give a whole number of at least 0", [-1, 0.5, NAN, "1", None, True]),
    (TwoTower, "optimism"): (NUMBER, [-0.1, NAN, INFINITE, "1", None, True]),
    (PerItem, "of"): ('give one of "mlp" or MLP', ["fastest", {"kind": "per-item"}, {}]),
    (Factored, "knots"): ("give a whole number from 2 to 4096", [1, 0, -3, 2.5, True, "8", None, 5_000]),
    (BestByCritic, "refresh_every"): (f"{WHOLE} or None", [0, -1, 1.5, True, "7"]),
    (Union, "sources"): (
        r"give two or more, such as \(Nearest\(\), BestByCritic\(\)\)",
        [(), (Nearest(),), None, 3, Nearest(), "nearest"],
    ),
    (DDPG, "critic_loss"): ("give one of 'mse', 'huber'", ["l1", None, 3, ["mse"]]),
    (DDPG, "anchor"): (NUMBER, [-1, -0.1, NAN, INFINITE, "1", None, True]),
    (DDPG, "gradient_at"): ("give one of 'proto', 'action'", ["middle", None, 1]),
    (DDPG, "max_grad_norm"): (f"{NUMBER} or None", [-1, NAN, INFINITE, "1", True]),
    (DDPG, "target_samples"): ("give a whole number from 0 to 16777216", [-1, 0.5, NAN, "1", None, True]),
    (TD3, "policy_delay"): (WHOLE, [0, -1, 1.5, True, "2", None]),
    (TD3, "target_noise"): (NUMBER, [-1.0, NAN, INFINITE, "1", None, True]),
    (TD3, "target_noise_clip"): (NUMBER, [-1.0, NAN, INFINITE, "1", None, True]),
    (Offline, "conservative"): (NUMBER, [-1.0, NAN, INFINITE, "1", None, True]),
    (Offline, "temperature"): ("give a finite number", [0, -1.0, NAN, INFINITE, "1", None, True]),
    (Offline, "pull"): (NUMBER, [-1.0, NAN, INFINITE, "1", None, True]),
    (Exploration, "noise"): ("give 'gaussian', 'ornstein-uhlenbeck' or None", ["pink", 0.1, True]),
    (Exploration, "sigma"): (NUMBER, [-1.0, NAN, INFINITE, "1", None, True]),
    (Exploration, "final_sigma"): (f"{NUMBER} or None", [-1.0, NAN, INFINITE, "1", True]),
    (Exploration, "theta"): (CHANCE, [-1.0, NAN, INFINITE, "1", None, True]),
    (Exploration, "epsilon"): (CHANCE, [-0.1, 1.1, NAN, INFINITE, "1", None, True]),
    (Exploration, "final_epsilon"): (CHANCE, [-0.1, 1.1, NAN, INFINITE, "1", True]),
    (Exploration, "guided"): (CHANCE, [-0.1, 2, NAN, INFINITE, "1", None, True]),
    (Exploration, "decay"): (SHARE, [0, -0.1, 1.5, NAN, INFINITE, "1", None, True]),
    (Exploration, "ladder"): (FLAG, [None, 1, "maybe"]),
}
BAD |= {(own, name): bad for (cls, name), bad in BAD.items() if cls is DDPG for own in (TD3, Offline)}


def test_every_field_has_its_bad_values():
    every = {(cls, field.name) for cls in KNOWN.values() for field in fields(cls)}
    assert every == BAD.keys()


@pytest.mark.parametrize(
    ("cls", "name", "value", "accepted"),
    [(cls, name, value, accepted) for (cls, name), (accepted, values) in BAD.items() for value in values],
)
def test_each_field_is_checked(cls, name, value, accepted):
    with pytest.raises(ValueError, match=rf"^{name}={re.escape(repr(value))}.*: {accepted}"):
        cls(**{name: value})


@pytest.mark.parametrize(("source", "error"), [("both", ValueError), ("all", ValueError), (None, TypeError)])
def test_a_union_is_of_sources_with_candidates_of_each_states_own(source, error):
    with pytest.raises(error, match=r"^sources=.*: give one of \"nearest\" or Nearest\(...\), \"critic\" or Best"):
        Union((Nearest(), source))


def test_a_union_reads_its_sources():
    assert Union(["nearest", {"kind": "critic", "refresh_every": 4}]) == Union((Nearest(), BestByCritic(4)))
    assert Union(("critic", len)).sources == (BestByCritic(), len)


def test_a_ladder_needs_noise_and_its_end():
    for settings in ({}, {"noise": None, "final_sigma": 0.1}):
        with pytest.raises(ValueError, match="ladder=True: give noise, and final_sigma, where the ladder ends"):
            Exploration(ladder=True, **settings)


def test_numbers_of_numpy_are_numbers():
    towers, explore = TwoTower(width=np.int64(8)), Exploration(sigma=np.float32(0.5), epsilon=np.float64(0.25))
    assert json.loads(json.dumps(towers.to_json()))["width"] == 8
    assert json.loads(json.dumps(explore.to_json()))["sigma"] == 0.5
    assert (towers, explore) == (TwoTower(width=8), Exploration(sigma=0.5, epsilon=0.25))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (10**400, "x=1000.*: give a finite number from 0 to 1.79"),
        (10**5000, r"x=<int of 16,610 bits>: give a finite number from 0 to"),
        (-(10**5000), r"x=<int of 16,610 bits>: give a finite number of at least 0"),
        (np.bool_(True), "give a finite number of at least 0"),
        (np.array(1.0), "give a finite number of at least 0"),
        (np.ma.masked, "give a finite number of at least 0"),
        ("x" * 1_000, r"x='x{199}\.\.\.: give"),
    ],
    ids=lambda value: str(type(value)),
)
def test_what_is_no_number_is_shown_briefly(value, message):
    with pytest.raises(ValueError, match=message):
        check_number("x", value)


def test_values_without_a_name_are_shown_by_their_type():
    class Nameless:
        def __repr__(self):
            raise RuntimeError("no name")

    with pytest.raises(ValueError, match="x=<Nameless>: give one of 'a', 'b'"):
        check_choice("x", Nameless(), ("a", "b"))


def test_names_are_listed():
    assert check_names("exclude", None, ("a",)) == set()
    assert check_names("exclude", ["a", "a"], ("a", "b")) == {"a"}
    for given in ("a", 3):
        with pytest.raises(TypeError, match=f"exclude={given!r}: give a list of names of a, b"):
            check_names("exclude", given, ("a", "b"))
    with pytest.raises(ValueError, match="unknown 3, c: exclude takes a, b"):
        check_names("exclude", ["c", 3], ("a", "b"))


def test_keywords_are_those_of_the_call():
    check_keywords("options", {"sigma": 1}, Exploration)
    check_keywords("options", {"anything": 1}, lambda **options: None)
    with pytest.raises(TypeError, match="options has no 3, colour, noise: it has sigma, final_sigma"):
        check_keywords("options", {"noise": 1, "colour": 1, 3: 4}, Exploration, without=("noise",))
    with pytest.raises(TypeError, match="options=3: give a dict of settings by name"):
        check_keywords("options", 3, Exploration)


def test_memory_is_that_of_the_machine_and_of_the_process():
    check_memory("a byte", 1)
    with pytest.raises(ValueError, match=r"all of it would take 1,152,921,504,606,846,976 bytes of memory, [\d,]+"):
        check_memory("all of it", 2**60)
    code = """
import resource
from wolpertinger.settings import check_memory
resource.setrlimit(resource.RLIMIT_AS, (2**34, 2**34))
check_memory("most of it", 2**29)
check_memory("all of it", 2**34)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ValueError: all of it would take 17,179,869,184 bytes of memory, " in done.stderr
