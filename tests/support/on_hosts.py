"""Gangs on several hosts, for tests."""

from typing import Any

from realranks.doctor import with_diagnosis
from realranks.outcome.outcome import Outcome
from realranks.ranks.hosts.spread import Hosts, HostsStart
from realranks.ranks.kernel.gang import Gang

IMPORTS = "import os, signal, time\nimport torch, torch.distributed as dist\nrank = dist.get_rank()"
#: A loop in which all ranks meet about a hundred times a second.
MEETINGS = """
for step in range(STEPS):
    dist.all_reduce(torch.ones(1))
    time.sleep(0.01)
print("came to the end")
"""


class Cells:
    """A gang on hosts: `cells(source)` runs a cell."""

    def __init__(self, hosts: Hosts, size: int = 4) -> None:
        self.gang = Gang(size, start=HostsStart(hosts, size, "auto"))
        self.gang.wait_ready()
        self(IMPORTS)

    def __call__(self, source: str, **options: Any) -> Outcome:
        options.setdefault("timeout", 60.0)
        return with_diagnosis(self.gang.run_cell(source, label="In [1]", first_line=2, **options))
