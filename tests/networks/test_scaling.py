"""Between the actions' own vectors and what networks read."""

import numpy as np
import pytest
import torch

from wolpertinger import ActionTable
from wolpertinger.networks.scaling import VectorScale

VECTORS = np.array([[100.0, -3.0, 7.0], [300.0, -1.0, 7.0], [150.0, -2.0, 7.0], [120.0, -1.5, 7.0]])


def test_scaling_there_and_back():
    scale = VectorScale(ActionTable(VECTORS))
    unit = scale.to_unit(torch.as_tensor(VECTORS, dtype=torch.float32))
    assert unit[:, :2].min() == -1
    assert unit[:, :2].max() == 1
    assert (unit[:, 2] == 0).all()  # a dimension without width
    np.testing.assert_allclose(scale.to_vectors(unit).numpy(), VECTORS, rtol=1e-6)


def test_the_critic_reads_vectors_of_size_one_whatever_their_box():
    vectors = np.random.default_rng(0).normal(size=(500, 3))
    vectors[0] = 5  # one far-out action makes the box wider
    scale = VectorScale(ActionTable(vectors))
    inputs = scale.to_inputs(torch.as_tensor(vectors, dtype=torch.float32))
    assert inputs.square().mean().sqrt().item() == pytest.approx(1, abs=0.15)  # measured on a sample
    unit = scale.to_unit(torch.as_tensor(vectors, dtype=torch.float32))
    torch.testing.assert_close(inputs * scale.spread, unit)


def test_differences_of_vectors_become_differences_of_inputs():
    scale = VectorScale(ActionTable(VECTORS))
    one, other = torch.as_tensor(VECTORS[:3], dtype=torch.float32), torch.as_tensor(VECTORS[1:], dtype=torch.float32)
    expected = scale.to_inputs(one) - scale.to_inputs(other)
    torch.testing.assert_close(scale.stretch(one - other), expected, rtol=1e-4, atol=1e-5)


def test_equal_vectors_have_a_scale_too():
    scale = VectorScale(ActionTable(np.ones((4, 2))))
    assert scale.to_inputs(torch.ones(1, 2)).isfinite().all()
