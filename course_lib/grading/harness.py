"""The part of the grader that runs inside a rank, around the answer.

Loads the answer once, calls it once a trial, and hands the observation back as JSON text: the grader never unpickles
what an answer's process sent. It decides nothing; forging an observation takes knowing the right one.

A rank answers each job once. A reply that an answer sends in the harness' name while it runs is therefore worth
nothing: the harness' own comes after it, the grader sees two of them (`Link.unasked`), and believes neither. A last
job, `sign_off`, makes sure that the last one has come. This does not stop an answer that replaces functions of this
module: all live in one process, and a reader of this file can do it. Guarding from that takes a judge that calls
the answer from elsewhere.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Mapping

from course_lib.grading.confine import confine, forget_forks
from course_lib.tasks.catalogue import find_task
from course_lib.tasks.precision import agree, in_float64
from course_lib.tasks.task import Task, WrongKind
from realranks.outcome.syntax import CELL_PREFIX, compile_cell, remember_cell

#: How the answer's lines are called in tracebacks and verdicts.
LABEL = "your answer"

# Held here, so that an answer that replaces them does not replace ours.
_dumps, _loads = json.dumps, json.loads


class _NotAttempted(BaseException):
    """The answer is still a stub."""


def load(source: str, first_line: int, folder: str) -> str:
    """Run the answer's source as the `__main__` of this rank."""
    confine(folder)
    return _load(source, first_line)


def load_known(source: str, folder: str) -> str:
    """Run the source of an answer of the course's own, in the place of the one before it."""
    os.chdir(folder)
    return _load(source, 1)


def _load(source: str, first_line: int) -> str:
    compiled = compile_cell(source, LABEL, first_line)
    remember_cell(source, LABEL, first_line)
    space = sys.modules["__main__"].__dict__
    space["hash"] = functools.partial(_salted_hash, os.environ["RANK"])
    exec(compiled.statements, space)
    if compiled.value is not None:
        eval(compiled.value, space)
    return _dumps({"loaded": True})


def _salted_hash(rank: str, value: object) -> int:
    """Hash as ranks started by torchrun do: texts and bytes differ. Forked ranks share one salt."""
    if isinstance(value, str | bytes):
        return hash((rank, value))
    if isinstance(value, tuple | frozenset):
        return hash(type(value)(_salted_hash(rank, item) for item in value))
    return hash(value)


def keep_script(source: str, first_line: int, folder: str, task_name: str) -> str:
    """Put an answer that is a whole script into the working folder; calling the answer gives its path."""
    confine(folder)
    task = find_task(task_name)
    path = os.path.join(folder, os.path.basename(task.script))
    with open(path, "w", encoding="utf-8") as file:
        # The learner's own line numbers.
        file.write("\n" * (first_line - 1) + source)
    sys.modules["__main__"].__dict__[task.function] = lambda: path
    return _dumps({"loaded": True})


def run_trial(task_name: str, case: str) -> str:
    """Call the answer once, and say `{"seen": observation}`, `{"wrong_kind": text}` or that there is none yet."""
    task = find_task(task_name)
    function = sys.modules["__main__"].__dict__.get(task.function)
    if not callable(function):
        return _dumps({"missing": True, "stub": function is ...})
    forget_forks()
    try:
        return _dumps({"seen": task.trial(_noticing_stubs(function), _loads(case))})
    except _NotAttempted:
        return _dumps({"stub": True})
    except WrongKind as wrong:
        if not any(check.of_kind for check in task.checks):
            raise  # no check would ever say so
        return _dumps({"wrong_kind": str(wrong)})


def sign_off() -> str:
    """End the jobs of a gang: every reply to an earlier job arrives before this one's."""
    return _dumps({})


def _noticing_stubs(function: Callable[..., object]) -> Callable[..., object]:
    def call(*arguments: object) -> object:
        try:
            result = function(*arguments)
        except NotImplementedError as error:
            if _raised_by_answer(error):
                raise _NotAttempted from None
            raise
        if result is ...:
            raise _NotAttempted
        return result

    return call


def _raised_by_answer(error: BaseException) -> bool:
    """Return whether the learner's own line raised it; torch has NotImplementedErrors of its own."""
    tb = error.__traceback__
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    return tb is not None and tb.tb_frame.f_code.co_filename.startswith(CELL_PREFIX)


def run_oracle(task_name: str, cases: str) -> str:
    """Return the oracle's answer to each `[world_size, case]`, in order, and whether it is well-conditioned; as JSON.

    Runs before the answer is loaded.
    """
    import random

    import numpy as np
    import torch

    task = find_task(task_name)
    states = random.getstate(), np.random.get_state(), torch.random.get_rng_state()
    try:
        answers = []
        for world_size, case in _loads(cases):
            oracle = computed(task.oracle(case, world_size))
            answers.append([oracle, _is_well_conditioned(task, oracle, case, world_size)])
        return _dumps(answers)
    finally:
        # The answer finds the generators as they are on every other rank.
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.random.set_rng_state(states[2])


def _is_well_conditioned(task: Task, oracle: object, case: Mapping[str, object], world_size: int) -> bool:
    if task.tolerance is None:
        return True
    with in_float64():
        precise = task.oracle(case, world_size)
        return agree(task.reference(oracle), computed(task.reference(precise)), task.tolerance)


def computed(oracle: object) -> object:
    """Return the oracle's answer, with the functions in it called."""
    if isinstance(oracle, Mapping):
        return {name: computed(value) for name, value in oracle.items()}
    return oracle() if callable(oracle) else oracle


def forget() -> None:
    """Do nothing; the rank then keeps no earlier value that an answer could look at."""
