import pytest
import torch

from wolpertinger.networks.forms import check_forms

WEIGHTS = {"a": torch.zeros(2, 3), "b": torch.zeros(())}


def test_the_same_names_types_and_shapes_are_taken():
    check_forms({name: tensor + 1 for name, tensor in WEIGHTS.items()}, WEIGHTS)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"c": torch.zeros(1)}, "c missing or unknown"),
        ({"a": torch.zeros(3, 2)}, r"size mismatch for a: torch.float32 \(3, 2\), not torch.float32 \(2, 3\)"),
        ({"b": torch.zeros((), dtype=torch.float64)}, "size mismatch for b: torch.float64"),
    ],
)
def test_others_are_named(change, match):
    with pytest.raises(ValueError, match=match):
        check_forms({**WEIGHTS, **change}, WEIGHTS)
    with pytest.raises(ValueError, match="b missing or unknown"):
        check_forms({"a": WEIGHTS["a"]}, WEIGHTS)
