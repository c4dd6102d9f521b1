"""Judging: from observations to a verdict. Pure: only data comes in, and nothing of the answer runs here."""

from __future__ import annotations

import re
import signal
import traceback
import warnings
from collections.abc import Sequence

from course_lib.grading import confine
from course_lib.grading.attempt import Attempt, End
from course_lib.grading.cells import has_code, is_untouched
from course_lib.grading.harness import LABEL
from course_lib.grading.verdict import CheckResult, CheckState, Verdict, VerdictKind
from course_lib.tasks.task import Check, Miss, Task, Trial
from course_lib.tasks.words import Misconception
from realranks.doctor.words import ODD, ODDS, call_of, capital, verb
from realranks.outcome.fold import fold, rank_list, table
from realranks.outcome.outcome import Ending, Kind, Outcome, RankState, exit_text
from realranks.outcome.report import steady_message_in
from realranks.outcome.syntax import compile_cell, remember_cell

#: What gloo says before it ends a rank that receives more bytes than it expects.
_GLOO_MISMATCH = re.compile(r"op\.preamble\.length <= op\.nbytes|doesn't match expected size")
#: What is said where an answer's observations do not even have the form that a check trusts; a fault of the task.
NO_OBSERVATION = "is not a valid observation"
#: What code raises that trusts the form of such observations.
MALFORMED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_TODO = "Nothing to check yet: write your code where the cell says YOUR CODE HERE, and run it again."


def judge_source(
    task: Task, source: str, first_line: int, seed: int, *, even_untouched: bool = False
) -> Verdict | None:
    """Return the verdict on source that need not run: empty, not Python, or as it was handed out; else None."""
    if not has_code(source):
        return _judge_unrun(task, VerdictKind.NOT_ATTEMPTED, _TODO, seed)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile_cell(source, LABEL, first_line)
        remember_cell(source, LABEL, first_line)  # the doctor reads the lines of a deadlock
    except SyntaxError as error:
        lines = "".join(traceback.format_exception_only(error)).rstrip("\n").splitlines()
        lines = [line for line in lines if not line.lstrip().startswith("File ")]
        place = f"{LABEL}, line {error.lineno}" if error.lineno else LABEL
        return _judge_unrun(task, VerdictKind.ERROR, f"This is not Python yet ({place}).", seed, tuple(lines))
    except (ValueError, RecursionError, MemoryError) as error:
        return _judge_unrun(task, VerdictKind.ERROR, f"Python cannot read this cell: {error}.", seed)
    if not even_untouched and is_untouched(task, source):
        untouched = (
            f"Nothing to check yet: {task.script} is as it was handed out. Change it, save it (Ctrl+S in its tab), "
            "and check it again."
        )
        return _judge_unrun(task, VerdictKind.NOT_ATTEMPTED, untouched, seed)
    return None


def judge(task: Task, attempt: Attempt, seed: int) -> Verdict:
    """Return the verdict on an answer that was run."""
    match attempt.end:
        case End.STUB:
            return _judge_unrun(task, VerdictKind.NOT_ATTEMPTED, _TODO, seed)
        case End.MISSING:
            headline = f"The cell defines no function called {task.function}."
            return _judge_unrun(
                task, VerdictKind.ERROR, headline, seed, (f"It should begin with  def {task.signature}:",)
            )
        case End.BROKE if attempt.outcome is not None:
            return _broken_verdict(task, attempt, attempt.outcome, seed)
        case End.LOST:
            headline = f"A rank ended after your answer had returned{_where(task, attempt)}."
            return _stopped_verdict(task, attempt, headline, seed)
        case End.OVER_LIMIT:
            return _stopped_verdict(task, attempt, f"Stopped{_where(task, attempt)}: {attempt.reason}.", seed)
        case End.UNREADABLE:
            headline = f"What the ranks sent back{_where(task, attempt)} cannot be read ({attempt.reason})."
            return _stopped_verdict(task, attempt, headline, seed)
        case End.FORGED:
            where = _where(task, attempt)
            headline = f"A rank replied twice{where}: your answer writes to the grader's own connection."
            return _stopped_verdict(task, attempt, headline, seed)
        case End.UNFINISHED:
            headline = f"Not finished: rank {attempt.reason} came to NotImplementedError or ...{_where(task, attempt)}."
            return _stopped_verdict(task, attempt, headline, seed)
    return _complete_verdict(task, attempt, seed)


def _complete_verdict(task: Task, attempt: Attempt, seed: int) -> Verdict:
    results, decisive = _run_checks(task, attempt, finished=True)
    failed = [result for result in results if result.state is CheckState.FAILED]
    ran_on = tuple(dict.fromkeys(trial.world_size for trial in attempt.trials))
    if not failed:
        return Verdict(task.name, VerdictKind.PASS, "All checks hold.", results, ran_on=ran_on, seed=seed)
    unnamed = any(result.misconception is None for result in failed)
    named = _collect(task, results, _recognise_safely(task, attempt) if unnamed else ())
    count = f"{len(failed)} of {len(results)} checks do not hold"
    return Verdict(
        task.name,
        VerdictKind.WRONG,
        f"{count}." if len(failed) > 1 else f"{count}.".replace("checks do", "checks does"),
        results,
        details=_safe_symptoms(task, attempt),
        misconceptions=named,
        printed=_normalize(attempt.printed[decisive]) if decisive is not None else "",
        ran_on=ran_on,
        seed=seed,
    )


