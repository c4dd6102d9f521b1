"""In what a learner opens, the answer to a question stands nowhere before the run that decides it."""

import json
import re
from pathlib import Path

import pytest

from course_lib.learner.course import given_files, without_answers
from course_lib.tasks import all_tasks
from tests.support.courses import notebook

ROOT = Path(__file__).resolve().parents[2]
FILES = given_files(ROOT)
NOTEBOOKS = sorted(name for name in FILES if name.endswith(".ipynb"))
ASKS = re.compile(r"^(?:\w+ = )?predict\(", re.MULTILINE)
LESSONS = [name for name in NOTEBOOKS if re.match(r"notebooks/\d\d_", name)]
#: No other run decides a question.
DECIDES = re.compile(r"\A%%ranks\b.* --predicted\b|\bexpect=\"predicted\"|\breveal")


def code_cells(name: str) -> list[dict]:
    return [cell for cell in json.loads(FILES[name])["cells"] if cell["cell_type"] == "code"]


def source(cell: dict) -> str:
    return "".join(cell["source"])


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_no_cell_has_an_output_a_number_or_a_verdict(name):
    for cell in code_cells(name):
        assert (cell["outputs"], cell["execution_count"]) == ([], None)
        assert set(cell["metadata"]) <= {"tags", "jupyter"}


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_cell_after_a_question_decides_it_and_does_not_say_how_it_ends(name):
    sources = [source(cell) for cell in code_cells(name)]
    asked = [number for number, text in enumerate(sources) if ASKS.search(text)]
    assert asked or name not in LESSONS, "a lesson without a question"
    for number in asked:
        decides = sources[number + 1]
        assert DECIDES.search(decides), (
            f"the cell after the question {sources[number]!r} leaves it open: {decides}"
        )
        if decides.startswith("%%ranks"):
            assert "--expect" not in decides.partition("\n")[0].split(), decides
        assert not re.search(r"expect=(?!\"predicted\")", decides), decides


@pytest.mark.parametrize("name", LESSONS)
def test_the_text_after_a_cell_that_decides_is_folded_and_nothing_of_it_is_lost(name):
    given = json.loads((ROOT / name).read_text(encoding="utf-8"))["cells"]
    copied = json.loads(FILES[name])["cells"]
    decides = [
        number + 1
        for number, cell in enumerate(copied)
        if cell["cell_type"] == "code" and ASKS.search(source(cell))
    ]
    for number in decides:
        texts = [place for place in range(number, len(copied)) if copied[place]["cell_type"] == "markdown"]
        said, shown = source(given[texts[0]]), source(copied[texts[0]])
        if said.startswith("#"):
            assert shown == said
            continue
        folded = re.fullmatch(
            r"<details><summary>[^<]*</summary>\n\n(.*?)\n\n</details>(.*)", shown, re.DOTALL
        )
        assert folded, shown
        assert not folded[2] or folded[2].startswith("\n\n#"), "headings stay in sight"
        assert folded[1].split() + folded[2].split() == said.split()
    folds = sum("<details>" in source(cell) for cell in copied)
    assert folds <= len(decides)
    assert [cell["cell_type"] for cell in copied] == [cell["cell_type"] for cell in given]


def test_a_fold_ends_at_a_heading_and_not_at_a_comment_in_code():
    text = "# Text\n", "Why:\n\n```\n# a comment\n```\n\n## Next\n\nMore", "# Later"
    cells = notebook(text[0], "p = predict(1)", "%%ranks --predicted", "plot()", text[1], "2", text[2])
    for number in (4, 6):
        cells["cells"][number]["cell_type"] = "markdown"
    folded = [source(cell) for cell in json.loads(without_answers(json.dumps(cells).encode()))["cells"]]
    assert folded[4].startswith("<details><summary>")
    assert folded[4].endswith("\n\nWhy:\n\n```\n# a comment\n```\n\n</details>\n\n## Next\n\nMore")
    assert (folded[0], folded[6]) == (text[0], text[2])


@pytest.mark.parametrize("name", LESSONS)
def test_only_cells_that_decide_a_prediction_say_predicted(name):
    sources = [source(cell) for cell in code_cells(name)]
    for number, text in enumerate(sources):
        if re.match(r"%%ranks.* --predicted\b", text) or 'expect="predicted"' in text:
            assert ASKS.search(sources[number - 1]), text


def test_solutions_are_not_in_the_copy():
    assert {name.partition("/")[0] for name in FILES} == {"notebooks", "exercises", "docs"}


def test_every_script_that_is_an_answer_is_in_the_copy():
    scripts = {f"exercises/{task.script}" for task in all_tasks() if task.script}
    assert scripts <= set(FILES)


@pytest.mark.parametrize("name", [*NOTEBOOKS, "docs/claims.md", "docs/cheatsheet.html"])
def test_links_lead_to_files_of_the_copy(name):
    text = FILES[name].decode()
    if name.endswith(".ipynb"):
        cells = json.loads(text)["cells"]
        text = "\n".join(source(cell) for cell in cells if cell["cell_type"] == "markdown")
    for target in re.findall(r"\]\(([^)\s#]+)[^)]*\)|href=\"([^\"#]+)", text):
        link = target[0] or target[1]
        if re.match(r"[a-z]+:", link):
            continue
        parts: list[str] = [*Path(name).parent.parts]
        for part in Path(link).parts:
            parts = parts[:-1] if part == ".." else [*parts, part]
        assert "/".join(parts) in FILES, f"{name}: {link}"
