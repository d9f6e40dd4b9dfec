import numpy as np
import pytest

from wolpertinger import Transitions, Wolpertinger
from wolpertinger.runs.recording import record


def test_a_record_is_a_log_of_whole_episodes_with_propensities(folder, tmp_path):
    log = Transitions.read(record(folder, tmp_path / "log.parquet", rows=500, epsilon=0.5))
    assert len(log) >= 500
    assert log.ends[-1]
    assert log.n_unusable == 0
    assert (np.diff(np.flatnonzero(log.ends)) >= 1).all()
    agent = Wolpertinger.load(folder / "checkpoints" / "best.zip")
    best = agent.predict(np.asarray(log["observation"], np.float32))[0]
    agrees = log["action"] == best
    np.testing.assert_allclose(log["propensity"], 0.5 / 49 + 0.5 * agrees)
    assert agrees.mean() == pytest.approx(0.5 + 0.5 / 49, abs=0.1)


def test_the_same_seed_records_the_same(folder, tmp_path):
    one, other = (Transitions.read(record(folder, tmp_path / f"{i}.parquet", rows=100, seed=3)) for i in range(2))
    for name in ("observation", "action", "reward", "episode"):
        np.testing.assert_array_equal(one[name], other[name])


def test_without_exploration_the_policy_is_certain(folder, tmp_path):
    log = Transitions.read(record(folder, tmp_path / "log.parquet", rows=50, epsilon=0))
    assert set(log["propensity"]) == {1.0}


def test_bad_arguments_are_refused(folder, tmp_path):
    for change in ({"rows": 0}, {"epsilon": 2}, {"seed": -1}):
        with pytest.raises(ValueError, match=f"{next(iter(change))}="):
            record(folder, tmp_path / "log.parquet", **change)
    (tmp_path / "log.parquet").touch()
    with pytest.raises(FileExistsError, match="exists already: give another file"):
        record(folder, tmp_path / "log.parquet")