def _run_checks(task: Task, attempt: Attempt, finished: bool) -> tuple[tuple[CheckResult, ...], int | None]:
    """Make every check on every trial; also return the number of the trial with the first miss."""
    results: list[CheckResult] = []
    decisive: int | None = None
    gate_closed = False
    for check in task.checks:
        if gate_closed:
            results.append(CheckResult(check.sentence, CheckState.OPEN))
            continue
        for number, trial in enumerate(attempt.trials):
            if trial.wrong_kinds and not check.of_kind:
                continue  # its gate speaks for this trial
            miss = miss_of(task, check, trial)
            if miss is not None:
                named = task.misconception(miss.misconception) if miss.misconception else None
                results.append(CheckResult(check.sentence, CheckState.FAILED, miss.observed, named))
                decisive = number if decisive is None else decisive
                gate_closed = check.gate
                break
        else:
            results.append(CheckResult(check.sentence, CheckState.PASSED if finished else CheckState.OPEN))
    return tuple(results), decisive


def miss_of(task: Task, check: Check, trial: Trial) -> Miss | None:
    """Return what a check misses in a trial; None where the trial meets it."""
    try:
        return check.judge(task, trial)
    except MALFORMED:
        # Checks trust the form that `trial` gives its observations: this is not one of them.
        return Miss(f"on {trial.world_size} ranks, what came back {NO_OBSERVATION}")


def _collect(task: Task, results: Sequence[CheckResult], ids: Sequence[str]) -> tuple[Misconception, ...]:
    """Return what the checks have named and what was recognised besides, each once, the gravest first."""
    found = {result.misconception for result in results if result.misconception}
    found |= {task.misconception(id_) for id_ in ids}
    return tuple(item for item in task.misconceptions if item in found)


def _recognise_safely(task: Task, attempt: Attempt) -> tuple[str, ...]:
    trials = [trial for trial in attempt.trials if not trial.wrong_kinds]
    try:
        if attempt.end is End.BROKE and attempt.outcome is not None:
            found = task.recognise_ending(attempt.outcome, trials)
        else:
            found = task.recognise(trials)
    except MALFORMED:
        found = None
    return (found,) if isinstance(found, str) else found or attempt.like


def _safe_symptoms(task: Task, attempt: Attempt) -> tuple[str, ...]:
    try:
        return task.symptoms(attempt.trials)
    except MALFORMED:
        return ()


def _broken_verdict(task: Task, attempt: Attempt, outcome: Outcome, seed: int) -> Verdict:
    ran = _describe_run(_where(task, attempt))
    evidence = outcome.diagnosis.evidence if outcome.diagnosis else ()
    if outcome.kind is Kind.HANG and _all_blocked(outcome):
        summary, evidence = _describe_deadlock(outcome)
        return _stopped_verdict(task, attempt, summary, seed, (*evidence, ran), VerdictKind.DEADLOCK)
    if outcome.kind is Kind.HANG and all(
        each.state == RankState.STOPPED for each in outcome.waiting.values()
    ):
        who = rank_list(outcome.waiting).capitalize()
        headline = f"{who} stopped and did not go on: the process was sent SIGSTOP."
        return _stopped_verdict(task, attempt, headline, seed, (ran,))
    if outcome.kind is Kind.HANG:
        printed = any(len(text) > 50_000 for text in outcome.stdout.values())
        endless = ", and printed without end" if printed else ""
        headline = f"Stopped: {rank_list(outcome.waiting)} did not finish within {attempt.reason}{endless}."
        return _stopped_verdict(task, attempt, headline, seed, (*evidence, ran))
    if outcome.kind is Kind.DIED:
        headline, why = _describe_death(outcome)
        return _stopped_verdict(task, attempt, headline, seed, (*evidence, ran, why))
    raised = {rank: error for rank, error in outcome.errors.items() if outcome.endings[rank] is Ending.RAISED}
    tracebacks = table(fold({rank: steady_message_in(error.traceback) for rank, error in raised.items()}))
    waits = [line for line in evidence if "waiting in" in line]
    headline = _raise_headline(task, outcome)
    return _stopped_verdict(task, attempt, headline, seed, (*tracebacks.splitlines(), *waits, ran))


def _all_blocked(outcome: Outcome) -> bool:
    return bool(outcome.waiting) and all(each.state == RankState.BLOCKED for each in outcome.waiting.values())


