"""Lesson 12: what its pictures say, on logs that a job could have written; tests/integration has real ones."""

import json

import pytest

from course_lib.lessons.elastic.lab import (
    ONE_GPU,
    best_interval,
    explore_intervals,
    loss,
    one_failure,
    replayed,
    steps_again,
)


@pytest.fixture
def folder(tmp_path):
    """A job on two machines with a kill before step 7, in a second in which one step takes a tenth."""
    notes = []

    def note(event, machine, time, **what):
        notes.append({"event": event, "machine": machine, "rank": machine, "time": time, **what})

    for machine in (0, 1):
        note("ready", machine, 0, step=0)
        for step in range(7):
            note("step", machine, step / 10, step=step)
    note("kill", 1, 0.8, step=7)
    for machine, noticed in ((0, 0.95), (1, 0.85)):
        note("meet", machine, noticed)
        note("met", machine, 2)
        note("ready", machine, 2.5, step=5)
        for step in range(5, 12):
            note("step", machine, 2.1 + step / 10, step=step)
    notes.sort(key=lambda one: one["time"])
    (tmp_path / "log").write_text("".join(f"{json.dumps(one)}\n" for one in notes))
    return str(tmp_path)


def test_one_failure_is_drawn_as_stairs_that_say_how_long_nobody_trains(folder):
    assert steps_again(folder) == [2]
    drawing = one_failure(folder)
    assert drawing.note == "nobody trains for 1.7 s, 1.1 s of them in the rendezvous"
    stairs = [shape for shape in drawing.shapes if getattr(shape, "hint", "")]
    assert [stair.hint for stair in stairs] == ["0.4 s", "0.1 s", "1.1 s", "0.5 s", "0.2 s", "0.3 s"]
    assert [stair.x for stair in stairs] == sorted(stair.x for stair in stairs)


def test_the_best_interval_loses_least_and_a_replay_agrees():
    save, restart, between = 60, 600, ONE_GPU / 16_384
    best = best_interval(save, between)
    for all_lost in (
        lambda one: sum(loss(one, save, restart, between)),
        lambda one: replayed(one, save, restart, between),
    ):
        assert all_lost(best) < min(all_lost(best / 2), all_lost(2 * best))
    assert replayed(best, save, restart, between) == pytest.approx(
        sum(loss(best, save, restart, between)), rel=0.1
    )


@pytest.mark.parametrize(("save", "effective"), [(60, "86.4%"), (15, "90.4%")])
def test_the_figures_of_the_lesson_are_those_of_the_explorer(save, effective):
    explorer = explore_intervals()
    explorer.save.value = save
    assert f"effective: {effective}" in explorer.picture.value
    explorer.gpus.value = 8
    assert "8 GPUs" in explorer.picture.value
