"""From made-up observations to a verdict: gates, counts, and how an answer that came to no end is told."""

import dataclasses
import signal

import pytest

from course_lib.grading import confine
from course_lib.grading.attempt import Attempt, End
from course_lib.grading.cells import handed_out
from course_lib.grading.judge import judge, judge_source
from course_lib.grading.verdict import (
    CheckResult,
    CheckState,
    Verdict,
    VerdictKind,
    closing_lines,
    text_report,
    to_show,
)
from course_lib.tasks import find_task
from course_lib.tasks.task import Miss, Task, Trial, check, gate
from course_lib.tasks.words import Misconception
from realranks.doctor.words import ODD
from realranks.outcome.outcome import Diagnosis, Ending, Waiting
from realranks.outcome.places import Frame
from tests.support.outcomes import died, error, hung, outcome, raised
from tests.support.submissions import TASK

LATE = Misconception("late", "It comes late.", "lesson 01, Time")
WILD = Misconception("wild", "It is wild.", "lesson 01, Order")


class Three(Task):
    """Observations are a dict of what holds; the first check is a gate."""

    name = TASK
    signature = "shard_indices(n)"
    misconceptions = (WILD, LATE)

    @check("It has a form.", gate=True)
    def form(self, trial):
        return None if trial.seen[0]["form"] else Miss("rank 0 has none")

    @check("It is early.")
    def early(self, trial):
        return None if trial.seen[0]["early"] else Miss("rank 0 was late", "late")

    @check("It is tame.")
    def tame(self, trial):
        return None if trial.seen[0]["tame"] else Miss("rank 0 was not")

    def recognise(self, trials):
        return "wild" if any(not trial.seen[0]["tame"] for trial in trials) else None


def trial(world_size=1, **lacking):
    return Trial(world_size, {"n": 5}, None, {0: {"form": True, "early": True, "tame": True, **lacking}})


def verdict(*trials, end=End.COMPLETE, printed=None, **fields):
    texts = tuple(printed or [""] * len(trials))
    return judge(Three(), Attempt(tuple(trials), texts, end, **fields), 7)


def states(given):
    return [result.state for result in given.checks]


PASSED, FAILED, OPEN = CheckState.PASSED, CheckState.FAILED, CheckState.OPEN


def test_an_answer_without_a_miss_passes_on_the_sizes_it_ran_on():
    found = verdict(trial(1), trial(1), trial(4))
    assert found.kind is VerdictKind.PASS
    assert found.headline == "All checks hold."
    assert (states(found), found.ran_on, found.seed) == ([PASSED] * 3, (1, 4), 7)


def test_a_gate_that_is_missed_leaves_the_checks_behind_it_open():
    found = verdict(trial(form=False, early=False, tame=False))
    assert states(found) == [FAILED, OPEN, OPEN]
    assert found.checks[0].observed == "rank 0 has none"


class OfItsKind(Three):
    kind = gate("It is of its kind.")


def test_a_trial_in_which_a_rank_has_no_observation_is_left_to_the_gate_of_kind():
    without = Trial(2, {"n": 5}, None, {1: {}}, {0: "str: 'x'"})
    attempted = Attempt((trial(), without), ("", ""), End.COMPLETE)
    found = judge(OfItsKind(), attempted, 7)
    assert states(found) == [PASSED, PASSED, PASSED, FAILED]
    assert found.checks[-1].observed == "rank 0 of 2 returned str: 'x'"
    assert found.misconceptions == ()


def test_a_miss_that_is_no_gate_leaves_nothing_open():
    assert states(verdict(trial(early=False))) == [PASSED, FAILED, PASSED]


@pytest.mark.parametrize(
    ("lacking", "headline"),
    [
        ({"early": False}, "1 of 3 checks does not hold."),
        ({"early": False, "tame": False}, "2 of 3 checks do not hold."),
    ],
)
def test_the_headline_counts_the_checks_that_do_not_hold(lacking, headline):
    found = verdict(trial(**lacking))
    assert (found.kind, found.headline) == (VerdictKind.WRONG, headline)


def test_what_was_printed_in_the_trial_of_the_first_miss_is_shown_without_addresses():
    found = verdict(trial(), trial(early=False), trial(tame=False), printed=["a", "b at 0x7f00aa", "c"])
    assert found.printed == "b"


def test_a_miss_that_names_its_misconception_is_not_asked_about_further():
    assert verdict(trial(early=False)).misconceptions == (LATE,)
    assert verdict(trial(early=False, tame=False)).misconceptions == (WILD, LATE), "the gravest first"


