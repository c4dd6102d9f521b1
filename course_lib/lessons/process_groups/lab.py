"""Lesson 02: two machines and what torchrun tells their processes, and who waits for whom at the store."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from course_lib.lab.explorer import Explorer, buttons, explore
from realranks.cells.run import run_quietly
from realranks.draw import Arrow, Box, Drawing, Text
from realranks.draw.drawing import Shape, text_width
from realranks.outcome.fold import rank_list
from realranks.outcome.outcome import Outcome

if TYPE_CHECKING:
    import torch.distributed as dist

#: How many ranks meet in the pictures of a start.
RANKS = 4
#: Who holds the store: a process of its own, as with torchrun, or rank 0, as without.
AGENT, RANK_0 = "torchrun holds the store", "rank 0 holds the store"
#: How long a rank waits for the others; rank 0 longer where it holds the store, because the store ends with its wait.
_PATIENCE, _PATIENCE_OF_HOLDER = 0.8, 2.0
_WAITS_FOR = re.compile(r"wait timeout after .*?, keys: \S*/(\d+)\s*$", re.MULTILINE)
_CLIENTS = re.compile(r"(\d+)/(\d+) clients joined")
_ADDRESS = re.compile(r"//cpu//0/(\d+)$")


# --- two machines ----------------------------------------------------------------------------------------------------


def draw_machines(outcome: Outcome | None = None) -> Drawing:
    """Draw two machines with an agent and two workers each, and the store.

    Args:
        outcome: of `torchrun` on two ranks, the environment of each machine's workers; question marks without.
    """
    environments = told_to_workers(outcome) if outcome else []
    width, between, top, height = 352, 40, 4, 240
    shapes: list[Shape] = []
    store_x, agents_y, workers_y = 8 + width - 142, top + 46, top + 146
    for machine in range(2):
        x = 8 + machine * (width + between)
        shapes += [
            Box(x, top, width, height, edge=1.5),
            Text(x + 12, top + 24, f"machine {machine}", 13, bold=True),
            Box(x + 12, agents_y, 150, 48, "even"),
            Text(x + 87, agents_y + 20, "the agent: torchrun", 12, "middle", colour="#000"),
            Text(x + 87, agents_y + 38, f"--node-rank={machine}", 11, "middle", mono=True, colour="#000"),
        ]
        for local in range(2):
            shapes += _worker(x + 12 + local * 172, workers_y, 2 * machine + local, environments)
            shapes.append(Arrow(x + 50 + local * 56, agents_y + 48, x + 62 + local * 150, workers_y - 3, 2))
            worker = x + 122 + local * 172
            shapes.append(
                Arrow(
                    worker, workers_y, store_x + 30 + 66 * machine + 22 * local, agents_y + 51, 1, faint=True
                )
            )
    shapes += [
        Box(store_x, agents_y, 130, 48, edge=2),
        Text(store_x + 65, agents_y + 20, "the store", 12, "middle", bold=True),
        Text(store_x + 65, agents_y + 38, "at MASTER_ADDR", 11, "middle", mono=True),
        Arrow(172, agents_y + 24, store_x - 3, agents_y + 24, dashed=True),
        Arrow(8 + width + between + 10, agents_y + 24, store_x + 133, agents_y + 24, dashed=True),
    ]
    y = top + height + 18
    key = 8.0
    for line, dashed, faint, text in (
        (2.0, False, False, "starts and watches"),
        (1.5, True, False, "agents agree on who is which machine"),
        (1.0, False, True, "workers exchange their addresses"),
    ):
        shapes += [Arrow(key, y - 4, key + 30, y - 4, line, dashed, faint=faint), Text(key + 38, y, text)]
        key += 66 + text_width(text)
    numbers = "; ".join(
        f"worker {number}: RANK {one['RANK']}, LOCAL_RANK {one['LOCAL_RANK']}"
        for number, one in enumerate(environments)
    )
    alt = (
        "Two machines. On each an agent, torchrun, which starts two workers. The store is on machine 0; both agents "
        f"and all workers reach it at MASTER_ADDR and MASTER_PORT. {numbers or 'Their numbers are not known yet.'}"
    )
    return Drawing(
        2 * width + between + 16, top + height + 24, tuple(shapes), alt, "Two machines, two processes on each"
    )


def told_to_workers(outcome: Outcome) -> list[dict[str, str]]:
    """Return the environment variables of each worker, one machine after the other."""
    return [one for machine in sorted(outcome.values) for one in outcome.values[machine]]


def _worker(x: float, y: float, place: int, environments: Sequence[Mapping[str, str]]) -> Iterator[Shape]:
    yield Box(x, y, 156, 84, f"rank {environments[place]['RANK']}" if environments else "plain")
    lines = [
        f"{name} = {environments[place][name] if environments else '?'}" for name in ("RANK", "LOCAL_RANK")
    ]
    yield Box(x + 6, y + 6, 144, 72, "plain", edge=0)
    yield Text(x + 78, y + 24, "a worker: train.py", 12, "middle")
    for number, line in enumerate(lines):
        yield Text(x + 78, y + 45 + 20 * number, line, 12, "middle", bold=True, mono=True)


def torchrun(line: str) -> list[dict[str, str]]:
    """Run this command on all machines, which a rank plays, with the machine's number for `{node}`.

    It calls `main` of `torch/distributed/run.py` in a forked process, so that nobody has to import torch again.

    Returns:
        The JSON objects that the workers of this machine have printed, by their `RANK`.

    Raises:
        RuntimeError: it failed; with all that was written.
    """
    code, log = forked("torch.distributed.run", shlex.split(line.format(node=os.environ["RANK"]))[1:])
    if code:
        raise RuntimeError(log)
    return sorted(objects_in(log), key=lambda one: int(one["RANK"]))


def objects_in(log: str) -> Iterator[dict[str, str]]:
    """Yield the JSON objects with which lines of a log begin.

    Two processes that print at the same moment may share a line: `print` without a buffer writes the end of the line
    by itself.
    """
    decoder = json.JSONDecoder()
    for line in log.splitlines():
        while line.startswith("{"):
            found, end = decoder.raw_decode(line)
            yield found
            line = line[end:]


def old_launcher(script: str) -> str:
    """Start this script with `python -m torch.distributed.launch`; return the exit code, and what it says."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.py")
        path.write_text(script)
        code, log = forked("torch.distributed.launch", ["--nproc-per-node=1", "--master-port=0", str(path)])
    said = [line[max(line.find("FutureWarning"), 0) :] for line in log.splitlines() if "Warning:" in line]
    said += [line.rpartition("=")[0] for line in log.splitlines() if "error:" in line]
    return "\n".join([f"exit code {code}", *dict.fromkeys(said)])


