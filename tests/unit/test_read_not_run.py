"""What the course says without a run is what cannot run on a machine without GPUs: each such place says why."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACES = [*ROOT.glob("course_lib/lessons/*/lesson.py"), *ROOT.glob("docs/*.md"), ROOT / "README.md"]
MARK = re.compile(r"(?<!do )\bnot run\b(?! (?:in|yet|by|at)\b)", re.IGNORECASE)
#: What a run would need: found in the paragraph of the mark, or in the title of its box ("On GPUs (NCCL).").
REASON = re.compile(
    r"NCCL|CUDA|GPU|\bcluster|several (?:real )?machines|\binstall|Windows|macOS|\bArm\b|Kubernetes|cloud|power"
)


def paragraphs(path: Path) -> Iterator[str]:
    """The paragraphs, items, rows and boxes of a page or of a lesson's source, each on one line."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        text = "\n".join(line[2:] if line.startswith("# ") else "" for line in text.splitlines())
    text = re.sub(r"^> ?", "", text, flags=re.MULTILINE)
    for part in re.split(r"\n\s*\n|\n(?=\s*[-*|] )|\n(?=\*\*)", text):
        yield " ".join(part.split())


def without_reason(path: Path) -> list[str]:
    """The paragraphs of a file that say of something that it was not run, and not why."""
    return [part for part in paragraphs(path) if MARK.search(part) and not REASON.search(part)]


@pytest.mark.parametrize("path", PLACES, ids=lambda path: path.name)
def test_whatever_was_not_run_says_what_it_would_need(path):
    assert without_reason(path) == []


def test_marks_are_found():
    assert sum(bool(MARK.search(part)) for path in PLACES for part in paragraphs(path)) > 20


@pytest.mark.parametrize(
    ("text", "conforms"),
    [
        ("It sends twice. (Read, not run here.)", False),
        ("**On GPUs (NCCL).** It sends twice. (Read, not run here.)", True),
        ("It needs the package `x`, which the course does not install (not run here).", True),
        ("Steps that are not run yet.", True),
    ],
)
def test_a_reason_is_one_of_a_few(text, conforms, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(text)
    assert (without_reason(page) == []) is conforms
