"""Models whose training rows are only in a database, and models in object stores."""

from __future__ import annotations

import errno
import json
import os
import pickle
import struct
import subprocess
import zlib

import numpy as np
import pytest

import nuq
from nuq import NuqClassifier, NuqRegressor, _remote, _sharded
from nuq.errors import DamagedFileError, FileError, InvalidParameterError, MissingFileError, ParameterTypeError, RowsNotStoredError


def exact(model, queries):
    """The neighbors that a database returns if it searches exactly and computes squared distances in float64."""
    k = min(model.n_neighbors, model.n_samples_fit_)
    ids = model.kneighbors(queries, k, return_distance=False)
    return ids, model.measure(queries, ids)


@pytest.mark.parametrize(
    "estimator",
    [
        NuqClassifier(),
        NuqClassifier(density="kde", normalize=True),
        NuqClassifier(density="gmm", bandwidth="scott"),
        NuqClassifier(bandwidth="adaptive"),
        NuqRegressor(kernel="student"),
    ],
    ids=repr,
)
def test_predictions_equal_the_predictions_of_the_model_with_rows(tmp_path, blobs, estimator):
    x, y = blobs
    model = estimator.fit(x, y)
    model.calibrate(x[::2] + np.float32(0.01), coverage=0.8, name="guard")
    model.save(tmp_path / "all.nuq")
    model.save(tmp_path / "without.nuq", rows=False)
    queries = x[::5] + np.float32(0.05)
    ids, squared = exact(model, queries)
    opened = nuq.load(tmp_path / "without.nuq")
    for other in (opened, pickle.loads(pickle.dumps(opened)), nuq.load(tmp_path / "all.nuq")):
        result = other.predict_from(queries, ids, squared, metric="l2sq")
        for name, column in model.predict_uncertainty(queries).items():
            np.testing.assert_array_equal(result[name], column, strict=True)
    np.testing.assert_array_equal(opened.thresholds_["guard"].accept(result), model.accept(queries, "guard"))
    assert opened.n_samples_fit_ == 300 and "not stored" in opened.index_


def test_calls_that_need_rows_are_errors(tmp_path, blobs):
    x, y = blobs
    model = NuqClassifier().fit(x, y)
    model.save(tmp_path / "without.nuq", rows=False)
    opened = nuq.load(tmp_path / "without.nuq")
    ids = np.zeros((300, 20), int) + np.arange(20)
    for call in (
        lambda: opened.predict(x),
        lambda: opened.predict_proba(x),
        lambda: opened.predict_uncertainty(x),
        lambda: opened.kneighbors(x),
        lambda: opened.kneighbors(),
        lambda: opened.leave_one_out(),
        lambda: opened.label_issues(),
        lambda: opened.measure(x, ids),
        lambda: opened.predict_from(x, ids, rerank=True),
        lambda: opened.calibrate(x, coverage=0.9),
        lambda: opened.partial_fit(x, y),
        lambda: opened.remove([0]),
    ):
        with pytest.raises(RowsNotStoredError, match="saved without its training rows"):
            call()
    with pytest.raises(ParameterTypeError):
        model.save(tmp_path / "other.nuq", rows=1)
    with pytest.raises(InvalidParameterError, match="computed from the coordinates of the neighbors"):
        NuqClassifier(kernel="sigmoid").fit(x, y).save(tmp_path / "other.nuq", rows=False)
    assert not (tmp_path / "other.nuq").exists()


