"""Without the token nothing changes."""

import json
from types import SimpleNamespace

import pytest
from starlette.datastructures import URL, Headers

from tests.serve.started import TOKEN, started
from wolpertinger.serve.access import Access
from wolpertinger.serve.refused import RefusedError

CHANGING = [
    ("POST", "/v1/actions", {"vectors": [[0.0, 0.0, 0.0]]}),
    ("DELETE", "/v1/actions/3", None),
    ("POST", "/v2/repository/models/policy/load", {}),
]
WAYS = [
    {},
    {"Authorization": ""},
    {"Authorization": "Bearer"},
    {"Authorization": "Bearer "},
    {"Authorization": "Bearer wrong"},
    {"Authorization": f"Bearer {TOKEN[:-1]}"},
    {"Authorization": f"Bearer {TOKEN}x"},
    {"Authorization": f"Bearer {TOKEN.upper()}"},
    {"Authorization": f"Bearer  {TOKEN}"},
    {"Authorization": f"Bearer {TOKEN}, Bearer x"},
    {"Authorization": f"Basic {TOKEN}"},
    {"Authorization": TOKEN},
    {"Authorization": f"Token {TOKEN}"},
    {"Authorization": "Bearer null"},
    {"Authorization": b"Bearer \xff\xfe"},
    {"X-Authorization": f"Bearer {TOKEN}"},
    {"Proxy-Authorization": f"Bearer {TOKEN}"},
    {"Cookie": f"token={TOKEN}; Authorization=Bearer {TOKEN}"},
    {"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "https"},
    {"X-HTTP-Method-Override": "DELETE", "X-Original-URL": "/v1/actions/3"},
]


ASKING = {"/v1/rank", "/v1/explain", "/v2/repository/index"}
ASKING |= {f"/v2/models/{{name}}{version}/infer" for version in ("", "/versions/{version}")}


def test_every_route_that_changes_something_is_tried(client):
    paths = client.get("/openapi.json")["paths"]
    others = {(method.upper(), path) for path, methods in paths.items() for method in methods if method != "get"}
    others = {own for own in others if own[1] not in ASKING}
    tried = {(method, path.replace("/3", "/{action}").replace("policy", "{name}")) for method, path, _ in CHANGING}
    assert others == tried
    assert len(WAYS) >= 20


def state_of(client):
    told = client.get("/v1/about")
    return told["version"], told["actions"], client.ask("GET", "/v1/actions/3")[0]


@pytest.mark.parametrize(("method", "path", "body"), CHANGING)
def test_nothing_changes_without_the_token(client, method, path, body):
    before = state_of(client)
    for headers in WAYS:
        status, answered, told = client.ask(method, path, body, headers)
        assert status == 401, headers
        assert answered["www-authenticate"] == "Bearer"
        assert TOKEN not in json.dumps(told)
    for ending in (f"?token={TOKEN}", f"?access_token={TOKEN}", f"?authorization=Bearer%20{TOKEN}", "/", "//"):
        assert client.ask(method, path + ending.replace(" ", "%20"), body)[0] in (307, 401, 404, 405, 422)
    assert state_of(client) == before


@pytest.mark.parametrize(("method", "path", "body"), CHANGING)
def test_a_service_without_a_token_cannot_be_changed(agents, method, path, body):
    with started(agents / "first.zip", token=None) as client:
        before = state_of(client)
        for token in (None, "", "None", TOKEN):
            status, _, told = client.ask(method, path, body, token=token)
            assert (status, told) == (403, {"error": "the service was started without a token: nothing can be changed"})
        assert state_of(client) == before
    assert not list(agents.glob("*.changes"))


def request_from(host, scheme="http"):
    client = None if host is None else SimpleNamespace(host=host)
    headers = Headers({"authorization": f"Bearer {TOKEN}"})
    return SimpleNamespace(client=client, url=URL(f"{scheme}://service/v1/actions"), headers=headers)


@pytest.mark.parametrize("host", ["10.0.0.7", "2001:db8::1", "128.0.0.1", "localhost.evil", "", None])
def test_the_token_is_not_taken_in_the_clear_from_elsewhere(host):
    with pytest.raises(RefusedError, match="in the clear: use TLS, or --insecure"):
        Access(TOKEN).require(request_from(host))
    Access(TOKEN).require(request_from(host, "https"))
    Access(TOKEN, insecure=True).require(request_from(host))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1"])
def test_the_token_is_taken_from_this_machine(host):
    Access(TOKEN).require(request_from(host))


def test_a_short_token_is_refused():
    with pytest.raises(ValueError, match="the token has 5 characters: give 16 or more"):
        Access("short")
