"""Cut the network between two machines at random moments of what ranks do, and see what the kernel says of it.

`python -m tests.support.cable_cuts 50 --seed 1` prints each moment and a summary; the exit code is 1 where a promise
was broken. What must hold: the kernel answers, a cut is never called a proved deadlock, a value that is shown is right,
and variables are there afterwards or it is said that they are lost.
"""

from __future__ import annotations

import argparse
import faulthandler
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from realranks.outcome.outcome import Outcome
from realranks.ranks.hosts.spread import Hosts
from realranks.ranks.kernel.gang import GangError, State
from tests.support import networks
from tests.support.on_hosts import Cells

_COLLECTIVES = """
total = 0.0
for step in range(60):
    met = torch.ones(1000) * (rank + step)
    dist.all_reduce(met)
    total += met[-1].item()
    time.sleep(0.01)
total
"""
_COLLECTIVES_VALUE = float(sum(6 + 4 * step for step in range(60)))
_DDP = """
torch.manual_seed(1)
ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(200, 50))
for step in range(30):
    for parameter in ddp.parameters():
        parameter.grad = None
    ddp(torch.full((4, 200), float(rank + step % 3))).mean().backward()
    with torch.no_grad():
        for parameter in ddp.parameters():
            parameter -= 0.01 * parameter.grad
    time.sleep(0.01)
sum(parameter.double().sum().item() for parameter in ddp.parameters())
"""
_WORK = ("collectives", "ddp", "start", "rebuild")
#: What is said where variables are lost.
_LOST = ("lost", "gone", "restarted", "ended")
#: A kernel that has not answered by then does not answer.
_ANSWER_SECONDS = 150.0
_CELL_SECONDS = 25.0


@dataclass
class Moment:
    """One cut, and what came of it.

    Attributes:
        what: is going on. by: which wire the kernel has to the hosts, `ssh` through the cable or a local pipe.
        how: the network is cut. after, heals: seconds until then, and from then until it is mended; None: never.
        came: of it, in a word. broken: promises, a clause each.
    """

    what: str
    by: str
    how: str
    after: float
    heals: float | None
    came: str = ""
    seconds: float = 0.0
    broken: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        heals = "never mended" if self.heals is None else f"mended after {self.heals:.1f} s"
        return (
            f"{self.what:11} {self.by:4} {self.how:8} at {self.after:.2f} s, {heals:18}: {self.came}, "
            f"{self.seconds:.1f} s {'; '.join(['', *self.broken])}"
        )


def moments(number: int, seed: int) -> Iterator[Moment]:
    """So many cuts, the same ones for the same seed; each kind of work comes in turn."""
    chance = random.Random(seed)
    for one in range(number):
        what = _WORK[one % len(_WORK)]
        yield Moment(
            what=what,
            by=chance.choice(("ssh", "pipe")),
            how=chance.choice(("pull", "lose_all")),
            after=chance.uniform(0.0, 0.1 if what == "start" else 0.4),
            heals=chance.choice((None, *(chance.uniform(0.2, 8.0) for _ in range(3)))),
        )


