"""What the steps do: each function is run in a process of its own, and its last line is its verdict.

    python -m tools.gpu_day.stories left_out

In a rehearsal the same code runs on the CPU with gloo: it shows that the step works, and nothing about a GPU. Where
gloo and NCCL have to differ (only on gloo is a deadlock proved), `NCCL` decides what is expected.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import psutil

from realranks.cells.machine import machine
from realranks.doctor import with_diagnosis
from realranks.outcome.outcome import Kind, Outcome
from realranks.ranks.external import ras
from realranks.ranks.kernel.backend import SHARING_VARIABLE, BackendError
from realranks.ranks.kernel.gang import Gang, GangError, validate_request
from tools.gpu_day.running import CARDS, OUT, REHEARSAL, Box
from tools.gpu_day.steps import ROOT

REHEARSED = os.environ.get(REHEARSAL) == "1"
NCCL = not REHEARSED
#: One GPU is enough: NCCL lets ranks share it that it takes for ranks of different machines.
RANKS = 2
DUMPS = ROOT / "tests" / "unit" / "nccl_dumps"
#: What every gang of these stories runs first. The collective connects NCCL's communicators.
PRELUDE = f"""
import json, os, pickle, threading, time
import torch, torch.distributed as dist
from course_lib import device
from torch.nn.parallel import DistributedDataParallel as DDP
rank, world = dist.get_rank(), dist.get_world_size()
where = torch.device("cpu") if {REHEARSED} else device()
def ones(*shape):
    return torch.ones(*shape or (1,), device=where)
def finish():
    if where.type == "cuda":
        torch.cuda.synchronize()
