"""No line that installs the course asks a package index for it, where it is not, and bash and zsh take each."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.test_house import ours

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]
#: With the first release: CONTRIBUTING.md, "I want to publish a release".
PUBLISHED = False
COMMAND = re.compile(
    r"(?:\b(?:pip[\d.]*|uv) +(?:tool +)?(?:install|download|run)|\b(?:uvx|pipx))\b([^\n`;|&)]*)"
)
ITEM = re.compile(r"^ *- +[\"']?(ddp[-_]course\b[^\n]*)", re.MULTILINE)
BARE = re.compile(r"(?<![\w./@-])ddp[-_.]course(?:\[[\w,]*\])?(?![\w./-]|[^\n]*@ )")


def faults(text: str) -> Iterator[str]:
    """What is wrong with the install lines of a text."""
    text = text.replace('\\"', '"')  # in a notebook's file
    for command in COMMAND.finditer(text):
        if not PUBLISHED and BARE.search(command[1]):
            yield f"asks an index for the course: {command[0]}"
        if re.search(r"\[", re.sub(r"'[^']*'|\"[^\"]*\"", "", command[1])):
            yield f"zsh takes the brackets for a pattern: {command[0]}"
        for extra in re.findall(r"(?:\.|ddp-course|whl)\[(\w+)\]", command[1]):
            if extra not in EXTRAS:
                yield f"there is no extra {extra}: {command[0]}"
    for item in ITEM.finditer(text):
        if not PUBLISHED and BARE.search(item[1]):
            yield f"asks an index for the course: {item[0]}"


@pytest.mark.parametrize(
    "line",
    [
        "pip install ddp-course",
        "!pip install -q ddp-course",
        "%pip install -q 'ddp-course[lab]' nbval",
        "- run: pip install ddp-course nbval",
        'uvx "ddp-course[lab]" lab',
        "uv tool install ddp-course==0.1.0",
        "python -m pip install --user ddp_course",
        "  - ddp-course>=0.1",
        "pip install -e .[lab]",
        "pip install '.[laboratory]'",
    ],
)
def test_what_is_refused(line):
    assert len([*faults(line)]) == 1


@pytest.mark.parametrize(
    "line",
    [
        "pip install '.[lab]' && ddp-course lab",
        "pip install -e . --no-deps`, then `ddp-course lab`",
        "pip install 'ddp-course[lab] @ git+https://host/somebody/ddp-course'",
        "/opt/ddp-course/venv/bin/pip install -r requirements.lock",
        "~/ddp-course/.venv/bin/pip install ./ddp-course",
        "name: ddp-course",
        "pip install 'ddp_course-0.1.0-py3-none-any.whl[lab]'",
    ],
)
def test_what_can_work_is_not_refused(line):
    assert [*faults(line)] == []


def test_no_install_line_of_the_repository_is_one_that_cannot_work():
    found = {
        str(path.relative_to(ROOT)): [*faults(path.read_text(encoding="utf-8"))]
        for path in ours()
        if not path.is_relative_to(ROOT / "tests")
    }
    assert {"deploy/github-actions/notebooks.yml", "docs/hung-run.md"} <= found.keys()
    assert {name: wrong for name, wrong in found.items() if wrong} == {}
