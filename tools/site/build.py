"""All pages of the site as MyST Markdown in a temporary folder, and Sphinx's run over them."""

from __future__ import annotations

import io
import json
import re
import shutil
import tempfile
from collections.abc import Collection
from pathlib import Path, PurePosixPath
from typing import Any

from course_lib.learner.course import without_answers
from tools.plan import BuildError
from tools.site.front import front_cell
from tools.site.lessons import page_of
from tools.site.links import relinked

#: What people who use the course read; the rest is for those who work on it.
DOCS = {
    "When something hangs": ["hung-run", "doctor", "pytest"],
    "Using the course": ["setup", "api", "hosts", "hub", "board", "grading", "instructor"],
    "What was run": ["claims", "platforms", "gpu", "benchmarks"],
}
_HERE = Path(__file__).parent
_TABLE = re.compile(r"^\| \| lesson .*?\n\n", re.MULTILINE | re.DOTALL)


class SiteError(Exception):
    """The site could not be built, or a page of it leads nowhere; the message says which."""


def build_site(
    course: Path, out: Path, repository: str = "", recorded: Collection[str] | None = None
) -> list[str]:
    """Build the site.

    Args:
        course: a checkout, with notebooks that have been run.
        out: the folder of the HTML, which is written anew.
        repository: the address of the course's sources, for links to what is not a page, and to Binder.
        recorded: names of the explorables that are alive on their page; left out: all that can be.

    Returns:
        the lessons and documents that are in it.

    Raises:
        SiteError: Sphinx has something to complain about, or there are no ranks to record.
    """
    from sphinx.application import Sphinx

    repository = repository.rstrip("/").removesuffix(".git")
    with tempfile.TemporaryDirectory(prefix="ddp-site-") as folder:
        sources = Path(folder, "sources")
        pages = _write_sources(course, sources, repository, recorded)
        said = io.StringIO()
        shutil.rmtree(out, ignore_errors=True)
        app = Sphinx(
            str(sources), None, str(out), f"{folder}/doctrees", "html", _configuration(sources), None, said
        )
        app.build()
        if complaints := said.getvalue().replace(f"{sources}/", "").strip():
            raise SiteError(complaints)
    shutil.rmtree(out / ".doctrees", ignore_errors=True)
    return pages


def _write_sources(course: Path, into: Path, repository: str, recorded: Collection[str] | None) -> list[str]:
    address = repository or "ADDRESS"
    lessons = sorted((course / "notebooks").glob("[0-9]*.ipynb"))
    notebooks = [*lessons, *(course / "notebooks" / f"{name}.ipynb" for name in ("two_hours", "glossary"))]
    documents = [course / "docs" / f"{name}.md" for names in DOCS.values() for name in names]
    pages = {
        path.relative_to(course).as_posix()
        for path in (*notebooks, *documents, course / "docs" / "cheatsheet.html")
    }
    for name in ("extra/docs", "extra/notebooks", "notebooks", "docs", "static"):
        (into / name).mkdir(parents=True)

    def write(page: Path, text: str) -> None:
        place = PurePosixPath(page.relative_to(course).as_posix())
        (into / place).with_suffix(".md").write_text(
            relinked(text, place, pages, repository), encoding="utf-8"
        )

    shutil.copy(course / "docs" / "cheatsheet.html", into / "extra" / "docs")
    for name in ("site.css", "site.js"):
        shutil.copy(_HERE / name, into / "static")
    for page in documents:
        write(page, page.read_text(encoding="utf-8"))
    for page in notebooks:
        content = page.read_bytes()
        top = ""
        if page in lessons:
            (into / "extra" / "notebooks" / page.name).write_bytes(_to_upload(content, address))
            top = _doors(page.name, repository)
        try:
            write(page, page_of(json.loads(content), top, recorded))
        except BuildError as error:
            raise SiteError(str(error)) from None
    index = json.loads((course / "notebooks" / "index.ipynb").read_bytes())["cells"][0]
    table = _TABLE.search("".join(index["source"]))
    assert table is not None
    trees = "\n\n".join(
        "```{toctree}\n:hidden:\n:caption: " + caption + "\n\n" + "\n".join(names) + "\n```"
        for caption, names in {
            "Lessons": [f"notebooks/{page.stem}" for page in notebooks],
            **{caption: [f"docs/{name}" for name in names] for caption, names in DOCS.items()},
        }.items()
    )
    # The table's links are those of notebooks/index.ipynb.
    lines = relinked(table[0], PurePosixPath("notebooks/index.ipynb"), pages, repository)
    text = (_HERE / "index.md").read_text(encoding="utf-8")
    text = text.replace("TABLE", re.sub(r"\]\((?!http)", "](notebooks/", lines)).replace("TREES", trees)
    text = text.replace("ADDRESS", address)
    try:
        cell = front_cell(course, {page.name[:2]: f"notebooks/{page.stem}.html" for page in lessons})
    except BuildError as error:
        raise SiteError(str(error)) from None
    text = text.replace("BREAK", cell)
    (into / "index.md").write_text(text, encoding="utf-8")
    return sorted(pages)


def _to_upload(notebook: bytes, address: str) -> bytes:
    """Return the learner's version for Colab, Kaggle or another Jupyter: its first cell installs the course."""
    content = json.loads(without_answers(notebook))
    install: dict[str, object] = {
        "cell_type": "code",
        "execution_count": None,
        "id": "install",
        "metadata": {},
        "outputs": [],
        "source": [
            f"# The course's repository: nothing is on a package index yet.\n%pip install -q git+{address}"
        ],
    }
    content["cells"].insert(1, install)
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()


def _doors(name: str, repository: str) -> str:
    owner = re.sub(r"^https://github\.com/", "", repository)
    binder = f"https://mybinder.org/v2/gh/{owner}/HEAD?urlpath=lab/tree/learner/notebooks/{name}"
    ways = [f'<a href="{binder}">Open in Binder</a>'] if owner != repository else []
    ways += [
        f'<a href="{name}" download>Download the notebook</a> (for Colab, Kaggle or your Jupyter: without answers)'
    ]
    return f'<p class="doors">Run it: {" · ".join(ways)}</p>'


def _configuration(sources: Path) -> dict[str, Any]:
    return {
        "project": "DDP by experiment",
        "html_title": "DDP by experiment",
        "html_theme": "furo",
        "extensions": ["myst_parser"],
        "myst_enable_extensions": ["dollarmath"],
        "myst_heading_anchors": 4,
        "html_static_path": [str(sources / "static")],
        "html_css_files": ["site.css"],
        "html_js_files": ["site.js"],
        "html_extra_path": [str(sources / "extra")],
        "html_show_sphinx": False,
        "html_copy_source": False,
        "exclude_patterns": ["extra", "static"],
        "pygments_style": "a11y-high-contrast-light",
    }