class Cuts:
    """Two machines, hosts on them by either wire, and a gang on those."""

    def __init__(self, servers: networks.SshServers) -> None:
        self.machines = servers.machines
        self.via = {"ssh": servers.via(), "pipe": self.machines.via}
        self.hosts: dict[str, Hosts] = {}
        self.cells: dict[str, Cells] = {}
        self.ddp: float | None = None

    def _hosts(self, by: str) -> Hosts:
        if by in self.hosts and len(self.hosts[by].alive) < 2:
            self.hosts.pop(by).close()
        if by not in self.hosts:
            self.hosts[by] = Hosts(self.machines.names, self.via[by])
        return self.hosts[by]

    def _cells(self, by: str) -> Cells:
        hosts = self._hosts(by)
        if by in self.cells:
            self.cells[
                by
            ].gang.refresh()  # a cut that the other wire's gang has waited for may have ended this one
        if by not in self.cells or self.cells[by].gang.state is not State.IDLE:
            self.cells[by] = Cells(hosts)
        return self.cells[by]

    @contextmanager
    def _cut(self, moment: Moment) -> Iterator[None]:
        timers = [threading.Timer(moment.after, getattr(self.machines, moment.how))]
        if moment.heals is not None:
            timers.append(threading.Timer(moment.after + moment.heals, self.machines.put_back))
        began = time.monotonic()
        for timer in timers:
            timer.start()
        faulthandler.dump_traceback_later(_ANSWER_SECONDS)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()
            moment.seconds = time.monotonic() - began
            for timer in timers:
                timer.cancel()
                timer.join()
            self.machines.put_back()

    def __call__(self, moment: Moment) -> Moment:
        """Have it happen, and note what came of it."""
        hosts = self._hosts(moment.by)
        if moment.what == "start":
            self._start(moment, hosts)
        else:
            self._in_gang(moment)
        if moment.seconds > _ANSWER_SECONDS:
            moment.broken.append("no answer in time")
        after = self._cells(moment.by)("x = torch.ones(1)\ndist.all_reduce(x)\nx.item()")
        if after.values != dict.fromkeys(range(4), 4.0):
            moment.broken.append(f"afterwards: {after.values}")
        return moment

    def _start(self, moment: Moment, hosts: Hosts) -> None:
        if moment.by in self.cells:
            self.cells.pop(moment.by).gang.stop()
        with self._cut(moment):
            try:
                self.cells[moment.by] = Cells(hosts)
                moment.came = "started"
            except GangError as error:
                moment.came = f"refused: {error}"

    def _in_gang(self, moment: Moment) -> None:
        cells = self._cells(moment.by)
        if self.ddp is None:
            self.ddp = cells(_DDP).values[0]
        cells("kept = 1000 + rank")
        expected = {"collectives": _COLLECTIVES_VALUE, "ddp": self.ddp}.get(moment.what)
        with self._cut(moment):
            if moment.what == "rebuild":
                said = self._rebuild(moment, cells)
            else:
                source = _COLLECTIVES if moment.what == "collectives" else _DDP
                said = self._judge(moment, cells(source, timeout=_CELL_SECONDS), expected)
        if cells.gang.state is State.IDLE:
            self.machines.put_back()
            kept = cells("kept")
            if kept.values != {rank: 1000 + rank for rank in range(4)}:
                said += f" {kept}"
        if cells.gang.state is not State.IDLE and not any(word in said for word in _LOST):
            moment.broken.append(f"variables are lost, and that is not said: {said!r}")

    def _rebuild(self, moment: Moment, cells: Cells) -> str:
        end = time.monotonic() + moment.after + 0.5
        try:
            while time.monotonic() < end:
                if cells.gang.rescue() is None:
                    moment.came = "not rebuilt"
                    return "the ranks are ended"  # as `%ranks rescue` says
            moment.came = "rebuilt"
        except GangError as error:
            moment.came = "refused"
            return str(error)
        return ""

    def _judge(self, moment: Moment, out: Outcome, expected: float | None) -> str:
        if out.proved:
            moment.broken.append(f"called proved: {out.diagnosis}")
        if out.ok and out.values != dict.fromkeys(range(4), expected):
            moment.broken.append(f"wrong values: {out.values}, not {expected}")
        if not out.ok and out.diagnosis is None:
            moment.broken.append(f"not explained: {out}")
        moment.came = "ok" if out.ok else getattr(out.diagnosis, "kind", "?")
        return f"{getattr(out.diagnosis, 'summary', '')} {' '.join(out.notes)}"

    def close(self) -> None:
        """Let the hosts go."""
        for hosts in self.hosts.values():
            hosts.close()


@contextmanager
def cuts() -> Iterator[Cuts]:
    """Two machines whose network can be cut."""
    with (
        tempfile.TemporaryDirectory(prefix="ddp-course-cuts-") as folder,
        networks.two_machines() as machines,
        networks.ssh_servers(machines, Path(folder)) as servers,
    ):
        mine = Cuts(servers)
        try:
            yield mine
        finally:
            mine.close()


def main() -> int:
    """Print what came of each moment; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("number", type=int)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    done = []
    with cuts() as cut:
        for number, moment in enumerate(moments(asked.number, asked.seed)):
            done.append(cut(moment))
            print(number, moment, flush=True)
    for came, times in Counter((one.what, one.came.split(":")[0]) for one in done).most_common():
        print(*came, times)
    met = sum(one.seconds > one.after for one in done)
    print(f"{met} of {len(done)} cuts came before the end of what was going on")
    print("longest:", max(done, key=lambda one: one.seconds))
    return int(any(one.broken for one in done))


if __name__ == "__main__":
    sys.exit(main())