def test_the_command_line_opens_the_file_but_does_not_search_it(tmp_path, blobs, binary):
    x, y = blobs
    NuqClassifier().fit(x, y).save(tmp_path / "without.nuq", rows=False)
    np.save(tmp_path / "x.npy", x)

    def run(*arguments):
        return subprocess.run([binary, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)

    inspected = run("inspect", "--verify", "without.nuq")
    assert inspected.returncode == 0 and "none, the training rows are not stored" in inspected.stdout, inspected
    for command in (
        ("score", "--model", "without.nuq", "--embeddings", "x.npy", "--out", "scores.csv"),
        ("label-issues", "without.nuq"),
        ("suggest", "--model", "without.nuq", "--embeddings", "x.npy"),
        ("calibrate", "--model", "without.nuq", "--embeddings", "x.npy", "--target", "coverage=0.9"),
        ("serve", "--model", "without.nuq", "--address", "127.0.0.1:0"),
    ):
        refused = run(*command)
        assert refused.returncode not in (0, 101), refused
        assert "without.nuq" in refused.stderr and "saved without its training rows" in refused.stderr, refused
    assert not (tmp_path / "scores.csv").exists()


@pytest.fixture
def sharded(tmp_path, blobs):
    x, y = blobs
    folder = tmp_path / "sharded"
    folder.mkdir()
    parts = [_sharded.write(folder, i, x[i * 100 : (i + 1) * 100], y[i * 100 : (i + 1) * 100], None, False, 1) for i in range(3)]
    return _sharded.fit(NuqClassifier(index="exact"), folder, parts), folder


def test_models_are_read_from_object_stores(tmp_path, blobs, sharded, monkeypatch):
    pytest.importorskip("pyarrow")
    fsspec = pytest.importorskip("fsspec")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    x, y = blobs
    model, folder = sharded
    expected = model.predict_uncertainty(x).total
    model.save(tmp_path / "model.nuq")
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path / "model.nuq"), "/bucket/model.nuq")
    memory.put(str(folder), "/bucket/sharded", recursive=True)
    for uri in ("memory://bucket/model.nuq", f"file://{tmp_path}/model.nuq", "memory://bucket/sharded/", f"file://{folder}"):
        np.testing.assert_array_equal(nuq.load(uri).predict_uncertainty(x).total, expected)
    # If the file changes, it is copied again.
    NuqClassifier().fit(x + 1, y).save(tmp_path / "model.nuq")
    memory.put(str(tmp_path / "model.nuq"), "/bucket/model.nuq")
    assert (nuq.load("memory://bucket/model.nuq").predict_uncertainty(x).total != expected).any()
    with pytest.raises(MissingFileError, match="memory://bucket/none.nuq does not exist"):
        nuq.load("memory://bucket/none.nuq")
    with pytest.raises(FileError, match="unknown://bucket/model.nuq cannot be read"):
        nuq.load("unknown://bucket/model.nuq")
    with pytest.raises(InvalidParameterError, match="copy files between this machine and the object store"):
        model.save("s3://bucket/model.nuq")


def test_only_old_temporary_copies_are_removed(tmp_path):
    names = ["old.tmp", "new.tmp", "model.nuq"]
    for name in names:
        (tmp_path / name).touch()
    for name in ("old.tmp", "model.nuq"):
        os.utime(tmp_path / name, (0, 0))
    _remote.remove_stale_copies(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.nuq", "new.tmp"]


def test_a_file_that_is_replaced_while_it_is_copied_is_not_stored_as_the_previous_one(tmp_path, blobs, sharded, monkeypatch):
    pytest.importorskip("pyarrow")
    memory = pytest.importorskip("fsspec").filesystem("memory")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    x, y = blobs
    contents = []
    for count in (300, 200):
        NuqClassifier().fit(x[::-1][:count], y[::-1][:count]).save(tmp_path / "model.nuq")
        contents.append((tmp_path / "model.nuq").read_bytes())
    versions = []
    head = _remote._head

    def replaced_after(uri):
        result = head(uri)
        if versions:
            memory.pipe("/replaced/model.nuq", versions.pop())
        return result

    monkeypatch.setattr(_remote, "_head", replaced_after)
    memory.pipe("/replaced/model.nuq", contents[0])
    versions.append(contents[1])
    assert nuq.load("memory://replaced/model.nuq").n_samples_fit_ == 200
    memory.pipe("/replaced/model.nuq", contents[0])
    assert nuq.load("memory://replaced/model.nuq").n_samples_fit_ == 300
    # Every time a version is read, the other one replaces it.
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "empty"))
    (tmp_path / "empty").mkdir()
    versions.extend(contents * 50)
    with pytest.raises(FileError, match="model.nuq was replaced several times"):
        nuq.load("memory://replaced/model.nuq")
    assert not [path for path in (tmp_path / "empty").rglob("*") if path.is_file()]


@pytest.fixture
def store(tmp_path, blobs, sharded, monkeypatch):
    """An object store with the file ``/store/model.nuq`` and the sharded model ``/store/sharded``, and an empty folder for copies."""
    pytest.importorskip("pyarrow")
    memory = pytest.importorskip("fsspec").filesystem("memory")
    NuqClassifier().fit(*blobs).save(tmp_path / "model.nuq")
    memory.put(str(tmp_path / "model.nuq"), "/store/model.nuq")
    memory.put(str(sharded[1]), "/store/sharded", recursive=True)
    (tmp_path / "cache").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "cache"))
    return memory


def copies(tmp_path):
    """The files in the folder for copies. The manifest is copied before the shards."""
    return sorted(path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.name != "manifest.nuq")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")], ids=repr)
