"""Our own routes: what they answer is what the agent says in process."""

import json
import shutil

import numpy as np
import pytest

from tests.serve.started import some_states
from wolpertinger.serve.observations import ObservationReader
from wolpertinger.serve.source import Source


def test_a_ranked_list_is_that_of_the_agent(client, agent):
    state = some_states(1)[0]
    found = client.post("/v1/rank", {"observation": state.tolist(), "top": 5})["ranked"]
    expected = agent.rank(state, 5)
    assert [one["action"] for one in found] == expected.actions.tolist()
    np.testing.assert_allclose([one["value"] for one in found], expected.values, rtol=1e-5)
    assert {one["source"] for one in found} == {"nearest"}


def test_a_batch_is_answered_in_order(client, agent):
    states = some_states(9)
    found = client.post("/v1/rank", {"observation": states.tolist(), "top": 1})["ranked"]
    assert [row[0]["action"] for row in found] == agent.predict(states)[0].tolist()


def test_only_what_is_allowed_is_ranked(client):
    states = some_states(2).tolist()
    found = client.post("/v1/rank", {"observation": states, "allowed": [[3, 5], [7]], "top": 8})["ranked"]
    assert [sorted(one["action"] for one in row) for row in found] == [[3, 5], [7]]


def test_an_explanation_is_that_of_the_agent(client, agent):
    state = some_states(1, seed=4)[0]
    found = client.post("/v1/explain", {"observation": state.tolist()})["explained"]
    expected = agent.explain(state)
    assert found["chosen"] == expected.chosen
    assert [one["action"] for one in found["candidates"]] == expected.actions.tolist()
    np.testing.assert_allclose(found["proto"], expected.proto, rtol=1e-5)
    np.testing.assert_allclose([one["distance"] for one in found["candidates"]], expected.distances, rtol=1e-4)


def test_another_k_and_longer_lists_than_the_agents_own_are_answered(client, agent):
    state = some_states(1, seed=4)[0]
    found = client.post("/v1/explain", {"observation": state.tolist(), "k": 30})["explained"]
    assert [one["action"] for one in found["candidates"]] == agent.explain(state, k=30).actions.tolist()
    assert found["chosen"] == agent.explain(state).chosen
    ranked = client.post("/v1/rank", {"observation": state.tolist(), "top": 30})["ranked"]
    assert [one["action"] for one in ranked] == agent.rank(state, 30).actions.tolist()
    status, _, told = client.ask("POST", "/v1/explain", {"observation": state.tolist(), "k": 0})
    assert (status, told["error"]) == (400, "k=0: give a whole number from 1 to 200")


def test_an_action_is_described(client, agent):
    found = client.get("/v1/actions/7")
    np.testing.assert_allclose(found["vector"], agent.actions.embed([7])[0], rtol=1e-6)
    assert client.ask("GET", "/v1/actions/200")[0] == 404
    assert client.ask("GET", "/v1/actions/-1")[0] == 422
    assert client.ask("GET", "/v1/actions/..%2f..%2fetc")[0] in (404, 422)


def test_the_map_shows_every_action_once_and_near_neighbours_near(client, agent):
    whole = client.get("/v1/map")
    assert sorted(whole["actions"]) == list(range(200))
    left, bottom, right, top = whole["box"]
    half = client.get(f"/v1/map?box={left},{bottom},{(left + right) / 2},{top}")
    assert 0 < half["count"] < 200
    assert all(x <= (left + right) / 2 for x, _ in half["points"])


@pytest.mark.parametrize("box", ["1", "a,b,c,d", "nan,0,1,1", "1,0,0,1", "0,0,1e999,1"])
def test_a_box_that_is_none_is_refused(client, box):
    assert client.ask("GET", f"/v1/map?box={box}")[0] == 400


def test_the_openapi_document_names_every_route(client):
    paths = client.get("/openapi.json")["paths"]
    assert {"/v1/rank", "/v1/explain", "/v1/actions", "/v1/actions/{action}", "/v2/models/{name}/infer"} <= paths.keys()


def test_the_page_is_told_what_it_shows(client, agent):
    told = client.get("/v1/about")
    assert (told["k"], told["actions"], told["changeable"]) == (8, "200", True)
    assert np.shape(told["examples"]["observation"]) == (8, 3)


def test_a_run_that_learned_from_a_log_is_served_without_its_environment(agents, tmp_path):
    (tmp_path / "checkpoints").mkdir()
    shutil.copy(agents / "first.zip", tmp_path / "checkpoints" / "best.zip")
    (tmp_path / "config.json").write_text(json.dumps({"version": 1, "task": "log"}, indent=1))
    source = Source(tmp_path)
    examples = source.examples(ObservationReader(source.load().observation_space))
    assert examples["observation"].shape == (8, 3)
    assert source.names is None
