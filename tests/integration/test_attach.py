"""`ddp-course doctor --attach`: runs that a plain torchrun has started, with nothing of the course in them."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import shutil
import socket
import socketserver
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import psutil
import pytest
from typer.testing import CliRunner

from course_lib.cli.app import application
from course_lib.lessons.process_groups.lab import free_port
from realranks.ranks.external import debug_server
from realranks.ranks.external.processes import processes
from realranks.scripts.external import Finding, Snapshot, assess_snapshots, read_saved, save, snapshots
from tests.records.judged import said_of_looks
from tests.records.store import PLACES, Records
from tests.support.hung_runs import HUNG, OF_FOUR, OF_LIBRARIES, SOUND, running
from tests.support.ranks_and_kernels import ROOT, until, until_gone

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="reads /proc, which only Linux has"),
    pytest.mark.skipif(
        shutil.which("py-spy", path=str(Path(sys.executable).parent)) is None, reason="there is no py-spy"
    ),
]


def test_no_rank_outlives_a_killed_test(tmp_path):
    hung = HUNG["only rank 0 in a barrier"][0]
    code = f"""
import sys
from pathlib import Path
from tests.support.hung_runs import running
with running(Path({str(tmp_path)!r}), {hung!r}) as pids:
    print(*pids, flush=True)
    sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as tester:
        pids = [int(word) for word in tester.stdout.readline().split()]
        agents = [each.pid for each in psutil.Process(tester.pid).children()]
        tester.kill()
        until_gone([*pids, *agents])
    assert len(pids) == 3


def looks(pids: list[int]) -> tuple[Snapshot, Finding]:
    """Two looks and what they come to, as soon as that is worth an alarm: ranks may still have been on their way."""
    deadline = time.monotonic() + 60
    while True:
        (told,) = snapshots(pids)
        found = assess_snapshots([told])
        if found.firm or time.monotonic() > deadline:
            return told, found


def firm(pids: list[int]) -> Finding:
    """What such looks come to."""
    return looks(pids)[1]


def switches(pid: int) -> list[str]:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return [line for line in lines if "ctxt_switches" in line]


@pytest.mark.parametrize("name", [*HUNG, *OF_LIBRARIES])
def test_a_hung_run_is_explained(name, tmp_path, recorder):
    text, (kind, diagnosis, *said) = (HUNG | OF_LIBRARIES)[name]
    if name in OF_LIBRARIES:
        pytest.importorskip(name.partition(":")[0])
    with running(tmp_path, text, 4 if name in OF_FOUR else 2 if name in OF_LIBRARIES else 3) as pids:
        seen, found = looks(pids)
    assert found.outcome is not None
    told = found.outcome.diagnosis
    shown = "\n".join([told.summary, *told.evidence])
    assert found.firm, shown
    assert (found.kind if kind else None, told.kind) == (kind, diagnosis), shown
    for words in said:
        assert words in shown
    recorder(Records("attach", "hung"), name, [seen], said_of_looks, {"<folder>": str(tmp_path), **PLACES})


ENDED = """
from torch.distributed.elastic.multiprocessing.errors import record
def load(sample):
    raise ValueError(f"bad sample {sample}")
def main():
    ready()
    if rank == 1:
        while not all(os.path.exists(f"ready-{each}") for each in range(world)):  # the agent has the store
            time.sleep(0.01)
        os.kill(os.getppid(), 19)  # an agent that does not end the others, as one on another machine does not at once
        load(17)
    dist.recv(x, src=2 - rank)
"""


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ("main()", "stderr.log: [rank1]: ValueError: bad sample 17 at train.py, line 15"),
        ("record(main)()", "error.json: ValueError: bad sample 17"),
    ],
)
def test_what_a_rank_that_has_ended_has_left_for_torchrun_is_told(last, said, tmp_path):
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=3")
    with running(tmp_path, ENDED + last, 3, *torchrun, "--log-dir=logs", "--redirects=3") as pids:
        (told,) = snapshots(pids)
        while not told.ended:
            (told,) = snapshots(pids)
    evidence = "\n".join(assess_snapshots([told]).outcome.diagnosis.evidence)
    assert "rank 1     died (exit code 1)" in evidence
    assert said in evidence
    path = save(told, tmp_path / "seen")
    assert "bad sample" not in path.read_text(encoding="utf-8")


