"""The check of a task by its catalogue of answers: right ones pass, wrong ones show their own misconception.

Every misconception has a wrong answer that shows it, and every check that is no gate one that breaks it (`answers.py`).
Each function returns what is wrong, one line each; nothing returned means all is well. `problems_with_task` runs
nothing, the others run answers on real ranks.
"""

import re
from collections.abc import Iterator, Sequence

from course_lib.grading.grader import grade, seed_of
from course_lib.grading.judge import NO_OBSERVATION
from course_lib.grading.known_answers import Specimen
from course_lib.grading.verdict import CheckState, Verdict, VerdictKind
from course_lib.tasks import Task, find_task

MIN_RIGHT, MIN_WRONG, MIN_HINTS = 2, 3, 2
#: Seeds that are tried in the same ranks. The part of them that is enough where nothing is rounded.
_AT_ONCE, _EXACT = 10, 0.15
#: What was seen, and what it should be: `is [0.1, …] on rank 0, the mean [0.1, …]`, `returned 3; it is 6`.
_VALUE = r"(-?\d[\d.,]*(?:e-?\d+)?|\[[^\]]*\])"
_BETWEEN = r"(?:; it is|; it should be|; without kills it is|,? the mean(?: is)?| instead of|; one process alone has)"
#: A place, or a name, that is missing in a sentence: `waits in backward() at  for rank 0`.
_HOLE = re.compile(r"\b(?:at|by|for|in|of|on|to) (?:[ ,.;:]|$)")
_COMPARED = re.compile(rf"(?:is|got|returned|was|said) {_VALUE}[^;]*?{_BETWEEN} {_VALUE}")


def problems_with_task(task: Task, specimens: Sequence[Specimen]) -> list[str]:
    """Return what is missing or inconsistent in a task and its part of the catalogue. Runs nothing."""
    mine = [specimen for specimen in specimens if specimen.task == task.name]
    return [f"{task.name}: {problem}" for problem in _problems(task, mine)]


def _problems(task: Task, mine: Sequence[Specimen]) -> Iterator[str]:
    right = [specimen for specimen in mine if specimen.right]
    wrong = [specimen for specimen in mine if not specimen.right]
    if len(right) < MIN_RIGHT:
        yield f"{len(right)} right answers; there must be {MIN_RIGHT} or more, written differently"
    if len(wrong) < MIN_WRONG:
        yield f"{len(wrong)} wrong answers; there must be {MIN_WRONG} or more"
    yield from _unshown(task, wrong)
    yield from _missing_sentences(task)
    if not task.signature.startswith(f"{task.function}("):
        yield f"the signature must begin with {task.function}("
    if not task.world_sizes:
        yield "it runs on no ranks"


def _unshown(task: Task, wrong: Sequence[Specimen]) -> Iterator[str]:
    """Yield misconceptions and checks for which there is no wrong answer."""
    known = {item.id for item in task.misconceptions}
    if len(known) < len(task.misconceptions):
        yield "two misconceptions have the same id"
    shown = {id_ for specimen in wrong if not specimen.unseen for id_ in specimen.misconceptions}
    for id_ in sorted(known - shown):
        yield f"no wrong answer shows the misconception {id_}"
    for specimen in wrong:
        if not specimen.declared or not known.issuperset(specimen.misconceptions):
            yield f"{specimen.name} must name its misconception, one or several of {sorted(known)}, or none"
    broken = {sentence: specimen.name for specimen in wrong for sentence in specimen.breaks}
    for sentence in broken.keys() - {check.sentence for check in task.checks}:
        yield f"{broken[sentence]} breaks a check that there is not: {sentence!r}"
    for check in task.checks:
        if not check.gate and check.sentence not in broken:
            yield f"no wrong answer says that it breaks this check: {check.sentence!r}"


def _missing_sentences(task: Task) -> Iterator[str]:
    """Yield the sentences for a learner that are missing."""
    for item in task.misconceptions:
        if not (item.sentence.strip() and item.taught.strip()):
            yield f"the misconception {item.id} says nothing, or not where it is taught"
    if len(task.hints) < MIN_HINTS or not all(hint.strip() for hint in task.hints):
        yield f"{len(task.hints)} hints; there must be {MIN_HINTS} or more, none empty"
    if not task.checks:
        yield "it checks nothing"
    for check in task.checks:
        if not check.sentence.endswith("."):
            yield f"a check's sentence ends without a full stop: {check.sentence!r}"


def problems_with_answer(specimen: Specimen, seeds: int = 1) -> list[str]:
    """Grade one answer of the catalogue: is it what its name says? Right ones on cases of so many seeds."""
    task = find_task(specimen.task)
    if specimen.right and seeds > 1:
        return [f"{specimen.name} {problem}" for problem in _failing_seeds(task, specimen.source, seeds)]
    verdict = grade(task, specimen.source, even_untouched=True)
    unlike = _describe_mismatch(specimen, task, verdict)
    problems = [unlike] if unlike else []
    states = {check.sentence: check.state for check in verdict.checks}
    problems += [
        f"breaks nothing of {sentence!r}: that check holds"
        for sentence in specimen.breaks
        if states.get(sentence) is CheckState.PASSED
    ]
    problems += [f"shows {what}:\n{verdict!r}" for what in empty_words(verdict)]
    return [f"{specimen.name} {problem}" for problem in problems]


