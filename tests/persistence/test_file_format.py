import hashlib
import os

import pytest

from bayespatch.persistence import file_format
from bayespatch.persistence.atomic import StorageError
from bayespatch.persistence.file_format import FORMAT, HEADER, File, read, read_manifest, write

FILE = File({"holds": "nothing", "list": [1, 2.5, None, "é", {"a": True}]}, {"one": b"abc", "two": b""})


@pytest.fixture
def path(tmp_path):
    write([(tmp_path / "a.bpatch", FILE)])
    return tmp_path / "a.bpatch"


def test_there_and_back(path):
    file = read(path)
    assert dict(file.parts) == FILE.parts
    assert {key: file.manifest[key] for key in FILE.manifest} == FILE.manifest
    assert read_manifest(str(path)) == file.manifest
    assert path.read_bytes().startswith(b"\x89bayespatch\n\x03\x00\x00\x00")


def test_every_byte_counts(path, tmp_path):
    blob = path.read_bytes()
    other = tmp_path / "other"
    for k in range(len(blob)):
        for new in (blob[:k], blob[:k] + bytes([blob[k] ^ 1]) + blob[k + 1 :], blob[:k] + b"\0" + blob[k:]):
            other.write_bytes(new)
            with pytest.raises(StorageError, match="other"):
                read(other)
    for more in (b"\0", b"\n", blob):
        other.write_bytes(blob + more)
        with pytest.raises(StorageError, match="extra bytes"):
            read(other)


@pytest.mark.parametrize("version", [FORMAT + 1, 2**32 - 1])
def test_a_newer_format_is_named(path, version):
    blob = path.read_bytes()
    path.write_bytes(HEADER.pack(*HEADER.unpack_from(blob)[:1], version, *HEADER.unpack_from(blob)[2:]) + blob[56:])
    with pytest.raises(StorageError, match=rf"format {version}.*up to {FORMAT}; install a newer bayespatch"):
        read(path)


def test_an_older_format_is_refused_with_the_version_that_wrote_it(tmp_path, monkeypatch):
    write([(tmp_path / "a", File({"package": "0.0.7"}, {}))])
    monkeypatch.setattr(file_format, "FORMAT", FORMAT + 1)
    assert read(tmp_path / "a").manifest["package"] == "0.0.7"
    monkeypatch.setattr(file_format, "OLDEST", FORMAT + 1)
    with pytest.raises(StorageError, match=rf"written by bayespatch '0\.0\.7' in format {FORMAT}.*fit the model again"):
        read(tmp_path / "a")


# What a file may ask for


def test_a_file_larger_than_the_memory_is_refused_before_it_is_read(path, monkeypatch):
    """A sparse file: a terabyte that takes no room on disk."""
    manifest = {"format": FORMAT, "parts": [{"name": "zeros", "bytes": 2**40, "sha256": "0" * 64}]}
    text = file_format._text(manifest)
    path.write_bytes(HEADER.pack(file_format.MAGIC, FORMAT, len(text), hashlib.sha256(text).digest()) + text)
    with open(path, "r+b") as file:
        file.truncate(HEADER.size + len(text) + 2**40)
    for use in (read, read_manifest):
        with pytest.raises(StorageError, match=r"needs 1\.1e\+03 GB of memory, but only .* is available"):
            use(path)
    monkeypatch.setattr("bayespatch.available_memory.available_memory", lambda: None)  # where the system does not tell
    monkeypatch.setattr(file_format, "digest", lambda part: pytest.fail("it was read"))
    with pytest.raises(StorageError, match="not enough memory to read it"):
        read(path)


@pytest.mark.parametrize(
    "value", ["[" + "[]," * 10**5 + "[]]", "[" + "1," * 10**6 + "1]", '"' + "a" * (file_format.MOST_JSON + 1) + '"']
)
def test_a_manifest_that_would_swell_is_refused(path, value):
    text = ('{\n"format": 3,\n"parts": [],\n"a": ' + value + "\n}\n").encode()
    path.write_bytes(HEADER.pack(file_format.MAGIC, FORMAT, len(text), hashlib.sha256(text).digest()) + text)
    with pytest.raises(StorageError, match=r"too large|above the limit of 16"):
        read_manifest(path)


# Trouble with files


@pytest.mark.parametrize("name", ["Größe ☹.bpatch", "a b", "日本", "x" * 250, "-rf", "no suffix"])
def test_any_name_will_do(tmp_path, name):
    write([(tmp_path / name, FILE)])
    assert dict(read(tmp_path / name).parts) == FILE.parts
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("path", [None, 3, b"a", "", "a\0b", "\ud800", ["a"]])
def test_what_is_no_path(path):
    for use in (read, read_manifest, lambda p: write([(p, FILE)])):
        with pytest.raises(StorageError, match="is not a path; pass the name of a file"):
            use(path)


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(StorageError, match="is a folder"):
        write([(tmp_path, FILE)])
    with pytest.raises(StorageError, match="is a folder"):
        read(tmp_path)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(StorageError, match=r"there is no folder .*nowhere; create it first"):
        write([(tmp_path / "nowhere" / "a", FILE)])
    with pytest.raises(StorageError, match="no such file; correct the path"):
        read(tmp_path / "nowhere" / "a")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="there is no folder"):
        write([(tmp_path / "file" / "a", FILE)])
    with pytest.raises(StorageError, match="cannot be read"):
        read(tmp_path / "file" / "a")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
def test_a_pipe_does_not_keep_us_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StorageError, match="not a regular file"):
        read(tmp_path / "pipe")
    with pytest.raises(StorageError, match="is not a file"):
        write([(tmp_path / "pipe", FILE)])


def test_without_permission(path, monkeypatch):
    def forbidden(*_, **__):
        raise PermissionError(13, "Permission denied")

    before = path.read_bytes()
    monkeypatch.setattr("builtins.open", forbidden)
    with pytest.raises(StorageError, match="may not be read; ask its owner"):
        read(path)
    with pytest.raises(StorageError, match=r"cannot be written \(Permission denied\); choose a writable folder"):
        write([(path, FILE)])
    monkeypatch.undo()
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(StorageError, match="is read-only"):
        write([(path, FILE)])
    assert path.read_bytes() == before
