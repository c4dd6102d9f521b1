"""Lesson 11's recipes in a plain script: what its table says of each, at every place where an allocation can fail."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

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
#: The same, of those that leave a process group.
MOVES: list[tuple[str, dict[str, bool], list[str], str]] = [
    ("reset_in_place", {}, ["rebuild", "forward, last", "backward, middle"], NOTHING),
    ("reset_in_place", UNUSED, ["backward, middle"], NOTHING),
    ("rebuilding", {}, ["rebuild", "forward, last", "backward, middle"], STEP),
    ("reset_in_place", {}, ["optimizer"], LOUD),
    ("rebuilding", {}, ["optimizer"], LOUD),
]


@pytest.fixture(scope="module")
def gang() -> Iterator[Ranks]:
    mine = Ranks(3)
    yield mine
    mine.gang.stop()


@pytest.fixture
def own_gang() -> Iterator[Ranks]:
    """For recipes that make process groups: what goes wrong in one test is not the next one's."""
    mine = Ranks(3)
    yield mine
    mine.gang.stop()


def run(gang: Ranks, recipe: str, place: str, **options: bool | int) -> Outcome:
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


def each_place(table: list[tuple[str, dict[str, bool], list[str], str]]) -> pytest.MarkDecorator:
    """One test for each place of a row."""
    return pytest.mark.parametrize(
        ("recipe", "options", "place", "end"),
        [(recipe, options, place, end) for recipe, options, places, end in table for place in places],
        ids=lambda part: part if isinstance(part, str) else "-".join(part),
    )


@each_place(TABLE)
def test_a_recipe_survives_where_the_lesson_says_so(gang, recipe, options, place, end):
    out = run(gang, recipe, place, **options)
    assert what_became(out) == end
    if out.kind is Kind.OK:
        assert out["found"][1]["struck"] is (place != "nowhere")


@each_place(MOVES)
def test_a_recipe_moves_to_a_new_group_where_the_lesson_says_so(own_gang, recipe, options, place, end):
    out = run(own_gang, recipe, place, **options)
    assert what_became(out) == end
    if out.kind is Kind.OK:
        assert out["found"][1]["struck"]


@pytest.mark.parametrize(("recipe", "end"), [("reset_in_place", NOTHING), ("rebuilding", STEP)])
def test_a_rank_that_hears_of_the_failure_a_step_early_takes_that_step_and_catches_up(own_gang, recipe, end):
    """Rank 1 fails in step 2; for rank 2 the last all-reduce of step 1 breaks, which the others have."""
    out = run(own_gang, recipe, "forward, last", late=2)
    assert what_became(out) == end
    assert out["found"][1]["struck"]


@pytest.mark.parametrize(("recipe", "end"), [("reset_in_place", NOTHING), ("rebuilding", STEP)])
def test_a_second_training_on_the_same_ranks_reads_no_address_of_the_first(own_gang, recipe, end):
    assert [what_became(run(own_gang, recipe, "backward, middle")) for _ in range(3)] == [end] * 3


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


@pytest.mark.parametrize(
    ("recipe", "ranks", "end"),
    [("by_hand", 2, BATCH), ("by_hand", 4, BATCH), ("reset_in_place", 3, NOTHING), ("rebuilding", 3, STEP)],
)
def test_a_recipe_survives_as_a_plain_script(tmp_path, recipe, ranks, end):
    """Under torchrun, which hosts the store."""
    script = ROOT / "tests" / "support" / "recovery.py"
    command = ["--standalone", f"--nproc-per-node={ranks}", script, SOURCE, tmp_path, recipe]
    launched([*command, "backward, middle"])
    for rank in range(ranks):
        found = json.loads((tmp_path / f"rank{rank}.json").read_text())
        assert found == {"equal": True, "weights": end, "frozen": True, "struck": rank == 1}


def test_the_script_that_restarts_with_the_command_that_the_lesson_shows(tmp_path):
    """In the first attempt rank 1 fails in step 6; the second resumes after the checkpoint of step 3, and ends well."""
    text = SOURCE.read_text(encoding="utf-8")
    launch = re.search(
        r"^# +(?P<variable>\w+)=(?P<value>\d) torchrun (?P<options>.+) scratch/resume\.py", text, re.MULTILINE
    )
    cell = re.search(r"^# %%writefile scratch/resume\.py\n(.+?)^# %% \[", text, re.MULTILINE | re.DOTALL)
    assert launch is not None
    assert cell is not None
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch" / "resume.py").write_text(cell[1])
    variable = {launch["variable"]: launch["value"]}
    said = launched([*launch["options"].split(), "scratch/resume.py", "0"], cwd=tmp_path, env=variable)
    steps = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert [line["step"] for line in steps if line["attempt"] == "0"] == [*range(7)]
    assert [line["step"] for line in steps if line["attempt"] == "1"] == [*range(4, 10)]


def launched(
    arguments: Sequence[str | Path], cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> str:
    """What torchrun's workers print; it has to end well."""
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **(env or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
