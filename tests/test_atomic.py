"""Files are replaced whole, keep their mode and their links, and dead writers leave nothing behind."""

import errno
import os
import time

import pytest

from wolpertinger import atomic
from wolpertinger.atomic import SaveError, remove_litter, replacing, write_bytes


def test_a_file_keeps_its_mode_and_a_link_its_target(tmp_path):
    real, link = tmp_path / "real.zip", tmp_path / "link.zip"
    real.write_bytes(b"old")
    real.chmod(0o640)
    link.symlink_to(real)
    write_bytes(link, b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    assert real.stat().st_mode & 0o777 == 0o640


def test_an_error_names_the_path_and_the_bytes(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(
        SaveError, match=r"could not save to .*file \(5 bytes needed, .* free\).*No space left"
    ) as caught:
        write_bytes(tmp_path / "file", b"12345")
    assert (caught.value.path, caught.value.needed, caught.value.errno) == (tmp_path / "file", 5, errno.ENOSPC)
    assert not list(tmp_path.iterdir())


def test_what_dead_writers_left_is_removed_and_what_others_own_is_not(tmp_path):
    dead, empty, foreign = ".a.zip.0123456789abcdef", ".b.zip.0123456789abcdef", ".bashrc"
    for name in (dead, foreign):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / empty).touch()  # of a writer that has just begun, perhaps
    with replacing(tmp_path / "alive.zip", 1) as file:
        file.write(b"half")
        file.flush()
        remove_litter(tmp_path)
        assert sum(path.name.startswith(".alive.zip.") for path in tmp_path.iterdir()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [empty, foreign, "alive.zip"]
    old = time.time() - 2 * atomic.FRESH_SECONDS
    os.utime(tmp_path / empty, (old, old))
    remove_litter(tmp_path)
    assert not (tmp_path / empty).exists()


def test_the_next_writer_of_a_file_removes_what_the_last_one_left(tmp_path):
    (tmp_path / ".file.0123456789abcdef").write_bytes(b"x")
    (tmp_path / ".other.0123456789abcdef").write_bytes(b"x")
    write_bytes(tmp_path / "file", b"new")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".other.0123456789abcdef", "file"]


def test_what_is_no_file_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(SaveError, match=f"could not save to .*{name} .*: it is there, and no file"):
            write_bytes(tmp_path / name, b"new")
    with pytest.raises(SaveError, match=r"could not save to .*File exists"):
        write_bytes(tmp_path / "pipe" / "under", b"new")
    with pytest.raises(SaveError, match=r"could not save to .*File name too long"):
        write_bytes(tmp_path / ("x" * 5_000) / "under", b"new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "pipe"]
