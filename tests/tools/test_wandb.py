"""Weights & Biases without a network, and its callback for Stable-Baselines3."""

import pytest

from tests.agent.envs import TargetEnv, small_agent
from wolpertinger import Wolpertinger

wandb = pytest.importorskip("wandb")


def test_the_callback_logs_gradients_and_saves_the_model(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_SILENT", "true")
    from wandb.integration.sb3 import WandbCallback

    run = wandb.init(mode="offline", project="wolpertinger", dir=str(tmp_path), sync_tensorboard=True)
    try:
        agent = small_agent(TargetEnv(length=5), tensorboard_log=str(tmp_path / "tb"))
        callback = WandbCallback(model_save_path=str(tmp_path / "models"), model_save_freq=20, gradient_save_freq=5)
        agent.learn(60, callback=callback)
        assert run.config["algo"] == "Wolpertinger"
        assert run.config["gamma"] == 0.99
        assert run.config["num_timesteps"] == 0
    finally:
        run.finish()
    assert list((tmp_path / "wandb").glob("offline-run-*/*.wandb"))
    assert Wolpertinger.load(tmp_path / "models" / "model.zip").num_timesteps == 60
