"""Files are written whole or not at all, and read only if every byte is right."""

import contextlib
import errno
import io
import json
import os
import pickle
import struct
import zipfile

import numpy as np
import pytest
import safetensors.numpy

from wolpertinger import archive
from wolpertinger.archive import CheckpointError

FILES = {"one.json": b'{"a": 1}', "two.safetensors": bytes(range(64))}


@pytest.fixture
def path(tmp_path):
    archive.write(tmp_path / "file.zip", "kind", FILES)
    return tmp_path / "file.zip"


def rewrite(path, change, compression=zipfile.ZIP_STORED):
    """The archive with its members changed by `change`, a function of {name: bytes}."""
    with zipfile.ZipFile(path) as old:
        members = {name: old.read(name) for name in old.namelist()}
    members = change(members)
    with zipfile.ZipFile(path, "w", compression) as new:
        for name, data in members.items():
            new.writestr(name, data)


def relisted(members, **changes):
    """With a manifest that lists whatever is there: what a malicious writer would do."""
    buffer = io.BytesIO()
    archive.write(buffer, "kind", {name: data for name, data in members.items() if name != archive.MANIFEST})
    with zipfile.ZipFile(buffer) as new:
        manifest = json.loads(new.read(archive.MANIFEST))
    return {**members, archive.MANIFEST: json.dumps({**manifest, **changes})}


def test_what_was_written_is_read(path):
    assert archive.read(path, "kind") == FILES
    assert archive.read(str(path), "kind") == FILES
    with path.open("rb") as file:
        assert archive.read(file, "kind") == FILES


def test_an_open_file_will_do():
    buffer = io.BytesIO()
    archive.write(buffer, "kind", FILES)
    assert archive.read(buffer, "kind") == FILES


def test_folders_are_made_and_files_are_for_others_to_read(tmp_path):
    previous = os.umask(0o022)
    try:
        archive.write(tmp_path / "new" / "folder" / "file.zip", "kind", FILES)
    finally:
        os.umask(previous)
    assert (tmp_path / "new" / "folder" / "file.zip").stat().st_mode & 0o777 == 0o644
    assert [entry.name for entry in (tmp_path / "new" / "folder").iterdir()] == ["file.zip"]


@pytest.mark.parametrize("length", [0, 1, 21, 100, -100, -1])
def test_a_truncated_file_is_refused(path, length):
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(CheckpointError, match=r"file\.zip is damaged or not a checkpoint"):
        archive.read(path, "kind")


def test_no_flipped_byte_anywhere_changes_what_is_read(path):
    """Some bytes of a zip (dates, attributes) mean nothing here; all others are noticed, by this one error."""
    whole = path.read_bytes()
    refused = 0
    for position in range(len(whole)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0xFF]) + whole[position + 1 :])
        with contextlib.suppress(CheckpointError):
            refused += 1
            assert archive.read(path, "kind") == FILES
            refused -= 1
    assert refused > len(whole) / 2


@pytest.mark.parametrize("member", [archive.MANIFEST, *FILES])
def test_every_flipped_byte_of_a_member_is_noticed_and_named(path, member):
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as file:
        content = file.read(member)
    start = whole.index(content)
    for position in range(start, start + len(content)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        with pytest.raises(CheckpointError, match=r"damaged|manifest"):
            archive.read(path, "kind")


def test_the_checksum_finds_what_the_zips_own_does_not(path):
    def change(members):
        return {**members, "one.json": b'{"a": 2}'}

    rewrite(path, change)
    with pytest.raises(CheckpointError, match=r"one\.json is damaged, its SHA-256 is not the one in the manifest"):
        archive.read(path, "kind")


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04" + bytes(100)])
def test_what_is_no_zip_is_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="damaged or not a checkpoint"):
        archive.read(path, "kind")


def test_a_missing_file_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        archive.read(tmp_path / "nowhere.zip", "kind")


def test_a_zip_without_a_manifest_is_refused(path):
    rewrite(path, lambda members: FILES)
    with pytest.raises(CheckpointError, match=r"holds no manifest\.json: it was not written by wolpertinger$"):
        archive.read(path, "kind")


