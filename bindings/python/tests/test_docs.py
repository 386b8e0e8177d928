"""Every snippet of the guide runs and prints the output that the page shows.

With the environment variable NUQ_WRITE_DOCS set, the test writes the printed output into the pages instead.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = [*sorted((ROOT / "docs/python").glob("*.md")), ROOT / "README.md", ROOT / "bindings/python/README.md"]
#: A page whose snippets need large packages; `cargo xtask test cluster` installs them.
CLUSTER = ROOT / "docs/scale-out.md"
ENGINES = ("pandas", "ray", "pyspark", "pgserver", "psycopg", "lancedb", "qdrant_client", "faiss")
#: Additional packages that the snippets of a page need. `cargo xtask test ecosystem` installs the packages that
#: `cargo xtask test python` does not install.
PACKAGES = {
    "plots.md": ("matplotlib",),
    "outputs.md": ("polars", "pyarrow", "mlflow"),
    "pytorch.md": ("torch",),
    "onnx.md": ("onnx", "onnxruntime"),
    "migrating-from-others.md": ("pytorch_ood", "pyod", "cleanlab", "mapie"),
}
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))

#: A snippet, and the output that the page shows, if any.
SNIPPET = re.compile(r"```python\n(?P<code>.*?)```(?:\n\n```text\n(?P<shown>.*?)```)?", re.DOTALL)


@pytest.fixture(autouse=True)
def copy_of_the_examples(tmp_path, monkeypatch):
    """Snippets run in a temporary folder with the same example data as the repository root."""
    shutil.copytree(ROOT / "examples/cifar10", tmp_path / "examples/cifar10")
    monkeypatch.chdir(tmp_path)
    # Spark starts its workers with this interpreter, so that they have the same packages.
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)


def printed(code: str, names: dict, where: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, where, "exec"), names)
    # Lines of Ray are removed: it prints warnings of its processes, for example about a slow start, to the standard output.
    lines = out.getvalue().splitlines(keepends=True)
    return "".join(line for line in lines if "(raylet" not in line)


@pytest.mark.parametrize("page", [page for page in [*PAGES, CLUSTER] if "```python" in page.read_text()], ids=lambda page: page.name)
def test_snippets(page):
    for package in ENGINES if page == CLUSTER else ("sklearn", "pandas", *PACKAGES.get(page.name, ())):
        pytest.importorskip(package)
    if page.name == "plots.md":
        pytest.importorskip("matplotlib").use("Agg")
    names: dict = {"__name__": "__main__"}
    text = page.read_text()

    def replacement(snippet: re.Match) -> str:
        output = printed(snippet["code"], names, str(page))
        if snippet["shown"] is None:
            assert output == "", f"{page.name} does not show the output of:\n{snippet['code']}"
            return snippet[0]
        return f"```python\n{snippet['code']}```\n\n```text\n{output}```"

    written = SNIPPET.sub(replacement, text)
    if os.environ.get("NUQ_WRITE_DOCS"):
        page.write_text(written)
    else:
        assert written == text


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.name)
def test_notebook_cells_run(notebook):
    pytest.importorskip("matplotlib").use("Agg")
    pytest.importorskip("pandas")
    names: dict = {"__name__": "__main__"}
    cells = json.loads(notebook.read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert code
    for number, source in enumerate(code):
        printed(source, names, f"{notebook.name}, cell {number}")


def test_relative_links_exist():
    for page in [*PAGES, CLUSTER]:
        for link in re.findall(r"\]\((?!http|#)([^)#]+)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
