"""Task 3: the failure that ended a job, among the logs of its machines."""

from __future__ import annotations

import builtins
import json
import os
import random
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import TypedDict

from course_lib.tasks.compared import Compared, compared
from course_lib.tasks.task import WrongKind, gate

_CAUSES = (
    ("FileNotFoundError", "/data/train.pt"),
    ("ValueError", "the loss is not a number"),
    ("LookupError", "no batch has 'labels'"),
    ("RuntimeError", "CUDA error: invalid device ordinal"),
)
_PEER = (
    "RuntimeError",
    "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.77.0.2]:447",
)


class Rank(TypedDict):
    """A rank's remains of the last attempt: name and words of its exception, if it has one, and when.

    Attributes:
        survived: whether it has logged an exception that it caught.
    """

    machine: str
    local: int
    error: list[str]
    second: int
    survived: bool


class Case(TypedDict):
    """The ranks of the job, the place of the cause among them, and how often it was restarted: each time for rank 0."""

    ranks: list[Rank]
    cause: int
    restarts: int


class Found(TypedDict):
    """The cause as the answer names it."""

    machine: str
    local: int
    words: str


class FindTheTraceback(Compared[Case, Found, Found]):
    """The failure that ended a job, among the logs of its machines."""

    name = "cluster.find_the_traceback"
    world_sizes = (1,)

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield jobs on machines whose clocks differ, with ranks ended by the agent, restarts and a caught error."""
        for machines, restarts in ((2, 0), (3, 1), (2, 10)):  # as text, attempt_9 comes after attempt_10
            names = [f"node{number}" for number in sorted(chance.sample(range(10, 60), machines))]
            behind = {name: 40 * (machines - number) for number, name in enumerate(names)}
            # On the machine whose clock is ahead of the others.
            cause = 2 * machines - 1 - chance.randrange(2)
            kind, words = chance.choice(_CAUSES)
            ranks: list[Rank] = []
            for number in range(2 * machines):
                name, mate = names[number // 2], number // 2 == cause // 2 and number != cause
                ranks.append(
                    {
                        "machine": name,
                        "local": number % 2,
                        "error": [kind, words] if number == cause else [] if mate else [*_PEER],
                        "second": 1_790_000_000 - behind[name] - number % 2,
                        "survived": mate,
                    }
                )
            yield {"ranks": ranks, "cause": cause, "restarts": restarts}

    def describe(self, case: Case) -> str:
        restarts = case["restarts"]
        often = ", restarted once" if restarts == 1 else f", restarted {restarts} times" if restarts else ""
        return f"the logs of {len(case['ranks']) // 2} machines{often}"

    def trial(self, answer: Callable[[str], object], case: Case) -> Found:
        """Write the error files as torchrun and `@record` do, then ask the answer."""
        with tempfile.TemporaryDirectory(dir=os.getcwd()) as folder:
            _write_logs(Path(folder), case)
            given = answer(folder)
        if not isinstance(given, tuple | list) or len(given) != 3:
            raise WrongKind(f"{given!r:.80}")
        try:
            return {"machine": str(given[0]), "local": int(given[1]), "words": str(given[2]).strip()}
        except (TypeError, ValueError):
            raise WrongKind(f"{given!r:.80}") from None

    def oracle(self, case: Case, world_size: int) -> dict[str, list[Found]]:
        ranks = case["ranks"]
        failed = [rank for rank in ranks if rank["error"]]
        found = {
            "right": _found(ranks[case["cause"]]),
            "clocks_trusted": _found(min(failed, key=lambda rank: rank["second"])),
            "first_file": _found(failed[0]),
            "logged_only": _survived(next(rank for rank in ranks if rank["survived"])),
        }
        if case["restarts"]:
            found["old_attempt"] = {**_found(ranks[0]), "words": _BEFORE}
        return {name: [one] for name, one in found.items()}

    is_found = gate(
        "It returns a machine, a local rank, and the last line of a traceback.", "it returned {given}"
    )

    names_the_rank = compared(
        "It names the machine and the local rank of the rank that failed first.",
        "with {case}, it named local rank {seen[local]} on {seen[machine]}; it was {right[local]} on {right[machine]}",
        right=lambda trial, rank: {key: trial.oracle["right"][rank][key] for key in ("machine", "local")},
    )
    gives_its_words = compared(
        "It gives the last line of the traceback of that rank.",
        "with {case}, it gave {seen!r:.60}; it was {right!r}",
        of="words",
    )


_BEFORE = "OSError: Stale file handle"


def _found(rank: Rank) -> Found:
    return {"machine": rank["machine"], "local": rank["local"], "words": ": ".join(rank["error"])}


def _survived(rank: Rank) -> Found:
    return {
        "machine": rank["machine"],
        "local": rank["local"],
        "words": "ConnectionResetError: the tracker is away",
    }


def _write_logs(folder: Path, case: Case) -> None:
    for number, rank in enumerate(case["ranks"]):
        run = folder / rank["machine"] / f"job-7_{_letters(rank['machine'])}"
        for attempt in range(case["restarts"]):
            folder_before = run / f"attempt_{attempt}" / str(rank["local"])
            _write_rank(folder_before, rank, _BEFORE if number == 0 else "")
        last = run / f"attempt_{case['restarts']}" / str(rank["local"])
        _write_rank(last, rank, ": ".join(rank["error"]))


def _letters(name: str) -> str:
    return "".join(random.Random(name).choices("abcdefghijklmnopqrstuvwxyz0123456789_", k=8))


def _write_rank(folder: Path, rank: Rank, error: str) -> None:
    """Write the files of a rank: two with its output, and an error file if it raised."""
    from torch.distributed.elastic.multiprocessing.errors.error_handler import ErrorHandler

    folder.mkdir(parents=True)
    said = "[W socket.cpp:207] [c10d] The hostname of the client socket cannot be retrieved. err=-3\n"
    if rank["survived"]:
        said += "will try again\n" + _make_error("ConnectionResetError: the tracker is away")[1]
    (folder / "stdout.log").write_text("epoch 0\n")
    if error:
        exception, text = _make_error(error)
        said += text
        path = folder / "error.json"
        before = os.environ.get("TORCHELASTIC_ERROR_FILE")
        os.environ["TORCHELASTIC_ERROR_FILE"] = str(path)
        try:
            raise exception
        except Exception:
            ErrorHandler().record_exception(exception)  # it asks Python for the exception that is handled
        finally:
            os.environ.pop("TORCHELASTIC_ERROR_FILE")
            if before is not None:
                os.environ["TORCHELASTIC_ERROR_FILE"] = before
        content = json.loads(path.read_text())
        content["message"]["extraInfo"]["timestamp"] = str(rank["second"])
        path.write_text(json.dumps(content))
    (folder / "stderr.log").write_text(said)


def _make_error(error: str) -> tuple[BaseException, str]:
    """Return an exception of this name and message, and its traceback as Python prints it."""
    name, _, words = error.partition(": ")
    kind: type[Exception] = getattr(builtins, name)
    try:
        raise kind(words)
    except Exception as caught:
        return caught, traceback.format_exc()
