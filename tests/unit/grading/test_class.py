"""A class on paper: who handed in what, what is kept from run to run, and how it is reported. Nothing is run here."""

import csv
import dataclasses
import io
import json
import re
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from course_lib.cli.app import application
from course_lib.grading.classroom.batch import ClassReport, Entry, Learner, grade_class
from course_lib.grading.classroom.gradebook import LONG_COLUMNS, as_csv, as_json
from course_lib.grading.classroom.layout import Layout
from course_lib.grading.classroom.pages import page_name, write_pages
from course_lib.grading.classroom.results import FILE_NAME, Results, ResultsError, key_of, task_version
from course_lib.grading.classroom.submissions import Answer, NoSubmissionsError, may_answer, read_submissions
from course_lib.grading.classroom.workers import without_secrets
from course_lib.grading.plain_text import one_line
from course_lib.grading.verdict import CheckResult, CheckState, Verdict, VerdictKind, as_data, from_data
from course_lib.learner.course import given_files
from course_lib.lessons.samplers.tasks.shard_indices import ShardIndices
from course_lib.tasks import all_tasks, find_task
from tests.support.submissions import RIGHT, STUB, TASK, WRONG, cell, notebook, task_cell, write

CHECKOUT = Path(__file__).parents[3]
EPOCH = find_task(TASK).misconception("epoch_ignored")
PASSED = Verdict(
    TASK, VerdictKind.PASS, "All checks hold.", (CheckResult("A.", CheckState.PASSED),), ran_on=(1, 2)
)
FAILED = Verdict(
    TASK,
    VerdictKind.WRONG,
    "1 of 2 checks does not hold.",
    (
        CheckResult("A.", CheckState.PASSED),
        CheckResult("B.", CheckState.FAILED, "rank 1 got <b>5</b>", EPOCH),
    ),
    details=("a detail",),
    misconceptions=(EPOCH,),
    printed="printed \x1b[31m<script>alert(1)</script>",
    seed=5,
    seconds=1.5,
)


def by_name(handed_in):
    return {submission.learner: submission for submission in handed_in.submissions}


# -- who handed in what ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "task", "may"),
    [
        ("ada/03_samplers.ipynb", "samplers.evaluate", True),
        ("ada/03_samplers.ipynb", "buckets.bucket_list", False),
        ("ada/mine.ipynb", "buckets.bucket_list", True),
        ("ada/first_ranks/train.py", "first_ranks.train", True),
        ("ada/first_ranks/train.py", "samplers.evaluate", False),
    ],
)
def test_a_file_with_the_course_s_name_may_answer_what_the_course_asks_there(file, task, may):
    assert may_answer(file, find_task(task)) is may


def test_a_learner_is_a_folder_or_a_notebook(tmp_path):
    write(tmp_path / "anna" / "03.ipynb", notebook(task_cell(RIGHT)))
    write(tmp_path / "anna" / "more" / "answers.py", "# %%task samplers.evaluate\nx = 1\n")
    write(tmp_path / "anna" / "own_module.py", "def f(): ...\n")
    write(tmp_path / "anna" / ".ipynb_checkpoints" / "03.ipynb", "not json")
    write(tmp_path / "bo.ipynb", notebook(task_cell(WRONG)))
    write(tmp_path / "results.csv", "")
    write(tmp_path / ".hidden", "")
    found = read_submissions(tmp_path)
    assert found.notes == ()
    anna, bo = found.submissions
    assert [(a.task, a.place) for a in anna.answers] == [
        (TASK, "03.ipynb, cell 1"),
        ("samplers.evaluate", "more/answers.py, line 1"),
    ]
    assert (bo.learner, bo.problems) == ("bo", ())


