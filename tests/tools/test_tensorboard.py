"""TensorBoard's HParams, by the callback of Stable-Baselines3's documentation."""

import pytest
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import HParam

from tests.agent.envs import TargetEnv, small_agent

accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")


class WriteHParams(BaseCallback):
    def _on_training_start(self):
        chosen = {"algorithm": "Wolpertinger", "k": self.model.k, "gamma": self.model.gamma}
        metrics = {"rollout/ep_rew_mean": 0.0, "train/critic_loss": 0.0}
        self.logger.record("hparams", HParam(chosen, metrics), exclude=("stdout", "log", "json", "csv"))

    def _on_step(self):
        return True


def test_settings_and_metrics_are_in_the_events(tmp_path):
    agent = small_agent(TargetEnv(length=5), tensorboard_log=str(tmp_path))
    agent.learn(60, callback=WriteHParams(), log_interval=1)
    agent.logger.close()
    events = accumulators.EventAccumulator(str(tmp_path / "Wolpertinger_1")).Reload()
    assert "_hparams_/session_start_info" in events.summary_metadata
    assert {"rollout/ep_rew_mean", "train/critic_loss", "train/q_chosen"} <= set(events.Tags()["scalars"])
