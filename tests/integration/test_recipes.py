"""Lesson 11's recipes under torchrun, on the model of its question: what its table says of each, wherever it fails."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from realranks.outcome.outcome import Kind, Outcome
from tests.support.ranks_and_kernels import ROOT, Ranks

SOURCE = ROOT / "course_lib/lessons/out_of_memory/lesson.py"
RECOVERY = ROOT / "tests" / "support" / "recovery.py"

BODY = ["forward, first", "forward, last"]
BACKWARD = ["backward, first", "backward, middle", "backward, last"]
BUFFERS = ["first buffers", "later buffers"]
WRAPPER = [*BUFFERS, "sink"]

NOTHING = "as if nothing had failed"
BATCH = "without that batch"
STEP = "without that step"
OTHER = "of no such process"
#: Ends of a run that are no weights.
LOUD, STUCK = "all ranks end", "stuck"

#: Of the bench's model and of DDP. By default the model is the question's: heads that may be unused, a BatchNorm.
NO_NORM, NO_HEADS, VIEWS = {"norm": False}, {"heads": False}, {"gradient_as_bucket_view": True}
PLAIN = {**NO_NORM, **NO_HEADS}
Row = tuple[str, dict[str, bool], list[str], str]
#: Recipe, options, places; what becomes of it.
SURVIVES: list[Row] = [
    ("by_hand", {}, ["nowhere", *WRAPPER, "rebuild", "between"], NOTHING),
    ("by_hand", {}, [*BODY, *BACKWARD], BATCH),
    ("detection_loop", {}, ["nowhere"], NOTHING),
    ("detection_loop", {}, [*BODY, *BACKWARD], BATCH),
    ("detection_loop", {"ordinary": True}, ["backward, middle", "forward, last"], BATCH),
    ("in_pieces", NO_NORM, ["forward, last", "backward, middle"], NOTHING),
    ("in_pieces", {}, ["backward, middle"], OTHER),
    ("in_pieces", {**NO_NORM, "nothing_fits": True}, ["forward, first"], BATCH),
    ("agree", {}, ["nowhere"], NOTHING),
    ("agree", {}, [*BODY, "sink"], STEP),
    ("zeros", {}, ["nowhere"], NOTHING),
    ("zeros", NO_HEADS, BODY, BATCH),
    ("zeros", {}, BODY, OTHER),
    ("zeros", PLAIN, ["rebuild"], BATCH),
    ("catch_up", PLAIN, [*BODY, *BACKWARD], NOTHING),
    ("catch_up", {**PLAIN, **VIEWS}, ["backward, last"], NOTHING),
    ("catch_up", NO_HEADS, ["forward, last", "backward, middle"], OTHER),
    ("reset_in_place", {}, ["later buffers", "forward, last", "backward, middle"], NOTHING),
    ("reset_in_place", NO_HEADS, ["rebuild"], NOTHING),
]
#: Struck by the allocator itself, anywhere in forward and backward (twelve times each; those that wait: twice).
ANYWHERE = {
    "by_hand": (BATCH, 12),
    "detection_loop": (BATCH, 12),
    "reset_in_place": (NOTHING, 2),
}
#: Rank 1 fails in step 2; for rank 2 the last all-reduce of step 1 breaks, which the others have.
LATE: list[Row] = [
    ("reset_in_place", {"late": 2}, ["forward, last"], NOTHING),
]
ENDS: list[Row] = [
    ("agree", {}, BUFFERS, STUCK),
    ("agree", NO_HEADS, ["rebuild"], STUCK),
    ("agree", {}, ["backward, middle", "optimizer"], LOUD),
    ("zeros", {}, BUFFERS, STUCK),
    ("zeros", {}, ["backward, middle"], LOUD),
    ("by_hand", {}, ["optimizer", "optimizer, later"], LOUD),
    ("catch_up", NO_HEADS, ["rebuild", "later buffers"], STUCK),
    ("catch_up", NO_HEADS, ["optimizer"], LOUD),
    ("reset_in_place", {}, ["optimizer"], LOUD),
]


def each_place(rows: list[Row]) -> list[tuple[str, dict[str, bool], str, str]]:
    """One for each place of a row."""
    return [(recipe, options, place, end) for recipe, options, places, end in rows for place in places]


def named(part: object) -> str:
    return part if isinstance(part, str) else "-".join(part) if isinstance(part, dict) else str(part)


#: What `tests/support/recovery.py` is to do on three ranks, one after the other.
TRAININGS = [
    *(
        ["trained_with", [recipe, place], options]
        for recipe, options, place, _ in each_place(SURVIVES + LATE)
    ),
    *(
        ["struck_anywhere", [recipe, seed], {}]
        for recipe, (_, times) in ANYWHERE.items()
        for seed in range(times)
    ),
]


class Launch:
    """What the ranks of one torchrun find in a list of trainings, done one after the other."""

    def __init__(self, folder: Path, trainings: list[Any], ranks: int) -> None:
        self.folder, self.trainings, self.ranks = folder, trainings, ranks
        self.allocator = folder / "allocator.so"
        compiler = shutil.which("gcc") or shutil.which("cc")
        if compiler:
            source = ROOT / "tests" / "support" / "allocator.c"
            subprocess.run([compiler, "-shared", "-fPIC", "-o", self.allocator, source, "-ldl"], check=True)
        todo = [json.dumps(one) for one in trainings if compiler or one[0] != "struck_anywhere"]
        script = ["--standalone", f"--nproc-per-node={ranks}", RECOVERY, folder, *todo]
        launched(script, env={"LD_PRELOAD": str(self.allocator)} if compiler else {}, seconds=170)

    def what_became(self, *training: Any, struck: bool = True) -> str:
        """The weights of which process all ranks have; one of them was struck, and nothing frozen has moved."""
        if training[0] == "struck_anywhere" and not self.allocator.exists():
            pytest.skip("there is no C compiler for the allocator that fails")
        number = self.trainings.index([*training])
        found = [
            json.loads((self.folder / f"{number}-{rank}.json").read_text()) for rank in range(self.ranks)
        ]
        assert all(rank["equal"] and rank["frozen"] for rank in found)
        assert any(rank["struck"] for rank in found) is struck
        return str(found[0]["weights"])


#: Recipes that share a launch, so that none takes long.
TOGETHER = (
    ["by_hand", "detection_loop", "in_pieces"],
    ["agree", "zeros", "catch_up"],
    ["reset_in_place"],
)


@pytest.fixture(scope="module")
def three_ranks(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Launch]:
    """The launch in which this recipe trains."""

    @cache
    def launch(number: int) -> Launch:
        trainings = [one for one in TRAININGS if one[1][0] in TOGETHER[number]]
        return Launch(tmp_path_factory.mktemp("three"), trainings, 3)

    return lambda recipe: launch(next(n for n, recipes in enumerate(TOGETHER) if recipe in recipes))


@pytest.fixture(scope="module")
def gang() -> Iterator[Ranks]:
    mine = Ranks(3)
    yield mine
    mine.gang.stop()


@pytest.mark.parametrize(("recipe", "options", "place", "end"), each_place(SURVIVES + LATE), ids=named)
def test_a_recipe_survives_where_the_lesson_says_so(three_ranks, recipe, options, place, end):
    """Where a recipe has no allocation of that kind, nothing can fail; nothing must happen either."""
    struck = (
        end != NOTHING
        or place in (*BODY, *BACKWARD)
        or recipe not in ("by_hand", "detection_loop", "agree", "zeros")
    )
    assert three_ranks(recipe).what_became("trained_with", [recipe, place], options, struck=struck) == end


@pytest.mark.parametrize(
    ("recipe", "seed", "end"),
    [(recipe, seed, end) for recipe, (end, times) in ANYWHERE.items() for seed in range(times)],
)
def test_a_recipe_survives_an_allocator_that_refuses_anywhere_before_the_step(three_ranks, recipe, seed, end):
    assert three_ranks(recipe).what_became("struck_anywhere", [recipe, seed], {}) == end


@pytest.mark.parametrize("ranks", [2, 4])
def test_by_hand_survives_on_other_numbers_of_ranks(tmp_path, ranks):
    trainings = [["struck_anywhere", [recipe, 0], {}] for recipe in ("by_hand", "detection_loop")]
    launch = Launch(tmp_path, trainings, ranks)
    assert [launch.what_became(*training) for training in trainings] == [BATCH] * 2


@pytest.mark.parametrize(("recipe", "options", "place", "end"), each_place(ENDS), ids=named)
def test_what_a_recipe_does_not_survive_is_what_the_lesson_says(gang, recipe, options, place, end):
    out = run(gang, recipe, place, **options)
    assert (LOUD if out.kind is Kind.RAISES else STUCK) == end
    if end == LOUD:
        assert "can't allocate memory" in out.errors[1].message
    else:
        assert out.kind is Kind.HANG


def test_catching_up_ends_in_an_abort_where_ddp_looks_for_unused_parameters():
    """The good ranks reduce a map of the parameters that they have used; what the failed rank sends meets it."""
    mine = Ranks(3)
    out = run(mine, "catch_up", "backward, middle", heads=False, find_unused_parameters=True)
    mine.gang.stop()
    assert out.kind is Kind.DIED
    assert "gloo" in out.diagnosis.summary


def run(gang: Ranks, recipe: str, place: str, **options: bool) -> Outcome:
    """Train with a recipe on ranks of a notebook."""
    return gang(
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.support.recovery import trained_with\n"
        f"found = trained_with({recipe!r}, {place!r}, **{options!r})"
    )


def test_the_script_that_restarts_with_the_command_that_the_lesson_shows(tmp_path):
    """In the first attempt rank 1 fails in step 6; the second resumes after the checkpoint of step 3, and ends well."""
    text = SOURCE.read_text(encoding="utf-8")
    launch = re.search(
        r"^# +(?P<variable>\w+)=(?P<value>\d) torchrun (?P<options>.+) scratch/resume\.py", text, re.MULTILINE
    )
    cell = re.search(r"^# %%writefile scratch/resume\.py\n(.+?)^# %%$", text, re.MULTILINE | re.DOTALL)
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
    arguments: Sequence[str | Path],
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    seconds: float = 120,
) -> str:
    """What torchrun's workers print; it has to end well."""
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **(env or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
