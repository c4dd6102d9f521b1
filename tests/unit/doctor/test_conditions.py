"""Conditions on the rank: which lines stand under one, read from source that is made up."""

import dataclasses
import linecache
import sysconfig

import pytest

from realranks.doctor.conditions import condition_of, rank_condition
from realranks.outcome.outcome import Collective, Waiting
from realranks.outcome.places import Frame, Spot
from tests.support.outcomes import hung

SOURCE = """\
dist.barrier()
if rank == 0:
    save()
    if epoch > 2:
        dist.barrier()
elif world_size > 2:
    dist.all_reduce(x)
else:
    dist.broadcast(x, 0)
while not trainer.is_main_process:
    if rank < 3:
        dist.barrier()
    step()
if self.RANK_ZERO: log()
if names["rank"]:
    dist.barrier()

def log(value):
    if not dist.is_initialized() or rank < 0:
        return value
    if rank != 0:
        return None
    return dist.all_reduce(value)
"""


@pytest.fixture
def script():
    name = "/scripts/conditions.py"
    linecache.cache[name] = (len(SOURCE), None, SOURCE.splitlines(keepends=True), name)
    yield name
    del linecache.cache[name]


@pytest.mark.parametrize(
    ("line", "condition"),
    [
        (1, None),
        (2, None),
        (3, "rank == 0"),
        (5, "rank == 0"),
        (7, "not (rank == 0)"),
        (9, "not (rank == 0)"),
        (12, "rank < 3"),
        (13, "not trainer.is_main_process"),
        (14, "self.RANK_ZERO"),
        (16, None),
        (21, None),
        (23, "if rank != 0: return"),
        (99, None),
    ],
)
def test_the_innermost_condition_on_the_rank_is_told_as_it_is_written(script, line, condition):
    assert rank_condition(script, line) == condition


@pytest.mark.parametrize("name", ["rank", "local_rank", "is_main", "is_master", "ctx.main_process"])
def test_what_counts_as_a_rank(name):
    file = f"/scripts/{name}.py"
    linecache.cache[file] = (1, None, [f"if {name}:\n", "    x()\n"], file)
    assert rank_condition(file, 2) == name


def test_what_is_not_python_has_no_conditions(script):
    linecache.cache["/scripts/broken.py"] = (1, None, ["if rank ==\n"], "/scripts/broken.py")
    assert rank_condition("/scripts/broken.py", 1) is None
    assert rank_condition("/scripts/that is not there.py", 1) is None


def frame(script, line):
    return Frame(script, line, "train", "code")


def came(script, *lines):
    """A barrier to which a rank came through these lines, innermost first."""
    frames = tuple(Spot(script, line, "train") for line in lines)
    return Collective("0", 1, "barrier", (), (), False, origin=frame(script, lines[0]), frames=frames)


def test_the_way_of_a_collective_is_asked_before_the_stack_innermost_first(script):
    torchs = Frame(f"{sysconfig.get_path('purelib')}/torch/x.py", 3, "barrier", "code")
    stack = (frame(script, 7), frame(script, 12), frame(script, 1), torchs)
    alone, waiting = hung(0, 2), Waiting(0, "barrier", "", "", stack=stack)
    assert condition_of(alone, (0,), came(script, 3), waiting) == "rank == 0"
    assert condition_of(alone, (0,), came(script, 3), None) == "rank == 0"
    assert condition_of(alone, (0,), came(script, 1, 3), None) == "rank == 0"
    assert condition_of(alone, (0,), came(script, 1), waiting) == "rank < 3"
    assert condition_of(alone, (0,), None, waiting) == "rank < 3"
    assert condition_of(alone, (0,), came(script, 1), None) is None
    assert condition_of(alone, (0,), None, None) is None
    assert condition_of(alone, (0,), Collective("0", 1, "barrier", (), (), False), None) is None


@pytest.mark.parametrize("line", [3, 5, 7])
def test_a_condition_within_which_other_ranks_have_come_to_collectives_too_sets_nobody_apart(script, line):
    seen = dataclasses.replace(hung(0, 2), recorded={0: (came(script, 3),), 1: (came(script, line),)})
    assert condition_of(seen, (0,), came(script, 3), None) is None
    elsewhere = dataclasses.replace(seen, recorded={1: (came(script, 1),)})
    assert condition_of(elsewhere, (0,), came(script, 3), None) == "rank == 0"