def test_a_new_version_beside_the_learner_s_own_file_is_no_answer(tmp_path):
    write(tmp_path / "anna" / "03.ipynb", notebook(task_cell(RIGHT)))
    write(tmp_path / "anna" / "03.new.ipynb", notebook(task_cell(STUB)))
    write(tmp_path / "bo" / "03.new.ipynb", notebook(task_cell(WRONG)))  # renamed: it is the only one
    anna, bo = read_submissions(tmp_path).submissions
    assert [(a.task, a.place) for a in anna.answers] == [(TASK, "03.ipynb, cell 1")]
    assert (len(bo.answers), anna.problems, bo.problems) == (1, (), ())


def test_whatever_is_wrong_is_one_learner_s_problem(tmp_path):
    good = notebook(task_cell(RIGHT))
    write(tmp_path / "fine" / "a.ipynb", good)
    (tmp_path / "empty").mkdir()
    (tmp_path / "folder.ipynb").mkdir()
    (tmp_path / "inner" / "03.ipynb").mkdir(parents=True)
    write(tmp_path / "twice" / "a.ipynb", notebook(task_cell(WRONG), cell("x = 1"), task_cell(RIGHT)))
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "round").mkdir()
    (tmp_path / "round" / "again").symlink_to("..")
    (tmp_path / "thief").mkdir()
    (tmp_path / "thief" / "a.ipynb").symlink_to("../fine/a.ipynb")
    (tmp_path / "thief" / "b.ipynb").symlink_to("nowhere")
    write(tmp_path / "zip.zip", "")
    write(tmp_path / "tool.py", "print('no task here')")
    write(tmp_path / "report" / "index.html", "")
    found = read_submissions(tmp_path, ignore=[tmp_path / "report"])
    said = {name: " ".join(submission.problems) for name, submission in by_name(found).items()}
    assert said == {
        "empty": "There is no notebook here.",
        "fine": "",
        "folder": "folder.ipynb is a folder, not a file.",
        "inner": "03.ipynb is a folder, not a notebook.",
        "loop": "loop is a link that leads nowhere.",
        "round": "again is a link to a folder: not followed.",
        "thief": "a.ipynb is a link that leads out of the learner's folder: not read. "
        "b.ipynb is a link that leads nowhere.",
        "twice": f"{TASK} is answered 2 times (a.ipynb, cell 1; a.ipynb, cell 3): the last one counts.",
    }
    assert found.notes == (
        "tool.py is a script without task cells: passed over.",
        "zip.zip is neither a notebook nor a folder: passed over.",
    )
    assert by_name(found)["twice"].answers[0].source.strip() == RIGHT.strip()


SCRIPT = "first_ranks/train.py"
MEANS_THE_SCRIPT = notebook(task_cell("# YOUR CODE HERE\n# ... in the file", "first_ranks.train"))


def test_a_cell_that_means_the_script_beside_it_is_no_second_answer(tmp_path):
    answer = "# %%task first_ranks.train\nprint(1)\n"
    write(tmp_path / "anna/00.ipynb", MEANS_THE_SCRIPT)
    write(tmp_path / "anna" / SCRIPT, answer)
    write(tmp_path / "bo/00.ipynb", MEANS_THE_SCRIPT)
    write(tmp_path / "bo" / SCRIPT, "print(2)\n")  # the line that names the task was lost
    write(tmp_path / "cy/00.ipynb", notebook(task_cell("print(3)", "first_ranks.train")))
    write(tmp_path / "cy" / SCRIPT, answer)
    found = by_name(read_submissions(tmp_path))
    assert [(a.source, a.place) for a in found["anna"].answers] == [("print(1)\n", f"{SCRIPT}, line 1")]
    assert [(a.source, a.place) for a in found["bo"].answers] == [("print(2)\n", "00.ipynb, cell 1")]
    assert found["anna"].problems == found["bo"].problems == ()
    assert "answered 2 times (00.ipynb, cell 1; first_ranks/train.py, line 1)" in found["cy"].problems[0]