kept = rank
"""
CONNECT = "x = ones()\ndist.all_reduce(x)\nx.item()"


class Verdict(Exception):
    """Ends a story."""


def passed(why: str) -> NoReturn:
    raise Verdict(f"PASS {why}")


def failed(why: str) -> NoReturn:
    raise Verdict(f"FAIL {why}")


def cannot(why: str) -> NoReturn:
    raise Verdict(f"CANNOT {why}")


def is_alive(pid: int) -> bool:
    """Return whether a process has not ended; one that nobody has reaped has."""
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def check(holds: bool, otherwise: str) -> None:
    """End the story with FAIL where this does not hold."""
    if not holds:
        failed(one_line(otherwise))


def one_line(text: object) -> str:
    return " ".join(str(text).split())


class Ranks:
    """A gang on the GPUs through NCCL; in a rehearsal, on the CPU through gloo."""

    def __init__(
        self, size: int = RANKS, backend: str = "nccl", connect: bool = True, **options: Any
    ) -> None:
        if REHEARSED:
            backend = "gloo"
        elif backend == "nccl" and size > _cards():
            os.environ[SHARING_VARIABLE] = "1"
        try:
            self.gang = Gang(size, backend=backend, **options)
            self.gang.wait_ready()
        except BackendError as error:
            cannot(one_line(error))
        self(PRELUDE)
        if connect:
            told = self(CONNECT)
            check(told.values == dict.fromkeys(range(size), float(size)), f"the first all_reduce: {told}")

    def __call__(self, source: str, timeout: float = 40.0, **options: Any) -> Outcome:
        return with_diagnosis(
            self.gang.run_cell(source, label="In [1]", first_line=1, timeout=timeout, **options)
        )

    def lives_on(self, before: str) -> None:
        """The ranks still have their variables, and a collective on new tensors is right."""
        told = self("y = ones()\ndist.all_reduce(y)\n(kept, y.item())")
        size = self.gang.world_size
        check(told.values == {rank: (rank, float(size)) for rank in range(size)}, f"after {before}: {told}")


def _cards() -> int:
    return int(os.environ.get(CARDS) or 0)


def summary(outcome: Outcome) -> str:
    """What the course says of it, in one line."""
    said = outcome.diagnosis.summary if outcome.diagnosis is not None else ""
    return one_line(" ".join([f"{outcome.kind}:", said, *outcome.notes])) or str(outcome.kind)


def _smi(*query: str) -> str:
    try:
        return subprocess.run(["nvidia-smi", *query], capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _used_mb() -> int | None:
    """Memory that is used on all GPUs together; None where nvidia-smi does not tell."""
    numbers = re.findall(r"\d+", _smi("--query-gpu=memory.used", "--format=csv,noheader,nounits"))
    return sum(map(int, numbers)) if numbers else None


# -- part 1: the machine, and what the course chooses ------------------------------------------------------------------


def box() -> None:
    """For the page: which GPUs work. Its last line is JSON."""
    import torch

    tried = machine().tried
    driver = _smi("--query-gpu=driver_version", "--format=csv,noheader").strip().splitlines()
    names = ", ".join(dict.fromkeys(gpu.name for gpu in tried.usable))
    found = Box(
        len(tried.usable),
        tried.trouble,
        names,
        driver[0] if driver else "unknown",
        str(torch.__version__),
        ".".join(map(str, torch.cuda.nccl.version())) if tried.usable else "",
    )
    print(json.dumps(dataclasses.asdict(found)))


def driver() -> None:
    listed = _smi(
        "--query-gpu=name,driver_version,compute_mode,mig.mode.current,memory.total", "--format=csv,noheader"
    )
    print(_smi())
    if not listed:
        cannot("there is no nvidia-smi that answers")
    passed(one_line(listed.replace("\n", "; ")))


def torch_build() -> None:
    code = (
        "import torch; print(torch.__version__, 'CUDA', torch.version.cuda, 'NCCL', torch.cuda.nccl.version()); "
        "torch.ones(1, device='cuda').item(); print('computes')"
    )
    if REHEARSED:
        code = "import torch; print(torch.__version__); print('computes')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    print(done.stdout, done.stderr)
    lines = done.stdout.split("\n")
    check("computes" in lines, f"CUDA does not start: {(done.stderr.strip().splitlines() or [''])[-1]}")
    passed(lines[0])


def tried() -> None:
    told = machine()
    print(told)
    code = "import torch; print(torch.cuda.device_count())"
    counted = int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout or 0)
    check(
        told.gpus == counted, f"torch counts {counted}, the course can use {told.gpus}: {told.tried.trouble}"
    )
    passed(f"{told.gpus} of {counted}: {dict(told.rows())['GPUs']}")


def choices() -> None:
    cards, said = _cards(), []
    for size in dict.fromkeys((1, cards or 1, cards + 1)):
        choice = validate_request(size)
        wanted = "nccl" if 0 < size <= cards else "gloo"
        check(choice.name == wanted, f"{size} rank(s) on {cards} GPU(s): {choice.name}, {choice.reason}")
        ranks = Ranks(size, backend="auto", connect=False)
        told = ranks(CONNECT)
        check(told.values == dict.fromkeys(range(size), float(size)), f"{size} rank(s): {told}")
        ranks.gang.stop()
        said.append(f"{size} rank(s): {choice.name}")
    passed(", ".join(said))


def forked() -> None:
    size = max(1, _cards())
    ranks = Ranks(size, backend="auto")
    told = ranks(
        "torch.cuda._is_in_bad_fork(), torch.cuda.current_device() if where.type == 'cuda' else rank"
    )
    check(told.values == {rank: (False, rank) for rank in range(size)}, str(told))
    passed(f"{size} rank(s), each on its own GPU, none in a bad fork")


def lazy() -> None:
    before = _used_mb()
    ranks = Ranks(1, backend="auto", connect=False)
    ranks("dist.barrier()\ndist.all_reduce(torch.ones(1))")
    idle = _used_mb()
    told = ranks("torch.cuda.is_initialized()")
    check(told.values == {0: False}, "the rank has initialised CUDA without using it")
    # Others may use these GPUs, too; a context takes several hundred MB.
    check(
        before is None or idle is None or idle - before < 200,
        f"{before} MB were used before, {idle} MB with a gang",
    )
    ranks(CONNECT)
    passed(
        f"memory used on all GPUs, in MB: {before} before, {idle} with a gang, {_used_mb()} once it uses CUDA"
    )


def hidden() -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    choice = validate_request(2)
    check((choice.name, choice.device) == ("gloo", "cpu"), choice.reason)
    gang = Gang(2)
    told = gang.run_cell("import torch\n(torch.cuda.is_available(), torch.cuda.device_count())")
    check(told.values == dict.fromkeys(range(2), (False, 0)), str(told))
    passed(choice.reason)


def sharing() -> None:
    if REHEARSED:
        cannot("there is no NCCL in a rehearsal")
    os.environ[SHARING_VARIABLE] = "1"
    size = _cards() + 1
    started = time.monotonic()
    ranks = Ranks(size)
    took = time.monotonic() - started
    passed(f"{size} ranks on {_cards()} GPU(s), connected after {took:.1f} s: {ranks.gang.backend.reason}")


# -- part 4: NCCL ------------------------------------------------------------------------------------------------------

_COLLECTIVES = """
wrong = []
def expect(name, got, wanted):
    finish()
    if got.flatten().tolist() != wanted:
        wrong.append((name, got.flatten().tolist(), wanted))
