"""Lesson 14: its `save` in plain ranks, its background save under torchrun, and what a kill leaves on the disk."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from course_lib.lessons.checkpoints.lab import (
    WAYS,
    explore_kills,
    left_on_disk,
    next_job,
    size_of_new,
    slow_motion,
)
from realranks.cells.run import run_quietly
from realranks.outcome.outcome import Kind
from tests.support.ranks_and_kernels import ROOT, Ranks

SOURCE = (ROOT / "course_lib/lessons/checkpoints/lesson.py").read_text(encoding="utf-8")
(SAVE,) = (
    node for node in ast.parse(SOURCE).body if isinstance(node, ast.FunctionDef) and node.name == "save"
)
PREAMBLE = f"""
import contextlib, os, sys
sys.path.insert(0, {str(ROOT)!r})
import torch
import torch.distributed as dist
from course_lib.lessons.checkpoints.resuming import disk_full_at

{ast.get_source_segment(SOURCE, SAVE)}

"""
OVER, RENAMED, REPLACED = WAYS


@pytest.fixture(scope="module")
def gang() -> Iterator[Ranks]:
    mine = Ranks(3)
    yield mine
    mine.gang.stop()


@pytest.mark.parametrize(
    ("state", "limit"),
    [
        ("{'step': 20, 'weights': torch.zeros(1000)}", 2000),
        ("{'step': 20, 'weights': torch.zeros(1000)}", 0),
        ("{'step': 20, 'schedule': lambda step: 0.1}", 10**6),
    ],
)
def test_a_save_that_fails_raises_on_all_ranks_and_leaves_the_old_checkpoint_alone(
    gang, tmp_path, state, limit
):
    out = gang(
        f"{PREAMBLE}path = {str(tmp_path / 'model.pt')!r}\n"
        "save({'step': 10}, path)\n"
        "told = ''\n"
        "try:\n"
        f"    with disk_full_at({limit}):\n"
        f"        save({state}, path)\n"
        "except RuntimeError as error:\n"
        "    told = str(error)\n"
        "step = torch.load(path)['step']"
    )
    assert out.kind is Kind.OK
    assert all("was not written" in out["told"][rank] for rank in range(3))
    assert [out["step"][rank] for rank in range(3)] == [10] * 3
    assert os.listdir(tmp_path) == ["model.pt"], "what was begun has been removed"


def test_a_save_into_a_folder_that_is_not_there_raises_on_all_ranks(gang, tmp_path):
    out = gang(f"{PREAMBLE}save({{'step': 10}}, {str(tmp_path / 'none' / 'model.pt')!r})")
    assert {rank: error.type for rank, error in out.errors.items()} == dict.fromkeys(range(3), "RuntimeError")


def test_all_ranks_find_the_file_when_save_returns(gang, tmp_path):
    out = gang(
        f"{PREAMBLE}found = []\n"
        "for step in range(20):\n"
        f"    save({{'step': step}}, {str(tmp_path / 'model.pt')!r})\n"
        f"    found.append(torch.load({str(tmp_path / 'model.pt')!r})['step'])\n"
        "    dist.barrier()"
    )
    assert [out["found"][rank] for rank in range(3)] == [list(range(20))] * 3


@pytest.mark.parametrize("copied", [True, False])
def test_a_thread_that_saves_writes_one_step_only_if_it_is_given_a_copy(gang, tmp_path, copied):
    out = gang(
        f"{PREAMBLE}import threading\n"
        "from course_lib.lessons.checkpoints.resuming import counting_model, steps_in\n"
        "model, optimizer = counting_model()\n"
        "state, path = model.state_dict(), f'{str(tmp_path)}/{dist.get_rank()}.pt'\n".replace(
            "{str(tmp_path)}", str(tmp_path)
        )
        + f"if {copied}:\n"
        "    state = {name: weight.clone() for name, weight in state.items()}\n"
        "saver = threading.Thread(target=torch.save, args=(state, path))\n"
        "saver.start()\n"
        "while saver.is_alive():\n"
        "    optimizer.step()\n"
        "found = steps_in(torch.load(path))"
    )
    assert all((out["found"][rank] == [0]) is copied for rank in range(3))


@pytest.mark.parametrize("group", ["dist.new_group(backend='gloo')", None])
def test_a_background_save_of_dcp_needs_a_group_of_its_own_beside_ddp_on_gloo(tmp_path, group):
    """The thread's collectives would come between those of the backward."""
    script = tmp_path / "train.py"
    script.write_text(
        f"""
import torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
ddp = DistributedDataParallel(nn.Sequential(*[nn.Linear(300, 300) for _ in range(10)]))
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
background, future = {group}, None
for step in range(60):
    optimizer.zero_grad()
    ddp(torch.rand(4, 300)).square().mean().backward()
    optimizer.step()
    if step % 10 == 3:
        if future:
            future.result()
        future = dcp.async_save(
            ddp.module.state_dict(), checkpoint_id=f"{tmp_path}/{{step}}", process_group=background
        )
future.result()
open(f"{tmp_path}/rank{{dist.get_rank()}}.done", "w").close()
dist.barrier()
dist.destroy_process_group()
"""
    )
    launch = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=2",
        str(script),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(launch, env=environment, stderr=subprocess.DEVNULL) as job:
        try:
            job.wait(60)
        except subprocess.TimeoutExpired:  # without a group of its own it may hang
            job.terminate()  # torchrun ends its workers
    # Not the exit code: a process has been seen to abort that had trained and saved, in destroy_process_group.
    ended = {path.name for path in tmp_path.glob("*.done")} == {"rank0.done", "rank1.done"}
    assert ended is (group is not None)