DUMPS = """
def dump():
    from torch._C._distributed_c10d import _dump_fr_trace
    told = b""
    while b"gloo:all_reduce" not in told and b"gloo:broadcast" not in told:
        told = _dump_fr_trace(True, True, False)
    with open(os.environ["TORCH_FR_DUMP_TEMP_FILE"] + str(rank), "wb") as file:
        file.write(told)
    ready()
threading.Thread(target=dump, daemon=True).start()
if rank == 0:
    dist.broadcast(torch.ones(4, 2), src=1)
else:
    dist.all_reduce(torch.ones(7))
"""


def test_dumps_of_the_flight_recorder_are_joined_with_the_stacks(tmp_path, monkeypatch):
    """torch's recorder, as gloo fills it; a thread of the script writes the files, which NCCL's watchdog does."""
    monkeypatch.setenv("TORCH_FR_DUMP_TEMP_FILE", "fr_")  # as the ranks see their folder
    (tmp_path / "fr_2").write_bytes(b"of an earlier run")
    os.utime(tmp_path / "fr_2", (1, 1))
    with running(tmp_path, DUMPS) as pids:
        (tmp_path / "fr_1").write_bytes(pickle.dumps({"entries": [print]}))
        found = firm(pids)
        (told,) = snapshots(pids)
    assert found.kind == "proved"
    evidence = "\n".join(found.outcome.diagnosis.evidence)
    assert "flight recorder's dumps of ranks 0-2, written" in evidence
    assert (
        "rank 0: last issued broadcast() (4x2 float32), number 1 of group 0 at train.py, line 23, not over then"
    ) in evidence
    assert "rank 1: fr_1 cannot be read (UnpicklingError: it asks for builtins.print)" in evidence
    assert (
        "number 1 of group 0 is broadcast() (4x2 float32) on rank 0, and all_reduce() (7 float32) on rank 2"
        in (evidence)
    )
    path = save(told, tmp_path / "seen")
    assert "dist.broadcast" not in path.read_text(encoding="utf-8")
    assert "number 1 of group 0 is" in "\n".join(
        assess_snapshots(read_saved(tmp_path / "seen")).outcome.diagnosis.evidence
    )


DEBUG_SERVER = """
import sys, types
sys.modules["tabulate"] = types.SimpleNamespace(tabulate=None)  # for the server's pages with tables
from torch.distributed.debug import start_debug_server
start_debug_server(port=PORT)
dist.barrier()
ready()
if rank:
    dist.all_reduce(torch.ones(7))
else:
    threading.Event().wait()
"""


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("localhost", port)):
        return True
    return False


def test_torchs_debug_server_is_asked_where_it_is_on(tmp_path, monkeypatch):
    port = free_port()
    monkeypatch.setattr(debug_server, "_PORT", port)
    with running(tmp_path, DEBUG_SERVER.replace("PORT", str(port))) as pids:
        until(lambda: _answers(port))
        evidence = "\n".join(firm(pids).outcome.diagnosis.evidence)
    assert "rank 0 had not issued all_reduce() (7 float32), number 2 of group 0" in evidence


@pytest.mark.parametrize("name", ["recorded_left_out", "by_hand_left_out"])
def test_dumps_of_nccl_s_watchdog_tell_who_has_not_issued_what(name, tmp_path, monkeypatch):
    """Of an H200, and written by hand, beside ranks of gloo's that wait for each other in no collective."""
    told = json.loads((ROOT / "tests/unit/nccl_dumps" / f"{name}.json").read_text(encoding="utf-8"))["ranks"]
    monkeypatch.setenv("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", str(tmp_path / "nccl_trace_rank_"))
    with running(tmp_path, "\nready()\nif rank:\n    time.sleep(1000)\ndist.barrier()\n", 2) as pids:
        for rank, dump in told.items():
            (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(dump))
        found = assess_snapshots(snapshots(pids))
    assert found.kind != "proved"
    number = len(told["0"]["entries"])
    assert "rank 1 had not issued all_reduce() (" in "\n".join(found.outcome.diagnosis.evidence)
    assert f"float32), number {number} of group 0" in "\n".join(found.outcome.diagnosis.evidence)


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_run_raises_no_alarm(name, tmp_path, recorder):
    with running(tmp_path, SOUND[name], 2) as pids:
        for _ in range(3):
            (told,) = snapshots(pids)
            found = assess_snapshots([told])
            assert not found.firm, found
            assert found.kind != "proved"
    # What a sound run does at such a moment is another thing each time.
    places = {"<folder>": str(tmp_path), **PLACES}
    recorder(Records("attach", "sound"), name, [told], said_of_looks, places, compares=False)