mine = torch.arange(world, device=where, dtype=torch.float32) + rank
total = sum(range(world))
x = ones(2); dist.all_reduce(x); expect("all_reduce", x, [float(world)] * 2)
x = ones() * rank; dist.all_reduce(x, op=dist.ReduceOp.MAX); expect("all_reduce max", x, [world - 1.0])
x = ones() * rank; dist.broadcast(x, 1); expect("broadcast", x, [1.0])
x = ones() * rank; dist.reduce(x, 0)
if rank == 0: expect("reduce", x, [float(total)])
out = [ones() for _ in range(world)]; dist.all_gather(out, ones() * rank)
expect("all_gather", torch.cat(out), [float(r) for r in range(world)])
x = ones(world); dist.all_gather_into_tensor(x, ones() * rank)
expect("all_gather_into_tensor", x, [float(r) for r in range(world)])
x = ones(); dist.reduce_scatter_tensor(x, mine.clone())
expect("reduce_scatter_tensor", x, [float(total + rank * world)])
x = ones(world); dist.all_to_all_single(x, mine.clone())
expect("all_to_all_single", x, [float(r + rank) for r in range(world)])
x = ones() * rank
if rank == 0: dist.send(ones() * 7, 1)
if rank == 1: dist.recv(x, 0); expect("send and recv", x, [7.0])
sent = dist.P2POp(dist.isend, ones() * rank, (rank + 1) % world)
x = ones(); got = dist.P2POp(dist.irecv, x, (rank - 1) % world)
for work in dist.batch_isend_irecv([sent, got]): work.wait()
expect("batch_isend_irecv", x, [float((rank - 1) % world)])
everybody = [None] * world; dist.all_gather_object(everybody, rank)
if everybody != list(range(world)): wrong.append(("all_gather_object", everybody))
pair = dist.new_group([0, 1]); x = ones()
if rank < 2: dist.all_reduce(x, group=pair); expect("new_group", x, [2.0])
dist.barrier()
wrong
"""


def collectives() -> None:
    told = Ranks()(_COLLECTIVES)
    check(told.ok and not any(told.values.values()), f"{told}")
    passed("11 operations, a group of its own and a barrier are right")


_DDP = """
def trained(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in batches:
        optimizer.zero_grad(); model(batch).square().mean().backward(); optimizer.step()
    return torch.cat([p.detach().flatten().cpu() for p in model.parameters()])
def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).to(where)
torch.manual_seed(1)
data = torch.randn(10, world * 4, 8).to(where)
alone = trained(net(), list(data))
together = trained(DDP(net()), [batch[rank::world] for batch in data])
(alone - together).abs().max().item()
"""


def ddp() -> None:
    told = Ranks()(_DDP)
    check(told.ok and max(told.values.values()) < 1e-5, f"{told}")
    passed(f"largest difference after 10 steps: {max(told.values.values()):.1e}")


def left_out() -> None:
    ranks = Ranks()
    told = ranks("x = ones()\nif rank == 0:\n    dist.all_reduce(x)\n    x.item()", timeout=12.0)
    check(told.kind is Kind.HANG and told.diagnosis is not None, summary(told))
    if NCCL and told.diagnosis is not None:
        check(told.diagnosis.kind == "waits_for_gpu" and told.diagnosis.culprits == (1,), summary(told))
    ranks.lives_on("the hang")
    passed(summary(told))


def left_open() -> None:
    ranks = Ranks()
    told = ranks("x = ones()\nif rank == 0:\n    dist.all_reduce(x)", timeout=30.0)
    if NCCL:
        check(told.ok and any("rank 1" in note for note in told.notes), summary(told))
        after = ranks("x.item()", timeout=8.0)
        check(after.kind is Kind.HANG, f"the next cell: {summary(after)}")
    ranks.lives_on("the open collective")
    passed(summary(told))


def left_open_async() -> None:
    """On a stream of NCCL's: the current one does not wait for it."""
    ranks = Ranks()
    told = ranks("x = ones()\nif rank == 0:\n    work = dist.all_reduce(x, async_op=True)", timeout=30.0)
    if NCCL:
        check(told.ok and any("rank 0" in note for note in told.notes), summary(told))
        after = ranks("2 + 2", timeout=30.0)
        check(after.ok, f"the next cell, which asks nothing of the GPU: {summary(after)}")
    waits = ranks("if rank == 0:\n    work.wait()\n    x.item()", timeout=8.0)
    check(waits.kind is Kind.HANG, f"the cell that waits for it: {summary(waits)}")
    ranks.lives_on("the open collective")
    passed(summary(told))


