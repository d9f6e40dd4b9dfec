import json

import numpy as np
import pytest
import torch

from wolpertinger.agent.trees import pack, unpack


def test_a_tree_comes_back_from_json_and_arrays():
    tree = {
        "a": [1, 2.5, None, True, "text", 2**100],
        "b": {"array": np.arange(6, dtype=np.int16).reshape(2, 3), "zero": np.array(3.5)},
        "c": np.float32(0.1),
        "d": torch.tensor([1.0, float("nan")]),
        "e": (np.uint8(3), float("inf")),
    }
    packed, arrays = pack(tree)
    found = unpack(json.loads(json.dumps(packed)), arrays)
    assert found["a"] == tree["a"]
    assert np.array_equal(found["b"]["array"], tree["b"]["array"])
    assert found["b"]["array"].dtype == np.int16
    assert found["b"]["zero"].shape == ()
    assert (found["c"], type(found["c"])) == (np.float32(0.1), np.float32)
    assert np.array_equal(found["d"], [1.0, np.nan], equal_nan=True)
    assert found["e"] == [3, float("inf")]


@pytest.mark.parametrize(("tree", "told"), [({"a": object()}, r"state\.a is"), ({1: 2}, "1 is no name")])
def test_what_cannot_be_said_is_refused(tree, told):
    with pytest.raises(TypeError, match=told):
        pack(tree)