def _describe_mismatch(specimen: Specimen, task: Task, verdict: Verdict) -> str:
    """Describe how the verdict differs from what the answer's name promises; '' where it does not."""
    if specimen.right:
        if not verdict.passed:
            return f"is right, but:\n{verdict!r}"
        if verdict.ran_on != task.world_sizes:
            return f"ran on {verdict.ran_on} ranks, not on {task.world_sizes}"
        return ""
    if verdict.passed:
        return "is wrong, but passes"
    named = [item.id for item in verdict.misconceptions]
    if specimen.unseen and set(named) < set(specimen.misconceptions):
        return ""
    if sorted(named) != sorted(specimen.misconceptions):
        own = ", ".join(specimen.misconceptions)
        return f"shows {named}, not its own misconception {own}:\n{verdict!r}"
    return "" if "rank" in repr(verdict) else f"fails without a word on which rank:\n{verdict!r}"


def empty_words(verdict: Verdict) -> Iterator[str]:
    """Yield the sentences of a verdict that tell a learner nothing."""
    if hole := _HOLE.search(verdict.headline):
        yield f"a sentence with a hole ({hole.group()!r})"
    for check in verdict.checks:
        if NO_OBSERVATION in check.observed:
            yield "the grader's own trouble as an observation"
        for shown, wanted in _COMPARED.findall(check.observed):
            if shown == wanted:
                yield f"two equal numbers as what is wrong ({shown})"


def problems_with_stubs(task: Task, cell: str | None) -> list[str]:
    """Grade what a learner has before the first line: the exercise's cell, and stubs of every form."""
    forms = ["raise NotImplementedError", "return ...", "answer = ...\n    return answer"]
    stubs = [f"def {task.signature}:\n    # YOUR CODE HERE\n    {form}\n" for form in forms]
    if task.script:
        return _problems_with_broken_script(task, cell)
    problems = []
    if cell is None:
        problems.append(f"{task.name}: its lesson's exercises.py has no cell for it")
    for stub in [*([cell] if cell is not None else []), *stubs]:
        verdict = grade(task, stub)
        if verdict.kind is not VerdictKind.NOT_ATTEMPTED:
            problems.append(f"{task.name}: this stub is not 'not attempted':\n{stub}\n{verdict!r}")
    return problems


def _problems_with_broken_script(task: Task, script: str | None) -> list[str]:
    """Check that a script that is handed out to be repaired has all its faults, and that an empty file has none."""
    problems = []
    if grade(task, "# nothing yet").kind is not VerdictKind.NOT_ATTEMPTED:
        problems.append(f"{task.name}: a file of comments is not 'not attempted'")
    if script is None:
        return [*problems, f"{task.name}: there is no exercises/{task.script}"]
    if grade(task, script).kind is not VerdictKind.NOT_ATTEMPTED:
        problems.append(f"{task.name}: what is handed out is not 'not attempted'")
    verdict = grade(task, script, even_untouched=True)
    hidden = {item.id for item in task.misconceptions} - {item.id for item in verdict.misconceptions}
    hidden -= {*task.not_handed_out}
    if hidden:
        problems.append(f"{task.name}: what is handed out does not show {sorted(hidden)}:\n{verdict!r}")
    return problems


def problems_with_solution(task: Task, cell: str | None, seeds: int = 1) -> list[str]:
    """Grade the course's own solution, on cases of so many seeds."""
    refused = _failing_seeds(task, cell, seeds) if cell is not None else []
    return [f"{task.name}: the course's own solution {problem}" for problem in refused]


def seeds_for(task: Task, wanted: int) -> int:
    """Return how many of the wanted seeds are worth their time: all where rounding may decide, else a part."""
    if task.script:
        return 1  # its cases hardly differ, and each takes seconds
    return wanted if task.tolerance is not None else min(wanted, max(3, round(wanted * _EXACT)))


def _failing_seeds(task: Task, source: str, seeds: int) -> list[str]:
    """Return the seeds with which a right answer does not pass, and the reasons."""
    found = []
    first, wanted = seed_of(task.name, source), seeds_for(task, seeds)
    for start in range(first, first + wanted, _AT_ONCE):
        some = range(start, min(start + _AT_ONCE, first + wanted))
        verdict = grade(task, source, seed=start, seeds=len(some))
        if verdict.passed and verdict.ran_on != task.world_sizes:
            return [f"ran on {verdict.ran_on} ranks, not on {task.world_sizes}"]
        if verdict.passed:
            continue
        # A failure among many only does not concern learners: so many calls run into the limits of a rank.
        alone = {seed: grade(task, source, seed=seed) for seed in some}
        bad = {seed: verdict for seed, verdict in alone.items() if not verdict.passed}
        if bad:
            seeds_in_words = ", ".join(map(str, bad))
            found.append(f"is right, but with seed {seeds_in_words}:\n{next(iter(bad.values()))!r}")
    return found