def told_by_torchrun(script: str) -> str:
    """Start this script with `torchrun`; return the exit code, and what it prints."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.py")
        path.write_text(script)
        arguments = ["--nproc-per-node=1", f"--master-port={free_port()}", str(path)]
        code, log = forked("torch.distributed.run", arguments)
    said = [line for line in log.splitlines() if line.startswith("--")]
    return "\n".join([f"exit code {code}", *dict.fromkeys(said)])


def forked(
    module: str, arguments: list[str], before: Callable[[], object] = lambda: None
) -> tuple[int | None, str]:
    """Run `python -m module arguments` in a process of its own; return its exit code and its output.

    Args:
        before: called first in that process.
    """
    import importlib
    import multiprocessing

    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as log:

        def launcher() -> None:
            os.environ.pop("TORCHELASTIC_USE_AGENT_STORE", None)  # left by the course, which also launches
            for descriptor in (1, 2):
                os.dup2(os.open(log.name, os.O_WRONLY | os.O_APPEND), descriptor)
            before()
            with ThreadPoolExecutor(1) as pool:  # with a short stack: the agent looks through it
                pool.submit(importlib.import_module(module).main, arguments).result()

        process = multiprocessing.get_context("fork").Process(target=launcher)
        process.start()
        process.join()
        return process.exitcode, log.read()


def free_port() -> int:
    """Return a port that nothing uses now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _third(outcome: Outcome) -> tuple[str, str]:
    """Return RANK and LOCAL_RANK of the first process on the second machine."""
    environment = outcome.values[1][0]
    return environment["RANK"], environment["LOCAL_RANK"]


def rank_begins_anew(outcome: Outcome) -> bool:
    """Return whether it is RANK that counts from 0 on each machine."""
    return _third(outcome) == ("0", "2")


def local_rank_begins_anew(outcome: Outcome) -> bool:
    """Return whether it is LOCAL_RANK that counts from 0 on each machine."""
    return _third(outcome) == ("2", "0")


def both_count_on(outcome: Outcome) -> bool:
    """Return whether both count over all machines."""
    return _third(outcome) == ("2", "2")


