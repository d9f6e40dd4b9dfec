"""The Open Inference Protocol, by the clients that others wrote."""

import numpy as np
import pytest

from tests.serve.started import some_states

triton = pytest.importorskip("tritonclient.http")


@pytest.fixture
def stock(client):
    """NVIDIA's own client, as it is."""
    with triton.InferenceServerClient(f"127.0.0.1:{client.port}") as stock:
        yield stock


def tensor(states, *, binary=True, kind="FP32"):
    own = triton.InferInput("observation", list(states.shape), kind)
    own.set_data_from_numpy(states, binary_data=binary)
    return [own]


def test_the_stock_client_finds_the_server_and_the_model(stock):
    assert stock.is_server_live()
    assert stock.is_server_ready()
    assert stock.is_model_ready("policy")
    assert stock.is_model_ready("policy", "1")
    assert not stock.is_model_ready("another")
    assert "binary_tensor_data" in stock.get_server_metadata()["extensions"]
    found = stock.get_model_metadata("policy")
    assert found["inputs"] == [{"name": "observation", "datatype": "FP32", "shape": [-1, 3]}]
    assert found["outputs"] == [{"name": "action", "datatype": "INT64", "shape": [-1]}]
    assert stock.get_model_repository_index()[0]["name"] == "policy"


@pytest.mark.parametrize("binary", [True, False])
def test_the_stock_client_gets_what_predict_gives(stock, agent, binary):
    states = some_states(17)
    outputs = [triton.InferRequestedOutput("action", binary_data=binary)]
    expected, _ = agent.predict(states, deterministic=True)
    found = stock.infer("policy", tensor(states, binary=binary), outputs=outputs, request_id="seven")
    np.testing.assert_array_equal(found.as_numpy("action"), expected)
    assert found.get_response()["id"] == "seven"
    np.testing.assert_array_equal(stock.infer("policy", tensor(states)).as_numpy("action"), expected)


def test_the_stock_client_gets_a_ranked_list(stock, agent):
    states = some_states(5)
    found = stock.infer("policy", tensor(states), parameters={"top": 4})
    expected = agent.rank(states, 4)
    np.testing.assert_array_equal(found.as_numpy("action"), expected.actions)
    np.testing.assert_allclose(found.as_numpy("value"), expected.values, rtol=1e-5)
    np.testing.assert_allclose(found.as_numpy("distance"), expected.distances, rtol=1e-5)


@pytest.mark.parametrize(
    ("states", "options", "message"),
    [
        (some_states(2)[:, :2], {}, r"float32 of shape \(2, 2\): give numbers of shape \(3,\)"),
        (np.full((1, 3), np.nan, np.float32), {}, "not finite"),
        (some_states(0), {}, "give one state at least"),
        (some_states(257), {}, "257 states at once: 256 at most"),
        (some_states(1), {"parameters": {"top": 201}}, "top=201: give a whole number from 1 to 200"),
        (some_states(1), {"parameters": {"top": "x"}}, "top='x'"),
        (some_states(1), {"outputs": [triton.InferRequestedOutput("colour")]}, "there is no output 'colour'"),
        (some_states(1), {"model_version": "7"}, "there is policy, version 1"),
    ],
)
def test_the_stock_client_is_told_what_is_wrong(stock, states, options, message):
    with pytest.raises(triton.InferenceServerException, match=message) as caught:
        stock.infer("policy", tensor(states), **options)
    assert caught.value.status().startswith("4")


def test_an_unknown_model_is_refused(stock):
    with pytest.raises(triton.InferenceServerException, match="there is no such model: there is policy"):
        stock.infer("another", tensor(some_states(1)))


def test_health_says_so_in_words_as_kserve_reads_them(client):
    assert client.get("/v2/health/live") == {"live": True}
    assert client.get("/v2/health/ready") == {"ready": True}
    assert client.get("/v2/models/policy/ready") == {"name": "policy", "ready": True}
