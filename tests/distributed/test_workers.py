"""Training with workers, on a Ray of this process: what is stored, how often is updated, and who is replaced."""

import csv
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks.distributed.stamped import Stamped, count_faults
from tests.runs.test_resume import StopAt
from tests.runs.tiny import SMALL, tiny
from wolpertinger import Wolpertinger, distributed, runs
from wolpertinger.distributed import workers as workers_module
from wolpertinger.distributed.cluster import connect
from wolpertinger.distributed.fragments import Order
from wolpertinger.distributed.learner import Learner
from wolpertinger.distributed.worker import Worker, read_weights
from wolpertinger.distributed.workers import Workers, fragment_steps
from wolpertinger.runs import make_config
from wolpertinger.runs.build import make_agent, make_env
from wolpertinger.runs.signals import Interrupted

pytestmark = pytest.mark.filterwarnings("ignore:.*the environment's state was not kept")


def stamped(**changes):
    """Environments whose transitions can be told apart, and looked at for mistakes."""
    env = {"env_id": "benchmarks.distributed.stamped:Stamped-v0", "levels": 11}
    settings = {"n_envs": 4, "steps": 600, "changes": {**SMALL, "train_freq": 1, "gradient_steps": 1}}
    return make_config("control", env=env, **{**settings, **changes})