@pytest.mark.parametrize("link", [SCRIPT, "first_ranks"])
def test_a_cell_that_means_a_script_which_is_not_read_answers_nothing(tmp_path, link):
    write(tmp_path / "anna" / SCRIPT, "# %%task first_ranks.train\nprint(1)\n")
    write(tmp_path / "thief/00.ipynb", MEANS_THE_SCRIPT)
    (tmp_path / "thief" / link).parent.mkdir(exist_ok=True)
    (tmp_path / "thief" / link).symlink_to(tmp_path / "anna" / link)
    thief = by_name(read_submissions(tmp_path))["thief"]
    assert (thief.answers, thief.unreadable) == ((), (link,))


def test_the_exercises_as_they_are_given_are_a_faultless_hand_in_without_misconceptions(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("DDP_COURSE_HOME", str(tmp_path / "data"))
    for name, content in given_files(CHECKOUT).items():
        if name.startswith("exercises/"):
            path = tmp_path / "class/anna" / name.removeprefix("exercises/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    (anna,) = read_submissions(tmp_path / "class").submissions
    assert (len(anna.answers), anna.problems) == (len(all_tasks()), ())
    for path in (tmp_path / "class/anna").glob("*.ipynb"):
        if path.name[:2] not in ("00", "14", "18"):
            path.unlink()  # its stubs need ranks
    done = ddp_course("grade", tmp_path / "class", "--jobs", "1", "--csv", tmp_path / "class.csv")
    assert done.exit_code == 0, done.output
    assert "(!)" not in done.stdout
    rows = csv.DictReader((tmp_path / "class.csv").read_text().splitlines())
    kept = {(row["task"], row["verdict"], row["misconceptions"]) for row in rows}
    scripts = {task.name for task in all_tasks() if task.script}
    assert scripts == {"first_ranks.train", "checkpoints.script", "capstone.train"}
    assert {(name, "not attempted", "") for name in scripts} <= kept


def test_the_recipe_for_a_hub_brings_scripts_along_and_may_be_run_again(tmp_path):
    for learner in ("ada", "grace"):
        copy = tmp_path / "home" / learner / "ddp-course/exercises"
        write(copy / "00.ipynb", MEANS_THE_SCRIPT)
        write(copy / SCRIPT, f"# %%task first_ranks.train\nprint('{learner}')\n")
    hub = (CHECKOUT / "docs/hub.md").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"^ {4}(for learner in .*; done)$", hub, re.MULTILINE)
    for _ in range(2):
        subprocess.run(["sh", "-ec", recipe.replace("/home/", "home/")], cwd=tmp_path, check=True)
    found = read_submissions(tmp_path / "submissions").submissions
    assert [(one.learner, one.problems) for one in found] == [("ada", ()), ("grace", ())]
    assert [one.answers[0].source for one in found] == ["print('ada')\n", "print('grace')\n"]


def test_a_folder_without_end_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr("course_lib.grading.classroom.submissions.MAX_FILES", 3)
    for number in range(5):
        write(tmp_path / "anna" / f"{number}.ipynb", notebook(task_cell(STUB)))
    (anna,) = read_submissions(tmp_path).submissions
    assert "anna holds more than 3 notebooks and scripts." in anna.problems


def test_no_folder_is_one_clear_line(tmp_path):
    with pytest.raises(NoSubmissionsError, match="cannot be read: No such file"):
        read_submissions(tmp_path / "nowhere")
    with pytest.raises(NoSubmissionsError, match="is a file: name a folder"):
        read_submissions(write(tmp_path / "a.ipynb", ""))


# -- what is kept ---------------------------------------------------------------------------------------------------


def test_a_verdict_survives_being_written(tmp_path):
    assert from_data(json.loads(json.dumps(as_data(FAILED)))) == FAILED
    with Results(tmp_path / "r.jsonl") as results:
        results.add("key", FAILED)
    with Results(tmp_path / "r.jsonl") as results:
        assert results.get("key") == FAILED
        assert results.get("other") is None


def test_a_line_cut_off_by_a_crash_costs_that_line(tmp_path):
    path = tmp_path / "r.jsonl"
    with Results(path) as results:
        results.add("one", PASSED)
        results.add("two", FAILED)
    path.write_bytes(path.read_bytes()[:-40])
    with Results(path) as results:
        assert (results.get("one"), results.get("two"), results.damaged) == (PASSED, None, 1)
        results.add("two", FAILED)
    with Results(path) as results:
        assert (results.get("one"), results.get("two"), results.damaged) == (PASSED, FAILED, 1)


@pytest.mark.parametrize(
    "line", [b"nonsense", b"{}", b"[]", b'{"form": 2, "key": "a", "verdict": {}}', b"\xff\xfe", b"[" * 99999]
)
def test_damaged_lines_are_counted_and_passed_over(tmp_path, line):
    path = tmp_path / "r.jsonl"
    with Results(path) as results:
        results.add("one", PASSED)
    path.write_bytes(path.read_bytes() + line + b"\n\n")
    with Results(path) as results:
        assert (results.get("one"), results.damaged) == (PASSED, 1)


def test_two_graders_do_not_write_into_one_file(tmp_path):
    with (
        Results(tmp_path / "r.jsonl"),
        pytest.raises(ResultsError, match="another 'ddp-course grade'"),
        Results(tmp_path / "r.jsonl"),
    ):
        pass


def test_where_results_cannot_be_kept_is_one_clear_line(tmp_path):
    with (
        pytest.raises(ResultsError, match="--results names another file"),
        Results(tmp_path / "no" / "folder"),
    ):
        pass


def test_a_verdict_belongs_to_text_task_and_line_not_to_a_learner():
    answer = Answer(TASK, "x = 1", 2, "a.ipynb, cell 1")
    assert key_of(answer) == key_of(Answer(TASK, "x = 1", 2, "b.ipynb, cell 9"))
    others = [
        Answer(TASK, "x = 2", 2, ""),
        Answer(TASK, "x = 1", 3, ""),
        Answer("samplers.evaluate", "x = 1", 2, ""),
        Answer(TASK, "x = '\ud800'", 2, ""),
    ]
    assert len({key_of(other) for other in [answer, *others]}) == 5


def test_a_changed_task_has_another_version(monkeypatch, tmp_path):
    import inspect

    before = task_version(find_task(TASK))
    changed = tmp_path / "shard_indices.py"
    changed.write_text("# another definition\n")
    getfile = inspect.getfile
    monkeypatch.setattr(
        inspect, "getfile", lambda kind: str(changed) if kind is ShardIndices else getfile(kind)
    )
    assert task_version(ShardIndices()) != before


def test_what_is_known_is_not_run_again(tmp_path):
    """An answer that would run for minutes, were it run."""
    write(tmp_path / "in" / "anna.ipynb", notebook(task_cell("while True: pass")))
    write(tmp_path / "in" / "bo.ipynb", notebook(task_cell("while True: pass")))
    handed_in = read_submissions(tmp_path / "in")
    with Results(tmp_path / "r.jsonl") as results:
        results.add(key_of(handed_in.submissions[0].answers[0]), FAILED)
    with Results(tmp_path / "r.jsonl") as results:
        report = grade_class(handed_in, results, jobs=2)
    assert report.graded == 0
    assert [learner.entry(find_task(TASK)).verdict for learner in report.learners] == [FAILED, FAILED]


def test_what_is_assigned_is_graded_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setenv("DDP_COURSE_HOME", str(tmp_path / "data"))
    write(
        tmp_path / "class/anna/a.ipynb",
        notebook(task_cell("while True: pass"), task_cell(RIGHT, "samplers.evaluate")),
    )
    handed_in = read_submissions(tmp_path / "class")
    kept = tmp_path / "class" / FILE_NAME
    with Results(kept) as results:
        for answer in handed_in.submissions[0].answers:
            results.add(key_of(answer), PASSED if answer.task != TASK else FAILED)
    done = ddp_course("grade", tmp_path / "class", "--task", "samplers.evaluate", "--csv", tmp_path / "a.csv")
    assert done.exit_code == 0, done.output
    assert "1 of 1" in done.output
    assert [row["task"] for row in rows((tmp_path / "a.csv").read_text())] == ["samplers.evaluate"]
    of_lessons = ddp_course(
        "grade", tmp_path / "class", "--lesson", "3", "--lesson", "04", "--json", tmp_path / "a.json"
    )
    assert "A sign for each task" in of_lessons.output
    assert max(map(len, of_lessons.stdout.splitlines())) < 200
    tasks = json.loads((tmp_path / "a.json").read_text())["learners"][0]["tasks"]
    assert tasks.keys() == {task.name for task in all_tasks() if task.lesson[:2] in ("03", "04")}
    for wrong in (("--lesson", "99"), ("--task", "samplers.nothing")):
        done = ddp_course("grade", tmp_path / "class", *wrong)
        assert (done.exit_code, len(done.output.strip().splitlines())) == (2, 1)


def test_a_broken_file_leaves_other_lessons_graded(tmp_path):
    write(tmp_path / "in/anna/03_samplers.ipynb", "{")
    (anna,) = read_submissions(tmp_path / "in").submissions
    states = {
        task.lesson[:2]: Learner("anna", {}, unreadable=anna.unreadable).entry(task).state
        for task in all_tasks()
    }
    assert states["03"] == "not graded"
    assert states["04"] == "missing"


# -- reports --------------------------------------------------------------------------------------------------------

HOSTILE = "<img src=x onerror=alert(1)>"
REPORT = ClassReport(
    all_tasks(),
    (
        Learner("anna", {TASK: Entry(PASSED, place="a.ipynb, cell 1")}),
        Learner(
            "=cmd()", {TASK: Entry(FAILED, place="a.ipynb, cell 1", source="a < b")}, ("b.ipynb is empty.",)
        ),
        Learner(HOSTILE, {TASK: Entry(FAILED), "samplers.evaluate": Entry(problem="It was killed 2 times.")}),
    ),
    ("x.zip is passed over.",),
)


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_the_long_table_has_a_row_for_each_learner_and_task():
    found = rows(as_csv(REPORT, Layout.LONG))
    assert tuple(found[0]) == LONG_COLUMNS
    assert len(found) == 3 * len(all_tasks()) + 1
    of_the_task = [row for row in found if row["task"] == TASK]
    first, second = (
        next(row for row in of_the_task if row["learner"] == name) for name in ("anna", "'=cmd()")
    )
    assert (first["verdict"], first["score"], first["max_score"], first["checks_passed"]) == (
        "pass",
        "1",
        "1",
        "1",
    )
    assert (second["verdict"], second["score"], second["misconceptions"]) == ("wrong", "0", "epoch_ignored")
    assert [row["problem"] for row in found if row["verdict"] == "files"] == ["b.ipynb is empty."]
    (lost,) = [row for row in found if row["verdict"] == "not graded"]
    assert (lost["task"], lost["score"], lost["problem"]) == (
        "samplers.evaluate",
        "",
        "It was killed 2 times.",
    )
    assert sum(row["verdict"] == "missing" for row in found) == 3 * len(all_tasks()) - 4


def test_the_gradebook_is_what_canvas_imports():
    """As its importer (lib/gradebook_importer.rb) finds columns, rows and learners."""
    heading, possible, anna, _, lost = csv.reader(io.StringIO(as_csv(REPORT, Layout.GRADEBOOK)))
    assert heading[:5] == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
    assert len(heading) == 5 + len(all_tasks())
    assert heading[5] == f"{all_tasks()[0].lesson[:2]} {all_tasks()[0].name}"
    assert "Points Possible" in possible[0]
    assert set(possible[5:]) == {"1"}
    assert anna[:5] == ["anna", "", "", "anna", ""]
    assert anna[heading.index(f"03 {TASK}")] == "1"
    assert sum(map(int, anna[5:])) == 1
    assert lost[heading.index("03 samplers.evaluate")] == "", "not graded is not wrong"
    assert {len(row) for row in (heading, possible, anna, lost)} == {len(heading)}


def test_a_row_for_each_learner_and_lesson_as_nbgrader_exports():
    text = as_csv(REPORT, Layout.NBGRADER)
    assert text.splitlines()[0] == (
        "assignment,duedate,timestamp,student_id,last_name,first_name,email,"
        "raw_score,late_submission_penalty,score,max_score"
    )
    scores = {(row["assignment"], row["student_id"]): row for row in rows(text)}
    assert len(scores) == 3 * len({task.lesson for task in all_tasks()})
    anna = scores["03_samplers", "anna"]
    assert (anna["raw_score"], anna["score"]) == ("1", "1")
    assert anna["max_score"] == str(sum(task.lesson == "03_samplers" for task in all_tasks()))
    assert scores["03_samplers", "'=cmd()"]["score"] == "0"


def test_workers_get_none_of_the_instructor_s_secrets():
    kept = {"PATH": "/bin", "HOME": "/h", "KEYBOARD": "de", "OMP_NUM_THREADS": "1", "MONKEY": "1"}
    secret = [
        "GITHUB_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "OPENAI_API_KEY",
        "DB_PASSWORD",
        "GH_PAT",
    ]
    assert without_secrets({**kept, **dict.fromkeys(secret, "x")}) == kept


def test_the_json_holds_the_verdicts():
    data = json.loads(as_json(REPORT))
    assert from_data(data["learners"][1]["tasks"][TASK]["report"]) == FAILED
    assert data["misconceptions"] == [{"task": TASK, "id": "epoch_ignored", "learners": ["=cmd()", HOSTILE]}]
    assert data["learners"][2]["tasks"]["samplers.evaluate"]["verdict"] == "not graded"


def test_what_several_break_without_a_name_for_it_is_listed():
    nameless = Entry(dataclasses.replace(FAILED, misconceptions=()))
    learners = [Learner(name, {TASK: nameless}) for name in ("anna", "bo")]
    assert ClassReport(all_tasks(), (*learners[:1], *REPORT.learners)).unnamed() == []
    (found,) = ClassReport(all_tasks(), (*learners, *REPORT.learners)).unnamed()
    assert (found.task, found.broken, found.learners) == (TASK, ("B.",), ("anna", "bo"))


def test_a_report_says_whether_everything_could_be_graded():
    assert not REPORT.flawless
    assert ClassReport(all_tasks(), REPORT.learners[:1]).flawless


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("html")
    write_pages(REPORT, folder)
    return folder


def words(page):
    """What a reader sees, roughly: without tags."""
    return re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8"))


def test_the_overview_shows_states_in_words_and_what_could_not_be_read(pages):
    index = words(pages / "index.html")
    for text in (
        "✓ pass",
        "✗ wrong",
        "– missing",
        "? not graded",
        "Passed by, of 3",
        f"1 of {len(all_tasks())}",
        EPOCH.taught,
        "x.zip is passed over.",
    ):
        assert text in index
    assert "b.ipynb is empty." in index
    assert f'href="learners/{page_name("anna")}"' in (pages / "index.html").read_text(encoding="utf-8")


def test_a_learner_s_page_shows_what_they_saw(pages):
    text = (pages / "learners" / page_name("=cmd()")).read_text(encoding="utf-8")
    for part in (
        "<main>",
        "a &lt; b",
        FAILED.headline,
        "a detail",
        "rank 1 got &lt;b&gt;5&lt;/b&gt;",
        "It printed:",
        EPOCH.taught,
    ):
        assert part in text
    assert "What this looks like:" in text
    assert "No answer handed in" in text


def test_pages_need_nothing_else_and_run_nothing_of_the_learners(pages):
    for page in pages.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert "<script" not in text
        assert "<img" not in text
        assert "\x1b" not in text
        assert not re.search(r"(src|href)=\"?(https?:|//|file:)|@import|url\(", text)
        assert "prefers-color-scheme: dark" in text
    assert len(list(pages.rglob("*.html"))) == 4


def test_nothing_of_a_learner_leaves_its_line(tmp_path):
    write(tmp_path / "in" / "new\nline" / "a.ipynb", notebook(task_cell(RIGHT, "samplers.shard_index")))
    (submission,) = read_submissions(tmp_path / "in").submissions
    assert submission.problems[0].endswith("?"), "a question keeps its mark, and gets no full stop"
    assert one_line(f"{submission.learner}: \x1b[31m") == "new\\nline: \\x1b[31m"


def test_every_learner_has_a_page_of_their_own():
    names = [
        "anna",
        "Anna",
        "../../etc/passwd",
        "a b",
        "a_b",
        "é",
        "e",
        "x" * 300,
        "x" * 301,
        "index",
        "CON\ud800",
    ]
    pages = [page_name(name) for name in names]
    assert len({page.lower() for page in pages}) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,80}\.html", page) for page in pages)


