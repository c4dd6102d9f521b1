"""What the benchmarks make of numbers; nothing here measures anything."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import report
from benchmarks.results import GOALS, Goal, Report, Row, Sample, judge_all, number, times
from benchmarks.workloads import AFTERWARDS, DDP_STEP, ROUND_TRIP, STATE, deadlock, stuck, trials

ROOT = Path(__file__).resolve().parents[2]

START = Row(
    "start",
    "New gang",
    "s",
    {
        "course": Sample((0.1, 0.3, 0.12)),
        "spawn": Sample((4.0, 5.0, 6.0)),
        "ipyparallel": Sample((10.0,), at_least=True, remark="says nothing"),
    },
)
SAMPLE_RUN = Report("2 cores", 3, (START,), tuple(judge_all([START])))


def test_a_sample_is_its_median_and_its_spread():
    assert START.samples["course"].median == 0.12
    assert START.samples["course"].spread == (0.1, 0.3)


def test_a_ratio_says_how_many_times_the_course_fits_into_the_peer():
    assert START.ratio("spawn") == pytest.approx(5.0 / 0.12)
    assert START.ratio("course") == 1


def test_no_ratio_without_both_numbers():
    assert START.ratio("torchrun") is None
    assert Row("start", "", "s", {"spawn": Sample((4.0,))}).ratio("spawn") is None


@pytest.mark.parametrize(("median", "met"), [(0.15, True), (0.151, False)])
def test_a_limit_is_met_up_to_and_with_its_value(median, met):
    rows = {"start": Row("start", "", "s", {"course": Sample((median,))})}
    judged = Goal("start", "quick", at_most=0.15).judge(rows)
    assert judged is not None
    assert judged.met is met


def test_a_run_that_gave_up_meets_no_limit():
    rows = {"stop": Row("stop", "", "s", {"course": Sample((0.5,), at_least=True)})}
    judged = Goal("stop", "quick", at_most=1.0).judge(rows)
    assert judged is not None
    assert not judged.met


def test_what_never_worked_is_called_failed_and_meets_nothing():
    row = Row("start", "", "s", {"course": Sample((), remark="not every repetition worked")})
    (limit, ratio) = judge_all([row])
    assert not limit.met
    assert not ratio.met
    assert "failed" in report.as_text(Report("", 1, (row,), (limit,)))


def test_a_ratio_goal_names_the_ratio_that_was_observed():
    judged = Goal("start", "faster", at_least_times=50, than="spawn").judge({"start": START})
    assert judged is not None
    assert (judged.observed, judged.met) == ("42x", False)


def test_a_goal_is_not_spoken_of_when_its_row_or_its_peer_was_not_measured():
    assert Goal("memory", "small", at_most=70).judge({"start": START}) is None
    assert Goal("start", "faster", at_least_times=2, than="torchrun").judge({"start": START}) is None


def test_every_goal_can_be_judged_by_a_row_of_its_own_unit():
    units = {
        "start": "s",
        "round-trip-4": "ms",
        "round-trip-16": "ms",
        "history": "ms",
        "ddp-step": "s",
        "memory": "MB",
        "deadlock": "s",
        "stop": "s",
        "class-first": "s",
        "class-memory": "MB",
        "grade": "s",
        "watched": "ms",
        "many-cell-1024": "ms",
    }
    assert {goal.row for goal in GOALS} == set(units)
    rows = [
        Row(key, "", unit, {who: Sample((1.0,)) for who in ("course", "spawn", "ipyparallel", "unwatched")})
        for key, unit in units.items()
    ]
    assert len(judge_all(rows)) == len(GOALS)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(0.0812, "s", "0.081 s"), (4.567, "ms", "4.57 ms"), (0.5, "ms", "0.50 ms"), (62.34, "MB", "62.3 MB")],
)
def test_numbers_are_shown_with_the_digits_that_count(value, unit, text):
    assert number(value, unit) == text


def test_ratios_are_shown_with_the_digits_that_count():
    assert [times(4.23), times(58.4)] == ["4.2x", "58x"]


def test_the_text_shows_medians_spreads_ratios_bounds_and_goals():
    text = report.as_text(SAMPLE_RUN)
    (course,) = [line for line in text.splitlines() if line.startswith("  course")]
    (spawn,) = [line for line in text.splitlines() if line.startswith("  spawn")]
    (silent,) = [line for line in text.splitlines() if line.startswith("  ipyparallel")]
    assert course.split() == ["course", "0.120", "s", "0.100", "-", "0.300", "s"]
    assert spawn.split()[-1] == "42x"
    assert "> 10.0 s" in silent
    assert "> 83x" in silent
    assert silent.endswith("says nothing")
    assert "NOT MET new warm gang of 4" in text
    assert "met     ... at least 30 times faster than spawn: 42x" in text


def test_a_missed_goal_is_called_missed():
    slow = Row("start", "", "s", {"course": Sample((9.0,))})
    assert "NOT MET" in report.as_text(Report("", 1, (slow,), tuple(judge_all([slow]))))


def test_the_markdown_is_a_table_with_equally_many_cells_in_each_row():
    table, goals = report.as_markdown(SAMPLE_RUN).split("\n\n")[1:]
    for block in (table, goals):
        assert len({line.count("|") for line in block.strip().splitlines()}) == 1
    assert "| **New gang** | course | 0.120 s |" in table


def test_a_page_keeps_its_text_around_the_table():
    page = f"# Title\n\n{report.BEGIN}\nold\n{report.END}\n\nMore.\n"
    assert report.placed_in(page, "new\n") == f"# Title\n\n{report.BEGIN}\n\nnew\n\n{report.END}\n\nMore.\n"
    assert report.placed_in("", "new\n") == "new\n"


def test_the_page_in_docs_has_the_markers():
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert report.placed_in(page, "new") != "new"


def test_the_json_holds_every_value():
    rows = json.loads(report.as_json(SAMPLE_RUN))["rows"]
    assert rows[0]["samples"]["spawn"]["values"] == [4.0, 5.0, 6.0]


def test_the_machine_line_names_torch_and_nobodys_machine():
    import platform

    line = report.machine_line()
    assert "cores" in line
    assert "torch" in line
    assert platform.node() not in line.split()


@pytest.mark.parametrize(
    "source",
    [ROUND_TRIP, DDP_STEP, deadlock(0.1), stuck("/x"), STATE, AFTERWARDS, trials("a.b", "x = 1", "[]", "/x")],
)
def test_what_the_ranks_are_asked_to_do_is_python(source):
    compile(source, "workload", "exec")


def test_it_says_how_it_is_used():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--help"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for option in ("--repeat", "--quick", "--only", "--json", "--markdown"):
        assert option in done.stdout
