"""Files of `doctor --attach --save`: damaged ones are refused by name, and many are judged at once."""

import json
import time
from dataclasses import replace

import pytest

from realranks.outcome.partners import Partners
from realranks.outcome.places import Frame
from realranks.ranks.external.processes import Process
from realranks.ranks.status import ExternalLook, RankStatus
from realranks.scripts import external
from realranks.scripts.external import Snapshot, assess_snapshots, by_run, read_saved, save
from realranks.scripts.machines import NotesError
from realranks.versions import version

TORCH = "/x/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"


def status(rank: int, call: str, line: int, world: int) -> RankStatus:
    frames = [Frame(f"/y/part{n}.py", n, f"f{n}", "") for n in range(20)]
    stack = (*frames, Frame("/y/train.py", line, "train", ""), Frame(TORCH, 1, call, ""))
    needed = Partners(call, "0", tuple(range(world)))
    outside = ExternalLook(1000 + rank, asleep_for=100.0, variables="first")
    return RankStatus(rank, stack, call, 1.0, {}, {}, (), partners=needed, outside=outside)


def snapshot(ranks: range, world: int, odd: int = -1) -> Snapshot:
    looks = {
        r: status(r, "barrier" if r == odd else "all_reduce", 9 if r == odd else 8, world) for r in ranks
    }
    here = len(ranks) == world
    return Snapshot(version("ddp-course"), "run at a:1", f"host{ranks[0]}", 1, world, here, looks, looks)


def test_256_ranks_of_32_machines_are_judged_in_two_seconds(tmp_path):
    for first in range(0, 256, 8):
        save(snapshot(range(first, first + 8), 256, odd=127), tmp_path)
    began = time.process_time()
    found = assess_snapshots(read_saved(tmp_path))
    assert time.process_time() - began < 2
    assert found.kind == "probable"
    told = found.outcome.diagnosis
    assert "rank 127 in barrier() at train.py, line 9" in told.summary
    assert told.culprits == (127,)
    assert told.evidence[0].startswith("ranks 0-126,128-255  waiting in all_reduce() at train.py, line 8")


def test_a_data_loader_s_worker_that_has_its_rank_s_variables_is_not_that_rank():
    worker = Frame("/x/site-packages/torch/utils/data/_utils/worker.py", 9, "_worker_loop", "")
    looks = {
        1: replace(status(0, "all_reduce", 8, 2), stack=(worker,)),
        2: status(0, "all_reduce", 8, 2),
        3: status(1, "barrier", 9, 2),
    }
    found = [Process(10**7 + pid, 1, "S", {}, rank, 2) for pid, rank in ((1, 0), (2, 0), (3, 1))]
    looks = {10**7 + pid: look for pid, look in looks.items()}
    assert {rank: each.pid - 10**7 for rank, each in external._ranks(found, looks).items()} == {
        0: 2,
        1: 3,
    }


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda data: "nonsense", "is damaged: it is no JSON"),
        (lambda data: json.dumps([]), "was not written by"),
        (lambda data: json.dumps({**data, "course": "9"}), "was written by another version of the course"),
        (lambda data: json.dumps({**data, "world_size": "two"}), "is damaged"),
        (lambda data: json.dumps({**data, "world_size": 1}), "is damaged: its ranks are"),
        (lambda data: json.dumps({**data, "surprise": 1}), "is damaged"),
        (lambda data: json.dumps(data)[:-40], "is damaged: it is no JSON"),
        (lambda data: "[" * 100_000, "is damaged"),
    ],
)
def test_a_damaged_file_is_refused_by_its_name(damage, why, tmp_path):
    path = save(snapshot(range(2), 2), tmp_path)
    path.write_text(damage(json.loads(path.read_text())), encoding="utf-8")
    with pytest.raises(NotesError, match=why) as refused:
        read_saved(tmp_path)
    assert path.name in str(refused.value)


def test_files_with_the_same_rank_of_a_run_are_refused(tmp_path):
    save(snapshot(range(2), 4), tmp_path)
    save(replace(snapshot(range(1, 3), 4), host="z"), tmp_path)
    with pytest.raises(NotesError, match="The file of z holds rank 1, as that of host0 does"):
        by_run(read_saved(tmp_path))


@pytest.mark.parametrize("names", [("run", "another"), ("none", "none")])
def test_two_runs_on_the_same_machines_are_told_apart(tmp_path, names):
    """Without --rdzv-id runs have one name; machines may call the same address differently."""
    looks = [
        replace(snapshot(range(first, first + 2), 4), host=host, run=f"{name} at {address}:{port}")
        for first, host, address in ((0, "a", "localhost"), (2, "b", "a"))
        for name, port in zip(names, (1, 2), strict=True)
    ]
    paths = [save(one, tmp_path) for one in looks]
    assert save(looks[1], tmp_path) == paths[1]
    assert len(set(paths)) == 4
    runs = by_run(read_saved(tmp_path))
    assert [[one.host for one in run] for run in runs] == [["a", "b"], ["a", "b"]]
    if names[0] != names[1]:
        assert all(len({one.run.partition(" ")[0] for one in run}) == 1 for run in runs)


def test_all_ranks_of_one_machine_prove_it_and_a_part_of_them_does_not():
    assert assess_snapshots([snapshot(range(4), 4, odd=2)]).kind == "proved"
    assert assess_snapshots([snapshot(range(3), 4, odd=2)]).kind == "probable"


def test_where_a_gpu_is_used_nothing_is_proved():
    seen = snapshot(range(2), 2, odd=1)
    looks = {r: replace(each, uses_gpus=True, seen_through=False) for r, each in seen.now.items()}
    assert assess_snapshots([replace(seen, before=looks, now=looks)]).kind != "proved"


def test_at_one_line_nothing_is_proved():
    found = assess_snapshots([snapshot(range(2), 2)])
    assert found.kind == "probable"
    assert "are at the same line, and not in the same collective" in found.outcome.diagnosis.summary


def test_at_one_line_a_rank_at_another_step_is_marked():
    seen = snapshot(range(3), 3)
    looks = {
        rank: replace(
            each,
            outside=replace(
                each.outside, numbers={"/y/train.py:train:epoch": 4 + (rank == 1), "f:g:seed": rank}
            ),
        )
        for rank, each in seen.now.items()
    }
    told = assess_snapshots([replace(seen, before=looks, now=looks)]).outcome.diagnosis
    assert told.culprits == (1,)
    assert told.evidence[1].endswith("odd one out")
    assert "epoch is 4 on ranks 0 and 2, and 5 on rank 1" in told.evidence
    assert not any("seed" in line for line in told.evidence)
