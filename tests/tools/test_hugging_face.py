"""The Hub's package for Stable-Baselines3: all that it does before the network, and a model card."""

import json
import zipfile
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import pytest

from tests.agent.envs import SMALL
from wolpertinger import Wolpertinger

hub = pytest.importorskip("huggingface_sb3.push_to_hub")


@pytest.fixture
def uploaded(monkeypatch):
    """What would have been sent to the Hub, by name: only the two calls that need a network are replaced."""
    files = {}

    def upload_folder(self, *, repo_id, folder_path, commit_message):
        files.update({path.relative_to(folder_path).as_posix(): path.read_bytes() for path in
                      Path(folder_path).rglob("*") if path.is_file()})  # fmt: skip

    monkeypatch.setattr(hub.HfApi, "create_repo", lambda self, repo_id, **_: SimpleNamespace(repo_id=repo_id))
    monkeypatch.setattr(hub.HfApi, "upload_folder", upload_folder)
    return files


def test_a_model_its_evaluation_and_its_card_are_packaged(uploaded, tmp_path):
    env = gym.make("FrozenLake-v1", render_mode="rgb_array")
    agent = Wolpertinger("MlpPolicy", env, **{**SMALL, "k": 2}).learn(60)
    hub.package_to_hub(
        *(agent, "wolpertinger-lake", "Wolpertinger", "FrozenLake-v1", env, "someone/wolpertinger-lake"),
        n_eval_episodes=2,
        video_length=5,
    )
    card = uploaded["README.md"].decode()
    assert "library_name: stable-baselines3" in card
    assert "**Wolpertinger** Agent playing **FrozenLake-v1**" in card
    assert json.loads(uploaded["results.json"])["n_eval_episodes"] == 2
    assert json.loads(uploaded["config.json"])["settings"]["k"] == 2
    (tmp_path / "down.zip").write_bytes(uploaded["wolpertinger-lake.zip"])
    assert zipfile.is_zipfile(tmp_path / "down.zip")
    assert Wolpertinger.load(tmp_path / "down.zip").num_timesteps == 60