@pytest.fixture
def handed_in(tmp_path, monkeypatch):
    """A folder in which everything has been graded: `grade` has nothing to run, and writes its reports."""
    monkeypatch.setenv("DDP_COURSE_HOME", str(tmp_path / "data"))
    folder = tmp_path / "class"
    write(folder / "anna.ipynb", notebook(cell("# nothing to grade", "markdown")))
    write(folder / "bo" / "03.ipynb", notebook(cell("# nothing to grade", "markdown")))
    return folder


def ddp_course(*words):
    return CliRunner().invoke(application(), [str(word) for word in words])


def test_reports_are_written_over_and_over(handed_in, tmp_path):
    outputs = ("--csv", tmp_path / "a.csv", "--json", tmp_path / "a.json", "--html", tmp_path / "html")
    for layout in Layout:
        for _ in range(2):
            done = ddp_course("grade", handed_in, *outputs, "--csv-layout", layout.value)
            assert done.exit_code in (0, 1), done.output
    assert "ddp-course 0." in done.output.splitlines()[-1]


@pytest.mark.parametrize(
    ("option", "name", "content"),
    [
        ("--csv", "class.csv", "my own table\n"),
        ("--json", "class.json", '{"mine": 1}'),
        ("--results", "notes.txt", "my own notes\n"),
        ("--csv", "class/bo/03.ipynb", None),
        ("--csv", "class/bo/03.py", ""),
        ("--html", "html/index.html", "<p>my own page</p>"),
        ("--html", "html/notes.txt", "my own notes"),
    ],
)
def test_no_report_is_written_over_somebody_elses_file(handed_in, tmp_path, option, name, content):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if content is not None:
        path.write_text(content, encoding="utf-8")
    before = path.read_bytes()
    target = path.parent if option == "--html" else path
    done = ddp_course("grade", handed_in, option, target)
    assert done.exit_code == 2
    assert len(done.output.strip().splitlines()) == 1
    assert path.read_bytes() == before
    if option != "--results" and path.suffix not in (".ipynb", ".py"):
        assert ddp_course("grade", handed_in, option, target, "--force").exit_code in (0, 1)


