"""The Open Inference Protocol by KServe's own client, as it is.

It wants older releases of protobuf, pandas and psutil than the rest of the tests, so `make test` does not install it:
docs/serving.md says how to run this.
"""

import asyncio

import numpy as np
import pytest

from tests.serve.started import some_states

kserve = pytest.importorskip("kserve")
httpx = pytest.importorskip("httpx")


@pytest.fixture
def ask(client):
    """A call of KServe's client: `ask("infer", data, model_name=...)`."""
    url = f"http://127.0.0.1:{client.port}"

    def ask(method, *arguments, **options):
        async def whole():
            stock = kserve.InferenceRESTClient(kserve.RESTConfig(protocol="v2", retries=0))
            try:
                return await getattr(stock, method)(url, *arguments, **options)
            finally:
                await stock.close()

        return asyncio.run(whole())

    return ask


def request(states, *, binary=False, kind="FP32", **parameters):
    given = kserve.InferInput("observation", list(states.shape), kind)
    given.set_data_from_numpy(states, binary_data=binary)
    return kserve.InferRequest("policy", [given], parameters=parameters or None)


def test_the_server_and_the_model_are_there(ask):
    assert ask("is_server_live") is True
    assert ask("is_server_ready") is True
    assert ask("is_model_ready", "policy") is True
    assert not ask("is_model_ready", "another")


@pytest.mark.parametrize("binary", [True, False])
def test_its_answers_are_those_of_predict(ask, agent, binary):
    states = some_states(17)
    found = ask("infer", request(states, binary=binary), model_name="policy")
    assert found.model_name == "policy"
    np.testing.assert_array_equal(found.outputs[0].as_numpy(), agent.predict(states, deterministic=True)[0])


def test_it_gets_a_ranked_list(ask, agent):
    states = some_states(5)
    found = {own.name: own.as_numpy() for own in ask("infer", request(states, top=4), model_name="policy").outputs}
    expected = agent.rank(states, 4)
    np.testing.assert_array_equal(found["action"], expected.actions)
    np.testing.assert_allclose(found["value"], expected.values, rtol=1e-5)


@pytest.mark.parametrize(
    ("states", "model", "message"),
    [
        (some_states(2)[:, :2], "policy", r"float32 of shape \(2, 2\): give numbers of shape \(3,\).*400"),
        (np.full((1, 3), np.nan, np.float32), "policy", "not finite.*400"),
        (some_states(257), "policy", "257 states at once: 256 at most.*413"),
        (some_states(1), "another", "there is no such model: there is policy.*404"),
    ],
)
def test_it_is_told_what_is_wrong(ask, states, model, message):
    with pytest.raises(httpx.HTTPStatusError, match=message):
        ask("infer", request(states, binary=True), model_name=model)
