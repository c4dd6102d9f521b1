"""What single lessons' questions ask of a run, on plain data: for each answer, a run in which it alone comes true."""

import json
from itertools import pairwise, product

import pytest

from course_lib.questions import decider, read_questions
from tests.support.outcomes import Run


def sent(rule):
    kinds = ["train", "eval", "train, no_grad", "eval, inference_mode"]
    return {"sent": {3: {(before, now): rule(before, now) for before in kinds for now in kinds}}}


def on(kind):
    return "no_grad" not in kind and "inference" not in kind


def off(detached):
    return {"errors": {0: {"all batches, detached": [0, detached], "own batch": [0, 20.0]}}}


def ways(fails):
    """A wrapper that is right in all runs, and two DDP models that are not in some."""
    runs = product(("default", "find_unused_parameters", "static_graph"), (False, True), (False, True))
    ended = {True: "raises", False: "right"}
    return {"found": {0: {run: {"one wrapper": "right", "two DDP": ended[fails(*run)]} for run in runs}}}


PARTS = (
    "the schedule",
    "the optimizer's state",
    "the place in the data",
    "all random states but rank 0's",
    "nothing",
)

#: By question, for each answer a run in which it comes true; None for one that an expectation decides.
RUNS = {
    "06.two_backwards": [Run(22.0, 22.0), Run(21.0, 23.0), Run(12.0, 32.0), Run(11.0, 33.0)],
    "06.siamese": [Run([50, b], [50, b]) for b in (50, 100)] + [Run([50, 20], [50, 180])],
    "06.heads": [Run([22, 2, 20], [22, 2, 20]), Run([12, 2, 10], [32, 2, 30])],
    "08.last_step": [
        None,
        Run([2, None, 2], [2, None, 2]),
        Run([1, None, 1], [3, None, 3]),
        None,
    ],
    "08.no_rows": [
        None,
        Run([1.25, float("nan")], [1.25, float("nan")]),
        Run([1.25, 1.5], [1.25, 1.5]),
        Run([1.25, 0.75], [1.25, 0.75]),
    ],
    "07.around": [Run([2, 2], [2, 2]), Run([1, 1], [3, 3]), Run([1, 2], [3, 2])],
    "07.second_term": [Run([22, 2], [22, 2]), Run([12, 2], [32, 2]), Run([2, 2], [2, 2])],
    "07.wrapper": [
        Run(**ways(lambda mode, buffers, different: True)),
        Run(**ways(lambda mode, buffers, different: buffers)),
        Run(**ways(lambda mode, buffers, different: False)),
        Run(**ways(lambda mode, buffers, different: mode == "find_unused_parameters" and different)),
        Run(**ways(lambda mode, buffers, different: mode == "static_graph" and different)),
    ],
    "07.temperature": [Run([2, 2], [2, 2]), Run([2, 1], [2, 3]), Run([1, 1], [3, 3])],
    "09.shifted_weight": [
        Run(3.0, 3.0, 3.0, 3.0),
        Run(3.0, 3.1, 3.0, 3.0),
        Run(2.975, 3.075, 2.975, 2.975),
        Run(2.95, 3.05, 2.95, 2.95),
    ],
    "09.new_parameter": [Run(0.7, 0.7, 0.7, 0.7), Run(0.9, 0.8, 0.7, 0.4), Run(1.0, 1.0, 1.0, 1.0), None],
    "09.running_mean": [Run(mean={3: mean}) for mean in (1.4, 2.6, 0.05, 0.3)],
    "09.buffers_sent": [
        Run(**sent(lambda before, now: True)),
        Run(**sent(lambda before, now: now.startswith("train"))),
        Run(**sent(lambda before, now: on(now))),
        Run(**sent(lambda before, now: on(before))),
    ],
    "09.detached": [Run(**off(0.1)), Run(**off(10.0)), Run(**off(30.0))],
    "10.without_no_sync": [Run(*both) for both in ((8888, 8888), (9888, 9888), (4888, 4888), (4444, 13332))],
    "11.one_image_less": [Run(met={1: [[number] * 3 for number in range(last)]}) for last in (6, 2, 5)],
    "11.too_long_each_time": [
        Run({"steps": [list(range(first, last + 1)) for first, last in attempts]})
        for attempts in (
            [(0, 6), (7, 9)],
            [(0, 6)] * 3,
            [(0, 6), (4, 6), (4, 6)],
            [(0, 6), (6, 6), (6, 6)],
        )
    ],
    "11.zeros": [Run(5000.5, 5000.5, 5000.5), Run(3333.7, 3333.7, 3333.7), Run(5000.5, 0, 5000.5)],
    "12.first_step": [
        Run([f"rank 0: step {step}" for step in (*range(7), *after)])
        for after in (range(7, 10), range(6, 10), range(10), ())
    ],
    "12.survivors": [
        Run({"done": [0, 1, 2, 3, 4, 6]}),
        Run({"done": list(range(12))}),
        Run({"done": [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5]}),
    ],
    "14.first_load": [Run(1.0, 1.0), Run(1.0, 0.4), None],
    "14.overwritten": [
        Run([], ["10", "10", "20"]),
        Run([], ["10", "E", "20", "20", "20", "20"]),
        Run([], ["10", "E", "E", "20", "20", "20"]),
    ],
    "14.background": [Run(found={0: found}) for found in ([3], [5], [4, 5, 7])],
    "14.parts": [
        Run(first={0: {part: float(part not in {*zero, "nothing"}) for part in PARTS}})
        for zero in (PARTS[:2], PARTS[2:3], PARTS[3:4], ())
    ],
    "14.counters": [Run(log={0: [0.27, last]}) for last in (0.8, 1.2, 0.34)],
    "15.sixteen": [Run(seconds={0: {8: 0.55, 16: step}}) for step in (0.56, 0.71, 0.88, 1.1)],
    "15.ring_and_tree": [
        Run(sent={0: {"ring": ring, "tree": 1}, 1: {"ring": 1, "tree": 2}}) for ring in (2, 3, 1)
    ],
    "15.ninth": [Run(seconds={0: {8: 0.24, 9: step}}) for step in (0.25, 0.3, 0.59, 2.0)],
    "15.fp16": [
        Run(means={0: {2: 1e-7, 4: 1e-7}}),
        Run(means={0: {2: 1e-7, 4: 0.0}}),
        Run(means={0: {2: 0.0, 4: 0.0}}),
    ],
    "17.thousand_ranks": [Run(held={0: {8: 2.0, 1024: after}}) for after in (2.0, 0.02, 1.01, 4.0)],
    "17.zero": [
        Run(parts={0: [float(size) for size in sizes]})
        for sizes in ((4, 4, 8), (4, 4, 4), (4, 2, 4), (2, 2, 4))
    ],
    "17.zero_sends": [
        Run(calls={0: calls})
        for calls in (
            {"all-reduce": 1},
            {"reduce-scatter": 1},
            {"all-reduce": 1, "broadcast": 8},
            {"all-reduce": 1, "all-gather": 1},
        )
    ],
    "17.begin": [Run(rows={0: [*rows]}) for rows in ((1, 1, 1, 1), (2, 2, 2, 2), (1, 1, 3, 3))] + [None],
    "17.gathers": [Run(calls={0: {"all-reduce": 5}})]
    + [Run(calls={0: {"all-gather": count, "reduce-scatter": 5}}) for count in (1, 5, 10)],
    "17.thin": [Run(shape={0: shape}) for shape in ((1, 256), (1, 512), (0, 512))] + [None],
}


@pytest.mark.parametrize("name", RUNS)
def test_each_answer_comes_true_in_a_run_of_its_own(name):
    options = read_questions(name[:2])[name].options
    deciders = {option.says: decider(option.when) for option in options}
    runs = [run for run in RUNS[name] if run is not None]
    ask = {says: decides for says, decides in deciders.items() if callable(decides)}
    right = [[says for says, decides in ask.items() if decides(run)] for run in runs]
    assert [len(each) for each in right] == [1] * len(runs), right
    assert {each[0] for each in right} == set(ask), "every answer has its run"


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


@pytest.mark.parametrize(
    ("addresses", "right"), [("", "nobody's"), ("0", "rank 0's"), ("1", "rank 1's"), ("01", "both")]
)
def test_what_a_job_has_noted_decides(tmp_path, addresses, right):
    (tmp_path / "log").write_text(f"{json.dumps({'event': 'look', 'rank': 0, 'addresses': [*addresses]})}\n")
    values = {"folder": str(tmp_path)}
    options = read_questions("12")["12.address"].options
    (says,) = [option.says for option in options if decider(option.when, values)(Run())]
    assert says.startswith(right)


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
