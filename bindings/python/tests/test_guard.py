"""Guards of functions that compute embeddings, without PyTorch. A guard calls the function, and accepts or rejects each prediction."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import nuq
from nuq import Guard, NuqClassifier, guard, load_guard
from nuq.errors import (
    CannotCertifyError,
    DamagedFileError,
    DimensionMismatchError,
    EmptyError,
    FewRowsError,
    FileError,
    InvalidInputError,
    InvalidParameterError,
    LengthMismatchError,
    MissingFileError,
    NewerFormatError,
    NotFiniteError,
    OutOfRangeError,
    ParameterTypeError,
)

RNG = np.random.default_rng(3)
CENTERS = RNG.normal(0, 3, (3, 6))
Y = RNG.integers(0, 3, 300)
X = CENTERS[Y] + RNG.normal(size=(300, 6))
FAR = np.full((4, 6), 500.0)


def network(x):
    """A function in place of a network. It returns embeddings, and logits that are a linear function of the embeddings."""
    embeddings = np.tanh(np.asarray(x) / 5).astype(np.float32)
    return embeddings, embeddings @ CENTERS.T.astype(np.float32)


def embeddings_only(x):
    return network(x)[0]


def batches(x=X, y=Y, size=50):
    return [(x[i : i + size], y[i : i + size]) for i in range(0, len(x), size)]


def same(left, right):
    assert list(left) == list(right)
    for name in left:
        np.testing.assert_array_equal(left[name], right[name])


@pytest.mark.parametrize("target", [{}, {"coverage": 0.8}, {"risk": 0.2}, {"false_alarm": 0.1, "measure": "density"}])
@pytest.mark.parametrize("with_logits", [True, False])
def test_answers_equal_the_predictions_of_a_classifier_on_the_same_embeddings(target, with_logits):
    guarded = guard(network if with_logits else embeddings_only, batches(), **target)
    embeddings, logits = network(X)
    training = guarded.training_rows
    held_out = np.setdiff1d(np.arange(300), training)
    assert len(held_out) == 60
    model = NuqClassifier().fit(embeddings[training], Y[training])
    outputs = {"logits": logits[held_out]} if with_logits else {}
    threshold = model.calibrate(embeddings[held_out], Y[held_out], **(target or {"false_alarm": 0.05}), **outputs)
    assert guarded.threshold == threshold

    answer = guarded(X)
    expected = model.predict_uncertainty(embeddings, **({"logits": logits} if with_logits else {}))
    same(answer.uncertainty, expected)
    np.testing.assert_array_equal(answer.label, expected.label)
    np.testing.assert_array_equal(answer.accept, threshold.accept(expected))
    if with_logits:
        np.testing.assert_array_equal(answer.label, logits.argmax(axis=1))
        np.testing.assert_array_equal(answer.logits, logits)
    else:
        assert answer.logits is None and guarded.predictor == "nuq"
    assert len(answer) == 300 and "300 inputs" in repr(answer)


def test_two_rows_as_a_nested_list_are_not_embeddings_and_logits():
    guarded = guard(lambda x: embeddings_only(x).tolist(), batches(size=2))
    same(guarded(X[:2]).uncertainty, guard(embeddings_only, batches())(X[:2]).uncertainty)
    of_tuples = guard(lambda x: tuple(map(tuple, embeddings_only(x).tolist())), batches(size=2))
    same(of_tuples(X[:2]).uncertainty, guarded(X[:2]).uncertainty)
    as_list = guard(lambda x: list(network(x)), batches())
    np.testing.assert_array_equal(as_list(X[:2]).logits, network(X[:2])[1])


def test_inputs_far_from_the_training_data_are_rejected():
    guarded = guard(network, batches())
    assert not guarded(np.concatenate([FAR, -FAR])).accept.any()
    assert guarded(X).accept.mean() > 0.9
    assert "at most 5 %" in repr(guarded)


def test_the_answer_of_a_row_does_not_depend_on_its_batch():
    guarded = guard(network, batches())
    together = guarded(X)
    parts = [guarded(X[i : i + 7]) for i in range(0, 300, 7)]
    for name in together.uncertainty:
        np.testing.assert_array_equal(together.uncertainty[name], np.concatenate([part.uncertainty[name] for part in parts]))
    np.testing.assert_array_equal(together.accept, np.concatenate([part.accept for part in parts]))


def test_the_split_is_random_and_depends_on_the_seed_only():
    first, again, other = (guard(network, batches(), random_state=seed).training_rows for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert len(first) == len(other) == 240 and (first != other).any()
    # The split does not depend on the size of the batches.
    np.testing.assert_array_equal(guard(network, batches(size=17), random_state=1).training_rows, first)


def test_given_held_out_batches_are_used_for_the_threshold():
    held_out = batches(X[200:], Y[200:])
    guarded = guard(network, batches(X[:200], Y[:200]), held_out=held_out, false_alarm=0.1)
    np.testing.assert_array_equal(guarded.training_rows, np.arange(200))
    embeddings, logits = network(X)
    model = NuqClassifier().fit(embeddings[:200], Y[:200])
    assert guarded.threshold == model.calibrate(embeddings[200:], Y[200:], false_alarm=0.1, logits=logits[200:])
    # A false alarm rate needs no labels; the threshold is the same.
    unlabeled = [(x, None) for x, _ in held_out]
    assert guard(network, batches(X[:200], Y[:200]), held_out=unlabeled, false_alarm=0.1).threshold.value == guarded.threshold.value
    with pytest.raises(InvalidInputError, match="batch 0 of held_out has no labels"):
        guard(network, batches(X[:200], Y[:200]), held_out=unlabeled, risk=0.2)


def test_calibrate_replaces_the_threshold():
    guarded = guard(network, batches(X[:200], Y[:200]), held_out=batches(X[200:], Y[200:]))
    before = guarded.threshold
    assert guarded.calibrate(batches(X[200:], Y[200:]), coverage=0.5) is guarded
    embeddings, logits = network(X)
    expected = guarded.model.calibrate(embeddings[200:], Y[200:], coverage=0.5, logits=logits[200:])
    assert guarded.threshold == expected != before


def test_neighbors_are_positions_in_the_batches():
    guarded = guard(network, batches())
    distances, rows, labels = guarded(X[:20]).neighbors(3)
    embeddings = network(X)[0].astype(np.float64)
    training = guarded.training_rows
    direct = np.linalg.norm(embeddings[:20, None] - embeddings[None, training], axis=2)
    nearest = np.argsort(direct, axis=1, kind="stable")[:, :3]
    np.testing.assert_array_equal(rows, training[nearest])
    np.testing.assert_array_equal(labels, Y[training[nearest]])
    np.testing.assert_allclose(distances, np.take_along_axis(direct, nearest, axis=1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("held_out", [0.2, batches(X[200:], Y[200:])], ids=["split", "given"])
def test_rows_that_are_added_later_have_no_position_in_the_batches(held_out, tmp_path):
    guarded = guard(network, batches(X[:200], Y[:200]), held_out=held_out)
    training = guarded.training_rows
    new = network(FAR)[0]
    # Two of the four new rows get the ids of the removed rows, the others get new ids.
    guarded.model.remove([3, 5])
    guarded.model.partial_fit(new, Y[:4])
    guarded.calibrate(batches(X[200:], Y[200:]))
    guarded.save(tmp_path / "folder")
    for checked in (guarded, load_guard(tmp_path / "folder", network)):
        np.testing.assert_array_equal(checked.training_rows, np.delete(training, [3, 5]))
        np.testing.assert_array_equal(checked(FAR).neighbors(4).rows, np.full((4, 4), -1))
        np.testing.assert_array_equal(checked(X[training[[0, 4, 6]]]).neighbors(1).rows[:, 0], training[[0, 4, 6]])


def test_neighbors_have_the_labels_of_their_rows_after_rows_were_removed():
    names = np.array(["a", "b", "c"])
    guarded = guard(network, batches(y=names[Y]), predictor="nuq")
    removed = guarded.model.training_ids_[:7]
    guarded.model.remove(removed)
    guarded.calibrate(batches(y=names[Y]))
    _, rows, labels = guarded(X[:50]).neighbors(3)
    np.testing.assert_array_equal(labels, names[Y][rows])


def test_listed_classes_without_rows_do_not_change_the_labels_of_neighbors():
    names = np.array(["b", "c", "d"])
    model = NuqClassifier().partial_fit(network(X)[0], names[Y], classes=["a", *names])
    model.calibrate(network(X)[0], false_alarm=0.05, name="guard")
    _, rows, labels = Guard(lambda x: network(x)[0], model)(X[:20]).neighbors(2)
    np.testing.assert_array_equal(labels, names[Y][rows])


def test_a_guard_whose_threshold_was_removed_is_not_saved(tmp_path):
    guarded = guard(network, batches())
    guarded.save(tmp_path / "folder")
    guarded.model.partial_fit(network(FAR)[0], Y[:4])
    assert "no threshold" in repr(guarded)
    for use in (lambda: guarded.save(tmp_path / "folder"), lambda: guarded(X)):
        with pytest.raises(nuq.errors.InvalidParameterError, match="changes of the model remove its thresholds"):
            use()
    load_guard(tmp_path / "folder", network)
    guarded.calibrate(batches())
    guarded.save(tmp_path / "folder")
    assert load_guard(tmp_path / "folder", network).model.n_samples_fit_ == guarded.model.n_samples_fit_


def test_a_guard_that_is_replaced_while_it_is_opened_is_read_again(tmp_path, monkeypatch):
    first, second = guard(network, batches()), guard(network, batches(), held_out=0.3)
    first.save(tmp_path / "folder")
    read = nuq._guard_files.read_description

    def replaced_after(folder):
        result = read(folder)
        monkeypatch.setattr(nuq._guard_files, "read_description", read)
        second.save(tmp_path / "folder")
        return result

    monkeypatch.setattr(nuq._guard_files, "read_description", replaced_after)
    opened = load_guard(tmp_path / "folder", network)
    assert opened.threshold == second.threshold
    np.testing.assert_array_equal(opened.training_rows, second.training_rows)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot open folders as files")
def test_the_entries_of_new_folders_are_written_to_the_disk(tmp_path, monkeypatch):
    guarded = guard(network, batches())
    fsync, synced = os.fsync, []

    def record(number):
        status = os.fstat(number)
        if status.st_ino == (tmp_path / "failing").stat().st_ino:
            raise OSError(errno.EIO, "Input/output error")
        synced.append(status.st_ino)
        fsync(number)

    (tmp_path / "failing").mkdir()
    monkeypatch.setattr(os, "fsync", record)
    guarded.save(tmp_path / "new" / "folder")
    folders = (tmp_path, tmp_path / "new", tmp_path / "new" / "folder")
    assert {folder.stat().st_ino for folder in folders} <= set(synced)
    # The folder itself is written after its last file.
    entry = synced.index((tmp_path / "new" / "folder").stat().st_ino)
    assert entry > synced.index((tmp_path / "new" / "folder" / "guard.json").stat().st_ino)
    for folder in ("folder", "new/folder"):
        with pytest.raises(FileError, match=f"failing/{folder}: .*Input/output error: '.*failing'"):
            guarded.save(tmp_path / "failing" / folder)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_function_may_return_a_list_of_rows(size):
    guarded = guard(lambda inputs: [row for row in network(inputs)[0]], [(X[i : i + 2], Y[i : i + 2]) for i in range(0, 200, 2)])
    expected = guard(lambda inputs: network(inputs)[0], batches(X[:200], Y[:200]))
    np.testing.assert_array_equal(guarded(X[:size]).accept, expected(X[:size]).accept)


def test_other_functions_do_not_open_the_folder_of_a_guard(tmp_path):
    guard(network, batches()).save(tmp_path / "folder")
    with pytest.raises(nuq.errors.FileError, match="open it with nuq.load_guard"):
        nuq.load(tmp_path / "folder")


def test_classes_are_the_labels_of_the_logit_columns():
    names = np.array(["ship", "cat", "dog"])  # not in sorted order
    guarded = guard(network, batches(y=names[Y]), classes=["ship", "cat", "dog"])
    answer, plain = guarded(X), guard(network, batches())(X)
    np.testing.assert_array_equal(answer.label, names[network(X)[1].argmax(axis=1)])
    # The results are not equal bit for bit, because sums over the classes are computed in another order.
    np.testing.assert_allclose(answer.uncertainty.total, plain.uncertainty.total, rtol=1e-12)


def test_a_single_logit_belongs_to_the_second_class():
    y = (Y == 1).astype(int)
    single = guard(lambda x: (network(x)[0], network(x)[1][:, :1]), batches(y=y))
    both = guard(lambda x: (network(x)[0], network(x)[1][:, :1] * [0, 1]), batches(y=y))
    same(single(X).uncertainty, both(X).uncertainty)
    flat = guard(lambda x: (network(x)[0], network(x)[1][:, 0]), batches(y=y))
    same(flat(X).uncertainty, both(X).uncertainty)
    np.testing.assert_array_equal(single(X).label, network(X)[1][:, 0] > 0)


def test_outputs_can_be_probabilities():
    def softmax(x):
        embeddings, logits = network(x)
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return embeddings, weights / weights.sum(axis=1, keepdims=True)

    guarded = guard(softmax, batches(), output="probabilities")
    embeddings, probabilities = softmax(X)
    same(guarded(X).uncertainty, guarded.model.predict_uncertainty(embeddings, probabilities=probabilities))
    np.testing.assert_allclose(guarded(X).uncertainty.total, guard(network, batches())(X).uncertainty.total, rtol=1e-4)


def test_with_predictor_nuq_logits_do_not_change_the_uncertainties():
    guarded = guard(network, batches(), predictor="nuq")
    same(guarded(X).uncertainty, guarded.model.predict_uncertainty(network(X)[0]))
    assert guarded(X).logits is not None


def test_the_parameters_of_the_given_classifier_are_used_and_it_is_not_fitted():
    params = NuqClassifier(n_neighbors=7, kernel="student")
    guarded = guard(network, batches(), model=params)
    assert guarded.model.n_neighbors == 7 and guarded.model.kernel == "student"
    with pytest.raises(nuq.errors.NotFittedError):
        params.predict(X)


def test_batches_can_be_mappings_with_labels():
    def embed(inputs):
        return network(inputs["x"])

    given = [{"x": x, "labels": y} for x, y in batches()]
    same(guard(embed, given)({"x": X}).uncertainty, guard(network, batches())(X).uncertainty)


def test_a_fitted_model_can_be_guarded():
    embeddings, logits = network(X)
    model = NuqClassifier().fit(embeddings[:200], Y[:200])
    threshold = model.calibrate(embeddings[200:], false_alarm=0.05, name="mine", logits=logits[200:])
    guarded = Guard(network, model, "mine")
    np.testing.assert_array_equal(guarded(X).accept, threshold.accept(model.predict_uncertainty(embeddings, logits=logits)))
    with pytest.raises(InvalidParameterError, match="stored thresholds are 'mine'"):
        Guard(network, model, "other")


# -- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [Y, np.array(["ship", "cat", "dog"])[Y]], ids=["numbers", "text"])
def test_a_loaded_guard_gives_the_same_answers(tmp_path, labels):
    classes = None if labels is Y else ["ship", "cat", "dog"]
    guarded = guard(network, batches(y=labels), classes=classes, random_state=5)
    guarded.save(tmp_path / "folder")
    assert sorted(path.name for path in (tmp_path / "folder").iterdir()) == ["guard.json", "model.nuq"]
    opened = load_guard(tmp_path / "folder", network)
    same(opened(X).uncertainty, guarded(X).uncertainty)
    np.testing.assert_array_equal(opened(X).accept, guarded(X).accept)
    np.testing.assert_array_equal(opened(X).neighbors(4).rows, guarded(X).neighbors(4).rows)
    np.testing.assert_array_equal(opened(X).neighbors(4).labels, guarded(X).neighbors(4).labels)
    assert opened.threshold == guarded.threshold
    # The model file in the folder has the same format as the files of the command line.
    assert isinstance(nuq.load(tmp_path / "folder" / "model.nuq"), NuqClassifier)


def test_a_folder_is_replaced_completely(tmp_path):
    folder = tmp_path / "folder"
    guard(network, batches()).save(folder)
    opened = load_guard(folder, network)
    # The folder is replaced although the model file in this folder is memory-mapped by the guard.
    opened.calibrate(batches(X[::2], Y[::2]), coverage=0.5).save(folder)
    assert load_guard(folder, network).threshold == opened.threshold
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.mark.skipif(sys.platform == "win32", reason="whether a process runs is only known on Unix")
def test_temporary_folders_of_killed_processes_are_removed(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    names = [
        f".folder-{ended.pid}-aaaaaaaa",
        f".folder-{ended.pid}-a_recent",
        f".folder-{os.getpid()}-aaaaaaaa",
        f".folder-2-{ended.pid}-aaaaaaaa",
        f".other-{ended.pid}-aaaaaaaa",
    ]
    former = time.time() - 300
    for name in names:
        (tmp_path / name / "new").mkdir(parents=True)
        # A recent change in the folder shows that it is in use.
        if not name.endswith("recent"):
            os.utime(tmp_path / name / "new", (former, former))
        os.utime(tmp_path / name, (former, former))
    guarded = guard(network, batches())
    # Without a folder, one of the temporary folders may contain the previous one.
    guarded.save(tmp_path / "folder")
    assert {path.name for path in tmp_path.iterdir()} == {*names, "folder"}
    guarded.save(tmp_path / "folder")
    assert {path.name for path in tmp_path.iterdir()} == {*names[1:], "folder"}


def test_the_previous_folder_is_kept_if_it_can_neither_be_replaced_nor_moved_back(tmp_path, monkeypatch):
    guarded = guard(network, batches())
    guarded.save(tmp_path / "folder")
    former = {file.name: file.read_bytes() for file in (tmp_path / "folder").iterdir()}
    renames = iter([os.rename])

    def rename(source, target):
        # The first call moves the previous folder away; all later calls fail.
        function = next(renames, None)
        if function is None:
            raise OSError(5, "Input/output error")
        function(source, target)

    monkeypatch.setattr("nuq._guard_files._exchange", lambda first, second: False)
    monkeypatch.setattr("os.rename", rename)
    with pytest.raises(FileError, match="the previous folder is now .*old") as caught:
        guarded.save(tmp_path / "folder")
    kept = Path(str(caught.value).rsplit("now ", 1)[1])
    assert {file.name: file.read_bytes() for file in kept.iterdir()} == former
    assert f"the new folder is now {kept.parent / 'new'}" in str(caught.value)
    assert load_guard(kept.parent / "new", network).threshold == guarded.threshold


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_an_interrupted_renaming_leaves_the_previous_or_the_new_folder(tmp_path, monkeypatch, failing):
    guarded, changed = guard(network, batches()), guard(network, batches(), held_out=0.3)
    guarded.save(tmp_path / "folder")
    rename, calls = os.rename, []

    def interrupted(source, target):
        # Python raises KeyboardInterrupt after a system call that has succeeded.
        if failing > 0:
            rename(source, target)
        calls.append(target)
        if len(calls) == max(failing, 1):
            raise KeyboardInterrupt
        if failing == 0:
            rename(source, target)

    monkeypatch.setattr("nuq._guard_files._exchange", lambda first, second: False)
    monkeypatch.setattr("os.rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        changed.save(tmp_path / "folder")
    expected = changed if failing == 2 else guarded
    assert load_guard(tmp_path / "folder", network).threshold == expected.threshold
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_macos_exchanges_folders_in_one_step(tmp_path, monkeypatch):
    first, second = tmp_path / "first", tmp_path / "second"
    result = [0]

    def renamex_np(*arguments):
        assert arguments == (os.fsencode(first), os.fsencode(second), 2)
        return result[0]

    monkeypatch.setattr("nuq._nuq.exchange_paths", lambda first, second: False)
    monkeypatch.setattr("sys.platform", "darwin")
    library = SimpleNamespace(renamex_np=renamex_np)
    monkeypatch.setattr("ctypes.CDLL", lambda name: library)
    assert nuq._guard_files._exchange(first, second) is True
    # The file system does not support the exchange, or the system has no such function.
    result[0] = -1
    assert nuq._guard_files._exchange(first, second) is False
    del library.renamex_np
    assert nuq._guard_files._exchange(first, second) is False


def test_a_folder_that_cannot_be_listed_or_resolved_is_a_file_error(tmp_path, monkeypatch):
    guarded = guard(network, batches())
    guarded.save(tmp_path / "folder")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(FileError, match="loop"):
        guarded.save(tmp_path / "loop")

    def iterdir(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", iterdir)
    with pytest.raises(FileError, match="folder: .*Permission denied"):
        guarded.save(tmp_path / "folder")


def test_the_working_directory_is_not_replaced_and_links_are_kept(tmp_path, monkeypatch):
    guarded = guard(network, batches())
    guarded.save(tmp_path / "folder")
    (tmp_path / "link").symlink_to("folder")
    guarded.calibrate(batches(X[::2], Y[::2]), coverage=0.5).save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert load_guard(tmp_path / "folder", network).threshold == guarded.threshold
    monkeypatch.chdir(tmp_path / "folder")
    with pytest.raises(FileError, match="is the current working directory"):
        guarded.save(".")


def test_other_folders_are_not_replaced(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileError, match="not the folder of a guard"):
        guard(network, batches()).save(tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    with pytest.raises(FileError, match="notes.txt"):
        guard(network, batches()).save(tmp_path / "notes.txt")
    guarded = guard(network, batches())
    guarded.save(tmp_path / "folder")
    (tmp_path / "folder" / "notes.txt").write_text("mine")
    with pytest.raises(FileError, match="contains notes.txt, which save would delete"):
        guarded.save(tmp_path / "folder")
    assert (tmp_path / "folder" / "notes.txt").read_text() == "mine"


def test_a_file_named_guard_json_is_not_replaced_by_a_folder(tmp_path):
    file = tmp_path / "guard.json"
    file.write_text("mine")
    with pytest.raises(FileError, match="guard.json exists and is not the folder of a guard"):
        guard(network, batches()).save(file)
    assert file.read_text() == "mine"


def test_missing_and_damaged_folders_are_errors(tmp_path):
    folder = tmp_path / "folder"
    with pytest.raises(MissingFileError, match="guard.json"):
        load_guard(folder, network)
    guard(network, batches()).save(folder)
    file = folder / "guard.json"
    content = json.loads(file.read_text())
    for damaged, error in (
        ("{", DamagedFileError),
        ("[]", DamagedFileError),
        (json.dumps({"format": 1}), DamagedFileError),
        (json.dumps({**content, "format": 99}), NewerFormatError),
        (json.dumps({**content, "threshold": "other"}), DamagedFileError),
        (json.dumps({**content, "output": "scores"}), DamagedFileError),
        (json.dumps({**content, "split": {"rows": 3}}), DamagedFileError),
        (json.dumps({**content, "split": [3]}), DamagedFileError),
        ("[" * 1000, DamagedFileError),
        ("[" * 100_000, DamagedFileError),
    ):
        file.write_text(damaged)
        with pytest.raises(error, match="guard.json"):
            load_guard(folder, network)
    file.write_text(json.dumps(content))
    (folder / "model.nuq").write_bytes(b"damaged")
    with pytest.raises(DamagedFileError):
        load_guard(folder, network)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        # Formerly `training_rows` was incomplete or had wrong positions, or the first use allocated memory for all stated rows.
        ({"rows": 5}, "the split has 5 rows, of which 60 are held out, but the model was fitted to another number"),
        ({"rows": 299}, "another number of rows"),
        ({"rows": 301}, "another number of rows"),
        ({"held_out": 59}, "another number of rows"),
        ({"rows": 10**12}, "entry rows of the split is 1000000000000"),
        ({"rows": 10**12 + 240, "held_out": 10**12}, "entry rows"),
        ({"rows": 4 * 10**6 + 240, "held_out": 4 * 10**6}, "entry rows"),
        ({"rows": 10**6}, "another number of rows"),
        ({"rows": 60}, "another number of rows"),
        ({"rows": "300"}, "entry rows of the split is '300'"),
        ({"rows": 300.0}, "entry rows"),
        ({"held_out": True}, "entry held_out"),
        ({"seed": -1}, "entry seed"),
        ({"seed": 2**32}, "entry seed"),
    ],
)
def test_a_split_that_does_not_fit_the_model_is_an_error(tmp_path, changes, message):
    folder = tmp_path / "folder"
    guard(network, batches()).save(folder)
    content = json.loads((folder / "guard.json").read_text())
    assert content["split"] == {"rows": 300, "held_out": 60, "seed": 0}
    content["split"].update(changes)
    (folder / "guard.json").write_text(json.dumps(content))
    with pytest.raises(DamagedFileError, match=f"guard.json: .*{message}"):
        load_guard(folder, network)


def test_the_split_of_a_model_with_removed_and_inserted_rows_is_accepted(tmp_path):
    guarded = guard(network, batches())
    training = guarded.training_rows
    # The last ids are removed, and some of them are used again.
    guarded.model.remove([0, 237, 238, 239])
    for expected, new in ((236, 0), (236, 2), (236, 6)):
        if new:
            guarded.model.partial_fit(X[:new], Y[:new])
        guarded.calibrate(batches())
        guarded.save(tmp_path / "folder")
        opened = load_guard(tmp_path / "folder", network)
        assert opened.model.n_samples_fit_ == len(guarded.model.training_ids_) and len(opened.training_rows) == expected
        np.testing.assert_array_equal(opened.training_rows, training[1:237])
    # Descriptions of earlier versions do not contain the ids of inserted rows.
    file = tmp_path / "folder" / "guard.json"
    content = json.loads(file.read_text())
    del content["inserted"]
    file.write_text(json.dumps(content))
    opened = load_guard(tmp_path / "folder", network)
    opened.save(tmp_path / "folder")
    assert "inserted" in json.loads(file.read_text())
    np.testing.assert_array_equal(load_guard(tmp_path / "folder", network).training_rows, opened.training_rows)


def test_a_share_that_holds_out_nearly_all_rows_is_an_error(monkeypatch):
    monkeypatch.setattr("nuq._guard._most_rows", lambda n_ids: n_ids)
    with pytest.raises(OutOfRangeError, match="held_out=0.2 leaves 240 of 300 rows for the model: hold out fewer rows"):
        guard(network, batches())


def test_a_guard_whose_model_was_fitted_to_other_rows_is_not_saved(tmp_path):
    guarded = guard(network, batches())
    guarded.model.fit(network(X)[0], Y)
    guarded.calibrate(batches())
    with pytest.raises(InvalidParameterError, match=r"another number of rows: .*nuq.Guard\(embed, model, 'guard'\)"):
        guarded.save(tmp_path / "folder")
    assert not (tmp_path / "folder").exists()
    created = Guard(network, guarded.model, "guard")
    created.save(tmp_path / "folder")
    np.testing.assert_array_equal(load_guard(tmp_path / "folder", network).training_rows, np.arange(300))


@pytest.mark.parametrize("change", [lambda model: model.partial_fit(X[:2], Y[:2]), lambda model: model.remove([0])])
def test_a_guard_that_is_changed_while_it_is_saved_does_not_replace_the_previous_one(tmp_path, monkeypatch, change):
    guarded = guard(network, batches())
    guarded.save(tmp_path / "folder")
    files = {file.name: file.read_bytes() for file in (tmp_path / "folder").iterdir()}
    save = guarded.model.save

    def changed_first(path):
        change(guarded.model)
        guarded.calibrate(batches())
        save(path)

    monkeypatch.setattr(guarded.model, "save", changed_first)
    with pytest.raises(FileError, match="folder: the model was changed while it was saved: save it again"):
        guarded.save(tmp_path / "folder")
    assert {file.name: file.read_bytes() for file in (tmp_path / "folder").iterdir()} == files
    assert [file.name for file in tmp_path.iterdir()] == ["folder"]


def test_a_loaded_guard_rejects_outputs_of_another_function(tmp_path):
    guard(network, batches()).save(tmp_path / "folder")
    opened = load_guard(tmp_path / "folder", lambda x: (np.zeros((len(x), 9)), network(x)[1]))
    with pytest.raises(DimensionMismatchError, match=r"shape \(300, 9\).*6 columns"):
        opened(X)
    opened = load_guard(tmp_path / "folder", embeddings_only)
    with pytest.raises(InvalidInputError, match="no logits"):
        opened(X)
    opened = load_guard(tmp_path / "folder", lambda x: (network(x)[0], network(x)[1][:, :2]))
    with pytest.raises(LengthMismatchError, match="3 columns"):
        opened(X)


# -- invalid input --------------------------------------------------------------------------------------------------


def test_an_empty_or_invalid_iterable_of_batches_is_an_error():
    with pytest.raises(EmptyError, match="batches yields no batches"):
        guard(network, [])
    with pytest.raises(EmptyError, match="held_out yields no batches"):
        guard(network, batches(), held_out=[])
    with pytest.raises(ParameterTypeError, match="iterable of batches"):
        guard(network, 5)


@pytest.mark.parametrize("batch", [X[:5], (X[:5],), (X[:5], X[:5], Y[:5]), {"x": X[:5]}, (X[:5], None)])
def test_batches_without_labels_are_errors(batch):
    with pytest.raises(InvalidInputError, match="batch 1 of batches has no labels.*expected"):
        guard(lambda x: network(X[:50]), [batches()[0], batch])


def test_labels_without_a_logit_column_are_errors():
    wrong = Y.copy()
    wrong[70] = 3
    with pytest.raises(InvalidInputError, match="batch 1 of batches, row 20: the label 3 has no column.*0 to 2"):
        guard(network, batches(y=wrong))
    with pytest.raises(InvalidInputError, match="batch 0 of batches, row 0: the label 'a'"):
        guard(network, batches(y=np.full(300, "a")))
    with pytest.raises(InvalidInputError, match="'dog' has no column"):
        guard(network, batches(y=np.array(["ship", "cat", "dog"])[Y]), classes=["ship", "cat", "bird"])
    with pytest.raises(LengthMismatchError, match="3 columns, and classes= lists 2"):
        guard(network, batches(), classes=[0, 1])
    # With predictor="nuq", a label needs no column, because the labels are not predicted from the logits.
    assert guard(network, batches(y=wrong), predictor="nuq")(X).label.max() <= 3


def test_a_logit_column_whose_class_has_no_rows_is_an_error():
    present = Y < 2
    with pytest.raises(InvalidInputError, match="no fitted row has the label 2"):
        guard(network, batches(X[present], Y[present]))
    guard(network, batches(X[present], Y[present]), predictor="nuq")


def test_embeddings_and_logits_that_are_not_finite_are_errors():
    broken = X.copy()
    broken[120, 3] = np.nan
    with pytest.raises(NotFiniteError, match=r"batch 2 of batches, row 20: the embeddings .*column 3"):
        guard(network, batches(broken))
    with pytest.raises(NotFiniteError, match="batch 2 of batches, row 20: the logits"):
        guard(lambda x: (np.nan_to_num(network(x)[0]), network(x)[1]), batches(broken))
    with pytest.raises(NotFiniteError, match="outside of float32"):
        guard(lambda x: np.asarray(x) * 1e200, batches())
    guarded = guard(network, batches())
    with pytest.raises(NotFiniteError, match="row 120"):
        guarded(broken)


def test_shapes_that_do_not_fit_are_errors():
    with pytest.raises(InvalidInputError, match=r"batch 0 of batches: the embeddings have shape \(50, 2, 3\)"):
        guard(lambda x: np.reshape(x, (-1, 2, 3)), batches())
    with pytest.raises(LengthMismatchError, match="49 logits for 50 embeddings"):
        guard(lambda x: (network(x)[0], network(x)[1][1:]), batches())
    with pytest.raises(LengthMismatchError, match="40 labels for 50 embeddings"):
        guard(network, [(X[:50], Y[:40])])
    with pytest.raises(InvalidInputError, match=r"labels have shape \(50, 1\)"):
        guard(network, [(X[:50], Y[:50, None])])
    with pytest.raises(DimensionMismatchError, match="batch 1 of batches: 5 columns.*batch 0 has 6"):
        guard(np.asarray, [(X[:50], Y[:50]), (X[:50, :5], Y[:50])])


def test_too_few_held_out_rows_are_an_error():
    with pytest.raises(FewRowsError, match=r"held_out=0.2 of 80 rows: 16 held-out rows are too few for false_alarm=0.05, which needs at least 19"):
        guard(network, batches(X[:80], Y[:80]))
    guard(network, batches(X[:95], Y[:95]))  # 19 held-out rows are enough
    with pytest.raises(FewRowsError, match="20 held-out rows are too few for coverage=0.99, which needs at least 99"):
        guard(network, batches(), held_out=batches(X[:20], Y[:20]), coverage=0.99)
    with pytest.raises(CannotCertifyError):
        guard(network, batches(X[:100], Y[:100]), risk=0.01)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"embed": 3}, ParameterTypeError),
        ({"held_out": 1.5}, OutOfRangeError),
        ({"held_out": 0}, OutOfRangeError),
        ({"held_out": None}, ParameterTypeError),
        ({"held_out": "half"}, ParameterTypeError),
        ({"held_out": object()}, ParameterTypeError),
        ({"coverage": 0.9, "risk": 0.1}, InvalidParameterError),
        ({"false_alarm": 2.0}, InvalidParameterError),
        ({"risk": "low"}, ParameterTypeError),
        ({"measure": "entropy"}, InvalidParameterError),
        ({"predictor": "me"}, InvalidParameterError),
        ({"output": "scores"}, InvalidParameterError),
        ({"classes": [0]}, InvalidParameterError),
        ({"classes": [0, 1, 1]}, InvalidParameterError),
        ({"model": 3}, ParameterTypeError),
        ({"random_state": -1}, OutOfRangeError),
        ({"random_state": 2**32}, OutOfRangeError),
        ({"embed": embeddings_only, "predictor": "network"}, InvalidParameterError),
    ],
)
def test_invalid_arguments_are_errors(arguments, error):
    with pytest.raises(error):
        guard(**{"embed": network, "batches": batches(), **arguments})


def test_progress_is_shown(capfd):
    guard(network, batches(), progress=True)
    out, err = capfd.readouterr()
    assert out == "" and "300 × 6" in err
