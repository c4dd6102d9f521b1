"""Made-up notes of the probe, and outcomes that carry them."""

from typing import Any

import pytest

from realranks.doctor.conditions import Guard
from realranks.outcome.facts import Facts
from realranks.outcome.outcome import Collective
from realranks.outcome.places import Frame, Spot
from realranks.outcome.probe_notes import ProbeNotes
from realranks.ranks.codec import decode
from tests.support.outcomes import outcome

SCRIPT = "/scripts/train.py"


def under_a_condition(monkeypatch: pytest.MonkeyPatch, *lines: int) -> None:
    """From now on these lines of every script stand under `rank == 0`, and no others do."""

    def guards(file: str, line: int) -> tuple[Guard, ...]:
        return (Guard("rank == 0", (line, line), line, line, True),) if line in lines else ()

    monkeypatch.setattr("realranks.doctor.conditions.guards", guards)


def notes(**told: Any) -> ProbeNotes:
    """What a rank's probe tells: nothing happened, but what is given."""
    counts = {"forwards": 4, "backwards": 4, "batches": 0, "steps": 4, **told.pop("counts", {})}
    empty: dict[str, Any] = {
        "bare_backwards": 0,
        "no_sync_steps": 0,
        "failures": [],
        "models": [],
        "calls": {"first": 0, "last": []},
        "loaders": [],
        "weights": [],
        "gradients": [],
        "outside": [],
        "groups": {},
        "unseen": {},
        "messages": 0,
        "rooted": {},
        "strange": [],
    }
    return decode(ProbeNotes, {"counts": counts, **empty, **told})


def models(*bypassed: int) -> list[dict[str, Any]]:
    """DDP models whose module was called past them so often."""
    return [
        {"number": n, "plain_forwards": 0, "bypassed": times, "inputs": [], "events": {}}
        for n, times in enumerate(bypassed)
    ]


def weights(*sums: int, step: int = 0, name: str = "weight") -> list[dict[str, Any]]:
    """Checks of one parameter, one per step."""
    return [
        {
            "model": 0,
            "step": step + number,
            "parameters": {name: [one, [float(one)]]},
            "buffers": {},
            "managed": True,
        }
        for number, one in enumerate(sums)
    ]


def gradients(*sums: int, reduced: tuple[int, ...] = (), settings: Any = ()) -> list[dict[str, Any]]:
    """What an optimizer used in each step, and what DDP had left."""
    return [
        {
            "step": number,
            "gradients": {"0:weight": [one, []]} if one else {},
            "reduced": {"0:weight": [reduced[number], []]} if reduced else {},
            "settings": list(settings),
        }
        for number, one in enumerate(sums)
    ]


def outside(
    *sums: int,
    gradient: tuple[int, ...] = (),
    name: str = "head.weight",
    shape: tuple[int, ...] = (1, 4),
    beside_ddp: bool = False,
    settings: Any = (),
    among: list[int] | None = None,
    end: bool = True,
) -> list[dict[str, Any]]:
    """Checks of one parameter that no DDP model holds, one per step; the last one is that at the end of the run."""
    gradients = [*gradient, *[0] * len(sums)]
    return [
        {
            "optimizer": 0,
            "step": -1 if end and number == len(sums) - 1 else number,
            "beside_ddp": beside_ddp,
            "parameters": [[name, list(shape), [one, [float(one)]], [of, [float(of)]], among]],
            "settings": list(settings),
        }
        for number, (one, of) in enumerate(zip(sums, gradients, strict=False))
    ]


def watched(*each: ProbeNotes, kind: str = "ok", **fields: Any) -> Any:
    """An outcome of as many ranks as there are notes."""
    extra = fields.pop("facts", {})
    facts = {
        rank: Facts(**{"probe": told, "groups": {"0": tuple(range(len(each)))}, **extra.get(rank, {})})
        for rank, told in enumerate(each)
    }
    return outcome(kind, len(each), facts=facts, what="script", **fields)


def record(
    stage: str,
    line: int,
    seq: int = 1,
    callers: tuple[int, ...] = (),
    op: str = "all_reduce",
    size: int = 8,
    dtype: str = "Float",
) -> Collective:
    """A collective of DDP's that line `line` of the script has issued."""
    return Collective(
        "0",
        seq,
        op,
        ((size,),),
        (dtype,),
        False,
        time_ns=seq,
        stage=stage,
        origin=Frame(SCRIPT, line, "train", "code"),
        frames=tuple(Spot(SCRIPT, number, "train") for number in (line, *callers)),
    )