@pytest.mark.parametrize("step", ["copy", "sync", "close"])
@pytest.mark.parametrize("name", ["model.nuq", "sharded"])
def test_a_copy_that_fails_or_is_interrupted_leaves_no_file(store, tmp_path, monkeypatch, name, step, error):
    class File:
        """A file whose last buffer cannot be written when it is closed."""

        def __init__(self, path, mode):
            self._file = open(path, mode)

        def __getattr__(self, attribute):
            return getattr(self._file, attribute)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self._file.close()
            raise error

    def fail(*_):
        raise error

    def copy_a_part(source, file, _):
        if not file.name.endswith("manifest.nuq"):
            file.write(source.read(100))
        raise error

    if name == "sharded":
        _remote.manifest_folder("memory://store/sharded")
    if step == "copy":
        monkeypatch.setattr("shutil.copyfileobj", copy_a_part)
    elif step == "sync":
        monkeypatch.setattr("os.fsync", fail)
    else:
        monkeypatch.setattr(_remote, "open", lambda path, mode: File(path, mode) if mode == "xb" else open(path, mode), raising=False)
    is_interrupt = isinstance(error, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt if is_interrupt else FileError) as caught:
        nuq.load(f"memory://store/{name}")
    if not is_interrupt:
        assert "memory://store/" in str(caught.value) and "cannot be copied" in str(caught.value) and "TMPDIR" in str(caught.value)
    assert copies(tmp_path) == []
    monkeypatch.undo()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "cache"))
    assert nuq.load(f"memory://store/{name}").n_samples_fit_ == 300


def test_no_copy_remains_if_the_file_disappears_while_it_is_copied(store, tmp_path, monkeypatch):
    store_copy = _remote.shutil.copyfileobj

    def copy_and_remove(*arguments):
        store_copy(*arguments)
        store.rm("/store/model.nuq")

    monkeypatch.setattr("shutil.copyfileobj", copy_and_remove)
    with pytest.raises(MissingFileError, match="memory://store/model.nuq does not exist"):
        nuq.load("memory://store/model.nuq")
    assert copies(tmp_path) == []


@pytest.mark.parametrize("name", ["model.nuq", "sharded"])
def test_a_copy_that_ended_early_is_not_kept(store, tmp_path, monkeypatch, name):
    def copy_a_part(source, file, _):
        file.write(source.read()[:-64])

    if name == "sharded":
        _remote.manifest_folder("memory://store/sharded")
    with monkeypatch.context() as patched:
        patched.setattr("shutil.copyfileobj", copy_a_part)
        with pytest.raises(DamagedFileError, match=r"memory://store/.*: the copy has \d+ bytes, and the header of the file states \d+: try again"):
            nuq.load(f"memory://store/{name}")
    assert copies(tmp_path) == []
    assert nuq.load(f"memory://store/{name}").n_samples_fit_ == 300
    # A copy of a wrong size, which earlier versions could store, is replaced. A complete copy is not copied again.
    for end in (-64, 20, 0):
        first = copies(tmp_path)[0]
        content = first.read_bytes()
        first.write_bytes(content[:end])
        assert nuq.load(f"memory://store/{name}").n_samples_fit_ == 300
        assert first.read_bytes() == content
        before = first.stat().st_ino, first.stat().st_mtime_ns
        nuq.load(f"memory://store/{name}")
        assert (first.stat().st_ino, first.stat().st_mtime_ns) == before


def test_a_copy_that_cannot_be_renamed_is_an_error_unless_another_process_has_stored_one(store, tmp_path, monkeypatch):
    def replace(copy, target):
        if is_stored:
            target.write_bytes(copy.read_bytes())
        raise PermissionError(errno.EACCES, "Access is denied")

    monkeypatch.setattr("os.replace", replace)
    is_stored = False
    with pytest.raises(FileError, match="memory://store/model.nuq cannot be copied to .*: Access is denied"):
        nuq.load("memory://store/model.nuq")
    assert copies(tmp_path) == []
    is_stored = True
    assert nuq.load("memory://store/model.nuq").n_samples_fit_ == 300
    assert len(copies(tmp_path)) == 1


def test_a_file_in_an_object_store_that_is_no_model_is_an_error_at_each_call(store):
    store.pipe("/store/notes.nuq", b"notes")
    for _ in range(2):
        with pytest.raises(DamagedFileError, match="NUQMODEL"):
            nuq.load("memory://store/notes.nuq")


