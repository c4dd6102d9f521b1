"""The recipes of lessons 06 to 10 under torchrun, on the model of the question (tests/support/asked.py)."""

import json
import os
import subprocess
import sys

import pytest

from tests.support.asked import RECIPES
from tests.support.ranks_and_kernels import ROOT, Ranks

#: How a training ends.
RIGHT = "as by hand"
OFF = "off"
RAISES = "ready only once"

BOTH = ("default", "unused")
ALL = (*BOTH, "view", "static")
#: Recipe, modes, its end.
TABLE = [
    ("added", ALL, RIGHT),
    ("by_turns", BOTH, RIGHT),
    ("one_after_the_other", ("default",), OFF),
    ("a_copy", ALL, RIGHT),
    ("eval_and_train", BOTH, OFF),
    ("train_and_evaluate", BOTH, RIGHT),
    ("gan_step", BOTH, RIGHT),
    ("doors", BOTH, RIGHT),
    ("pairs", ALL, RIGHT),
    ("loss_inside", ALL, RIGHT),
    ("beside_used", ALL, RIGHT),
    ("beside_unused", ("unused",), RAISES),
    ("teacher", BOTH, RIGHT),
    ("teacher_without_first_update", BOTH, RIGHT),
    ("touch", ("default",), RIGHT),
    ("train_on", ("default", "unused", "view"), RIGHT),
    ("train_on", ("static",), "expect_autograd_hooks_"),
    ("accumulate", BOTH, RIGHT),
]
CASES = [(name, mode, end) for name, modes, end in TABLE for mode in modes]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What came of all of them, by rank."""
    folder = tmp_path_factory.mktemp("asked")
    table = json.dumps([case[:2] for case in CASES])
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    script = ["-m", "tests.support.asked", folder, table]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*launch, *script], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in (0, 1)]


def test_every_recipe_is_in_the_table():
    assert {name for name, _, _ in CASES} == {*RECIPES}


@pytest.mark.parametrize(("name", "mode", "end"), CASES, ids=lambda part: part.replace(" ", "-"))
def test_a_recipe_trains_the_model_of_the_question(found, name, mode, end):
    for rank in found:
        got = rank[f"{name}, {mode}"]
        if end not in (RIGHT, OFF):
            assert end in got["raises"]
            continue
        assert "raises" not in got
        assert got["moved"]
        assert got["frozen"]
        assert (got["off"] < 1e-3) is (end == RIGHT)
        assert got["unused"] is (name != "touch")
        if end == RIGHT:
            assert got["equal"]
            assert got["modes"]
            assert got["statistics"]


def test_an_evaluation_by_eval_and_train_leaves_the_weights_equal_and_no_model_as_it_was(found):
    for number, rank in enumerate(found):
        got = rank["eval_and_train, default"]
        assert got["equal"]
        assert got["modes"] is (number == 1)
    assert not found[0]["eval_and_train, default"]["statistics"]


def test_the_first_update_of_an_averaged_model_copies(found):
    for rank in found:
        for mode in BOTH:
            assert rank[f"teacher, {mode}"]["value"] < 1e-5
            assert rank[f"teacher_without_first_update, {mode}"]["value"] > 0.01


def test_the_check_of_lesson_08_sees_a_gradient_that_did_not_come_and_no_other_mistake(found):
    for rank in found:
        assert {differs for differs, _ in rank["check"].values()} == {True}
        assert [name for name, (_, raised) in rank["check"].items() if raised] == ["left_out"]


def test_touching_what_is_behind_a_reentrant_checkpoint_raises(found):
    for rank in found:
        assert "ready only once" in rank["reentrant"]["raises"]


def test_parameters_of_another_type_are_read_as_other_numbers_and_nothing_is_raised():
    """Lesson 07: DDP's constructor compares how many there are and their shapes; the lesson's own check sees more."""
    mine = Ranks(2)
    out = mine(
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "import torch, torch.distributed as dist\n"
        "from tests.support.lesson_code import definitions\n"
        "named = definitions('course_lib/lessons/wrappers/lesson.py', ['same_everywhere'])\n"
        "net = torch.nn.Linear(4, 1).to((torch.float32, torch.float64)[dist.get_rank()])\n"
        "found = named['same_everywhere'](net)\n"
        "torch.nn.parallel.DistributedDataParallel(net)\n"
        "found, net.weight.flatten().tolist()"
    )
    mine.gang.stop()
    assert out.ok
    assert [found for found, _ in out.values.values()] == [False, False]
    assert out.values[0][1] != pytest.approx(out.values[1][1])