def log_of(folder):
    with (folder / "logs" / "progress.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def faults_of(folder, config):
    agent = Wolpertinger.load(folder / "state", env=make_env(config))
    buffer, rows = agent.replay_buffer, agent.replay_buffer.size()
    names = ("observations", "next_observations", "actions", "rewards")
    obs, next_obs, actions, rewards = (getattr(buffer, name)[:rows].reshape(rows * 4, -1) for name in names)
    return count_faults(obs, next_obs, agent.actions.embed(actions[:, 0])[:, 0], rewards[:, 0])


def learner_of(config, fake, count=2, **options):
    workers = Workers(fake, config, count, **options)
    return make_agent(config, make_env(config), "cpu", Learner.with_workers(workers)), workers


def test_a_run_with_workers_leaves_what_a_run_without_does(fake, tmp_path):
    config = tiny()
    folder = distributed.train(config, tmp_path / "many", workers=3, quiet=True)
    alone = runs.train(config, tmp_path / "one", quiet=True)
    assert {path.name for path in folder.iterdir()} == {path.name for path in alone.iterdir()}
    ours, theirs = (log_of(each)[-1] for each in (folder, alone))
    assert theirs.keys() - ours.keys() == set()
    assert {name for name in ours.keys() - theirs.keys() if not name.startswith("workers/")} == set()
    assert any(row["train/q_chosen"] for row in log_of(folder))  # what the workers saw of acting
    assert runs.evaluate(folder, episodes=10).score.value
    many, one = (Wolpertinger.load(each / "checkpoints" / "last.zip") for each in (folder, alone))
    assert (many.num_timesteps, many._n_updates) == (one.num_timesteps, one._n_updates)
    assert float(ours["workers/updates_per_transition"]) == pytest.approx(1 / 8, rel=0.05)


def test_every_transition_is_stored_once_and_whole(fake, tmp_path):
    config = stamped()
    folder = distributed.train(config, tmp_path / "run", workers=3, quiet=True)
    assert faults_of(folder, config) == {"transitions": 600, "corrupt": 0, "twice": 0}


def test_a_lost_worker_is_replaced_and_its_fragments_do_not_count(fake, tmp_path, caplog, monkeypatch):
    config, taken = stamped(), []
    original = Workers.take

    def take(self, learner):
        fragment = original(self, learner)
        if fragment is not None:
            taken.append(fragment.order.serial)
            if len(taken) in (2, 5):
                self.places[0].actor.alive = False
        return fragment

    monkeypatch.setattr(Workers, "take", take)
    folder = distributed.train(config, tmp_path / "run", workers=2, quiet=True)
    assert faults_of(folder, config) == {"transitions": 600, "corrupt": 0, "twice": 0}
    assert len(set(taken)) == len(taken)
    assert {serial[:2] for serial in taken} == {(0, 0), (0, 1), (0, 2), (1, 0)}
    assert caplog.text.count("was lost and is replaced") == 2
    assert int(float(log_of(folder)[-1]["workers/lost"])) == 2


def test_a_spare_takes_the_place_of_a_lost_worker(fake):
    learner, workers = learner_of(stamped(), fake, count=1)
    assert len(fake.actors) == 2
    learner._total_timesteps = 100
    workers.take(learner)
    spare = workers._spares[0][0]
    workers.places[0].actor.alive = False
    while workers.take(learner) is None:
        pass
    assert workers.places[0].actor is spare
    assert len(fake.actors) == 3  # another one stands by
    workers.close()
    assert not any(actor.alive for actor in fake.actors)


def test_a_worker_that_dies_at_once_is_replaced_ever_more_slowly(fake, monkeypatch):
    learner, workers = learner_of(stamped(), fake, count=1, spares=0)
    monkeypatch.setattr(workers_module, "PATIENCE", 0.0)
    learner._total_timesteps = 100
    fake.actors[0].alive, fake.stillborn = False, True
    for _ in range(30):
        assert workers.take(learner) is None
    assert workers.lost == 2  # the second one waits a moment before the third is tried


def test_a_fragment_that_came_before_is_dropped(fake, caplog):
    learner, workers = learner_of(stamped(), fake, count=1)
    learner._total_timesteps = 100
    assert workers.take(learner).order.serial == (0, 0, 0)
    place = workers.places[0]
    place.pending.appendleft(place.actor.collect.remote(Order((0, 0, 0), 0, 0, 100), workers._weights))
    assert workers.take(learner) is None
    assert workers.dropped == 1
    assert "came out of turn" in caplog.text
    assert workers.take(learner).order.serial == (0, 0, 1)


def test_nobody_runs_ahead(fake):
    learner, workers = learner_of(stamped(), fake, count=3, steps=5)
    learner._total_timesteps = 1_000
    for _ in range(20):
        workers.take(learner)
        assert all(len(place.pending) <= workers_module.ORDERED for place in workers.places)
        collected = [call for call in fake.calls if call[1] == "collect"]
        assert len(collected) <= workers.fragments + workers_module.ORDERED * 3


def test_workers_take_turns(fake):
    learner, workers = learner_of(stamped(), fake, count=3)
    learner._total_timesteps = 1_000
    assert [workers.take(learner).order.serial[0] for _ in range(6)] == [0, 1, 2, 0, 1, 2]


def test_a_worker_acts_as_the_learner_would(fake):
    config = tiny(preset="default")
    learner = make_agent(config, make_env(config))
    learner.learn(400)
    worker = Worker(config, steps=3)
    fragment = worker.collect(Order((0, 0, 0), learner._n_updates, 400, 800), read_weights(learner))
    expected, found = (agent.critic.state_dict() for agent in (learner, worker._agent))
    assert all(torch.equal(found[key], expected[key]) for key in expected)
    assert worker._agent.policy.behaviour.source._updates == learner._n_updates
    assert fragment.actions.shape == (3, 8)
    assert learner.actions.holds(fragment.actions).all()


def test_incarnations_have_episodes_of_their_own():
    config = tiny()
    weights = read_weights(make_agent(config, make_env(config)))
    first, again, other = (
        Worker(config, 2).collect(Order(serial, 0, 0, 800), weights).first
        for serial in ((0, 0, 0), (0, 0, 0), (0, 1, 0))
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_warm_up_is_as_long_as_on_one_machine(fake):
    """Exploration goes by the transitions ordered before, not by those that have arrived."""
    learner, workers = learner_of(stamped(), fake, count=2, steps=5)
    learner._total_timesteps = 1_000
    positions = []
    for _ in range(6):
        positions.append(workers.take(learner).order.position)
        learner.num_timesteps += 20
    assert sorted(positions) == [0, 20, 40, 60, 80, 100]


def test_returns_of_several_steps_end_with_a_fragment(fake, tmp_path):
    config = stamped(changes={**SMALL, "n_steps": 3, "train_freq": 1, "gradient_steps": 1})
    learner, _ = learner_of(config, fake, steps=30)
    learner.learn(400)
    buffer, rows = learner.replay_buffer, learner.replay_buffer.size()
    ends = np.arange(29, rows - 1, 30)
    assert len(ends)
    assert (buffer.timeouts[ends] + buffer.dones[ends] >= 1).all()
    follows = buffer.observations[1:rows, :, 1] == buffer.observations[: rows - 1, :, 1] + 1
    assert (follows | (buffer.timeouts + buffer.dones)[: rows - 1].astype(bool)).all()


def test_weights_are_published_every_so_many_updates(fake):
    learner, workers = learner_of(stamped(), fake, publish_every=7)
    learner._total_timesteps = 1_000
    workers.take(learner)
    seen = set()
    for updates in range(30):
        learner._n_updates = updates
        workers.take(learner)
        seen.add(workers._published)
    assert sorted(seen) == [0, 7, 14, 21, 28]


def test_the_age_of_the_weights_is_logged(fake, tmp_path):
    folder = distributed.train(stamped(), tmp_path / "run", workers=2, quiet=True, publish_every=1)
    ages = [row["workers/weights_age"] for row in log_of(folder) if row["workers/weights_age"]]
    assert any(float(age) > 0 for age in ages)
    assert all(float(age) < (2 * workers_module.ORDERED + 1) * 16 for age in ages)  # fragments of 16 updates


def test_an_error_of_an_environment_ends_the_run_which_can_be_resumed(fake, tmp_path, monkeypatch):
    config = stamped()

    def fail(self):
        if self.num_timesteps > 200:
            raise RuntimeError("the simulator is out of order")

    monkeypatch.setattr(Worker, "_step", lambda self, agent: (fail(agent), step(self, agent))[1])
    with pytest.raises(RuntimeError, match="out of order") as caught:
        distributed.train(config, tmp_path / "run", workers=2, quiet=True)
    assert "wolpertinger train --resume" in "".join(caught.value.__notes__)
    monkeypatch.setattr(Worker, "_step", step)
    distributed.resume(tmp_path / "run", workers=2, quiet=True)
    found = faults_of(tmp_path / "run", config)
    assert found == {"transitions": 600, "corrupt": 0, "twice": 0}


step = Worker._step


@pytest.mark.parametrize("with_workers", [True, False])
def test_an_interrupted_run_goes_on_with_or_without_workers(with_workers, fake, tmp_path):
    config = stamped()
    with pytest.raises(Interrupted, match="go on with"):
        distributed.train(config, tmp_path / "run", workers=2, quiet=True, stop=StopAt(60))
    resume = distributed.resume if with_workers else runs.resume
    resume(tmp_path / "run", quiet=True)
    assert faults_of(tmp_path / "run", config) == {"transitions": 600, "corrupt": 0, "twice": 0}


def test_no_return_goes_on_from_a_worker_into_the_runs_own_environments(fake, tmp_path):
    config = stamped(changes={**SMALL, "n_steps": 3, "train_freq": 1, "gradient_steps": 1})
    with pytest.raises(Interrupted, match="go on with"):
        distributed.train(config, tmp_path / "run", workers=2, quiet=True, stop=StopAt(60))
    stored = Wolpertinger.load(tmp_path / "run" / "state", env=make_env(config)).replay_buffer.size()
    runs.resume(tmp_path / "run", quiet=True)
    buffer = Wolpertinger.load(tmp_path / "run" / "state", env=make_env(config)).replay_buffer
    assert (buffer.timeouts[stored - 1] + buffer.dones[stored - 1] >= 1).all()


def test_a_signal_is_heard_while_no_worker_answers(fake, tmp_path, monkeypatch):
    monkeypatch.setattr(workers_module, "PATIENCE", 0.0)
    monkeypatch.setattr(type(fake), "wait", lambda self, refs, num_returns=1, timeout=None: ([], list(refs)))
    with pytest.raises(Interrupted, match="interrupted at step 0"):
        distributed.train(stamped(), tmp_path / "run", workers=2, quiet=True, stop=StopAt(5))


def test_bad_transitions_are_skipped_as_on_one_machine(fake, tmp_path, monkeypatch):
    config = stamped(changes={**SMALL, "train_freq": 1, "gradient_steps": 1, "on_bad_transition": "skip"})
    whole = Stamped._observe
    monkeypatch.setattr(Stamped, "_observe", lambda self: whole(self) * (np.nan if self.count % 50 == 7 else 1))
    learner, _ = learner_of(config, fake)
    learner.learn(600)
    assert learner.faults.bad_transitions > 0
    rows = learner.replay_buffer.size()
    assert np.isfinite(learner.replay_buffer.observations[:rows]).all()
    assert np.isfinite(learner.replay_buffer.next_observations[:rows]).all()


def test_shared_observations_are_refused(fake):
    learner, _ = learner_of(
        stamped(
            changes={
                **SMALL,
                "optimize_memory_usage": True,
                "replay_buffer_kwargs": {"handle_timeout_termination": False},
            }
        ),
        fake,
    )
    with pytest.raises(ValueError, match="optimize_memory_usage=True: fragments"):
        learner.learn(100)


@pytest.mark.parametrize(
    ("n_envs", "n_steps", "expected"), [(1, 1, 64), (16, 5, 50), (1_024, 1, 1), (8, 3, 30), (1, 5, 64)]
)
def test_fragments_hold_enough(n_envs, n_steps, expected):
    config = replace(stamped(), n_envs=n_envs, agent={"n_steps": n_steps})
    assert fragment_steps(config) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, "workers=0"),
        ({"workers": 2.5}, "workers=2.5"),
        ({"fragment_steps": 0}, "fragment_steps=0"),
        ({"publish_every": -1}, "publish_every=-1"),
    ],
)
def test_wrong_options_are_named(options, message, fake, tmp_path):
    with pytest.raises((ValueError, TypeError), match=message):
        distributed.train(stamped(), tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_a_folder_with_a_run_is_refused_before_workers_start(fake, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(FileExistsError, match="holds a run already"):
        distributed.train(stamped(), tmp_path)
    assert not fake.actors


def test_without_ray_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r'training on Ray needs ray.*pip install "wolpertinger\[ray\]"'):
        distributed.train(stamped(), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("address", "message"),
    [("127.0.0.1:9", "no Ray cluster at 127.0.0.1:9"), ("here", "Ray address 'here': give host:port"), ("a:b", "a:b")],
)
def test_an_address_without_a_cluster_is_refused_at_once(address, message, fake, monkeypatch):
    monkeypatch.setattr(type(fake), "is_initialized", lambda self: False)
    with pytest.raises((ConnectionError, ValueError), match=message):
        connect(address, "this test", processors=1)
