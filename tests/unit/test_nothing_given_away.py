"""In what a learner opens, the answer to a question stands nowhere before the run that decides it."""

import ast
import html
import json
import re
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from course_lib.learner.course import given_files, without_answers
from course_lib.syllabus import all_lessons
from course_lib.tasks import all_tasks
from tests.support.courses import notebook

ROOT = Path(__file__).resolve().parents[2]
FILES = given_files(ROOT)
NOTEBOOKS = sorted(name for name in FILES if name.endswith(".ipynb"))
ASKS = re.compile(r"^(?:\w+ = )?predict\(", re.MULTILINE)
TWO_HOURS = "notebooks/two_hours.ipynb"
LESSONS = [name for name in NOTEBOOKS if re.match(r"notebooks/\d\d_", name)]
#: No other run decides a question.
FOLD = re.compile(r"<details[^>]*><summary>[^<]*</summary>\n\n(.*?)\n\n</details>", re.DOTALL)
COMMON = {
    "all",
    "and",
    "are",
    "for",
    "from",
    "its",
    "not",
    "rank",
    "ranks",
    "same",
    "than",
    "that",
    "the",
    "their",
    "them",
    "they",
    "with",
}
DECIDES = re.compile(r"\A%%ranks\b.* --predicted\b|\bexpect=\"predicted\"|\breveal")


def code_cells(name: str) -> list[dict]:
    return [cell for cell in json.loads(FILES[name])["cells"] if cell["cell_type"] == "code"]


def source(cell: dict) -> str:
    return "".join(cell["source"])


def asks(cell: dict) -> bool:
    return cell["cell_type"] == "code" and ASKS.search(source(cell)) is not None


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


@pytest.mark.parametrize("name", [name for name in LESSONS if re.search(r"/(0[6-9]|10)_", name)])
def test_a_cell_that_decides_what_ddp_does_is_more_than_one_call_of_the_courses(name):
    for text in map(source, code_cells(name)):
        if not re.match(r"%%ranks\b.* --predicted\b", text):
            continue
        body = ast.parse(text.partition("\n")[2]).body
        imports = [each for each in body if isinstance(each, ast.Import | ast.ImportFrom)]
        ours = {
            alias.name
            for each in imports
            if isinstance(each, ast.ImportFrom) and str(each.module).startswith("course_lib")
            for alias in each.names
        }
        first, *others = (each for each in body if each not in imports)
        used = {node.id for node in ast.walk(first) if isinstance(node, ast.Name)}
        assert others or not used & ours, text


def after_runs(cells: list[dict]) -> Iterator[tuple[dict, list[dict]]]:
    """Each question's cell, with the cells from the one that decides it to the next heading or question."""
    for number, question in enumerate(cells):
        if asks(question):
            below = cells[number + 1 :]
            ends = (place for place, cell in enumerate(below) if asks(cell) or has_heading(cell))
            last = next(ends, len(below))
            yield question, below[: last + 1] if not asks(below[last]) else below[:last]


def has_heading(cell: dict) -> bool:
    text = re.sub(r"^```.*?^```", "", source(cell), flags=re.DOTALL | re.MULTILINE)
    return cell["cell_type"] == "markdown" and re.search("^#", text, re.MULTILINE) is not None


@pytest.mark.parametrize("name", [*LESSONS, TWO_HOURS])
def test_the_text_after_a_cell_that_decides_is_folded_and_nothing_of_it_is_lost(name):
    given = json.loads((ROOT / name).read_text(encoding="utf-8"))["cells"]
    copied = json.loads(FILES[name])["cells"]
    assert [cell["cell_type"] for cell in copied] == [cell["cell_type"] for cell in given]
    for one, other in zip(given, copied, strict=True):
        # A lesson may have folds of its own, such as the answers to something to read.
        assert FOLD.sub(r"\1", source(other)).split() == FOLD.sub(r"\1", source(one)).split()
    for _, cells in after_runs(copied):
        for cell in cells:
            in_sight = FOLD.sub("", source(cell)).strip()
            if cell["cell_type"] == "markdown" and in_sight:
                assert in_sight.startswith("#") or "\n\n" not in in_sight, in_sight


