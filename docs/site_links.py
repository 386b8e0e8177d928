"""Hook of mkdocs: links to files outside of `docs/` become text, because the site does not contain these files."""

from __future__ import annotations

import posixpath
import re
from typing import Any

LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<target>\.\./[^)#]+)(?:#[^)]*)?\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    folder = posixpath.dirname(posixpath.join("docs", page.file.src_uri))

    def replacement(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, link["target"]))
        if path.startswith("docs/"):
            return link[0]
        return link["text"] if path in link["text"] else f"{link['text']} (`{path}` in the repository)"

    return LINK.sub(replacement, markdown)