def test_observations_that_are_none_of_the_task_fail_the_check_and_end_nothing():
    found = verdict(Trial(2, {}, None, {0: "nonsense"}))
    assert states(found) == [FAILED, OPEN, OPEN]
    assert "on 2 ranks, what came back is not a valid observation" in found.checks[0].observed
    assert found.misconceptions == ()


@pytest.mark.parametrize(
    ("end", "fields", "words"),
    [
        (End.LOST, {}, "A rank ended after your answer had returned on 2 ranks, with n=5."),
        (End.OVER_LIMIT, {"reason": "too much"}, "Stopped on 2 ranks, with n=5: too much."),
        (End.UNREADABLE, {"reason": "torn"}, "sent back on 2 ranks, with n=5 cannot be read (torn)."),
        (End.FORGED, {}, "A rank replied twice on 2 ranks, with n=5"),
        (End.UNFINISHED, {"reason": "1"}, "rank 1 came to NotImplementedError or ... on 2 ranks, with n=5."),
    ],
)
def test_an_answer_that_came_to_no_end_says_why_and_where(end, fields, words):
    found = verdict(trial(early=False), end=end, world_size=2, case={"n": 5}, **fields)
    assert found.kind is VerdictKind.ERROR
    assert words in found.headline
    assert states(found) == [OPEN, FAILED, OPEN], "what was seen until then counts, what was not is open"


def test_what_is_not_there_yet_is_told_from_what_has_another_name():
    assert verdict(end=End.STUB).kind is VerdictKind.NOT_ATTEMPTED
    found = verdict(end=End.MISSING)
    assert found.headline == "The cell defines no function called shard_indices."
    assert found.details == ("It should begin with  def shard_indices(n):",)


def broke(one, **fields):
    return verdict(
        end=End.BROKE, outcome=one, **{"world_size": 4, "case": {"n": 5}, "reason": "10 s", **fields}
    )


def test_ranks_that_are_all_blocked_are_a_deadlock_and_the_diagnosis_its_headline():
    why = Diagnosis("rank_left", "Rank 0 has left.", evidence=("rank 1 waits",))
    found = broke(hung(1, 2, diagnosis=why))
    assert (found.kind, found.headline) == (VerdictKind.DEADLOCK, "Rank 0 has left.")
    assert found.details == ("rank 1 waits", "This was on 4 ranks, with n=5.")


def test_a_rank_whose_answer_has_returned_is_not_said_to_wait_in_a_call_of_the_grader_s():
    own = Frame("grid.py", 10, "trial", "dist.all_gather_object(everyones, members)")
    waiting = {
        0: Waiting(0, "barrier", "your answer, line 4", "dist.barrier()"),
        1: Waiting(1, "all_gather_object", "", "", stack=(own,)),
    }
    why = Diagnosis(
        "different_collectives",
        "The ranks wait for each other in different collectives: rank 0 in barrier(), rank 1 in all_gather_object().",
        evidence=(
            "rank 0  waiting in barrier() at your answer, line 4",
            "rank 1  waiting in all_gather_object()",
        ),
    )
    found = broke(dataclasses.replace(hung(0, 1, diagnosis=why), waiting=waiting))
    assert (
        found.headline
        == "Rank 0 waits in barrier() at your answer, line 4, and on rank 1 your answer has returned."
    )
    assert found.details[:2] == (why.evidence[0], "rank 1  your answer has returned")
    marked = dataclasses.replace(why, summary="Unlike groups.", evidence=(f"{why.evidence[1]}{ODD}",))
    found = broke(dataclasses.replace(hung(0, 1, diagnosis=marked), waiting=waiting))
    assert (found.headline, found.details[0]) == ("Unlike groups.", f"rank 1  your answer has returned{ODD}")


@pytest.mark.parametrize(
    ("state", "stdout", "headline"),
    [
        ("computing", "", "Stopped: rank 1 did not finish within 10 s."),
        ("computing", "x" * 50_001, "did not finish within 10 s, and printed without end."),
        ("stopped", "", "Rank 1 stopped and did not go on: the process was sent SIGSTOP."),
    ],
)
def test_ranks_that_are_late_are_no_deadlock(state, stdout, headline):
    waiting = {1: Waiting(1, None, "", "", state=state)}
    found = broke(outcome("hang", waiting=waiting, stdout={1: stdout}))
    assert found.kind is VerdictKind.ERROR
    assert found.headline.endswith(headline)