def carry_both(*backends: str) -> Callable[[Outcome], bool]:
    """Predict which backends can carry CPU tensors and CUDA tensors."""
    return lambda outcome: (
        {name for name, kinds in outcome["can"][0].items() if len(kinds) == 2} == {*backends}
    )


def names_the_missing(outcome: Outcome) -> bool:
    """Return whether all ranks that came raise, each naming the missing rank at the end of its message."""
    missing = set(outcome.ranks) - set(outcome.errors)
    ends = [re.search(r"/(\d+)\s*$", error.message) for error in outcome.errors.values()]
    return len(missing) == 1 and all(end is not None and {int(end[1])} == missing for end in ends)


def counts_the_come(outcome: Outcome) -> bool:
    """Return whether all ranks that came raise, each naming their number."""
    return len(outcome.errors) == len(outcome.ranks) - 1 and all(
        _CLIENTS.search(error.message) for error in outcome.errors.values()
    )


# --- who waits at the store for whom ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Start:
    """The result of a start for which some ranks have come.

    Attributes:
        holder: `AGENT` or `RANK_0`.
        said: of each rank that has come, torch's own last words; "" where it is in the group.
        keys: the ranks whose addresses were in the store; None where there was no store.
    """

    holder: str
    said: Mapping[int, str]
    keys: frozenset[int] | None

    def waits_for(self, rank: int) -> str:
        """Return what this rank was waiting for, read from torch's words."""
        words = self.said[rank]
        if not words:
            return ""
        if found := _WAITS_FOR.search(words):
            return f"rank {found[1]}'s address"
        if found := _CLIENTS.search(words):
            return f"its clients: {found[1]} of {found[2]} have come"
        if self.keys is None:
            return "somebody who listens at the port"
        return words.splitlines()[0]


def start_ranks(come: Collection[int], holder: str = AGENT) -> Start:
    """Let these of four real ranks call `init_process_group`, and see who waits for what.

    Raises:
        RuntimeError: a process has not said what it saw.
    """
    outcome = run_quietly(_come, sorted(come), holder == AGENT, free_port(), ranks=RANKS + 1, init=False)
    values = outcome.values
    missing = {*come, RANKS} - set(values)
    if missing:
        raise RuntimeError(f"The start could not be watched (processes {sorted(missing)}): {outcome.errors}")
    keys = values[RANKS]["keys"]
    said = {rank: str(values[rank]) for rank in sorted(come)}
    return Start(holder, said, None if keys is None else frozenset(keys))


def _come(come: Sequence[int], with_agent: bool, port: int) -> str | dict[str, list[int] | None] | None:
    """Run four ranks and one process that holds the store, as torchrun's agent does, or looks into it."""
    import torch
    import torch.distributed as dist

    # They agree on what happens when through the store that the course has given them: a second one.
    board = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    me = int(os.environ["RANK"])
    if me == RANKS:
        return _hold_or_look(board, come, with_agent, port)
    if me not in come:
        return None
    # As torchrun sets them: torch takes the agent's word only for a store at just this address.
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    os.environ["TORCHELASTIC_USE_AGENT_STORE"] = str(with_agent)
    board.set(f"lesson/here/{me}", "yes")
    board.wait([f"lesson/here/{rank}" for rank in come])  # so that nobody's time begins long before another's
    if with_agent:
        board.wait(["lesson/store"])
    holds = not with_agent and me == 0
    try:
        dist.init_process_group(
            "gloo",
            init_method=f"tcp://127.0.0.1:{port}",
            rank=me,
            world_size=RANKS,
            timeout=seconds(_PATIENCE_OF_HOLDER if holds else _PATIENCE),
        )
        dist.all_reduce(torch.ones(1))
        said = ""
    except RuntimeError as error:  # DistError is one, too
        said = str(error)
    board.set(f"lesson/done/{me}", "yes")
    return said


def _hold_or_look(
    board: dist.TCPStore, come: Sequence[int], with_agent: bool, port: int
) -> dict[str, list[int] | None]:
    """Return the ranks whose addresses the store holds when no rank waits any more; runs on the fifth process."""
    import torch.distributed as dist

    if not with_agent and 0 not in come:
        return {"keys": None}
    store = dist.TCPStore("127.0.0.1", port, is_master=with_agent, wait_for_workers=False, timeout=seconds(5))
    board.set("lesson/store", "is there")
    waited_for = [f"lesson/done/{rank}" for rank in come if with_agent or rank != 0 or len(come) == RANKS]
    board.wait(waited_for)
    return {"keys": sorted(int(address[1]) for key in store.list_keys() if (address := _ADDRESS.search(key)))}


