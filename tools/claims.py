"""Claims about DDP, and the cell that shows the truth of each: docs/claims.md.

The claims stand in `claims.toml`. A lesson's code cell says in its metadata which it shows, and how they
fare: `# %% claims={"5": "wrong"}`. The page is made of the saved notebooks, so it can say nothing that no
cell has shown.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat

from course_lib.syllabus import all_lessons
from tools.pages import is_up_to_date, write_page
from tools.plan import LESSONS

PAGE = Path("docs/claims.md")
VERDICTS = ("holds", "refined", "incomplete", "wrong", "outdated", "not runnable here")

_HEAD = """\
# Claims

What is said about DDP in forum threads and articles, in our words, and what a run on real ranks makes of it. The last
column names the cell that shows it: its output is compared on every test run, so a verdict that stops being true fails
the tests.

*holds*: as said. *refined*: true, with more to it. *incomplete*: true only under conditions that are not said. *wrong*:
it is not so. *outdated*: it was so in an earlier PyTorch. *not runnable here*: needs hardware the tests do not have.

This page is written by `ddp-course notebooks`; the claims are in `tools/claims.toml`.

| | claim | said by | verdict | where |
| --- | --- | --- | --- | --- |
"""


@dataclass(frozen=True)
class Claim:
    """One sentence that is said: its number, who says it, the lessons that must show it, and a note of ours."""

    number: str
    text: str
    said: tuple[str, ...]
    lessons: tuple[int, ...]
    note: str = ""


@dataclass(frozen=True)
class Showing:
    """A cell that shows a claim: in which lesson (number and notebook), under which heading, with what verdict."""

    claim: str
    verdict: str
    lesson: str
    notebook: str
    heading: str


def read_claims(text: str | None = None) -> list[Claim]:
    """Return the claims in the file's order; `text` stands for the file in tests."""
    table = tomllib.loads(text or Path(__file__).with_name("claims.toml").read_text(encoding="utf-8"))
    return [
        Claim(
            number,
            row["text"],
            tuple(table["said"][who] for who in row["said"]),
            tuple(row["lessons"]),
            row.get("note", ""),
        )
        for number, row in table["claim"].items()
    ]


def find_showings(root: Path) -> list[Showing]:
    """Return what the cells of the saved lessons below `root` say they show, in reading order."""
    paths = sorted((root / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    return [showing for path in paths for showing in _showings(path)]


def claims_page(claims: Sequence[Claim], showings: Sequence[Showing]) -> str:
    """Return the text of docs/claims.md."""
    return _HEAD + "".join(_row(claim, [s for s in showings if s.claim == claim.number]) for claim in claims)


def write_claims_page(root: Path) -> None:
    """Write docs/claims.md from the saved notebooks; a course without docs gets none."""
    write_page(root / PAGE, claims_page(read_claims(), find_showings(root)))


def check_claims(root: Path, claims: Sequence[Claim] | None = None) -> list[str]:
    """Return one line for each thing wrong: an unknown claim or verdict, a claim not shown, an old page.

    `claims` stands for the file in tests.
    """
    claims = read_claims() if claims is None else claims
    showings = find_showings(root)
    problems = [*_wrong_marks(claims, showings), *_not_shown(root, claims, showings)]
    if not is_up_to_date(root / PAGE, claims_page(claims, showings)):
        problems.append(f"{PAGE}: is not what the notebooks give")
    return problems


def _showings(path: Path) -> Iterator[Showing]:
    heading = ""
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            titles = [
                line.lstrip("#").strip() for line in _lines_outside_code(cell.source) if line[:1] == "#"
            ]
            heading = titles[-1] if titles else heading
        marks = cell.metadata.get("claims", {})
        if not isinstance(marks, Mapping):
            marks = {str(marks): "no table of claims"}
        for number, verdict in marks.items():
            if cell.cell_type != "code" or "nbval-skip" in cell.metadata.get("tags", ()):
                verdict = f"{verdict} (in a cell that is not run)"
            yield Showing(str(number), str(verdict), path.stem[:2], path.name, heading)


def _lines_outside_code(source: str) -> Iterator[str]:
    inside = False
    for line in source.splitlines():
        if line.startswith("``"):
            inside = not inside
        elif not inside:
            yield line


def _row(claim: Claim, shown: Sequence[Showing]) -> str:
    verdict = "<br>".join(showing.verdict for showing in shown) or "not yet shown"
    where = "<br>".join(f"[{s.lesson}, {s.heading}](../notebooks/{s.notebook})" for s in shown)
    where = where or ", ".join(f"lesson {lesson:02}" for lesson in claim.lessons)
    text = f"{claim.text} {claim.note}".strip()
    return f"| {claim.number} | {text} | {'; '.join(claim.said)} | {verdict} | {where} |\n"


def _wrong_marks(claims: Sequence[Claim], showings: Sequence[Showing]) -> Iterator[str]:
    known = {claim.number for claim in claims}
    for showing in showings:
        place = f"{showing.notebook}, {showing.heading!r}"
        if showing.claim not in known:
            yield f"{place}: there is no claim {showing.claim!r}"
        if showing.verdict not in VERDICTS:
            yield f"{place}: claim {showing.claim} has verdict {showing.verdict!r}, not one of {', '.join(VERDICTS)}"


def _not_shown(root: Path, claims: Sequence[Claim], showings: Sequence[Showing]) -> Iterator[str]:
    names = {lesson.number: lesson.name for lesson in all_lessons(root / LESSONS)}
    shown = {(showing.claim, int(showing.lesson)) for showing in showings}
    for claim in claims:
        for lesson in claim.lessons:
            if lesson in names and (claim.number, lesson) not in shown:
                yield f"notebooks/{names[lesson]}: claim {claim.number} is not shown ({claim.text})"
