"""Task 1: the line that a machine of a Slurm job runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TypedDict

from course_lib.lessons.cluster.tasks.agents import Line, read_line, start
from course_lib.tasks.task import Miss, Recognised, Task, Trial, WrongKind, check, gate

_SCRIPT = "train.py"


class Case(TypedDict):
    """Two jobs on the same machines, one after the other by number; GPUs per machine; the addresses of the machines."""

    jobs: list[int]
    gpus: int
    hosts: list[str]


class Seen(TypedDict):
    """The lines of both jobs on this machine; and of each worker of the first: RANK, LOCAL_RANK and WORLD_SIZE."""

    lines: list[Line]
    workers: list[list[int]]


ThisTrial = Trial[Case, Seen, None]


class LaunchLine(Task[Case, Seen, None]):
    """The line that a machine of a Slurm job runs."""

    name = "cluster.launch_line"
    world_sizes = (2, 3)
    seconds = 30.0

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield jobs with numbers that are far apart, on machines of one to three GPUs."""
        first = chance.randrange(100_000, 200_000)
        yield {
            "jobs": [first, first + chance.randrange(1, 900)],
            "gpus": chance.choice((2, 3)) if world_size == 2 else 1,
            "hosts": [f"127.0.0.{chance.randrange(2, 60) + 60 * number}" for number in range(world_size)],
        }

    def describe(self, case: Case) -> str:
        return f"{len(case['hosts'])} machines with {case['gpus']} GPU{'s' if case['gpus'] > 1 else ''} each"

    def trial(self, answer: Callable[[list[str], dict[str, str]], object], case: Case) -> Seen:
        number, lines, found = int(os.environ["RANK"]), [], list[Line]()
        for job in case["jobs"]:
            given = answer([*case["hosts"]], _environment(case, job, number))
            words = [str(word) for word in given] if isinstance(given, list | tuple) else []
            if not words or os.path.basename(words[0]) != "torchrun" or words[-1] != _SCRIPT:
                raise WrongKind(f"{given!r:.80}")
            line = read_line(words)
            if isinstance(line, str):
                raise WrongKind(f"a line that torchrun refuses ({line:.120})")
            lines.append(words)
            found.append(line)
        return {"lines": found, "workers": start(lines[0])}

    is_line = gate('It returns a list of words: "torchrun", its options, and train.py.')

    @check("All machines are told how many machines and GPUs there are.", gate=True)
    def counts(self, trial: ThisTrial) -> Miss | None:
        """One agent per machine, one rank per GPU of that machine."""
        machines, gpus = len(trial.case["hosts"]), trial.case["gpus"]
        for rank, seen in trial.seen.items():
            line = seen["lines"][0]
            if line["machines"] not in (str(machines), f"{machines}:{machines}"):
                known = "one_machine" if line["machines"] in ("standalone", "1", "1:1") else None
                return Miss(f"machine {rank} of {machines} was told: {line['machines']}", known)
            if line["ranks"] != str(gpus):
                known = "all_ranks_here" if line["ranks"] == str(machines * gpus) else None
                return Miss(f"machine {rank} has {gpus} GPUs, and starts {line['ranks']} ranks", known)
        return None

    @check("All machines go to the same address, which is that of the first machine.", gate=True)
    def meet_at_the_first(self, trial: ThisTrial) -> Miss | None:
        """An address of this machine's own, or one that is this machine everywhere, meets nobody."""
        first = trial.case["hosts"][0]
        for rank, seen in trial.seen.items():
            address = seen["lines"][0]["endpoint"].rpartition(":")[0]
            if address != first:
                known = (
                    "own_address"
                    if address in (trial.case["hosts"][rank], "127.0.0.1", "localhost")
                    else None
                )
                return Miss(f"machine {rank} goes to {address}; the first machine is {first}", known)
        if len({seen["lines"][0]["endpoint"] for seen in trial.seen.values()}) > 1:
            return Miss("the machines go to different ports")
        return None

    @check("Two jobs on the same machines do not meet: each has a port and an id of its own.")
    def jobs_apart(self, trial: ThisTrial) -> Miss | None:
        """The id where machines are not numbered; a static rendezvous does not need it."""
        for seen in trial.seen.values():
            one, other = seen["lines"]
            if one["endpoint"] == other["endpoint"]:
                port = one["endpoint"].rpartition(":")[2]
                return Miss(
                    f"jobs {trial.case['jobs'][0]} and {trial.case['jobs'][1]} both take port {port}",
                    "fixed_port",
                )
            if one["place"] is None and one["id"] == other["id"]:
                return Miss(f"both jobs have the id {one['id']}", "same_id")
        return None

    @check("The machines meet, and every rank of the job is started once.")
    def starts_all(self, trial: ThisTrial) -> Miss | None:
        """By real agents, all on this machine."""
        machines, gpus = len(trial.case["hosts"]), trial.case["gpus"]
        workers = [worker for _, seen in sorted(trial.seen.items()) for worker in seen["workers"]]
        wanted = sorted([rank, rank % gpus, machines * gpus] for rank in range(machines * gpus))
        if sorted(workers) == wanted:
            return None
        places = [seen["lines"][0]["place"] for _, seen in sorted(trial.seen.items())]
        known = "all_first" if None not in places and len(set(places)) < machines else None
        ranks = ", ".join(str(worker[0]) for worker in sorted(workers)) or "none"
        return Miss(f"with {self.describe(trial.case)}, these ranks were started: {ranks}", known)

    def recognise(self, trials: Sequence[ThisTrial]) -> Recognised:
        # Each miss names its own misconception.
        return None


def _environment(case: Case, job: int, number: int) -> dict[str, str]:
    """Return what Slurm sets for the task on a machine, as far as it matters here."""
    return {
        "SLURM_JOB_ID": str(job),
        "SLURM_JOB_NUM_NODES": str(len(case["hosts"])),
        "SLURM_NODEID": str(number),
        "SLURM_PROCID": str(number),
        "SLURM_LOCALID": "0",
        "SLURM_NTASKS": str(len(case["hosts"])),
        "SLURM_GPUS_ON_NODE": str(case["gpus"]),
    }