def seconds(number: float) -> timedelta:
    """Return a timeout as torch takes it."""
    return timedelta(seconds=number)


def draw_start(start: Start) -> Drawing:
    """Draw the ranks, and what the store holds; dashed: an address that is waited for, or missing."""
    left, width, right, row, top = 8, 350, 500, 44, 4
    store_width = 760 - right - 8
    shapes: list[Shape] = [
        Text(right + 12, top + 18, start.holder.replace(" holds the store", "'s store"), 12, bold=True),
        Box(right, top, store_width, RANKS * row + 22, edge=1.5, dashed=start.keys is None),
    ]
    if start.keys is None:
        shapes += [
            Text(right + 12, top + 46, "There is none: rank 0 has not come,", 12),
            Text(right + 12, top + 64, "and nobody listens at this port.", 12),
        ]
    for rank in range(RANKS):
        y = top + 26 + rank * row
        shapes.append(_rank_box(start, rank, left, y, width))
        if start.keys is not None:
            is_stored = rank in start.keys
            place = (right + 12, y, store_width - 24, 30)
            shapes.append(
                Box(*place, f"rank {rank}" if is_stored else "", f"{rank}: rank {rank}'s address", edge=1)
                if is_stored
                else Box(*place, text=f"{rank}: nothing yet", dashed=True)
            )
            if is_stored:
                shapes.append(Arrow(left + width + 4, y + 11, right + 8, y + 11))
    for rank in start.said:
        awaited = re.match(r"rank (\d)'s address", start.waits_for(rank))
        if awaited and start.keys is not None:
            y = top + 26 + rank * row + 21
            shapes.append(
                Arrow(left + width + 4, y, right + 8, top + 26 + int(awaited[1]) * row + 21, dashed=True)
            )
    return Drawing(760, top + RANKS * row + 34, tuple(shapes), _in_words(start), _title(start))


def _rank_box(start: Start, rank: int, x: float, y: float, width: float) -> Box:
    if rank not in start.said:
        return Box(x, y, width, 30, text=_words(start, rank), dashed=True)
    look = "even" if start.waits_for(rank) else "good"
    return Box(x, y, width, 30, look, _words(start, rank), start.said[rank])


def _title(start: Start) -> str:
    if len(start.said) == RANKS and not any(start.said.values()):
        return "All have come: every rank has its group"
    if not start.said:
        return "Nobody has come"
    missing = [rank for rank in range(RANKS) if rank not in start.said]
    has = "has" if len(missing) == 1 else "have"
    return f"{rank_list(missing).capitalize()} {has} not come; who waits for whom"


def _in_words(start: Start) -> str:
    if start.keys is None:
        store = "there is no store"
    else:
        store = f"addresses in the store: {rank_list(sorted(start.keys)) if start.keys else 'none'}"
    return f"{start.holder}: {'; '.join(_words(start, rank) for rank in range(RANKS))}; {store}"


def _words(start: Start, rank: int) -> str:
    if rank not in start.said:
        return f"rank {rank} has not come"
    awaited = start.waits_for(rank)
    return f"rank {rank} waits for {awaited}" if awaited else f"rank {rank} is in the group"


def explore_start(first: Start | None = None) -> Explorer:
    """Return controls for who comes and who holds the store: each choice is a start of real ranks.

    Args:
        first: what is shown before a choice; left out, nobody has come.
    """
    import ipywidgets as widgets

    def draw(holder: str, **comes: bool) -> tuple[Drawing, str]:
        start = start_ranks([rank for rank, come in enumerate(comes.values()) if come], holder)
        words = "\n".join(f"rank {rank}: {said}" for rank, said in start.said.items() if said)
        return draw_start(start), f"<pre>{escape(words)}</pre>"

    first = first or Start(AGENT, {}, frozenset())
    come = {
        f"rank_{rank}": widgets.ToggleButton(rank in first.said, description=f"rank {rank} comes")
        for rank in range(RANKS)
    }
    holder = buttons("", [AGENT, RANK_0], first.holder, "0")
    return explore(draw, "who comes, and who holds the store", "", draw_start(first), **come, holder=holder)


# --- the end ---------------------------------------------------------------------------------------------------------


def threads() -> int:
    """Count the threads of this process, those of C++ among them."""
    return len(os.listdir("/proc/self/task"))