def test_the_shards_of_a_manifest_are_copied_to_its_folder(tmp_path, blobs, sharded, monkeypatch):
    pytest.importorskip("pyarrow")
    memory = pytest.importorskip("fsspec").filesystem("memory")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    model, folder = sharded
    memory.put(str(folder), "/manifests/m", recursive=True)
    other = NuqClassifier(index="exact", n_neighbors=3)
    parts = [_sharded.write(folder, i, blobs[0][i * 100 : (i + 1) * 100], blobs[1][i * 100 : (i + 1) * 100], None, False, 1) for i in range(3)]
    _sharded.fit(other, folder, parts)
    manifest_folder = _remote.manifest_folder

    def replaced_after(path):
        result = manifest_folder(path)
        memory.pipe("/manifests/m/manifest.nuq", (folder / "manifest.nuq").read_bytes())
        return result

    monkeypatch.setattr(_remote, "manifest_folder", replaced_after)
    assert nuq.load("memory://manifests/m").n_neighbors == model.n_neighbors
    assert nuq.load("memory://manifests/m").n_neighbors == 3


def with_shard_names(manifest, names):
    """The bytes of a manifest that lists other shards, with valid checksums."""
    count = struct.unpack_from("<I", manifest, 12)[0]
    sections, body = [], b""
    start = -(-(32 + 64 * count) // 64) * 64
    for i in range(count):
        name, offset, length = struct.unpack_from("<40sQQ", manifest, 32 + 64 * i)
        content = manifest[offset : offset + length]
        if name.rstrip(b"\0") == b"shards":
            content = json.dumps([{"name": name, "rows": 100} for name in names]).encode()
        sections.append(struct.pack("<40sQQII", name, start + len(body), len(content), zlib.crc32(content), 0))
        body += content + bytes(-len(content) % 64)
    table = b"".join(sections)
    head = manifest[:16] + struct.pack("<Q", start + len(body))
    head += struct.pack("<II", zlib.crc32(head + table), 0) + table
    return head + bytes(start - len(head)) + body


def test_shards_of_object_stores_are_written_into_the_cache_only(tmp_path, sharded, monkeypatch):
    pytest.importorskip("pyarrow")
    fsspec = pytest.importorskip("fsspec")
    cache = tmp_path / "cache"
    cache.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(cache))
    _, folder = sharded
    manifest = (folder / "manifest.nuq").read_bytes()
    names = sorted(file.name for file in folder.glob("rows-*"))
    memory = fsspec.filesystem("memory")
    outside = tmp_path / "outside.nuq"
    for i, name in enumerate([str(outside), "../../../outside.nuq", f"../../../{names[0]}", "sub/x.nuq", "notes.txt"]):
        prefix = f"/hostile{i}"
        memory.pipe(f"{prefix}/manifest.nuq", with_shard_names(manifest, [name, *names[1:]]))
        memory.pipe(f"{prefix}/{name.removeprefix('/')}", b"hostile")
        with pytest.raises(DamagedFileError, match="shards"):
            nuq.load(f"memory:/{prefix}")
        # with_shards rejects every name that contains a slash. The name notes.txt has none, so ./ is added.
        with pytest.raises(DamagedFileError, match="is not the name of a shard"):
            _remote.with_shards(f"memory:/{prefix}", [name if "/" in name else f"./{name}"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "sharded"]
    assert not [path for path in cache.rglob("*") if path.is_file() and path.name != "manifest.nuq"]
    # The manifest with its original shard names is accepted.
    memory.pipe("/same/manifest.nuq", with_shard_names(manifest, names))
    for name in names:
        memory.pipe(f"/same/{name}", (folder / name).read_bytes())
    assert nuq.load("memory://same").n_features_in_ == nuq.load(folder).n_features_in_


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="folders have no owner")
def test_a_link_or_a_folder_that_others_can_write_is_not_used_as_cache(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = _remote.cache_folder()
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    with pytest.raises(FileError, match="other users can write to it"):
        _remote.cache_folder()
    folder.rmdir()
    (tmp_path / "elsewhere").mkdir()
    for target in ("elsewhere", "missing"):
        folder.symlink_to(tmp_path / target)
        with pytest.raises(FileError, match="is a link or a file"):
            _remote.cache_folder()
        folder.unlink()


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="folders have no owner")
@pytest.mark.parametrize("error", [KeyError("uid not found: 12345"), OSError("No username set in the environment")], ids=repr)
def test_a_user_without_a_name_has_a_cache(tmp_path, monkeypatch, error):
    def getuser():
        raise error

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("getpass.getuser", getuser)
    assert _remote.cache_folder().name == f"nuq-models-{os.getuid()}"


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give a folder to another user")
def test_a_folder_of_another_user_is_not_used_as_cache(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = _remote.cache_folder()
    os.chown(folder, 12345, -1)
    # The permissions of the folder are correct: only its owner is wrong.
    assert folder.stat().st_mode & 0o777 == 0o700
    with pytest.raises(FileError, match="belongs to another user"):
        _remote.cache_folder()
