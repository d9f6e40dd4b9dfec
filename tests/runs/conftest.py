import pytest

from tests.runs.tiny import tiny
from wolpertinger.runs import train


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A finished run; leave it as it is."""
    return train(tiny(), tmp_path_factory.mktemp("runs") / "tiny", quiet=True)
