"""What is exported picks what `predict` picks, without torch."""

import importlib.util
import json
import subprocess
import sys
from itertools import product

import gymnasium as gym
import numpy as np
import pytest

from tests.serve.conftest import Aim
from wolpertinger import MLP, ActionProduct, ActionTable, Exploration, Slate, TwoTower, Wolpertinger
from wolpertinger.cli import main
from wolpertinger.export.write import find_sources, write_policy

pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

VECTORS = np.random.default_rng(0).uniform(-1, 1, (200, 3)).astype(np.float32)
EMBEDDED = {"state_embedding": 64, "action_embedding": 256, "state_neighbours": 3, "optimism": 0.2, "linear": True}
CRITICS = {
    "mlp": MLP(),
    "interaction": MLP(interaction=True),
    "towers": TwoTower(width=16),
    "embedded towers": TwoTower(width=16, **EMBEDDED),
}
PLAIN = {"policy_kwargs": {"net_arch": [64, 32]}}
RICH = {
    "standardize": True,
    "policy_kwargs": {
        "net_arch": [64, 32],
        "layer_norm": True,
        "unit_features": True,
        "dropout": 0.1,
        "n_critics": 2,
        "bound": "inverted gradients",
        "predict_by": "target",
    },
}
SOURCES = ("nearest", "critic", "both", "all")
EVERY = [
    pytest.param(critic, candidates, settings, id=f"{critic}, {candidates}, {name}")
    for critic, candidates, (name, settings) in product(CRITICS, SOURCES, {"plain": PLAIN, "rich": RICH}.items())
    if critic in ("towers", "embedded towers") or candidates in ("nearest", "all")
]
ROUNDING = 1e-5


def some_states(count, seed=3):
    return np.random.default_rng(seed).uniform(-1, 1, (count, 3)).astype(np.float32)


def make_agent(critic="mlp", candidates="nearest", settings=PLAIN, steps=150, k=8):
    own = {"k": k, "seed": 0, "preset": "paper", "learning_starts": 50, "exploration": Exploration(epsilon=0.2)}
    agent = Wolpertinger(
        "MlpPolicy",
        Aim(VECTORS),
        ActionTable(VECTORS),
        critic=CRITICS[critic],
        candidates=candidates,
        **own,
        **settings,
    )
    return agent.learn(steps)


def program_of(folder):
    """The shipped program, as somebody else would import it."""
    spec = importlib.util.spec_from_file_location("exported", folder / "policy.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Policy()


def differing(agent, folder, states):
    """The states in which the picks are not the same, and by how much the critic prefers predict's."""
    write_policy(agent, {"observation": states[:8]}, folder)
    picks, expected = program_of(folder).pick(states), agent.predict(states, deterministic=True)[0]
    assert len(np.unique(expected)) > 2  # or it would be no test
    other = np.flatnonzero(picks != expected)
    gaps = [
        agent.rank(states[row], 1, allowed=[expected[row]]).values[0]
        - agent.rank(states[row], 1, allowed=[picks[row]]).values[0]
        for row in other
    ]
    return other, np.array(gaps)


@pytest.mark.parametrize(
    ("critic", "candidates", "settings"),
    [("interaction", "nearest", RICH), ("embedded towers", "both", PLAIN), ("towers", "all", RICH)],
)
def test_the_picks_are_those_of_predict(critic, candidates, settings, tmp_path):
    other, gaps = differing(make_agent(critic, candidates, settings), tmp_path, some_states(400))
    assert len(other) <= 1
    assert (np.abs(gaps) < ROUNDING).all()


@pytest.mark.slow
@pytest.mark.parametrize(("critic", "candidates", "settings"), EVERY)
def test_the_picks_are_those_of_predict_10_000_times(critic, candidates, settings, tmp_path):
    other, gaps = differing(make_agent(critic, candidates, settings, 1_000), tmp_path, some_states(10_000))
    print(f"\n{critic}, {candidates}, {'rich' if settings is RICH else 'plain'}: {10_000 - len(other)} of 10,000", gaps)
    assert len(other) <= 5
    assert (np.abs(gaps) < ROUNDING).all()


class Parts(gym.Env):
    """A Dict of parts, each of another kind; actions are digits."""

    observation_space = gym.spaces.Dict(
        {
            "place": gym.spaces.Box(-5, 5, (2,), np.float64),
            "kind": gym.spaces.Discrete(4),
            "flags": gym.spaces.MultiBinary(3),
        }
    )
    action_space = gym.spaces.MultiDiscrete([5, 7])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(self.np_random.integers(2**31).item())
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), float(action[0] - action[1]), True, False, {}


def test_parts_of_other_kinds_and_digits(tmp_path):
    actions = ActionProduct([np.linspace(-1, 1, 5), np.linspace(0, 2, 7)])
    agent = Wolpertinger("MultiInputPolicy", Parts(), actions, k=6, seed=0, preset="paper", learning_starts=20)
    agent.learn(40)
    drawn = [agent.observation_space.sample() for _ in range(200)]
    states = {name: np.stack([one[name] for one in drawn]) for name in drawn[0]}
    write_policy(agent, {name: part[:8] for name, part in states.items()}, tmp_path)
    picks = program_of(tmp_path).pick(states)
    assert picks.shape == (200, 2)
    assert (picks == agent.predict(states, deterministic=True)[0]).all(axis=1).sum() >= 199


