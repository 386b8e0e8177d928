"""Extension of griffe that converts the docstrings of the package to Markdown.

In docstrings without a section "Examples", the examples become blocks of code. In a list of parameters, griffe would read the text after
`name :` as a type. In this package the text is a description, because the types are in the signatures, so it is moved to the next line.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"(?:^>>> .*\n?)(?:^.+\n?)*", re.MULTILINE)
SECTION = re.compile(r"^(?:Parameters|Attributes)\n-+\n(?:.+\n?)*", re.MULTILINE)
ENTRY = re.compile(r"^(?P<names>\w[\w, ]*?) : (?P<text>.+)$", re.MULTILINE)


def as_markdown(docstring: str) -> str:
    entries = SECTION.sub(lambda section: ENTRY.sub(r"\g<names>\n    \g<text>", section[0]), docstring)
    if re.search(r"^Examples\n-+$", entries, re.MULTILINE):
        return entries
    return EXAMPLE.sub(lambda example: f"```pycon\n{example[0].rstrip()}\n```\n", entries)


class Docstrings(griffe.Extension):
    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
