"""The same on Ray itself: processes that are killed."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from benchmarks.distributed import kills
from benchmarks.distributed.kills import config_of, stored_in, worker_processes
from wolpertinger import ActionTable, distributed
from wolpertinger.distributed import ShardedTable

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # Ray's own
]


@pytest.fixture(scope="module")
def cluster():
    ray = pytest.importorskip("ray")
    ray.init("local", num_cpus=6, include_dashboard=False, logging_level="error", log_to_driver=False)
    yield ray
    ray.shutdown()


def test_workers_that_are_killed_lose_nothing_that_was_stored(cluster, tmp_path):
    config, killed, over = config_of(steps=4_000), [], threading.Event()

    def kill():
        while not over.wait(4):
            for process in worker_processes()[:1]:
                os.kill(process, signal.SIGKILL)
                killed.append(process)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        folder = distributed.train(config, tmp_path / "run", workers=2, quiet=True)
    finally:
        over.set()
        thread.join()
    assert len(killed) >= 1
    stored = stored_in(folder, config)
    assert stored == {"transitions": 4_000, "corrupt": 0, "twice": 0, "counted_by_the_run": 4_000}


def test_a_shard_that_is_killed_is_whole_again(cluster):
    vectors = np.random.default_rng(0).normal(size=(2_000, 8)).astype(np.float32)
    table, expected = ShardedTable(vectors, shards=3), ActionTable(vectors)
    queries = np.random.default_rng(1).normal(size=(10, 8))
    for number in range(2):
        actor = table._shards.places[number].replicas[0].actor
        process = cluster.get(actor.__ray_call__.remote(lambda shard: os.getpid()))
        os.kill(process, signal.SIGKILL)
        for _ in range(20):
            assert np.array_equal(table.nearest(queries, 50), expected.nearest(queries, 50))
    assert table.revived == 2


def test_a_learner_that_is_killed_is_resumed(cluster, tmp_path):
    result = kills.kill_learner(tmp_path, steps=3_000)
    assert result["workers_left_behind"] == 0
    assert result["stored"] == {"transitions": 3_000, "corrupt": 0, "twice": 0, "counted_by_the_run": 3_000}


def test_the_command_line_starts_a_cluster_of_its_own(tmp_path):
    pytest.importorskip("ray")
    command = [sys.executable, "-W", "ignore", "-m", "wolpertinger", "train", "recommender", "--items", "49"]
    command += ["--envs", "8", "--steps", "2000", "--set", "learning_starts=200", "--ray", "--workers", "2"]
    began = time.monotonic()
    subprocess.run([*command, "--out", str(tmp_path / "run")], check=True, timeout=300)
    assert json.loads((tmp_path / "run" / "result.json").read_text())["steps"] == 2_000
    assert time.monotonic() - began < 300