def first_left_out() -> None:
    backend = "auto" if _cards() >= RANKS else "nccl"
    ranks = Ranks(backend=backend, connect=False)
    told = ranks("x = ones()\nif rank == 0:\n    dist.all_reduce(x)\n    x.item()", timeout=12.0)
    check(told.kind is Kind.HANG, summary(told))
    kept = all(link.alive for link in ranks.gang.links)
    if kept:
        ranks.lives_on("the hang")
    passed(f"backend {backend}, {'freed' if kept else 'ended: variables are lost'}. {summary(told)}")


def mismatch() -> None:
    ranks = Ranks()
    calls = "if rank == 0:\n    dist.all_reduce(x)\nelse:\n    dist.broadcast(x, 1)"
    source = f"x = ones(4)\n{calls}\nfinish()\nx.sum().item()"
    told = ranks(source, timeout=12.0)
    check(not told.ok or bool(told.notes) or told.diagnosis is not None, f"nothing is said: {told}")
    passed(summary(told))


def raises() -> None:
    ranks = Ranks()
    source = "if rank:\n    raise ValueError('mine')\nwork = dist.all_reduce(ones(), async_op=True)"
    told = ranks(source, timeout=20.0)
    check(told.kind is Kind.RAISES, summary(told))
    ranks.lives_on("the exception")
    passed(summary(told))


def dies() -> None:
    source = "x = ones()\nif rank:\n    os.kill(os.getpid(), 9)\ndist.all_reduce(x)\nx.item()"
    told = Ranks()(source, timeout=20.0)
    check(told.kind is Kind.DIED, summary(told))
    passed(f"after {told.seconds:.1f} s. {summary(told)}")