def test_the_write_in_slow_motion(tmp_path):
    seen = {way: run_quietly(slow_motion, way, str(tmp_path), ranks=2).values[1] for way in WAYS}
    assert seen[OVER][0] == "10"
    assert seen[OVER][-3:] == ["20"] * 3
    assert not any(what.isdigit() for what in seen[OVER][1:-3])
    assert seen[RENAMED] == ["10"] * 12 + ["FileNotFoundError", "20"]
    assert seen[REPLACED] == ["10"] * 13 + ["20"]


@pytest.mark.parametrize(
    ("way", "after", "end"),
    [
        (OVER, 0, "gets an EOFError"),
        (OVER, -1, "gets an OSError"),
        (OVER, None, "resumes at step 20"),
        (RENAMED, -1, "resumes at step 10"),
        (RENAMED, None, "finds no checkpoint"),
        (REPLACED, 0, "resumes at step 10"),
        (REPLACED, None, "resumes at step 10"),
    ],
)
def test_what_a_kill_leaves(way, after, end):
    """`after` so many bytes, counted from the end where negative; None: after the last one."""
    size = size_of_new()
    kill_at = size + 1 if after is None else after % size
    assert next_job(left_on_disk(way, kill_at)) == f"the next job {end}"


def test_the_explorable_kills_where_its_controls_say():
    explorer = explore_kills()
    size = size_of_new()
    assert f"Killed after {size // 2} of {size} bytes" in explorer.static.title
    explorer.way.value = RENAMED
    assert "the next job resumes at step 10" in explorer.picture.value
    explorer.kill_at.value = size + 1
    assert "the next job finds no checkpoint" in explorer.picture.value


def test_one_cut_of_all_bytes_loads(gang):
    """The lesson's 5,610 places."""
    out = gang(
        f"{PREAMBLE}import io\n"
        "from course_lib.lessons.checkpoints.lab import size_of_new\n"
        "buffer = io.BytesIO()\n"
        "torch.save({'step': 20, 'weights': torch.full((1000,), 20.0)}, buffer)\n"
        "content, loads = buffer.getvalue(), []\n"
        "for size in range(dist.get_rank(), len(content) + 1, 3):\n"
        "    with contextlib.suppress(Exception):\n"
        "        torch.load(io.BytesIO(content[:size]))\n"
        "        loads.append(size)\n"
        "size = size_of_new()"
    )
    assert [size for rank in range(3) for size in out["loads"][rank]] == [out["size"][0]] == [5609]