@pytest.mark.parametrize("name", [*LESSONS, TWO_HOURS])
def test_no_code_in_sight_has_words_of_the_answer(name):
    """Between the deciding cell and the next heading: titles of figures, labels, what is printed."""
    saved = json.loads((ROOT / name).read_text(encoding="utf-8"))["cells"]
    copied = json.loads(FILES[name])["cells"]
    for (question, before), (_, below) in zip(after_runs(saved), after_runs(copied), strict=True):
        shown = "".join(question["outputs"][0]["data"]["text/plain"])
        options = re.findall(r"^  \d+\. (.+)$", shown, re.MULTILINE)
        said = json.dumps([cell.get("outputs") for cell in before], ensure_ascii=False)
        right = html.unescape(re.search(r"The run says “(.+?)”\.", said)[1])
        assert right in options, right
        for cell in below:
            if cell["cell_type"] == "code" and not cell["metadata"].get("jupyter", {}).get("source_hidden"):
                strings = re.findall(r"\"([^\"\n]*)\"", source(cell))
                shared = {o: max((len(words(o) & words(s)) for s in strings), default=0) for o in options}
                others = max(count for option, count in shared.items() if option != right)
                assert shared[right] < 2 or others >= 2, f"{source(cell)}\n\ngives away: {right}"


def windows(text: str) -> Iterator[str]:
    """Yield what is read in one breath: two sentences that follow each other."""
    for paragraph in re.split(r"\n\s*\n|\n(?=#|> |- |\d\. )", re.sub(r"<[^>]+>", "", text)):
        sentences = re.split(r"(?<=[.:?!”])\s+(?=\S)", " ".join(paragraph.split()))
        yield from map(" ".join, pairwise([*sentences, ""]))


def all_that_is_read(cell: dict) -> Iterator[str]:
    """Yield the windows of a text, or the lines of a cell's code and the windows of what it has printed or drawn."""
    if cell["cell_type"] == "markdown":
        yield from windows(source(cell))
        return
    yield from source(cell).splitlines()
    for output in cell["outputs"]:
        printed = "".join(output.get("text", output.get("data", {}).get("text/plain", "")))
        if "ddp-ask" not in "".join(output.get("data", {}).get("text/html", "")):
            yield from (window for line in printed.splitlines() for window in windows(line))


def says(window: str, words: str) -> bool:
    """Return whether all these words, or beginnings of words, are read in it."""
    read = window.lower()
    return all(
        word in read and re.search(rf"(?<!\w){re.escape(word)}", read) for word in words.lower().split()
    )


@pytest.mark.parametrize("names", [LESSONS, [TWO_HOURS]], ids=["lessons", "two hours"])
def test_no_text_code_or_output_above_a_question_says_what_it_asks_for(names):
    """In this notebook and all before it. Each question has in its file words that would answer it: `unsaid`."""
    unsaid = {
        f"{lesson.number:02}.{name}": question.get("unsaid")
        for lesson in all_lessons()
        for name, question in tomllib.loads((lesson.folder / "questions.toml").read_text()).items()
    }
    assert all(unsaid.values()), "say which words would answer it"
    read: list[tuple[str, str]] = []
    told, asked = [], set()
    for name in names:
        cells = json.loads((ROOT / name).read_text(encoding="utf-8"))["cells"]
        below = {source(cell): rest for cell, rest in after_runs(json.loads(FILES[name])["cells"])}
        for cell in cells:
            if asks(cell) and (found := re.search(r'predict\("([\w.]+)"', source(cell))):
                asked.add(found[1])
                in_sight = [
                    (name, line)
                    for each in below[source(cell)]
                    if each["cell_type"] == "markdown"
                    for line in windows(FOLD.sub("", source(each)))
                ]
                told += [
                    f"{found[1]}, {words!r} in {where}: {line}"
                    for words in unsaid[found[1]]
                    for where, line in read + in_sight
                    if says(line, words)
                ]
            read += [(name, line) for line in all_that_is_read(cell)]
    assert asked == set(unsaid) or (names == [TWO_HOURS] and 15 < len(asked) < len(unsaid))
    assert not told, "\n".join(told)


