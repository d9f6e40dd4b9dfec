import pytest
import torch

from wolpertinger import States

OBSERVATIONS = {
    "array": torch.arange(14.0).view(7, 2),
    "dict": {"one": torch.arange(14.0).view(7, 2), "other": torch.arange(7)},
}


@pytest.fixture(params=OBSERVATIONS)
def obs(request):
    return OBSERVATIONS[request.param]


def parts_of(obs):
    return list(obs.values()) if isinstance(obs, dict) else [obs]


def test_states_are_counted(obs):
    assert len(States(obs)) == 7
    assert States(obs).device.type == "cpu"


@pytest.mark.parametrize("chosen", [slice(2, 5), torch.tensor([6, 0, 3])])
@pytest.mark.parametrize("proto", [None, torch.arange(7.0).view(7, 1)])
def test_some_of_the_states_come_with_their_proto_actions(obs, proto, chosen):
    found = States(obs, proto).rows(chosen)
    assert len(found) == 3
    for ours, theirs in zip(parts_of(found.obs), parts_of(obs), strict=True):
        assert torch.equal(ours, theirs[chosen])
    assert found.proto is None if proto is None else torch.equal(found.proto, proto[chosen])


@pytest.mark.parametrize(("size", "lengths"), [(1, [1] * 7), (3, [3, 3, 1]), (7, [7]), (100, [7])])
def test_parts_hold_every_state_once_in_order(obs, size, lengths):
    states = States(obs, torch.arange(7.0).view(7, 1))
    parts = list(states.split(size))
    assert [len(part) for part in parts] == lengths
    assert torch.equal(torch.cat([part.proto for part in parts]), states.proto)
    for number, whole in enumerate(parts_of(obs)):
        assert torch.equal(torch.cat([parts_of(part.obs)[number] for part in parts]), whole)
    assert (parts[0] is states) == (len(lengths) == 1)
