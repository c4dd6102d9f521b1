"""What single lessons' questions ask of a run, on plain data: for each answer, a run in which it alone comes true."""

import json
from itertools import pairwise, product

import pytest

from course_lib.questions import all_questions, decider, read_questions
from tests.support.outcomes import Run


def sent(rule):
    kinds = ["train", "eval", "train, no_grad", "eval, inference_mode"]
    return {"sent": {3: {(before, now): rule(before, now) for before in kinds for now in kinds}}}


def on(kind):
    return "no_grad" not in kind and "inference" not in kind


def ways(fails):
    """A wrapper that is right in all runs, and two DDP models that are not in some."""
    runs = product(("default", "find_unused_parameters", "static_graph"), (False, True), (False, True))
    ended = {True: "raises", False: "right"}
    return {"found": {0: {run: {"one_wrapper": "right", "two_ddp": ended[fails(*run)]} for run in runs}}}


PARTS = (
    "the schedule",
    "the optimizer's state",
    "the place in the data",
    "all random states but rank 0's",
    "nothing",
)


def parts_lost(*lost):
    return {"first": {0: {part: float(part not in {*lost, "nothing"}) for part in PARTS}}}


def examples(name):
    """Return, by the words of each answer that a predicate decides, the run in which it comes true."""
    made = {"Run": Run, "PARTS": PARTS, "ways": ways, "sent": sent, "on": on, "parts_lost": parts_lost}
    options = read_questions(name[:2])[name].options
    decided = [option for option in options if callable(decider(option.when))]
    return {option.says: (option.when, eval(f"Run({option.example})", made)) for option in decided}


@pytest.mark.parametrize(
    "name", [each.name for each in all_questions() if any(option.example for option in each.options)]
)
def test_each_answer_comes_true_in_its_example_and_in_no_other(name):
    runs = examples(name)
    for says, (_, run) in runs.items():
        assert [other for other, (when, _) in runs.items() if decider(when)(run)] == [says]


@pytest.mark.parametrize(("seconds", "right"), [(0.1, (True, False)), (0.5, (False, True))])
def test_how_long_a_cell_took_decides(seconds, right):
    run = Run()
    run.seconds = seconds
    at_once, waits = "debugging.ends_within(0, 0.3)", "debugging.ends_within(0.3, 1.2)"
    assert tuple(decider(when)(run) for when in (at_once, waits)) == right


@pytest.mark.parametrize(("accuracy", "right"), [(0.73, 0), (0.76, 0), (0.68, 1), (0.5, 2), (0.1, 3)])
def test_what_four_ranks_read_is_compared_with_one(accuracy, right):
    run = Run()
    run.stdout = {0: f"accuracy 0.10\naccuracy {accuracy}\n"}
    whens = [f"capstone.loses({low}, {high}, {{alone}})" for low, high in pairwise((-1, 0.05, 0.1, 0.3, 2))]
    assert [decider(when, {"alone": 0.75})(run) for when in whens].index(True) == right


def test_steps_of_a_job_are_counted(tmp_path):
    notes = [{"event": "kill", "rank": 1, "step": 13}]
    notes += [{"event": "ready", "rank": 0, "step": step} for step in (0, 10)]
    (tmp_path / "log").write_text("".join(f"{json.dumps(note)}\n" for note in notes))
    values = {"folder": str(tmp_path)}
    for name, right in {"12.restarts": "3: ", "12.joined": "two: "}.items():
        options = read_questions("12")[name].options
        (says,) = [option.says for option in options if decider(option.when, values)(Run())]
        assert says.startswith(right)


@pytest.mark.parametrize(
    ("signals", "left", "right"), [((), 0, "SIGKILL"), (("SIGTERM",) * 2, 0, "SIGTERM"), ((), 2, "nothing")]
)
def test_what_workers_have_got_decides(tmp_path, signals, left, right):
    notes = [{"event": "got", "rank": rank, "signal": name} for rank, name in enumerate(signals)]
    (tmp_path / "log").write_text("".join(f"{json.dumps(note)}\n" for note in notes))
    options = read_questions("12")["12.asked"].options
    run = Run({"left_behind": left, "codes": [1]})
    (says,) = [option.says for option in options if decider(option.when, {"folder": str(tmp_path)})(run)]
    assert says.startswith(right)