def late() -> None:
    told = Ranks()("x = ones()\nif rank:\n    time.sleep(3)\ndist.all_reduce(x)\nx.item()")
    check(told.values == dict.fromkeys(range(RANKS), float(RANKS)), summary(told))
    passed(f"right sums after {told.seconds:.1f} s, and no verdict")


def busy() -> None:
    ranks = Ranks(environment={"TORCH_NCCL_BLOCKING_WAIT": "1"})
    size, turns = (8192, 150) if NCCL else (512, 200)
    work = f"a = ones({size}, {size}) / {size}\nfor _ in range({turns}):\n    a = a @ a"
    source = f"{work}\nx = ones()\ndist.all_reduce(x)\nx.item()"
    told = ranks(source, timeout=80.0)
    check(told.values == dict.fromkeys(range(RANKS), float(RANKS)), summary(told))
    passed(f"right sums after {told.seconds:.1f} s, and no verdict")


_MODEL = """
torch.manual_seed(0)
model = DDP(torch.nn.Linear(4, 1).to(where))
def gradient():
    model.zero_grad()
    (world * (rank + 1) * model(ones(2, 4)).sum()).backward()
    finish()
    return model.module.weight.grad.flatten().tolist()
"""
#: Rank 0 waits, with its GPU, for rank 1, which does not come.
_WAIT = "x = ones()\nif rank == 0:\n    dist.all_reduce(x)\n    x.item()"


def _still_trains(ranks: Ranks, after: str) -> None:
    """The DDP model that was made before is there, and averages the gradients of all ranks."""
    told = ranks("gradient()", timeout=20.0)
    size = ranks.gang.world_size
    mean = [float(size * (size + 1))] * 4  # of 2 * size * (rank + 1)
    check(told.values == dict.fromkeys(range(size), mean), f"DDP after {after}: {told}")
    ranks.lives_on(after)


def stop() -> None:
    ranks = Ranks()
    ranks(_MODEL)
    folder = Path(tempfile.mkdtemp(prefix="gpu-day-"))

    def press() -> None:
        while len(list(folder.iterdir())) < RANKS:
            time.sleep(0.05)
        time.sleep(0.5)  # a moment later rank 0 waits for its GPU
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    began = f"open({str(folder)!r} + f'/{{rank}}', 'w').close()"
    told = ranks(f"{began}\n{_WAIT}\nelse:\n    time.sleep(600)", timeout=30.0)
    check(told.interrupted, summary(told))
    _still_trains(ranks, "the stop button")
    passed(f"after {told.seconds:.1f} s. {summary(told)}")


def again() -> None:
    ranks = Ranks()
    ranks(_MODEL)
    held = "(len(os.listdir('/proc/self/fd')), len(os.listdir('/proc/self/task')))"
    found, used = [], []
    for number in range(5):
        told = ranks(_WAIT, timeout=8.0)
        check(told.kind is Kind.HANG, f"deadlock {number + 1}: {summary(told)}")
        _still_trains(ranks, f"deadlock {number + 1}")
        found.append(ranks(held).values[0])
        used.append(_used_mb())
    # A broken group is kept, with its sockets and threads: gloo's destructors may hang (ranks/inside/process_group.py).
    (files, threads), (files_5, threads_5) = found[0], found[-1]
    told_of = f"files {files} and {files_5}, threads {threads} and {threads_5}, MB on all GPUs {used[0]} and {used[-1]}"
    a_group_each = files_5 <= files + 4 * 8 and threads_5 <= threads + 4 * 5
    check(a_group_each, f"more than a group each time: {told_of}")
    check(used[0] is None or used[-1] is None or used[-1] <= used[0] + 200, f"memory piles up: {told_of}")
    passed(f"after the first and the fifth deadlock: {told_of}")