def test_removed_actions_stay_away(tmp_path):
    agent = make_agent(k=3, steps=60)
    agent.actions.remove(np.arange(0, 200, 2))
    added = agent.actions.add([[0.0, 0.0, 0.0]])
    write_policy(agent, {"observation": some_states(8)}, tmp_path)
    policy, states = program_of(tmp_path), some_states(300)
    np.testing.assert_array_equal(policy.pick(states), agent.predict(states, deterministic=True)[0])
    assert set(policy.actions) == {*range(1, 200, 2), *added.tolist()}


@pytest.fixture(scope="module")
def exported(run_folder, tmp_path_factory):
    """A run's export with all that goes with it."""
    folder = tmp_path_factory.mktemp("exports") / "policy"
    assert main(["export", str(run_folder), "--onnx", str(folder), "--card", "--mlflow"]) == 0
    return folder


def test_a_run_is_exported_and_the_program_needs_no_torch(exported, run_folder):
    states = np.random.default_rng(0).uniform(-1, 1, (50, 4)).astype(np.float32)
    code = (
        "import sys, json, numpy as np; from policy import Policy\n"
        "picks = Policy().pick(np.array(json.load(sys.stdin), np.float32)).tolist()\n"
        "print(json.dumps([picks, sorted({'torch', 'wolpertinger', 'gymnasium'} & set(sys.modules))]))"
    )
    given = json.dumps(states.tolist())
    done = subprocess.run([sys.executable, "-c", code], input=given, capture_output=True, text=True, cwd=exported)
    picks, loaded = json.loads(done.stdout)
    agent = Wolpertinger.load(run_folder / "checkpoints" / "best.zip")
    assert picks == agent.predict(states, deterministic=True)[0].tolist()
    assert loaded == []


def test_the_card_says_what_the_policy_is(exported, run_folder):
    card, result = (exported / "README.md").read_text(), json.loads((run_folder / "result.json").read_text())
    _, head, text = card.split("---\n", 2)
    index = next(line for line in head.splitlines() if line.startswith("model-index: "))
    (found,) = json.loads(index.partition(": ")[2])
    assert found["results"][0]["metrics"][0]["value"] == result["best"]["return"]
    assert "49 discrete actions, each with a vector of 4 numbers" in text
    assert f"| return, optimum | {round(result['baselines']['optimum'], 4)} |" in text


def test_mlflow_loads_the_folder(exported):
    mlflow = pytest.importorskip("mlflow")
    states = np.zeros((3, 4), np.float32)
    np.testing.assert_array_equal(
        mlflow.pyfunc.load_model(str(exported)).predict(states), program_of(exported).pick(states)
    )


def test_the_flavour_names_what_is_there(exported):
    told = json.loads((exported / "MLmodel").read_text())
    flavour = told["flavors"]["python_function"]
    assert (exported / f"{flavour['loader_module']}.py").exists()
    assert json.loads(told["signature"]["inputs"])[0]["tensor-spec"] == {"dtype": "float32", "shape": [-1, 4]}


def test_a_folder_is_replaced_only_if_asked_and_only_an_export(exported, run_folder, tmp_path, capsys):
    assert main(["export", str(run_folder), "--onnx", str(exported)]) == 2
    assert "holds an exported policy already: give another folder, or --overwrite" in capsys.readouterr().err
    (tmp_path / "mine.txt").write_text("mine")
    assert main(["export", str(run_folder), "--onnx", str(tmp_path), "--overwrite"]) == 2
    assert "holds what is no exported policy" in capsys.readouterr().err
    assert main(["export", str(tmp_path / "none"), "--onnx", str(tmp_path / "new")]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


class Own(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)

    def __init__(self, space):
        self.action_space = space

    def reset(self, *, seed=None, options=None):
        return np.zeros(3, np.float32), {}


@pytest.mark.parametrize(
    ("actions", "settings", "message"),
    [
        (ActionProduct([np.eye(2)] * 100), {}, "is no table: 1267650600228229401496703205376 actions"),
        (Slate(ActionTable(VECTORS), size=3), {"preset": "paper"}, "the agent picks slates"),
        (ActionTable(VECTORS), {"allowed": lambda obs: [[1]] * len(obs)}, "actions that the state allows"),
    ],
    ids=["2^100", "slates", "allowed"],
)
def test_what_cannot_be_exported_says_why(actions, settings, message):
    agent = Wolpertinger("MlpPolicy", Own(actions.space), actions, k=2, buffer_size=10, **settings)
    with pytest.raises(ValueError, match=message):
        find_sources(agent)


def test_a_file_that_is_none_is_refused(tmp_path, capsys):
    (tmp_path / "x.zip").write_bytes(b"nothing")
    assert main(["export", str(tmp_path / "x.zip"), "--onnx", str(tmp_path / "new")]) == 2
    assert "x.zip" in capsys.readouterr().err
