"""The installed package: imports, dependencies, types, docstring examples."""

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
def test_modules_have_docstrings_whose_examples_pass(name):
    module = importlib.import_module(name)
    assert (module.__doc__ or "").strip(), "the module has no docstring"
    assert doctest.testmod(module).failed == 0


def test_import_loads_no_optional_package():
    program = "import sys, nuq; print({'sklearn', 'scipy', 'pandas', 'torch', 'tqdm', 'pyarrow'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout.strip() == "set()", run.stdout + run.stderr


def test_numpy_is_the_only_dependency():
    needed = importlib.metadata.requires("nuq") or []
    assert [requirement for requirement in needed if "extra ==" not in requirement] == ["numpy>=1.23"]


def test_licenses_are_those_of_the_repository(root):
    installed = {Path(file.name).name: file.read_text() for file in importlib.metadata.files("nuq") or [] if "LICENSE" in file.name}
    assert installed == {name: (root / name).read_text() for name in ("LICENSE-APACHE", "LICENSE-MIT")}


def test_import_does_not_load_numpy():
    program = "import sys, nuq; print('numpy' in sys.modules, nuq.NuqClassifier, 'numpy' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout.strip() == "False <class 'nuq._classifier.NuqClassifier'> True", run.stdout + run.stderr


def test_names_of_the_package_are_complete():
    assert set(nuq.__all__) == {*nuq._MODULES, *nuq._CONTENTS} and set(nuq.__all__) <= set(dir(nuq))
    source = inspect.getsource(nuq)
    for name in nuq.__all__:
        assert re.search(rf"^    from \S+ import .*\b{name}\b", source, re.MULTILINE), f"{name} is not known to type checkers"


def test_the_package_contains_type_information_and_no_unexpected_files():
    files = [path for path in FOLDER.rglob("*") if "__pycache__" not in path.parts]
    assert FOLDER / "py.typed" in files and FOLDER / "_nuq.pyi" in files
    names = {path.suffix for path in files if path.is_file()}
    assert names <= {".py", ".pyi", ".typed", ".so", ".pyd", ""}, names


def test_versions_agree():
    assert nuq.__version__ == importlib.metadata.version("nuq")


def test_public_names_exist_and_have_docstrings():
    for name in MODULES:
        module = importlib.import_module(name)
        for public in getattr(module, "__all__", []):
            try:
                item = getattr(module, public)
            except nuq.errors.MissingPackageError:
                continue  # the class needs an optional package that is not installed
            assert (inspect.getdoc(item) or "").strip(), f"{name}.{public}"
    for estimator in (nuq.NuqClassifier, nuq.NuqRegressor):
        for method, item in inspect.getmembers(estimator):
            if not method.startswith("_"):
                assert inspect.getdoc(item), f"{estimator.__name__}.{method}"


def test_every_raised_error_is_a_nuq_error():
    classes = [item for item in vars(nuq.errors).values() if inspect.isclass(item)]
    for error in classes:
        assert issubclass(error, nuq.NuqError) and inspect.getdoc(error), error
    # Exceptions that Python's protocols require are allowed too.
    known = {error.__name__ for error in classes} | {"AttributeError", "KeyError", "NotImplementedError"}
    raised = {
        name
        for path in FOLDER.glob("*.py")
        for name in re.findall(r"raise \(?([A-Z]\w+)", path.read_text())
    }
    assert raised <= known


def test_the_extension_raises_existing_classes(root):
    raised = {
        name
        for path in (root / "bindings/python/src").glob("*.rs")
        for name in re.findall(r'"(\w+Error)"', path.read_text())
    }
    assert raised and all(issubclass(getattr(nuq.errors, name), nuq.NuqError) for name in raised)


def test_the_stub_contains_all_names_of_the_extension():
    stub = (FOLDER / "_nuq.pyi").read_text()
    for name, item in vars(nuq._nuq).items():
        if not name.startswith("__"):
            assert re.search(rf"^((class|def) {name}\b|{name}: )", stub, re.MULTILINE), name
            for method in vars(item) if inspect.isclass(item) else ():
                if not method.startswith("__"):
                    assert re.search(rf"def {method}\(", stub), f"{name}.{method}"


def test_nuq_torch_is_imported_on_first_access():
    assert nuq.torch.embed is importlib.import_module("nuq.torch").embed
    with pytest.raises(AttributeError, match="noitem"):
        nuq.noitem


def test_a_score_is_a_float_and_integer_labels_stay_integers(fitted):
    assert isinstance(fitted.score([[0.0] * 5], fitted.predict([[0.0] * 5])), float)
    assert fitted.predict([[0.0] * 5]).dtype == np.int64
