"""Lesson 07: where a parameter lives, and one wrapper or two, on real ranks; and the controls that choose."""

from typing import Any

from course_lib.lessons.wrappers.lab import MODES, PLACES, ended, explore_places
from realranks.cells.run import run_quietly

#: What becomes of the gradient in the three modes, where it is not averaged in all of them.
ENDS = {
    "in the module, used in the loss only": ("mean", "raises", "mean"),
    "in a head outside": ("local",) * 3,
    "in a plain list of the module": ("local",) * 3,
    "added after wrapping": ("local",) * 3,
    "put in another's place after wrapping": ("local, then raises", "local", "local"),
    "frozen when wrapped, thawed later": ("local",) * 3,
}


def everywhere() -> tuple[Any, Any]:
    """All places through the wrapper, and those around it that are averaged through it."""
    from course_lib.lessons.wrappers import places

    around = {name: list(places.steps(name, "default", around=True)) for name in places.PLACES}
    return {(name, mode): list(places.steps(name, mode)) for name in PLACES for mode in MODES}, around


def test_a_parameter_is_averaged_in_some_places_and_nowhere_around_the_wrapper():
    outcome = run_quietly(everywhere, ranks=2)
    through, around = zip(*(outcome.values[rank] for rank in (0, 1)), strict=True)
    assert tuple(around[0]) == PLACES
    found = {
        name: tuple(ended([each[name, mode] for each in through])[1] for mode in MODES) for name in PLACES
    }
    assert found == {name: ENDS.get(name, ("mean",) * 3) for name in PLACES}
    unequal = [name for name in PLACES if not ended([each[name, "default"] for each in through])[0]]
    assert unequal == list(PLACES[5:9])
    assert {ended([each[name] for each in around])[1] for name in PLACES} == {"local"}


def without_ddp() -> str:
    """Three steps of A and B that nothing averages."""
    from course_lib.lessons.wrappers.places import three_steps

    return three_steps(lambda a, b, ddp: lambda x, y: a(b(x), b(y)), lambda net: net, False, True)


def test_steps_that_are_not_averaged_are_wrong():
    assert run_quietly(without_ddp, ranks=2).values == {0: "wrong", 1: "wrong"}


def test_a_choice_runs_on_two_real_ranks():
    explorer = explore_places()
    assert "in forward: equal; .grad averaged" in explorer.picture.value
    explorer.place.value = "put in another's place after wrapping"
    assert "each rank's own, then an error" in explorer.picture.value.replace("&#x27;", "'")
    assert "Expected to have finished reduction" in explorer.picture.value
    explorer.mode.value = "find_unused_parameters"
    assert "Expected" not in explorer.picture.value
    explorer.place.value = "in forward"
    explorer.around.value = True
    assert "rank 0: weight 1, .grad 1.0, 1.0, 1.0; rank 1: weight 1, .grad 3.0" in explorer.picture.value
