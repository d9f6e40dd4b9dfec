"""Changes of the actions and of the policy: durable, whole, and without a gap."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from tests.serve.conftest import make_agent
from tests.serve.started import TOKEN, Client, some_states, started
from wolpertinger import CheckpointError, Wolpertinger
from wolpertinger.serve import journal
from wolpertinger.serve.journal import Added, Journal, Removed
from wolpertinger.serve.limits import Limits
from wolpertinger.serve.repository import Repository
from wolpertinger.serve.source import Source

LOAD = "/v2/repository/models/policy/load"


def add(client, vectors):
    return client.post("/v1/actions", {"vectors": vectors}, token=TOKEN)["ids"]


def remove(client, action):
    return client.ask("DELETE", f"/v1/actions/{action}", token=TOKEN)[0]


def picks(client, states):
    return [row[0]["action"] for row in client.post("/v1/rank", {"observation": states.tolist(), "top": 1})["ranked"]]


def explained(client, state):
    return client.post("/v1/explain", {"observation": state.tolist()})["explained"]


def test_an_added_action_is_found_and_a_removed_one_is_not(agent_file):
    with started(agent_file) as client:
        state = some_states(1)[0]
        proto = explained(client, state)["proto"]
        assert add(client, [proto, [9.0, 9.0, 9.0]]) == [200, 201]
        assert explained(client, state)["candidates"][0]["action"] == 200
        np.testing.assert_allclose(client.get("/v1/actions/200")["vector"], proto, rtol=1e-6)
        assert remove(client, 200) == 200
        assert remove(client, 200) == 404
        assert 200 not in [one["action"] for one in explained(client, state)["candidates"]]
        assert client.ask("GET", "/v1/actions/200")[0] == 404


def test_changes_are_there_after_a_restart_and_only_of_what_was_answered(agent_file):
    with started(agent_file) as client:
        assert add(client, [[0.0, 0.0, 0.0]]) == [200]
        assert remove(client, 3) == 200
        for bad in ([], [[1.0]], [[1e39, 0, 0]], "x", [["a", "b", "c"]], [[0, 0, 0]] * 1_001, [[0, 0, 0], [0, 0]]):
            assert client.ask("POST", "/v1/actions", {"vectors": bad}, token=TOKEN)[0] == 400
        expected = picks(client, some_states(50))
    with started(agent_file) as client:
        assert client.get("/v1/about")["actions"] == "200"
        assert picks(client, some_states(50)) == expected
        assert client.ask("GET", "/v1/actions/3")[0] == 404
        assert add(client, [[0.1, 0.0, 0.0]]) == [201]


def test_the_last_action_stays(tmp_path):
    make_agent(n=9).save(tmp_path / "agent.zip")
    with started(tmp_path / "agent.zip") as client:
        assert [remove(client, action) for action in range(9)] == [200] * 8 + [409]
        assert picks(client, some_states(2)) == [8, 8]


def test_another_policy_is_served_without_a_gap_and_keeps_the_changes(agent_file, agents):
    states = some_states(40)
    with started(agent_file) as client:
        add(client, [[0.0, 0.0, 0.0]])
        before, statuses, stop = picks(client, states), [], threading.Event()

        def keep_asking():
            while not stop.is_set():
                statuses.append(client.ask("POST", "/v1/rank", {"observation": states[0].tolist()})[0])

        asking = threading.Thread(target=keep_asking)
        asking.start()
        os.replace(shutil.copy(agents / "second.zip", agent_file.with_name("new")), agent_file)
        assert client.post(LOAD, {}, token=TOKEN) == {"name": "policy", "version": "2"}
        stop.set()
        asking.join()
        assert set(statuses) == {200}
        expected = Wolpertinger.load(agents / "second.zip")
        expected.actions.add([[0.0, 0.0, 0.0]])
        assert picks(client, states) == expected.predict(states)[0].tolist() != before


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "gone", "other actions"])
def test_a_file_that_cannot_be_served_leaves_the_old_policy(agent_file, damage):
    with started(agent_file) as client:
        add(client, [[0.0, 0.0, 0.0]])
        before, data = picks(client, some_states(20)), bytearray(agent_file.read_bytes())
        if damage == "gone":
            agent_file.unlink()
        elif damage == "other actions":
            make_agent(n=30).save(agent_file)
        else:
            data[len(data) // 2] ^= 0xFF
            agent_file.write_bytes({"cut": data[: len(data) // 2], "flipped": data, "empty": b""}[damage])
        status, _, told = client.ask("POST", LOAD, {}, token=TOKEN)
        assert status == 409
        assert told["error"].startswith("the file cannot be served, version 1 goes on: ")
        assert picks(client, some_states(20)) == before
        assert add(client, [[0.5, 0.0, 0.0]]) == [201]


def test_a_request_to_load_names_no_file(agent_file):
    with started(agent_file) as client:
        for body in ({"parameters": {"config": "{}"}}, {"parameters": {"file:/etc/passwd": "x"}}):
            assert client.ask("POST", LOAD, body, token=TOKEN)[0] == 400
        assert client.ask("POST", "/v2/repository/models/another/load", {}, token=TOKEN)[0] == 404
        assert client.ask("POST", "/v2/repository/models/..%2f..%2fx/load", {}, token=TOKEN)[0] == 404


def test_a_new_file_is_noticed(agent_file, agents):
    with started(agent_file, watch=0.05) as client:
        os.replace(shutil.copy(agents / "second.zip", agent_file.with_name("new")), agent_file)
        until = time.monotonic() + 60
        while client.get("/v1/about")["version"] == 1 and time.monotonic() < until:
            time.sleep(0.05)
        expected = Wolpertinger.load(agents / "second.zip").predict(some_states(20))[0].tolist()
        assert picks(client, some_states(20)) == expected


def start_process(path):
    """The command itself, which says where it listens."""
    environment = {**os.environ, "WOLPERTINGER_TOKEN": TOKEN, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "wolpertinger", "serve", str(path), "--port", "0", "--name", "policy"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    line = process.stdout.readline()
    assert line.startswith("serving at http://127.0.0.1:"), line
    return process, Client(int(line.rsplit(":", 1)[1]))


def until_ready(client):
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            if client.ask("GET", "/v2/health/ready")[0] == 200:
                return
        except OSError:
            time.sleep(0.05)
    raise AssertionError("it does not begin")


def test_what_was_answered_survives_sigkill_and_sigterm_answers_what_was_accepted(agent_file):
    process, client = start_process(agent_file)
    until_ready(client)
    answered, removed = [], []

    def change():
        try:
            for number in range(10_000):
                answered.extend(add(client, [[number / 1e4, 0.5, 0.5]]))
                if number % 3 == 0 and remove(client, answered[-1]) == 200:
                    removed.append(answered[-1])
        except (OSError, AssertionError):  # the end
            pass

    changing = threading.Thread(target=change)
    changing.start()
    while len(answered) < 60:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    changing.join()
    process.stdout.close()
    process, client = start_process(agent_file)
    try:
        until_ready(client)
        kept = set(answered) - set(removed)
        is_there = {action: client.ask("GET", f"/v1/actions/{action}")[0] == 200 for action in answered}
        uncertain = set(answered[-1:])  # its removal may have been on its way
        assert all(is_there[action] for action in kept - uncertain)
        assert not any(is_there[action] for action in removed)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) in (0, -signal.SIGTERM)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def repository_of(agent_file):
    def make(**options):
        return Repository(Source(agent_file), Limits(), **{"changeable": False, **options})

    return make


def write(path, changes, base):
    written = Journal(path)
    written.begin(journal.Changes(), base)
    for change in changes:
        written.append(change)
    written.close()


CHANGES = [Added(200, np.ones((2, 3), np.float32)), Removed([5, 201])]


def test_a_journal_reads_as_it_was_written(tmp_path, agent):
    write(tmp_path / "x", CHANGES, "base")
    found = journal.read(tmp_path / "x")
    assert (found.base, found.length) == ("base", (tmp_path / "x").stat().st_size)
    np.testing.assert_array_equal(found.changes[0].vectors, CHANGES[0].vectors)
    assert found.changes[1] == CHANGES[1]


def test_a_line_that_was_cut_short_was_never_answered(tmp_path):
    write(tmp_path / "x", CHANGES, "base")
    whole = (tmp_path / "x").read_bytes()
    first = whole.index(b"\n", whole.index(b"\n") + 1) + 1  # header and one change
    for length in range(first, len(whole)):
        (tmp_path / "x").write_bytes(whole[:length])
        assert len(journal.read(tmp_path / "x").changes) == 1
    found = journal.read(tmp_path / "x")
    again = Journal(tmp_path / "x")
    again.begin(found, "base")
    again.append(Removed([7]))
    again.close()
    assert journal.read(tmp_path / "x").changes[1] == Removed([7])


def test_damage_before_the_last_line_is_told(tmp_path):
    write(tmp_path / "x", CHANGES, "base")
    data = bytearray((tmp_path / "x").read_bytes())
    data[data.index(b"\n") + 20] ^= 1
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(CheckpointError, match="is damaged, or no journal of version 1"):
        journal.read(tmp_path / "x")


def test_changes_of_another_set_are_not_made(repository_of, agent_file):
    write(agent_file.with_name("agent.zip.changes"), CHANGES, "another")
    with pytest.raises(CheckpointError, match="holds 2 changes of the set with SHA-256 another"):
        repository_of()


def test_one_service_at_a_time_may_change(repository_of):
    first = repository_of(changeable=True)
    with pytest.raises(BlockingIOError, match="another service changes this agent's actions"):
        repository_of(changeable=True)
    repository_of()
    first.close()