def test_one_late_rank_among_blocked_ones_makes_no_deadlock():
    one = hung(0)
    waiting = {**one.waiting, 1: Waiting(1, None, "", "", state="computing")}
    assert broke(outcome("hang", waiting=waiting)).kind is VerdictKind.ERROR


@pytest.mark.parametrize(
    ("code", "stderr", "headline", "detail"),
    [
        (3, "", "Rank 2 ended without finishing (exit code 3).", "os._exit, a crash or a kill"),
        (
            -signal.SIGKILL,
            "",
            "Rank 2 ended without finishing (killed by SIGKILL).",
            "becomes another program",
        ),
        (-6, "op.preamble.length <= op.nbytes. 128 vs 64", "gloo ended rank 2: collectives of", "same order"),
    ],
)
def test_a_death_is_told_with_what_is_behind_it(code, stderr, headline, detail):
    found = broke(died({2: code}, stderr={2: stderr}))
    assert found.headline.startswith(headline)
    assert detail in found.details[-1]


LIMIT = f"Rank 1 ran out of memory: an answer may use {confine.MEMORY_BYTES / 2**30:g} GB per rank."


@pytest.mark.parametrize(
    ("name", "message", "headline"),
    [
        ("KeyError", "no", "Rank 1 raised KeyError."),
        ("SystemExit", "0", "Rank 1 called sys.exit(): an answer returns its result."),
        ("MemoryError", "", LIMIT),
        ("RuntimeError", "can't allocate memory", LIMIT),
    ],
)
def test_an_error_is_named_by_what_it_means(name, message, headline):
    one = outcome("raises", errors={1: error(name, message)}, endings={1: Ending.RAISED})
    assert broke(one).headline == headline


def test_several_deaths_and_several_errors_are_each_named_once():
    assert broke(died({1: 3, 2: -11, 3: 3})).headline == (
        "Ranks 1-3 ended without finishing (exit code 3, killed by SIGSEGV)."
    )
    one = raised(0, 1, 2)
    assert broke(dataclasses.replace(one, errors={**one.errors, 1: error("KeyError")})).headline == (
        "Ranks 0-2 raised KeyError / ValueError."
    )


def test_ranks_that_gloo_has_ended_are_told_what_the_doctor_has_found():
    why = Diagnosis("different_sizes", "The sizes differ.")
    found = broke(died({2: -6}, stderr={1: "", 2: "data size doesn't match expected size"}, diagnosis=why))
    assert found.headline == "gloo ended rank 2: collectives of different sizes met each other."
    assert found.details[-1] == "The sizes differ."


def test_an_error_that_a_peer_of_the_raising_rank_got_is_not_shown():
    errors = {1: error(), 2: error("KeyError")}
    one = outcome("raises", errors=errors, endings={1: Ending.RAISED, 2: Ending.FREED})
    found = broke(one, case=None)
    assert found.headline == "Rank 1 raised ValueError."
    assert found.details[0].startswith("rank 1 |")
    assert found.details[-1] == "This was on 4 ranks, while the cell itself ran."
    assert not any("KeyError" in line for line in found.details)


def test_the_same_cases_can_be_had_again_after_an_error_and_after_a_miss():
    again = f"The same cases again after a change: %%task {TASK} --seed 7"
    assert again in closing_lines(broke(raised(1)))
    assert again in closing_lines(verdict(trial(early=False)))
    assert again in text_report(verdict(trial(early=False)))
    assert again not in closing_lines(verdict(end=End.STUB))


def test_source_that_can_be_run_has_no_verdict_yet():
    assert judge_source(Three(), "def shard_indices(n):\n    return '\\d'\n", 1, 7) is None


@pytest.mark.parametrize("source", ["", "# YOUR CODE HERE\n"])
def test_a_cell_without_code_is_not_attempted_and_all_its_checks_are_open(source):
    found = judge_source(Three(), source, 1, 7)
    assert (found.kind, found.seed, found.task) == (VerdictKind.NOT_ATTEMPTED, 7, TASK)
    assert found.headline.startswith(
        "Nothing to check yet: write your code where the cell says YOUR CODE HERE"
    )
    assert [(check.sentence, check.state) for check in found.checks] == [
        ("It has a form.", OPEN),
        ("It is early.", OPEN),
        ("It is tame.", OPEN),
    ]


