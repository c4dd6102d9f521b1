"""Every relative link of the pages and notebooks leads to a file."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)|(?:src|href)=\"([^\"#]+)(?:#[^\"]*)?\"")
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("docs/*.html"),
        *(
            path
            for folder in ("notebooks", "exercises", "solutions")
            for path in ROOT.glob(f"{folder}/*.ipynb")
        ),
    ]
)


def links(text: str) -> Iterator[str]:
    """The targets in a text that are files, as they are written."""
    for found in LINK.finditer(text):
        target = found[1] or found[2]
        if not re.match(r"[a-z]+:", target):
            yield unquote(target)


def prose(path: Path) -> str:
    if path.suffix != ".ipynb":
        return re.sub(r"<!--.*?-->", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    cells = nbformat.read(path, as_version=4).cells
    return "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files(page):
    assert [link for link in links(prose(page)) if not (page.parent / link).exists()] == []


def test_what_counts_as_a_link():
    text = 'a [b](c.md#d) [e](https://f.g/h) <img src="i j.png"> [k](l%20m.ipynb) [n](#o)'
    assert list(links(text)) == ["c.md", "i j.png", "l m.ipynb"]