def test_a_table_that_the_instructor_has_changed_stays(handed_in, tmp_path):
    table = tmp_path / "class.csv"
    ddp_course("grade", handed_in, "--csv", table)
    table.write_text(table.read_text(encoding="utf-8") + "my remark\n", encoding="utf-8")
    assert ddp_course("grade", handed_in, "--csv", table).exit_code == 2
    assert "my remark" in table.read_text(encoding="utf-8")


# -- what nobody could read is not wrong ----------------------------------------------------------------------------


def test_what_may_stand_in_an_unreadable_file_is_not_graded_and_gets_no_points(tmp_path):
    """A broken upload must not become zeros in somebody's gradebook."""
    write(tmp_path / "handed_in" / "broken" / "03.ipynb", '{"nbformat": 4, "cells": [')
    write(tmp_path / "handed_in" / "nothing" / "03.ipynb", notebook(cell("1 + 1")))
    write(tmp_path / "handed_in" / "half" / "03.ipynb", notebook(task_cell(STUB)))
    write(tmp_path / "handed_in" / "half" / "04.ipynb", "")
    handed_in = read_submissions(tmp_path / "handed_in")
    assert {one.learner: one.unreadable for one in handed_in.submissions} == {
        "broken": ("03.ipynb",),
        "nothing": (),
        "half": ("04.ipynb",),
    }
    with Results(tmp_path / "results.jsonl") as results:
        for submission in handed_in.submissions:
            for answer in submission.answers:
                results.add(key_of(answer), FAILED)
        report = grade_class(handed_in, results, 1)
    states = {
        learner.name: [learner.entry(task).state for task in report.tasks] for learner in report.learners
    }
    assert set(states["broken"]) == {"not graded"}
    assert set(states["nothing"]) == {"missing"}
    assert sorted(set(states["half"])) == ["not graded", "wrong"]
    by_learner = {row[0]: row[5:] for row in csv.reader(io.StringIO(as_csv(report, Layout.GRADEBOOK)))}
    assert set(by_learner["broken"]) == {""}
    assert set(by_learner["nothing"]) == {"0"}
    assert sorted(by_learner["half"]) == ["", "", "", "", "0"]
    assert {
        row["score"] for row in rows(as_csv(report, Layout.NBGRADER)) if row["student_id"] == "broken"
    } == {""}
    data = json.loads(as_json(report))
    assert {entry["score"] for entry in data["learners"][0]["tasks"].values()} == {None}
    write_pages(report, tmp_path / "html")
    index = words(tmp_path / "html" / "index.html")
    assert re.search(r"broken \(!\) files", index)
    assert not re.search(r"nothing \(!\) files", index) or "has no task cells" in index
    page = words(tmp_path / "html" / "learners" / page_name("broken"))
    assert "No answer could be read" in page