def out_of_memory() -> None:
    ranks = Ranks()
    ranks(_MODEL)
    # As much as no GPU and no machine has.
    greedy = "if rank:\n    torch.empty(1 << 50, dtype=torch.uint8, device=where)\ngradient()"
    told = ranks(greedy, timeout=20.0)
    check(told.kind is Kind.RAISES and 1 in told.errors, summary(told))
    kind = told.errors[1].type
    check(REHEARSED or kind == "OutOfMemoryError", f"rank 1 raised {kind}")
    _still_trains(ranks, "the error")
    attempt = greedy.splitlines()[1].strip()
    swallowed = ranks(
        f"try:\n    {attempt} if rank else gradient()\nexcept RuntimeError:\n    pass", timeout=12.0
    )
    check(swallowed.kind is Kind.HANG, f"an error that is swallowed: {summary(swallowed)}")
    _still_trains(ranks, "the deadlock")
    passed(f"{kind}. {summary(told)} Swallowed: {summary(swallowed)}")


_KERNEL = """
import sys, time
from tools.gpu_day.stories import Ranks
ranks = Ranks()
print(*[link.pid for link in ranks.gang.links], flush=True)
time.sleep(600)
"""


def kernel_killed() -> None:
    before = _used_mb()
    kernel = subprocess.Popen([sys.executable, "-c", _KERNEL], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert kernel.stdout is not None
    pids = [int(word) for word in kernel.stdout.readline().split()]
    with_ranks = _used_mb()
    kernel.kill()
    kernel.wait()
    check(len(pids) == RANKS, "the ranks did not start")
    killed = time.monotonic()
    while left := [pid for pid in pids if is_alive(pid)]:
        check(time.monotonic() < killed + 2.0, f"processes {left} are still there after 2 s")
        time.sleep(0.05)
    ended = time.monotonic() - killed
    while (after := _used_mb()) is not None and before is not None and after > before + 200:
        if time.monotonic() > killed + 10.0:
            break
        time.sleep(0.2)
    given_back = time.monotonic() - killed
    check(
        before is None or after is None or after <= before + 200, f"{before} MB before, {after} MB afterwards"
    )
    passed(
        f"the ranks were gone after {ended:.2f} s; MB used on all GPUs: {before} before, {with_ranks} with {RANKS} "
        f"ranks, {after} after {given_back:.2f} s"
    )


_DUMP = """
from torch._C import _distributed_c10d as c10d
dump = getattr(c10d, "_dump_nccl_trace" if where.type == "cuda" else "_dump_fr_trace", None)
def dumped(*how):
    started = time.perf_counter()
    told = pickle.loads(dump(*how))
    return {"seconds": time.perf_counter() - started, "dump": told}
def dumped_later(file):
    time.sleep(1.0)
    for name, how in (("status", (False, False, False)), ("entries", (True, False, False))):
        told = dumped(*how)
        with open(f"{file}_{name}.json", "w") as out:
            json.dump(told, out, default=str)
"""


def recorder() -> None:
    ranks = Ranks()
    folder = Path(tempfile.mkdtemp(prefix="gpu-day-"))
    told = ranks(_DUMP + "dump is not None")
    check(all(told.values.values()), "torch has no such recorder")
    told = ranks("json.dumps(dumped(True, False, False)['dump'], default=str)")
    check(told.ok, summary(told))
    healthy = {rank: json.loads(text) for rank, text in told.values.items()}
    source = (
        f"threading.Thread(target=dumped_later, args=({str(folder)!r} + f'/{{rank}}',), daemon=True).start()\n"
        "x = ones()\nif rank == 0:\n    dist.all_reduce(x)\n    x.item()\nelse:\n    time.sleep(2)"
    )
    told = ranks(source, timeout=12.0)
    waiting = {}
    for name in ("status", "entries"):
        for rank in range(RANKS):
            file = folder / f"{rank}_{name}.json"
            if file.exists() and file.stat().st_size:
                waiting[name, rank] = json.loads(file.read_text(encoding="utf-8"))
    check(("status", 0) in waiting, f"a rank that waits for its GPU cannot dump its status: {summary(told)}")
    took = {
        name: waiting[name, 0]["seconds"] * 1000 for name in ("status", "entries") if (name, 0) in waiting
    }
    _keep("healthy", healthy)
    _keep("left_out", {rank: one["dump"] for (name, rank), one in waiting.items() if name == "entries"})
    _keep("left_out_status", {rank: one["dump"] for (name, rank), one in waiting.items() if name == "status"})
    said = ", ".join(f"{name} {ms:.1f} ms" for name, ms in took.items())
    passed(f"read while a rank waits: {said}{'' if 'entries' in took else '; the entries never came'}")


def _keep(name: str, dumps: dict[int, Any]) -> None:
    """Keep what the ranks' recorders held as a fixture of the unit tests, and beside the results."""
    import torch

    text = json.dumps(
        {"torch": str(torch.__version__), "recorded": True, "ranks": dumps}, indent=1, default=str
    )
    out = Path(os.environ.get(OUT) or ".") / "nccl_dumps"
    out.mkdir(parents=True, exist_ok=True)
    file = out / f"recorded_{name}.json"
    file.write_text(text + "\n", encoding="utf-8")
    if NCCL:
        shutil.copy(file, DUMPS)


_SCRIPT = """
import os, queue, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
backend = {backend!r}
rank = int(os.environ["LOCAL_RANK"])
where = torch.device("cpu")
if backend == "nccl":
    where = torch.device("cuda", rank % torch.cuda.device_count())
    if torch.cuda.device_count() < int(os.environ["WORLD_SIZE"]):
        os.environ["NCCL_HOSTID"] = str(rank)  # NCCL lets them share a GPU then
    torch.cuda.set_device(where)
dist.init_process_group(backend)
torch.manual_seed(0)
model = DDP(torch.nn.Linear(8, 1).to(where))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(20):
    optimizer.zero_grad()
    torch.manual_seed(100 * step + rank)
    loss = model(torch.randn(4, 8, device=where)).square().mean()
    loss.backward()
    optimizer.step()
    mean = loss.detach().clone()
    if step == 10:
        print(f"process {{os.getpid()}}", flush=True)
    if step == 10 and rank == 1:
        {instead}
    else:
        dist.all_reduce(mean)
    mean.item()
dist.destroy_process_group()
"""


def _script(folder: str, instead: str) -> str:
    """The script, with what rank 1 does at its tenth step instead of the all_reduce."""
    script = Path(folder) / "train.py"
    script.write_text(_SCRIPT.format(backend="nccl" if NCCL else "gloo", instead=instead), encoding="utf-8")
    return str(script)


def _doctor(*arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "course_lib.cli", "doctor", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    print(done.stdout, done.stderr)
    return done.returncode, done.stdout + done.stderr


def _started(instead: str) -> tuple[int, str]:
    with tempfile.TemporaryDirectory() as folder:
        return _doctor("--ranks", str(RANKS), "--timeout", "40", _script(folder, instead))


def doctor_healthy() -> None:
    code, said = _started("dist.all_reduce(mean)")
    check(code == 0, f"exit code {code}: {said[-250:]}")
    passed("exit code 0")


def doctor_left_out() -> None:
    _names_rank_1(*_started("pass"))


def _names_rank_1(code: int, said: str) -> NoReturn:
    sentence = said[said.find("Diagnosis:") :].partition("\n\n")[0]
    check(
        code != 0 and re.search(r"\brank 1\b", sentence, re.IGNORECASE) is not None, f"{code}: {said[-250:]}"
    )
    passed(f"exit code {code}: {one_line(sentence)}")


def attached() -> None:
    if shutil.which("py-spy") is None:
        cannot("py-spy is not installed")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
    with tempfile.TemporaryDirectory() as folder:
        command = [*torchrun, _script(folder, "queue.Queue().get()")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as run:
            try:
                pids: list[str] = []
                while run.stdout and len(pids) < RANKS and (line := run.stdout.readline()):
                    pids += re.findall(r"process (\d+)", line)
                time.sleep(3.0)  # until the ranks that go on wait, too
                (Path(os.environ[OUT]) / "ras.json").write_bytes(_ras())
                said = _doctor("--attach", "--pids", ",".join(pids))
            finally:
                run.terminate()  # and torchrun ends its workers
    _names_rank_1(*said)


def _ras() -> bytes:
    """What NCCL's RAS service answers, as it is; empty where none is there."""
    try:
        return ras.answer()
    except OSError:
        return b""


# -- part 5: speed and memory ------------------------------------------------------------------------------------------


def start() -> None:
    said = []
    for backend in ("gloo", "nccl"):
        took = []
        for _ in range(4):
            started = time.monotonic()
            ranks = Ranks(backend=backend, connect=False)
            took.append(time.monotonic() - started)
            ranks.gang.stop()
        # The first one loads torch, and tries the GPUs.
        said.append(f"{backend} {statistics.median(took[1:]):.2f} s (the first one {took[0]:.2f} s)")
    passed(f"{RANKS} ranks ready: {', '.join(said)}")


def contexts() -> None:
    before = _used_mb()
    if before is None:
        cannot("nvidia-smi does not tell how much memory is used")
    size = max(RANKS, _cards())
    ranks = Ranks(size, backend="gloo", connect=False)
    ranks("x = ones()\nfinish()")
    gloo = _used_mb()
    ranks.gang.stop()
    ranks = Ranks(size)
    nccl = _used_mb()
    if gloo is None or nccl is None:
        failed("nvidia-smi does not answer any more")
    each = (gloo - before) / size
    passed(
        f"{each:.0f} MB per rank with a tensor, {(nccl - before) / size:.0f} MB once NCCL is connected, {size} ranks"
    )


def first_step() -> None:
    ranks = Ranks(connect=False)
    source = (
        "times = []\nfor _ in range(20):\n    finish()\n    started = time.perf_counter()\n    x = ones(1_000_000)\n"
        "    dist.all_reduce(x)\n    finish()\n    times.append(time.perf_counter() - started)\ntimes"
    )
    told = ranks(source)
    check(told.ok, summary(told))
    first, *later = told.values[0]
    passed(
        f"the first all_reduce of 4 MB takes {first * 1000:.0f} ms, later ones {statistics.median(later) * 1000:.2f} ms"
    )


def fence() -> None:
    ranks = Ranks(1, backend="auto", connect=False)
    medians = []
    for source in ("None", "y = ones(1000) + 1"):
        took = []
        for _ in range(60):
            started = time.perf_counter()
            ranks(source)
            took.append(time.perf_counter() - started)
        medians.append(statistics.median(took[10:]) * 1000)
    passed(
        f"a cell: {medians[0]:.2f} ms before the rank uses its GPU, {medians[1]:.2f} ms with a small tensor on it"
    )


STORIES: dict[str, Callable[[], None]] = {
    "torch": torch_build,
    **{
        story.__name__: story
        for story in (
            box, driver, tried, choices, forked, lazy, hidden, sharing, collectives, ddp, left_out, left_open,
            left_open_async, first_left_out, mismatch, raises, dies, late, busy, stop, again, out_of_memory,
            kernel_killed, recorder, doctor_healthy, doctor_left_out, attached,
            start, contexts, first_step, fence,
        )
    },
}  # fmt: skip


def main() -> int:
    """Run the story that is named; 1 where it has failed."""
    try:
        STORIES[sys.argv[1]]()
    except Verdict as verdict:
        print(f"\n{verdict}", flush=True)
        return 1 if str(verdict).startswith("FAIL") else 0
    except GangError as error:
        print(f"\nFAIL {one_line(error)}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