class Trap:
    """Runs when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_a_pickle_that_is_not_listed_is_refused_and_not_run(path, tmp_path):
    rewrite(path, lambda members: {**members, "data.pkl": pickle.dumps(Trap(tmp_path / "ran"))})
    with pytest.raises(CheckpointError, match=r"does not hold what its manifest lists: 'data\.pkl'"):
        archive.read(path, "kind")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["../escaped", "/tmp/escaped", "a/../../escaped"])
def test_a_name_that_leads_elsewhere_writes_nothing(path, tmp_path, name):
    rewrite(path, lambda members: {**members, name: b"x"})
    with pytest.raises(CheckpointError, match="does not hold what its manifest lists"):
        archive.read(path, "kind")
    rewrite(path, relisted)
    assert archive.read(path, "kind")[name] == b"x"  # listed, it is bytes in memory and no more
    assert [entry.name for entry in tmp_path.iterdir()] == ["file.zip"]
    assert not (tmp_path.parent / "escaped").exists()


def test_a_listed_file_that_is_not_there_is_named(path):
    rewrite(path, lambda members: {name: data for name, data in members.items() if name != "one.json"})
    with pytest.raises(CheckpointError, match=r"does not hold what its manifest lists: 'one\.json'"):
        archive.read(path, "kind")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_twice_is_refused(path):
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("one.json", FILES["one.json"])
    with pytest.raises(CheckpointError, match="a name twice"):
        archive.read(path, "kind")


def test_a_large_manifest_is_not_read(path):
    rewrite(path, lambda members: {**members, archive.MANIFEST: b" " * (archive.MAX_MANIFEST_BYTES + 1)})
    with pytest.raises(CheckpointError, match="has a manifest of 1048577 bytes: 1048576 at most are read"):
        archive.read(path, "kind")


def test_a_compressed_bomb_is_not_unpacked(path, monkeypatch):
    bomb = {**FILES, "two.safetensors": bytes(50_000_000)}
    rewrite(path, lambda members: relisted(bomb))
    with zipfile.ZipFile(path) as file:
        manifest = file.read(archive.MANIFEST)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(archive.MANIFEST, manifest)
        for name, data in bomb.items():
            file.writestr(name, data, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(zipfile.ZipExtFile, "_read1", forbid_compressed(zipfile.ZipExtFile._read1))
    with pytest.raises(CheckpointError, match=r"one\.json has|two\.safetensors has"):
        archive.read(path, "kind")


def forbid_compressed(read):
    def guarded(self, n):
        assert self._compress_type == zipfile.ZIP_STORED, "something was unpacked"
        return read(self, n)

    return guarded


def test_a_compressed_manifest_is_not_unpacked(path):
    rewrite(path, lambda members: members, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(CheckpointError, match="has a manifest of"):
        archive.read(path, "kind")


@pytest.mark.parametrize(
    "manifest", ["", "[]", "{}", '{"kind": 1}', '{"kind": "kind", "version": 1, "files": {"a": 1}}']
)
def test_a_manifest_that_says_something_else_is_refused(path, manifest):
    rewrite(path, lambda members: {**members, archive.MANIFEST: manifest})
    with pytest.raises(CheckpointError, match="has a manifest that cannot be read"):
        archive.read(path, "kind")


def test_a_deep_manifest_is_refused(path):
    rewrite(path, lambda members: {**members, archive.MANIFEST: "[" * 100_000})
    with pytest.raises(CheckpointError, match="damaged or not a checkpoint"):
        archive.read(path, "kind")


def test_another_kind_and_another_version_are_refused(path):
    with pytest.raises(CheckpointError, match="is a 'kind', a 'other' was expected"):
        archive.read(path, "other")
    rewrite(path, lambda members: relisted(members, version=99))
    with pytest.raises(CheckpointError, match="is of version 99, this wolpertinger reads 4"):
        archive.read(path, "kind")


def fails(*args, **kwargs):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("broken", ["os.replace", "os.fsync", "zipfile.ZipFile.writestr"])
def test_a_full_disk_leaves_what_was_there(path, monkeypatch, broken):
    with monkeypatch.context() as patch:
        patch.setattr(broken, fails)
        with pytest.raises(OSError, match=r"could not save to .*file\.zip.*No space left on device") as caught:
            archive.write(path, "kind", {"one.json": b"new"})
    assert caught.value.errno == errno.ENOSPC
    assert archive.read(path, "kind") == FILES
    assert [entry.name for entry in path.parent.iterdir()] == ["file.zip"]


def test_an_interrupt_leaves_what_was_there(path, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", interrupt)
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        archive.write(path, "kind", {"one.json": b"new"})
    assert archive.read(path, "kind") == FILES
    assert [entry.name for entry in path.parent.iterdir()] == ["file.zip"]


def test_members_that_share_bytes_are_refused(path):
    data = bytes(1 << 20)
    archive.write(path, "kind", {"a": data, "b": data})
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as file:
        first, second = (struct.pack("<I", file.getinfo(name).header_offset) for name in ("a", "b"))
    end = whole.rindex(b"PK\x01\x02")  # what the directory says of b: where it begins is in its last four bytes
    place = whole.index(second, end)
    path.write_bytes(whole[:place] + first + whole[place + 4 :])
    with pytest.raises(CheckpointError, match="lies in another member"):
        archive.read(path, "kind")


def test_a_long_directory_is_not_read(path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_DIRECTORY_BYTES", 20)
    with pytest.raises(CheckpointError, match=r"[0-9]+ bytes were to be read at once: 20 at most are"):
        archive.read(path, "kind")


@pytest.mark.parametrize("data", [b"[" + b"[]," * (1 << 20) + b"[]]", b'"' + bytes(archive.MAX_JSON_BYTES) + b'"'])
def test_json_that_would_take_much_memory_is_refused(data):
    with pytest.raises(ValueError, match=r"items: .* at most are read"):
        archive.read_json(data)


def test_a_long_list_of_tensors_is_refused():
    with pytest.raises(ValueError, match="a header of 4,194,305 bytes"):
        archive.read_arrays(((1 << 22) + 1).to_bytes(8, "little") + b"{}")
    assert archive.read_arrays(safetensors.numpy.save({"a": np.arange(3)}))["a"].tolist() == [0, 1, 2]


def test_whatever_goes_wrong_is_named():
    with (
        pytest.raises(CheckpointError, match=r"x\.json in the file does not fit: ZeroDivisionError"),
        archive.readable("x.json"),
    ):
        1 / 0  # noqa: B018
    with pytest.raises(CheckpointError, match=r"^as it is$"), archive.readable("x.json"):
        raise CheckpointError("as it is")
