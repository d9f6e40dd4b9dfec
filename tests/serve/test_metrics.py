import re

from tests.serve.started import TOKEN, some_states, started


def figures(client):
    text = client.ask("GET", "/metrics")[2].decode()
    return {name: float(value) for name, value in re.findall(r"^(wolpertinger_\S+) (\S+)$", text, flags=re.MULTILINE)}


def test_the_figures_follow_what_happens(agent_file):
    with started(agent_file) as client:
        for _ in range(3):
            client.post("/v1/rank", {"observation": some_states(2).tolist()})
        client.ask("POST", "/v1/rank", {"observation": "x"})
        client.post("/v1/actions", {"vectors": [[0, 0, 0], [1, 1, 1]]}, token=TOKEN)
        client.post("/v2/repository/models/policy/load", {}, token=TOKEN)
        client.ask("GET", "/a/path/that/no/route/has")
        found = figures(client)
    assert found['wolpertinger_requests_total{route="/v1/rank",status="200"}'] == 3
    assert found['wolpertinger_requests_total{route="/v1/rank",status="400"}'] == 1
    assert found['wolpertinger_requests_total{route="unknown",status="404"}'] == 1
    assert found["wolpertinger_batch_states_sum"] == 6
    assert found["wolpertinger_batch_states_count"] == 3
    assert (found["wolpertinger_policy_version"], found["wolpertinger_actions"]) == (2, 202)
    assert found['wolpertinger_changes_total{kind="added"}'] == 2
    assert found['wolpertinger_loads_total{outcome="loaded"}'] == 1
    assert (found["wolpertinger_recall"], found["wolpertinger_queue_states"]) == (1, 0)
    for stage in ("lookup", "scoring"):
        assert found[f'wolpertinger_stage_seconds_total{{stage="{stage}"}}'] > 0
