"""The guide as a web site: it is built without a warning, it is complete, and it loads no files from other sites."""

from __future__ import annotations

import html.parser
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs")
pytest.importorskip("material")
pytest.importorskip("mkdocstrings")

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    run = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    assert run.returncode == 0 and "WARNING" not in run.stderr, run.stdout + run.stderr
    return folder


class Files(html.parser.HTMLParser):
    """Collects the addresses of the files that a browser loads for a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag == "link" and given.get("rel") not in ("canonical", "next", "prev", "alternate"):
            self.addresses.append(given.get("href", ""))
        if tag in ("script", "img", "iframe", "source", "video", "object"):
            self.addresses += [given[name] for name in ("src", "srcset", "data") if given.get(name)]


def test_pages_load_only_files_of_the_site(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 25
    for page in pages:
        for address in Files(page.read_text()).addresses:
            assert not re.match(r"(\w+:)?//", address), f"{page.name} loads {address}"
            assert address.startswith("data:") or (page.parent / address.partition("?")[0]).exists() or page.name == "404.html", address


def test_style_sheets_load_only_files_of_the_site(site):
    for sheet in site.rglob("*.css"):
        assert not re.findall(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", sheet.read_text()), sheet


def test_every_page_is_in_the_navigation(site):
    home = (site / "index.html").read_text()
    for page in [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs/python").glob("*.md")]:
        address = page.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        assert f'href="{address}"' in home, address


def test_the_site_has_a_search_index_and_two_color_schemes(site):
    assert "NuqOutlierDetector" in (site / "search/search_index.json").read_text()
    home = (site / "index.html").read_text()
    assert 'data-md-color-scheme="slate"' in home and 'data-md-color-scheme="default"' in home


def test_reference_contains_all_public_modules(site):
    reference = (site / "python/api.html").read_text()
    for name in ("nuq.NuqClassifier", "nuq.outliers", "nuq.plot", "nuq.mlflow", "nuq.calibrate", "nuq.metrics", "nuq.baselines"):
        assert f'id="{name}"' in reference, name
    # Examples in docstrings are shown as blocks of code, not as quotations.
    prompts = reference.count("&gt;&gt;&gt;")
    assert prompts > 0 and reference.count('<span class="gp">&gt;&gt;&gt; ') == prompts and "<blockquote>" not in reference