def test_a_blocked_rank_is_not_stopped_while_it_is_read(tmp_path):
    with running(tmp_path, HUNG["another order"][0]) as pids:
        firm(pids)
        ranks = [each.pid for each in processes(pids) if each.rank is not None]
        before = [switches(pid) for pid in ranks]
        snapshots(pids)
        assert [switches(pid) for pid in ranks] == before


def test_the_command_finds_the_ranks_and_keeps_them_in_a_file_without_the_script(tmp_path):
    folder = tmp_path / "seen"
    with running(tmp_path, HUNG["only rank 0 in a barrier"][0]) as pids:
        firm(pids)
        numbers = ",".join(map(str, pids))
        at_once = CliRunner().invoke(application(), ["doctor", "--attach", "--pids", numbers])
        kept = CliRunner().invoke(
            application(), ["doctor", "--attach", "--pids", numbers, "--save", str(folder)]
        )
    assert at_once.exit_code == 1
    assert "Only rank 0 comes to barrier()" in at_once.output
    assert "Proved: " in at_once.output
    assert kept.exit_code == 0, kept.output
    (path,) = folder.iterdir()
    assert path.stat().st_size < 50_000
    assert "torch.save" not in path.read_text(encoding="utf-8")
    judged_later = CliRunner().invoke(application(), ["doctor", "--from", str(folder)])
    assert judged_later.exit_code == 1
    assert "Only rank 0 comes to barrier() at train.py, line 16" in judged_later.output


def test_files_of_two_machines_are_judged_together_and_prove_nothing(tmp_path):
    with running(tmp_path, HUNG["waits for a lock twice"][0]) as pids:
        firm(pids)  # not before the ranks have waited for some seconds
        (told,) = snapshots(pids)
    for host, ranks in (("a", (0,)), ("b", (1, 2))):
        part = [{rank: look[rank] for rank in ranks} for look in (told.before, told.now)]
        save(replace(told, host=host, all_here=False, before=part[0], now=part[1]), tmp_path / "seen")
    found = assess_snapshots(read_saved(tmp_path / "seen"))
    assert (found.firm, found.kind) == (True, "probable")
    assert "were not looked at together" in found.outcome.diagnosis.evidence[-1]
    (tmp_path / "seen" / "outside-a-0-0.json").unlink()
    alone = assess_snapshots(read_saved(tmp_path / "seen"))
    assert alone.kind != "proved"
    assert any("rank 0 was not looked at" in line for line in alone.outcome.diagnosis.evidence)


SPAWNED = """
import time
import torch, torch.distributed as dist, torch.multiprocessing as mp

def main(rank, world_size):
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:{port}", rank=rank, world_size=world_size)
    open(f"ready-{{rank}}", "w").close()
    if rank == 1:
        dist.barrier()
    else:
        dist.all_reduce(torch.ones(1))

if __name__ == "__main__":
    mp.spawn(main, args=(2,), nprocs=2)
"""