def _describe_deadlock(outcome: Outcome) -> tuple[str, tuple[str, ...]]:
    """Describe who waits for whom, leaving out ranks whose answer has returned: they wait in a grader's call."""
    if outcome.diagnosis is None:
        return "The ranks wait for each other.", ()
    summary, evidence = outcome.diagnosis.summary, outcome.diagnosis.evidence
    inside = {rank: w for rank, w in outcome.waiting.items() if w.where}
    returned = {rank: call_of(w) for rank, w in outcome.waiting.items() if not w.where and w.stack}
    if inside and any(call in summary for call in returned.values()):
        first = next(iter(inside.values()))
        summary = (
            f"{capital(rank_list(inside))} {verb(inside, 'waits', 'wait')} in {call_of(first)} at {first.where}, and "
            f"on {rank_list(returned)} your answer has returned."
        )
    for call in set(returned.values()):
        own = re.compile(rf"waiting in {re.escape(call)}(?={ODD}|{ODDS}|$)")
        evidence = tuple(own.sub("your answer has returned", line) for line in evidence)
    return summary, evidence


def _describe_death(outcome: Outcome) -> tuple[str, str]:
    """Describe who ended and how, and the cause: not every death is the answer's own doing."""
    ways = {exit_text(code) for code in outcome.exits.values()}
    headline = f"{rank_list(outcome.exits).capitalize()} ended without finishing ({', '.join(sorted(ways))})."
    if any(_GLOO_MISMATCH.search(outcome.stderr.get(rank, "")) for rank in outcome.exits):
        headline = f"gloo ended {rank_list(outcome.exits)}: collectives of different sizes met each other."
        why = (
            "gloo ends a rank that receives more than it expects. Every rank must call the same collectives, in the "
            "same order, with equal shapes and types."
        )
        return headline, outcome.diagnosis.summary if outcome.diagnosis is not None else why
    if -signal.SIGKILL in outcome.exits.values():
        why = (
            "An answer returns or raises. A rank that is killed, or that closes all its files or becomes another "
            "program (os.exec...) and is then ended by the grader, has nothing to show."
        )
        return headline, why
    return (
        headline,
        "An answer returns or raises; os._exit, a crash or a kill ends the rank with nothing to show.",
    )


def _raise_headline(task: Task, outcome: Outcome) -> str:
    raised = {rank: error for rank, error in outcome.errors.items() if outcome.endings[rank] is Ending.RAISED}
    who = rank_list(raised).capitalize()
    names = sorted({error.type for error in raised.values()})
    if names == ["SystemExit"]:
        return f"{who} called sys.exit(): an answer returns its result."
    for error in raised.values():
        if error.type == "MemoryError" or "allocate memory" in error.message:
            limit = f"ran out of memory: an answer may use {confine.MEMORY_BYTES >> 30} GB per rank."
            return f"{who} {task.explain_error(error) or limit}"
    if "PermissionError" in names:
        return (
            f"{who} raised PermissionError: an answer may read what Python reads, write into the working folder, and "
            "signal its own processes."
        )
    no_network = any(_NO_NETWORK.search(error.message) for error in raised.values())
    reason = ": an answer may reach its own ranks, and no other network" if no_network else ""
    return f"{who} raised {' / '.join(names)}{reason}."


def _where(task: Task, attempt: Attempt) -> str:
    ranks = f"{attempt.world_size} rank{'s' if attempt.world_size != 1 else ''}"
    if attempt.case is None:
        return f" on {ranks}, while the cell itself ran"
    described = task.describe(attempt.case)
    return f" on {ranks}, with {described}" if described else f" on {ranks}"


def _describe_run(where: str) -> str:
    return f"This was{where}."


_NO_NETWORK = re.compile("Connection refused|Network is unreachable|name resolution")
_ADDRESS = re.compile(r" at 0x[0-9a-f]{4,}")
_FOLDER = re.compile(r"[^\s'\"]*ddp-course-answer-[^\s/'\"]+(/\d+)?")


def _normalize(text: str) -> str:
    """Remove what differs from run to run: addresses of objects, the name of the working folder."""
    return _FOLDER.sub("<working folder>", _ADDRESS.sub("", text))


def _stopped_verdict(
    task: Task,
    attempt: Attempt,
    headline: str,
    seed: int,
    details: tuple[str, ...] = (),
    kind: VerdictKind = VerdictKind.ERROR,
) -> Verdict:
    """Return the verdict on an answer that did not end; what it showed until then still counts as observed."""
    results, _ = _run_checks(task, attempt, finished=False)
    named = _collect(task, results, _recognise_safely(task, attempt))
    lines = tuple(_normalize(line) for line in details)
    return Verdict(
        task.name, kind, headline, results, lines, named, _normalize(attempt.last_words), seed=seed
    )


def _judge_unrun(
    task: Task, kind: VerdictKind, headline: str, seed: int, details: tuple[str, ...] = ()
) -> Verdict:
    checks = tuple(CheckResult(check.sentence, CheckState.OPEN) for check in task.checks)
    return Verdict(task.name, kind, headline, checks, details, seed=seed)
