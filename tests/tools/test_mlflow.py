"""MLflow's file store, by a KVWriter as Stable-Baselines3's documentation has it."""

import numpy as np
import pytest
from stable_baselines3.common.logger import HumanOutputFormat, KVWriter, Logger

from tests.agent.envs import TargetEnv, small_agent
from wolpertinger import Wolpertinger

mlflow = pytest.importorskip("mlflow")


class ToMLflow(KVWriter):
    def write(self, key_values, key_excluded, step=0):
        for name, value in key_values.items():
            if "mlflow" not in (key_excluded[name] or ()) and isinstance(value, int | float | np.number):
                mlflow.log_metric(name, float(value), step)

    def close(self):
        pass


def test_metrics_settings_and_the_model_go_to_the_store(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    with mlflow.start_run() as run:
        agent = small_agent(TargetEnv(length=5))
        mlflow.log_params({"k": agent.k, "gamma": agent.gamma})
        agent.set_logger(Logger(None, [HumanOutputFormat(str(tmp_path / "log.txt")), ToMLflow()]))
        agent.learn(100, log_interval=1)
        agent.logger.close()
        agent.save(tmp_path / "agent.zip")
        mlflow.log_artifact(str(tmp_path / "agent.zip"))
    client = mlflow.MlflowClient()
    found = client.get_run(run.info.run_id).data
    assert found.params == {"k": "8", "gamma": "0.99"}
    assert {"rollout/ep_rew_mean", "train/critic_loss", "train/q_chosen"} <= found.metrics.keys()
    steps = [metric.step for metric in client.get_metric_history(run.info.run_id, "rollout/ep_rew_mean")]
    assert steps == list(range(5, 101, 5))
    path = mlflow.artifacts.download_artifacts(run_id=run.info.run_id, artifact_path="agent.zip")
    assert Wolpertinger.load(path).num_timesteps == 100