def words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9_]{3,}", text.lower())) - COMMON


def copy_of(*sources: str) -> list[dict]:
    """What a learner gets of a notebook: text begins with a letter in capitals or a heading."""
    cells = notebook(*sources)
    for cell in cells["cells"]:
        if re.match(r"#|[A-Z]", "".join(cell["source"])):
            cell["cell_type"] = "markdown"
    return json.loads(without_answers(json.dumps(cells).encode()))["cells"]


def test_a_fold_ends_at_a_heading_and_not_at_a_comment_in_code():
    first = "Why:\n\n```\n# a comment\n```"
    cells = copy_of(
        "# Title\n",
        "p = predict(1)",
        "%%ranks --predicted",
        "plot()",
        first,
        "more()",
        "And then\n\n## Next\n\nMore",
        "2",
        "# Later",
    )
    assert source(cells[4]).startswith('<details class="ddp-explains"><summary>After the run')
    assert source(cells[4]).endswith(f"\n\n{first}\n\n</details>")
    assert (
        source(cells[6])
        == '<details class="ddp-explains"><summary>Read on</summary>\n\nAnd then\n\n</details>\n\n## Next\n\nMore'
    )
    assert (source(cells[0]), source(cells[8])) == ("# Title\n", "# Later")


def test_a_fold_ends_at_the_next_question_with_its_introduction_in_sight():
    cells = copy_of("p = predict(1)", "%%ranks --predicted", "Why.\n\nAnd if not?", "p = predict(2)")
    assert source(cells[2]).endswith("\n\nWhy.\n\n</details>\n\nAnd if not?")


def test_what_follows_the_cell_that_opens_a_lesson_is_folded():
    opening = copy_of(
        "# Title", "%load_ext x", "%%ranks 4\nx", "It is six.", "%%ranks\ny", "## A\n\nText", "z", "More"
    )
    assert [source(cell).startswith("<details ") for cell in opening].count(True) == 1
    assert source(opening[3]).endswith("It is six.\n\n</details>")
    later = copy_of("# Title", "## A\n\nText", "%%ranks 4\nx", "It is six.")
    assert source(later[3]) == "It is six."


def test_code_that_draws_what_a_question_asked_is_folded():
    cells = copy_of(
        "plt.plot()",
        "p = predict(1)",
        "%%ranks --predicted\nplt.show()",
        'plt.title("six")',
        "more()",
        "# A",
        "plt.show()",
    )
    hidden = [bool(cell["metadata"].get("jupyter", {}).get("source_hidden")) for cell in cells]
    assert hidden == [False, False, False, True, False, False, False]


@pytest.mark.parametrize("name", [*LESSONS, TWO_HOURS])
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


def test_what_introduces_a_cell_stays_in_sight_and_a_lone_explanation_or_a_note_does_not():
    cells = copy_of(
        "p = predict(1)", "%%ranks --predicted", "Why.\n\nNow on two ranks:", "more()", "And why.", "2"
    )
    assert source(cells[2]).endswith("\n\nWhy.\n\n</details>\n\nNow on two ranks:")
    assert source(cells[4]).endswith("\n\nAnd why.\n\n</details>")
    noted = copy_of("p = predict(1)", "%%ranks --predicted", "Why.\n\n> On GPUs.", "more()")
    assert source(noted[2]).endswith("\n\n> On GPUs.\n\n</details>")