def test_what_is_not_python_is_told_with_its_line_and_where_in_it():
    found = judge_source(Three(), "x = 1\ny = (2\n", 3, 7)
    assert (found.kind, found.headline, found.seed) == (
        VerdictKind.ERROR,
        "This is not Python yet (your answer, line 4).",
        7,
    )
    assert found.details == ("    y = (2", "        ^", "SyntaxError: '(' was never closed")
    assert states(found) == [OPEN] * 3


SCRIPT = find_task("first_ranks.train")
ALONE, APART, *_ = SCRIPT.misconceptions


def of_script(*checks, kind=VerdictKind.WRONG, named=(ALONE, APART)):
    return Verdict(SCRIPT.name, kind, f"{len(checks)} checks.", checks, misconceptions=named)


def test_of_a_script_one_fault_is_shown_and_the_checks_that_hold():
    whole = of_script(
        CheckResult("It ends.", FAILED, "rank 1 had not ended"),
        CheckResult("It shares.", PASSED),
        CheckResult("It averages.", FAILED, "rank 1 did not", APART),
        CheckResult("It saves.", FAILED, "rank 0 was alone", ALONE),
    )
    text = text_report(whole)
    assert "1 of 4 checks holds. Below is one that does not." in text
    assert [check.sentence for check in to_show(whole).checks] == ["It shares.", "It averages."]
    assert APART.sentence in text
    for hidden in ("It ends.", "It saves.", "rank 0 was alone", ALONE.sentence):
        assert hidden not in text
        assert hidden in repr(whole), "selfcheck and the class report see everything"


def test_the_last_fault_of_a_script_is_the_one_and_needs_no_name():
    whole = of_script(CheckResult("A.", PASSED), CheckResult("B.", FAILED, "rank 0"), named=(ALONE,))
    shown = to_show(whole)
    assert shown.headline == "1 of 2 checks holds. Below is the one that does not."
    assert (shown.checks, shown.misconceptions) == (whole.checks, (ALONE,))


def test_of_a_script_that_was_not_run_the_checks_are_counted_and_not_listed():
    found = judge_source(SCRIPT, "print(1", 1, 7)
    for text in (text_report(found), text_report(judge_source(SCRIPT, "# nothing", 1, 7))):
        counted = f"{len(SCRIPT.checks)} checks, on 1 and 2 ranks. Of those that do not hold, one is shown at a time."
        assert counted in text
        assert not any(check.sentence in text for check in SCRIPT.checks)


@pytest.mark.parametrize(
    ("suspect", "said", "shown"),
    [
        ("", "15 of 16 checks hold. What was seen:", False),
        ("dropout", "No check is about dropout. 15 of 16", False),
        ("set_epoch", "What is checked of set_epoch holds. 15 of 16", False),
        ("03", "What is checked of lesson 03 holds. 15 of 16", False),
        ("12", "15 of 16 checks hold. What was seen:", True),
        ("Momentum", "15 of 16 checks hold. What was seen:", True),
    ],
)
def test_a_fault_of_a_script_with_suspects_is_told_to_those_who_suspect_it(suspect, said, shown):
    task = find_task("checkpoints.script")
    forgotten = task.misconception("forgotten")
    checks = tuple(
        CheckResult(check.sentence, FAILED, "no momentum", forgotten)
        if "momentum" in check.suspects
        else CheckResult(check.sentence, PASSED)
        for check in task.checks
    )
    details = ("killed, 2 ranks: it ended, and a saved weight is 0.1 off from one process's",)
    whole = Verdict(task.name, VerdictKind.WRONG, "1 fails.", checks, details, (forgotten,))
    text = text_report(whole, suspect)
    assert said in text
    assert details[0] in text
    assert [hint in text for hint in (forgotten.sentence, forgotten.taught, "no momentum")] == [shown] * 3


@pytest.mark.parametrize("name", ["first_ranks.train", "capstone.train"])
def test_a_script_whose_code_is_as_it_was_handed_out_is_not_attempted(name):
    given = handed_out(find_task(name))
    for source in (given, f"# I have read it.\n\n{given}", given.replace("\n\n\n", "\n\n")):
        found = judge_source(find_task(name), source, 2, 7)
        assert found.kind is VerdictKind.NOT_ATTEMPTED
        assert "is as it was handed out" in found.headline
    assert judge_source(find_task(name), f"{given}\nprint()\n", 2, 7) is None
    assert judge_source(find_task(name), given, 2, 7, even_untouched=True) is None
