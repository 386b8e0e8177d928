"""MLflow flavor: files, signature, predictions of the pyfunc, runs in a local store."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

mlflow = pytest.importorskip("mlflow")
pandas = pytest.importorskip("pandas")

import nuq
from nuq import NuqClassifier, NuqRegressor
from nuq.baselines import Energy, KnnDistance
from nuq.errors import InvalidParameterError, NotFittedError, ParameterTypeError
from nuq.outliers import NuqOutlierDetector


@pytest.fixture(scope="module")
def model(blobs) -> NuqClassifier:
    x, y = blobs
    model = NuqClassifier().fit(x[::2], np.array(["a", "b", "c"])[y[::2]])
    model.calibrate(x[1::2], false_alarm=0.1, name="guard")
    model.calibrate(x[1::2], coverage=0.8, name="strict")
    return model


def test_a_saved_model_contains_no_pickle_and_gives_the_same_predictions(model, blobs, tmp_path):
    x, _ = blobs
    nuq.mlflow.save_model(model, tmp_path / "model")
    files = {path.name for path in (tmp_path / "model").rglob("*") if path.is_file()}
    assert "model.nuq" in files and not [name for name in files if name.endswith((".pkl", ".pickle", ".cloudpickle", ".joblib"))]
    opened = nuq.mlflow.load_model(str(tmp_path / "model"))
    assert isinstance(opened, NuqClassifier)
    np.testing.assert_array_equal(opened.predict_uncertainty(x).log_total, model.predict_uncertainty(x).log_total)


def test_pyfunc_returns_a_data_frame(model, blobs, tmp_path):
    x, _ = blobs
    nuq.mlflow.save_model(model, tmp_path / "model")
    frame = mlflow.pyfunc.load_model(str(tmp_path / "model")).predict(x)
    result = model.predict_uncertainty(x)
    assert list(frame.columns) == [*result.keys(), "accept_guard", "accept_strict"]
    for name, column in result.items():
        np.testing.assert_array_equal(frame[name].to_numpy(), column)
    for name in ("guard", "strict"):
        np.testing.assert_array_equal(frame[f"accept_{name}"].to_numpy(), model.accept(x, name))


def test_the_example_may_be_a_list(model, tmp_path):
    nuq.mlflow.save_model(model, tmp_path / "model", input_example=[[0.0, 1.0, 2.0, 3.0, 4.0]])
    assert "log_epistemic" in mlflow.models.Model.load(str(tmp_path / "model")).signature.outputs.input_names()


def test_signature_and_example_are_inferred(model, tmp_path):
    nuq.mlflow.save_model(model, tmp_path / "model")
    saved = mlflow.models.Model.load(str(tmp_path / "model"))
    (tensor,) = saved.signature.inputs.inputs
    assert tensor.shape == (-1, 5) and tensor.type == np.float32
    outputs = {column.name: str(column.type) for column in saved.signature.outputs.inputs}
    assert "string" in outputs["label"] and "double" in outputs["log_epistemic"] and "boolean" in outputs["accept_guard"]
    example = np.asarray(saved.load_input_example(str(tmp_path / "model")), dtype=np.float32)
    np.testing.assert_array_equal(example, model._model.training_rows([0, 1, 2]))


def test_data_frames_are_compared_with_the_signature_and_keep_their_index(blobs, tmp_path):
    x, y = blobs
    names = [f"feature {i}" for i in range(5)]
    model = NuqClassifier().fit(pandas.DataFrame(x, columns=names), y)
    nuq.mlflow.save_model(model, tmp_path / "model")
    pyfunc = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    assert pyfunc.metadata.signature.inputs.input_names() == names
    rows = pandas.DataFrame(x[:4], columns=names, index=[7, 5, 3, 1])
    frame = pyfunc.predict(rows)
    assert frame.index.tolist() == [7, 5, 3, 1]
    # MLflow compares the columns with the signature.
    with pytest.raises(mlflow.exceptions.MlflowException, match="feature 4"):
        pyfunc.predict(rows.drop(columns="feature 4"))


def test_regressors_detectors_and_baselines_can_be_saved(blobs, tmp_path):
    x, _ = blobs
    regressor = NuqRegressor().fit(x, x[:, 0])
    detector = NuqOutlierDetector().fit(x)
    baseline = KnnDistance(5).fit(x[::2])
    baseline.calibrate(x[1::2], coverage=0.9, name="main")
    expected = {
        "regressor": (regressor, "mean", regressor.predict(x)),
        "detector": (detector, "label", detector.predict(x)),
        "baseline": (baseline, "score", baseline.score(x)),
    }
    for name, (model, column, values) in expected.items():
        nuq.mlflow.save_model(model, tmp_path / name)
        opened = nuq.mlflow.load_model(str(tmp_path / name))
        assert type(opened) is type(model)
        np.testing.assert_array_equal(mlflow.pyfunc.load_model(str(tmp_path / name)).predict(x)[column].to_numpy(), values)
    frame = mlflow.pyfunc.load_model(str(tmp_path / "baseline")).predict(x)
    np.testing.assert_array_equal(frame["accept_main"].to_numpy(), baseline.accept(x, "main"))


def test_thresholds_that_need_logits_are_left_out(blobs, tmp_path):
    x, y = blobs
    model = NuqClassifier().fit(x[::2], y[::2])
    model.calibrate(x[1::2], coverage=0.9, logits=np.eye(3)[y[1::2]], name="network")
    model.calibrate(x[1::2], coverage=0.9, logits=np.eye(3)[y[1::2]], measure="density", name="density")
    nuq.mlflow.save_model(model, tmp_path / "model")
    frame = mlflow.pyfunc.load_model(str(tmp_path / "model")).predict(x)
    # The density does not depend on the logits.
    assert "accept_density" in frame.columns and "accept_network" not in frame.columns


def test_a_logged_model_can_be_loaded_from_a_local_store(model, blobs, tmp_path, monkeypatch):
    x, _ = blobs
    monkeypatch.chdir(tmp_path)
    # Use MLflow's file store in a folder, so that no database is needed.
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    mlflow.set_experiment("nuq")
    with mlflow.start_run():
        info = nuq.mlflow.log_model(model, "guarded", registered_model_name="guarded", metadata={"team": "a"})
    for uri in (info.model_uri, "models:/guarded/1"):
        opened = nuq.mlflow.load_model(uri)
        np.testing.assert_array_equal(opened.predict(x), model.predict(x))
    assert mlflow.models.get_model_info(info.model_uri).flavors["nuq"]["estimator"] == "NuqClassifier"
    assert mlflow.models.get_model_info(info.model_uri).metadata == {"team": "a"}
    folder = Path(mlflow.artifacts.download_artifacts(info.model_uri))
    assert f"nuq=={nuq.__version__}" in (folder / "requirements.txt").read_text().split()


def test_extra_requirements_can_come_from_a_file(model, tmp_path):
    file = tmp_path / "extra.txt"
    file.write_text("# for the service\ncolorama==0.4.6\n")
    nuq.mlflow.save_model(model, tmp_path / "model", extra_pip_requirements=str(file))
    requirements = (tmp_path / "model/requirements.txt").read_text().split()
    assert {f"nuq=={nuq.__version__}", "colorama==0.4.6"} <= set(requirements)


def test_models_that_cannot_be_saved_or_loaded_are_errors(model, tmp_path):
    with pytest.raises(ParameterTypeError, match="Energy.*needs logits"):
        nuq.mlflow.save_model(Energy(), tmp_path / "a")
    with pytest.raises(ParameterTypeError, match="expected a fitted NuqClassifier"):
        nuq.mlflow.log_model("model", "a")
    with pytest.raises(NotFittedError):
        nuq.mlflow.save_model(NuqClassifier(), tmp_path / "a")
    assert not (tmp_path / "a").exists()

    class Other(mlflow.pyfunc.PythonModel):
        def predict(self, context, model_input, params=None):
            return model_input

    mlflow.pyfunc.save_model(str(tmp_path / "other"), python_model=Other())
    with pytest.raises(InvalidParameterError, match="no flavor 'nuq', only 'python_function'"):
        nuq.mlflow.load_model(str(tmp_path / "other"))

    nuq.mlflow.save_model(model, str(tmp_path / "saved"))
    model.save(tmp_path / "outside.nuq")
    description = tmp_path / "saved" / "MLmodel"
    for path in ("../outside.nuq", str(tmp_path / "outside.nuq")):
        description.write_text(re.sub(r"(?m)^(\s+data: ).*$", rf"\g<1>{path}", description.read_text()))
        with pytest.raises(InvalidParameterError, match="outside of the folder of the model"):
            nuq.mlflow.load_model(str(tmp_path / "saved"))
