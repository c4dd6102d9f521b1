"""What docs/hung-run.md says under *By symptom* is found where it sends people, and errors read as they read there."""

import re
from pathlib import Path
from urllib.parse import unquote

import nbformat
import pytest
import torch
import torch.multiprocessing as mp

PAGE = Path(__file__).parents[2] / "docs/hung-run.md"
TABLE = PAGE.read_text(encoding="utf-8").partition("## By symptom\n")[2]
ROWS = [
    tuple(cell.strip() for cell in line.strip("|").split(" | "))
    for line in TABLE.splitlines()
    if line.startswith("| ") and "what it means" not in line
]
LINK = re.compile(r"\]\(([^)]+)\)")
LESSONS = {
    path: nbformat.read(path, as_version=4)
    for path in sorted((PAGE.parents[1] / "notebooks").glob("??_*.ipynb"))
}


def words(text: str) -> set[str]:
    """The words of a text, in small letters, without an s at the end."""
    return {
        word.lower().rstrip("s") for word in re.findall(r"[A-Za-z_]{4,}", text.replace("Ctrl-C", "ctrl_c"))
    }


SECTIONS = [
    words(part)
    for lesson in LESSONS.values()
    for part in "\n\n".join(cell.source for cell in lesson.cells).split("\n## ")
]


def is_telling(word: str) -> bool:
    """Whether fewer than a quarter of the sections of the lessons has this word."""
    return sum(word in section for section in SECTIONS) < len(SECTIONS) / 4


def seen(cell: nbformat.NotebookNode) -> str:
    """A cell, and the text that it has put out."""
    outputs = cell.get("outputs", [])
    told = [out.get("text") or out.get("data", {}).get("text/plain", "") for out in outputs]
    return "\n".join([cell.source, *told])


def section(target: str) -> str:
    """The text and code below the heading to which a link of the page leads, up to the next heading of its level."""
    path, _, anchor = unquote(target).partition("#")
    file = PAGE.parent / path if path else PAGE
    if file.suffix == ".ipynb":
        text = "\n\n".join(map(seen, LESSONS[file.resolve()].cells))
        slug = lambda heading: heading.replace(" ", "-")  # noqa: E731
    else:
        text = file.read_text(encoding="utf-8")
        slug = lambda heading: re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")  # noqa: E731
    headings = [
        found for found in re.finditer(r"^(##+) (.+)$", text, re.MULTILINE) if slug(found[2]) == anchor
    ]
    assert len(headings) == 1, f"{target}: {len(headings)} such headings"
    (heading,) = headings
    after = text[heading.end() :]
    end = re.search(rf"^#{{2,{len(heading[1])}}} ", after, re.MULTILINE)
    return after[: end.start()] if end else after


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_each_row_leads_to_headings_below_which_two_of_its_telling_words_are_found(row):
    symptom, meaning, where = row
    targets = LINK.findall(where)
    assert targets, "no link"
    assert all("#" in target for target in targets), "a heading, not a whole lesson"
    for target in targets:
        shared = set(filter(is_telling, words(f"{symptom} {meaning}") & words(section(target))))
        assert len(shared) >= 2, f"{target} does not speak of {symptom}: {shared}"


def test_there_are_rows():
    assert len(ROWS) > 12


def raised_by(call) -> str:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one differs between versions of Python
        call()
    return str(caught.value)


def steps_too_far():
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=1000)
    for _ in range(1001):
        optimizer.step()
        schedule.step()


def spawns_what_is_defined_here():
    def process(index):
        """Never runs."""

    mp.spawn(process)


def starts_without_torchrun():
    torch.distributed.init_process_group("gloo")


@pytest.mark.parametrize("call", [steps_too_far, spawns_what_is_defined_here, starts_without_torchrun])
def test_the_page_quotes_what_torch_says(call, monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    said = raised_by(call)
    quoted = [text for symptom, _, _ in ROWS for text in re.findall("`([^`]+)`", symptom)]
    assert any(text in said for text in quoted), said
