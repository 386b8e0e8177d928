"""The package as it is installed: light to import, typed, with examples that run."""

from __future__ import annotations

import doctest
import importlib
import importlib.metadata
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import nuq

FOLDER = Path(nuq.__file__).parent
MODULES = ["nuq"] + [f"nuq.{module.name}" for module in pkgutil.iter_modules([str(FOLDER)]) if module.name != "_nuq"]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_run(name):
    module = importlib.import_module(name)
    assert (module.__doc__ or "").strip(), "each module says what it does"
    assert doctest.testmod(module).failed == 0


def test_it_is_light_to_import():
    program = (
        "import numpy, sys, time; start = time.perf_counter(); import nuq; seconds = time.perf_counter() - start; "
        "heavy = {'sklearn', 'scipy', 'pandas', 'torch', 'tqdm', 'pyarrow'} & set(sys.modules); print(seconds, *heavy)"
    )
    runs = [subprocess.run([sys.executable, "-c", program], capture_output=True, text=True) for _ in range(5)]
    said = [run.stdout.split() for run in runs]
    assert all(len(words) == 1 for words in said), (said, runs[0].stderr)
    # The aim is 60 ms; a busy machine is given more.
    assert min(float(words[0]) for words in said) < 0.25


def test_it_needs_numpy_only():
    needed = importlib.metadata.requires("nuq") or []
    assert [word for word in needed if "extra ==" not in word] == ["numpy>=1.23"]


def test_it_is_small_and_typed():
    files = [path for path in FOLDER.rglob("*") if "__pycache__" not in path.parts]
    assert FOLDER / "py.typed" in files and FOLDER / "_nuq.pyi" in files
    names = {path.suffix for path in files if path.is_file()}
    assert names <= {".py", ".pyi", ".typed", ".so", ".pyd", ""}, names


def test_versions_agree():
    assert nuq.__version__ == importlib.metadata.version("nuq")


def test_all_that_is_public_is_there_and_documented():
    for name in MODULES:
        module = importlib.import_module(name)
        for public in getattr(module, "__all__", []):
            thing = getattr(module, public)
            assert (inspect.getdoc(thing) or "").strip(), f"{name}.{public}"
    for estimator in (nuq.NuqClassifier, nuq.NuqRegressor):
        for method, thing in inspect.getmembers(estimator):
            if not method.startswith("_"):
                assert inspect.getdoc(thing), f"{estimator.__name__}.{method}"


def test_every_error_is_one_of_ours():
    classes = [thing for thing in vars(nuq.errors).values() if inspect.isclass(thing)]
    for error in classes:
        assert issubclass(error, nuq.NuqError) and inspect.getdoc(error), error
    # What the Python files raise, but for what Python's own protocols ask for.
    known = {error.__name__ for error in classes} | {"AttributeError", "KeyError", "NotImplementedError"}
    raised = {
        name
        for path in FOLDER.glob("*.py")
        for name in re.findall(r"raise \(?([A-Z]\w+)", path.read_text())
    }
    assert raised <= known


def test_the_extension_raises_classes_that_exist(root):
    raised = {
        name
        for path in (root / "bindings/python/src").glob("*.rs")
        for name in re.findall(r'"(\w+Error)"', path.read_text())
    }
    assert raised and all(issubclass(getattr(nuq.errors, name), nuq.NuqError) for name in raised)


def test_the_stub_names_what_the_extension_has():
    stub = (FOLDER / "_nuq.pyi").read_text()
    for name, thing in vars(nuq._nuq).items():
        if not name.startswith("__"):
            assert re.search(rf"^(class|def) {name}\b", stub, re.MULTILINE), name
            for method in vars(thing) if inspect.isclass(thing) else ():
                if not method.startswith("__"):
                    assert re.search(rf"def {method}\(", stub), f"{name}.{method}"


def test_torch_is_imported_when_it_is_used():
    assert nuq.torch.embed is importlib.import_module("nuq.torch").embed
    with pytest.raises(AttributeError, match="nothing"):
        nuq.nothing


def test_numpy_scalars_of_a_prediction(fitted):
    assert isinstance(fitted.score([[0.0] * 5], fitted.predict([[0.0] * 5])), float)
    assert fitted.predict([[0.0] * 5]).dtype == np.int64