def test_ranks_that_a_script_has_started_itself_are_known_by_their_variable(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = tmp_path / "own.py"
    script.write_text(SPAWNED.format(port=port), encoding="utf-8")
    with running(
        tmp_path,
        "\n",
        2,
        sys.executable,
        "-c",
        f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')",
    ) as pids:
        found = firm(pids)
    assert found.kind == "proved"
    assert "barrier() at own.py, line 9" in found.outcome.diagnosis.summary


#: As Lightning's own launcher does: rank 0 starts the others, and has its variables only within Python.
RANK_0_STARTS_THE_OTHERS = """
import os, runpy, subprocess, sys
if "LOCAL_RANK" not in os.environ:
    told = {{"LOCAL_RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "{port}"}}
    subprocess.Popen([sys.executable, "-c", {again}, sys.argv[1]], env=os.environ | told)
    os.environ.update(told | {{"LOCAL_RANK": "0"}})
os.environ["RANK"] = os.environ["LOCAL_RANK"]
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def test_a_rank_0_that_has_started_the_others_is_one_of_them(tmp_path):
    code = RANK_0_STARTS_THE_OTHERS.format(port=free_port(), again="open('launcher').read()")
    (tmp_path / "launcher").write_text(code, encoding="utf-8")
    hung = HUNG["only rank 0 in a barrier"][0]
    with running(tmp_path, hung, 2, sys.executable, "-c", code) as pids:
        first = until(lambda: next((e.parent for e in processes(pids) if e.rank == 1), None))
        found = firm([first, *pids])
    assert found.kind == "proved"
    assert "Only rank 0 comes to barrier() at train.py, line 16" in found.outcome.diagnosis.summary
    assert "rank 1 is in all_reduce()" in found.outcome.diagnosis.summary


def test_a_worker_that_has_outlived_its_rank_is_not_taken_for_one(tmp_path):
    with running(tmp_path, HUNG["its loader's worker sleeps"][0]) as pids:
        firm(pids)
        rank = next(each.pid for each in processes(pids) if each.rank == 1)
        workers = [child.pid for child in psutil.Process(rank).children()]
        assert workers
        assert snapshots(workers) == []


class RasService(socketserver.StreamRequestHandler):
    """Speaks as NCCL's RAS service does (src/ras/client_support.cc of NCCL 2.28). Never seen on a GPU."""

    counts: ClassVar[dict[int, int]] = {}

    def handle(self) -> None:
        for line in self.rfile:
            words = line.decode().strip().lower()
            if words.startswith("client protocol"):
                self.wfile.write(b"SERVER PROTOCOL 2\n")
            elif words == "verbose status":
                ranks = [
                    {
                        "rank": n,
                        "host": "127.0.0.1",
                        "pid": pid,
                        "collective_counts": {"AllReduce": count, "Send": n},
                    }
                    for n, (pid, count) in enumerate(self.counts.items())
                ]
                told = {
                    "nccl_version": "2.28.7",
                    "communicators": [{"hash": "0xabc", "size": 2, "ranks": ranks}],
                }
                self.wfile.write(json.dumps(told).encode())
                return
            else:
                self.wfile.write(b"OK\n")


def test_nccl_s_counts_name_the_rank_that_is_behind(tmp_path, monkeypatch):
    """A fake of the service; the ranks are in no call of torch.distributed, as where NCCL's return at once."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), RasService) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("NCCL_RAS_ADDR", f"127.0.0.1:{server.server_address[1]}")
        with running(tmp_path, "\nready()\nthreading.Event().wait()\n", 2) as pids:
            ranks = sorted((each.rank, each.pid) for each in processes(pids) if each.rank is not None)
            RasService.counts = {ranks[0][1]: 41, ranks[1][1]: 40}
            (unasked,), (told,) = snapshots(pids), snapshots(pids, ras=True)
            found = assess_snapshots([told])
            RasService.counts = {ranks[0][1]: 41, ranks[1][1]: 41}
            (level,) = snapshots(pids, ras=True)
        server.shutdown()
    assert not any(status.outside.launched for status in unasked.now.values())
    assert (found.kind, found.outcome.diagnosis.culprits) == ("probable", (1,))
    assert (
        "Rank 1 has issued 40 collectives through NCCL, and rank 0 has issued 41"
        in found.outcome.diagnosis.summary
    )
    assert "through NCCL" not in assess_snapshots([level]).outcome.diagnosis.summary


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="takes root, and setpriv")
def test_who_may_not_read_the_ranks_is_told_what_to_run(tmp_path):
    with running(tmp_path, SOUND["no group"], 2) as pids:
        less = ("setpriv", "--bounding-set", "-sys_ptrace")
        command = [
            sys.executable,
            "-m",
            "course_lib.cli",
            "doctor",
            "--attach",
            "--pids",
            ",".join(map(str, pids)),
        ]
        said = subprocess.run([*less, *command], capture_output=True, text=True, check=False, cwd=ROOT)
    assert said.returncode == 2, said
    assert "ptrace is not allowed" in said.stderr
    assert "--cap-add SYS_PTRACE" in said.stderr
    assert said.stderr.count("\n") == 1
