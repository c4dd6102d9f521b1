"""Where a rank is with respect to the loop another one is in: told from the source and the lines of a call."""

import pytest

from realranks.doctor.loops import Loop, condition_at, seen_from, step_condition, under_or_in
from realranks.outcome.places import Spot

SOURCE = """\
def train(model):
    for batch in batches:
        loss(model, batch)
        if display.shown:
            log()

def epoch(model):
    train(model)
    validate()
    if saver.active:
        save()

for number in range(3):
    epoch(model)
    report()
summary()
for number in range(3):
    summary()
"""
STEP = [14, 8, 3]


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "train.py"
    file.write_text(SOURCE)
    return lambda *lines: [Spot(str(file), line, "train") for line in lines]


@pytest.mark.parametrize(
    ("other", "place"),
    [
        ([14, 8, 5], Loop.SAME),
        ([14, 9], Loop.OUTER),
        ([14, 11], Loop.OUTER),
        ([15], Loop.OUTER),
        ([16], Loop.LEFT),
        ([18], Loop.LEFT),
        ([14, 8, 3], None),
    ],
)
def test_a_place_is_seen_from_inside_a_loop(path, other, place):
    assert seen_from(path(*STEP), path(*other)) is place


def test_where_no_loop_is_around_a_line_nothing_is_said(path):
    assert seen_from(path(16), path(15)) is None


@pytest.mark.parametrize(
    ("other", "condition"),
    [([14, 8, 5], "display.shown"), ([14, 11], "saver.active"), ([14, 9], None), ([16], None)],
)
def test_the_condition_that_guards_only_one_of_two_places_is_found(path, other, condition):
    assert condition_at(path(*STEP), path(*other)) == condition


def test_a_file_that_cannot_be_read_has_no_loops():
    assert seen_from([Spot("/nowhere.py", 3, "f")], [Spot("/nowhere.py", 9, "f")]) is None


@pytest.mark.parametrize(
    ("inside", "other", "said"),
    [
        ([15], STEP, " (in `for batch in batches`)"),
        (STEP, [16], " (behind `for number in range(3)`)"),
        ([18], [16], " (before `for number in range(3)`)"),
    ],
)
def test_what_stands_above_a_loop_is_not_said_to_stand_behind_it(path, inside, other, said):
    assert under_or_in(path(*inside), path(*other)) == said


def test_that_a_file_is_run_as_a_script_leaves_no_line_out_of_a_step(tmp_path):
    file = tmp_path / "train.py"
    file.write_text('if __name__ == "__main__":\n    loss.backward()\nif finite:\n    loss.backward()\n')
    lines = [[Spot(str(file), line, "<module>")] for line in (2, 4)]
    assert [step_condition(line) for line in lines] == [None, "finite"]
