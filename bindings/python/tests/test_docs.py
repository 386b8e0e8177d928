"""Every snippet of the guide runs, and prints what the page shows. With NUQ_WRITE_DOCS set, pages are told what to show."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = [*sorted((ROOT / "docs/python").glob("*.md")), ROOT / "README.md", ROOT / "bindings/python/README.md"]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))

#: A snippet, and what it prints where that is shown.
SNIPPET = re.compile(r"```python\n(?P<code>.*?)```(?:\n\n```text\n(?P<shown>.*?)```)?", re.DOTALL)


@pytest.fixture(autouse=True)
def a_folder_with_the_examples(tmp_path, monkeypatch):
    """Snippets run as in the root of the repository, and write elsewhere."""
    shutil.copytree(ROOT / "examples/cifar10", tmp_path / "examples/cifar10")
    monkeypatch.chdir(tmp_path)


def printed(code: str, names: dict, where: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, where, "exec"), names)
    return out.getvalue()


@pytest.mark.parametrize("page", [page for page in PAGES if "```python" in page.read_text()], ids=lambda page: page.name)
def test_the_snippets_of(page):
    pytest.importorskip("sklearn")
    pytest.importorskip("pandas")
    names: dict = {"__name__": "__main__"}
    text = page.read_text()

    def ran(snippet: re.Match) -> str:
        said = printed(snippet["code"], names, str(page))
        if snippet["shown"] is None:
            assert said == "", f"{page.name} does not show what this prints:\n{snippet['code']}"
            return snippet[0]
        return f"```python\n{snippet['code']}```\n\n```text\n{said}```"

    written = SNIPPET.sub(ran, text)
    if os.environ.get("NUQ_WRITE_DOCS"):
        page.write_text(written)
    else:
        assert written == text


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.name)
def test_the_cells_of(notebook):
    pytest.importorskip("matplotlib").use("Agg")
    pytest.importorskip("pandas")
    names: dict = {"__name__": "__main__"}
    cells = json.loads(notebook.read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert code
    for number, source in enumerate(code):
        printed(source, names, f"{notebook.name}, cell {number}")


def test_links_lead_somewhere():
    for page in PAGES:
        for link in re.findall(r"\]\((?!http|#)([^)#]+)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