def test_droppings_of_archives_and_stray_files_are_named_and_are_no_learners(tmp_path):
    write(tmp_path / "anna.ipynb", notebook(task_cell(RIGHT)))
    write(tmp_path / "__MACOSX" / "._anna.ipynb", "\0\0")
    write(tmp_path / "notes.txt", "who is late")
    write(tmp_path / "grades.csv", "a,b")
    found = read_submissions(tmp_path)
    assert [one.learner for one in found.submissions] == ["anna"]
    assert [note.split()[0] for note in found.notes] == ["__MACOSX", "notes.txt"]


def test_an_answer_that_looks_where_no_task_sends_it_is_marked_in_every_report_but_the_tables(tmp_path):
    source = "import sys\ndef shard_indices(*_):\n    return sys._getframe(1).f_locals\n"
    write(tmp_path / "handed_in" / "eve.ipynb", notebook(task_cell(source)))
    handed_in = read_submissions(tmp_path / "handed_in")
    with Results(tmp_path / "results.jsonl") as results:
        results.add(key_of(handed_in.submissions[0].answers[0]), PASSED)
        report = grade_class(handed_in, results, 1)
    marks = ["sys._getframe, line 3", "frames, line 3"]
    data = json.loads(as_json(report))
    assert sorted(data["learners"][0]["tasks"][TASK]["worth_reading"]) == sorted(marks)
    write_pages(report, tmp_path / "html")
    index = words(tmp_path / "html" / "index.html")
    assert "Worth reading" in index
    assert all(mark in index for mark in marks)
    assert "(read)" not in as_csv(report, Layout.LONG)
    assert "getframe" not in as_csv(report, Layout.LONG)
