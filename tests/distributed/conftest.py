import sys

import pytest

from tests.distributed.fake_ray import FakeRay


@pytest.fixture
def fake(monkeypatch):
    """Ray, for whoever imports it in this test."""
    ray = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", ray)
    return ray
