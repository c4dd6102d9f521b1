"""Lesson 11's recipes in a plain script: what its table says of each, at every place where an allocation can fail."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from course_lib.outcome.outcome import Kind, Outcome
from tests.support.ranks_and_kernels import ROOT, Ranks

SOURCE = ROOT / "notebooks" / "sources" / "11_out_of_memory.py"

BODY = ["forward, first", "forward, last"]
BACKWARD = ["backward, first", "backward, middle", "backward, last"]
BUFFERS = ["first buffers", "later buffers"]
WRAPPER = [*BUFFERS, "rebuild"]

NOTHING = "as if nothing had failed"
BATCH = "without that batch"
STEP = "without that step"
OTHER = "of no such process"
#: Ends of a run that are no weights.
LOUD, STUCK = "all ranks end", "stuck"

UNUSED, NO_NORM, VIEWS = {"find_unused_parameters": True}, {"norm": False}, {"gradient_as_bucket_view": True}
#: Recipe, options, places; what becomes of it. `optimizer` is Adam's state, in its first step.
TABLE: list[tuple[str, dict[str, bool], list[str], str]] = [
    ("agree", {}, BODY, STEP),
    ("agree", {}, WRAPPER, STUCK),
    ("agree", NO_NORM, ["rebuild"], STUCK),
    ("agree", {}, ["backward, middle", "optimizer"], LOUD),
    ("zeros", {}, ["nowhere"], NOTHING),
    ("zeros", {}, BODY, BATCH),
    ("zeros", {}, WRAPPER, STUCK),
    ("zeros", NO_NORM, ["rebuild"], BATCH),
    ("zeros", {}, ["backward, middle"], LOUD),
    ("by_hand", {}, ["nowhere"], NOTHING),
    ("by_hand", {}, [*BODY, *BACKWARD], BATCH),
    ("by_hand", UNUSED, [*WRAPPER, "forward, last", "backward, middle"], BATCH),
    ("by_hand", VIEWS, ["backward, last"], BATCH),
    ("by_hand", {}, ["optimizer"], LOUD),
    ("catch_up", NO_NORM, [*BODY, *BACKWARD], NOTHING),
    ("catch_up", {}, ["forward, last", "backward, middle"], OTHER),
    ("catch_up", {}, ["rebuild", "later buffers"], STUCK),
    ("catch_up", {}, ["optimizer"], LOUD),
    ("in_pieces", NO_NORM, ["forward, last", "backward, middle"], NOTHING),
    ("in_pieces", {}, ["backward, middle"], OTHER),
]


@pytest.fixture(scope="module")
def gang() -> Iterator[Ranks]:
    mine = Ranks(3)
    yield mine
    mine.gang.stop()


def run(gang: Ranks, recipe: str, place: str, **options: bool) -> Outcome:
    """Train with a recipe; `found` is what each rank says in the end."""
    return gang(
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.support.recovery import trained_with\n"
        f"found = trained_with({str(SOURCE)!r}, {recipe!r}, {place!r}, **{options!r})"
    )


def what_became(out: Outcome) -> str:
    """The weights of which process, or how else it ended."""
    if out.kind is Kind.OK:
        found = [out["found"][rank] for rank in range(out.world_size)]
        assert all(rank["equal"] and rank["frozen"] for rank in found)
        return str(found[0]["weights"])
    if out.kind is Kind.HANG:
        return STUCK
    assert out.kind is Kind.RAISES
    assert "can't allocate memory" in out.errors[1].message
    return LOUD


@pytest.mark.parametrize(
    ("recipe", "options", "place", "end"),
    [(recipe, options, place, end) for recipe, options, places, end in TABLE for place in places],
    ids=lambda part: part if isinstance(part, str) else "-".join(part),
)
def test_a_recipe_survives_where_the_lesson_says_so(gang, recipe, options, place, end):
    out = run(gang, recipe, place, **options)
    assert what_became(out) == end
    if out.kind is Kind.OK:
        assert out["found"][1]["struck"] is (place != "nowhere")


@pytest.mark.parametrize("place", [*WRAPPER, "between"])
def test_by_hand_needs_no_memory_beside_forward_backward_and_optimizer(gang, place):
    """So there is nothing in it that could fail between its `try` and its all-reduce."""
    out = run(gang, "by_hand", place)
    assert what_became(out) == NOTHING
    assert not out["found"][1]["struck"]


def test_catching_up_ends_in_an_abort_where_ddp_looks_for_unused_parameters():
    """The good ranks reduce a map of the parameters that they have used; what the failed rank sends meets it."""
    mine = Ranks(3)
    out = run(mine, "catch_up", "backward, middle", find_unused_parameters=True)
    mine.gang.stop()
    assert out.kind is Kind.DIED
    assert "gloo" in out.diagnosis.summary


def test_under_torchrun_with_the_command_that_the_lesson_shows(tmp_path):
    """By hand, rank 1 survives. Then, in the first attempt, it fails in step 7, and all are started again."""
    shown = r"^# +(?P<variable>\w+)=(?P<value>\d) torchrun (?P<options>.+) train\.py$"
    launch = re.search(shown, SOURCE.read_text(encoding="utf-8"), re.MULTILINE)
    assert launch is not None
    script = ROOT / "tests" / "support" / "recovery.py"
    arguments = [script, SOURCE, tmp_path, "by_hand", "backward, middle"]
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *launch["options"].split(), *arguments],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            launch["variable"]: launch["value"],
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        found = json.loads((tmp_path / f"rank{rank}.json").read_text())
        assert found == {"equal": True, "weights": BATCH, "frozen": True, "struck": rank == 1}
    log = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    steps = {attempt: [int(step) for number, step, _ in log if number == attempt] for attempt in ("1", "2")}
    assert steps == {"1": [0, 1, 2, 3, 4, 5, 6], "2": [4, 5, 6, 7, 8, 9]}
