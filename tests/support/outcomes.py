"""Outcomes made up for tests: a few words instead of a run."""

from typing import Any

from realranks.outcome.outcome import Collective, Ending, Kind, Outcome, RankError, Waiting
from realranks.ranks.kernel.deadlock import fit


def outcome(kind: str = "ok", world_size: int = 4, **fields: Any) -> Outcome:
    ranks = tuple(range(world_size))
    empty = {
        "ranks": ranks,
        "stdout": {},
        "stderr": {},
        "shown": {},
        "errors": {},
        "exits": {},
        "endings": dict.fromkeys(ranks, Ending.FINISHED),
        "waiting": {},
        "pictures": {},
    }
    endings = {**empty["endings"], **fields.pop("endings", {})}
    return Outcome(kind=Kind(kind), world_size=world_size, **{**empty, **fields, "endings": endings})


def error(name: str = "ValueError", message: str = "no", where: str = "In [1], line 2") -> RankError:
    bases = {"ValueError": ("ValueError", "Exception"), "KeyError": ("KeyError", "LookupError", "Exception")}
    text = f"  {where}\n    code\n{name}: {message}"
    return RankError(name, bases.get(name, (name,)), message, text, text, where, 2)


def raised(*ranks: int, name: str = "ValueError", **fields: Any) -> Outcome:
    return outcome(
        "raises",
        errors={rank: error(name) for rank in ranks},
        endings=dict.fromkeys(ranks, Ending.RAISED),
        **fields,
    )


def died(exits: dict[int, int], **fields: Any) -> Outcome:
    return outcome("died", exits=exits, endings=dict.fromkeys(exits, Ending.DIED), **fields)


def hung(*ranks: int, call: str = "barrier", missing: tuple[int, ...] = (), **fields: Any) -> Outcome:
    waiting = {
        rank: Waiting(rank, call, "In [1], line 2", "dist.barrier()", collective("barrier"), missing)
        for rank in ranks
    }
    return outcome("hang", waiting=waiting, endings=dict.fromkeys(ranks, Ending.FREED), proved=True, **fields)


def blocked(rank: int, call: str | None, missing: Any = (), collective: Any = None, **fields: Any) -> Waiting:
    """A rank that waits at line 5 of a script, or where its collective was issued."""
    where = collective.where if collective is not None and collective.where else "train.py, line 5"
    return Waiting(rank, call, fields.pop("where", where), "code", collective, tuple(missing), **fields)


def stuck(*waiting: Waiting, world_size: int = 2, **fields: Any) -> Outcome:
    """A proved deadlock of the ranks that wait; the others have finished."""
    ranks = {each.rank: each for each in waiting}
    ends = dict.fromkeys(ranks, Ending.FREED)
    return outcome("hang", world_size, **{"waiting": ranks, "proved": True, "endings": ends, **fields})


def meeting(*brought: Collective, **fields: Any) -> Outcome:
    """Each rank waits in the collective that it has brought, and knows of those that do not fit."""
    waiting = [
        blocked(
            rank,
            mine.op,
            collective=mine,
            mismatch={other: theirs for other, theirs in enumerate(brought) if not fit(mine, theirs)},
        )
        for rank, mine in enumerate(brought)
    ]
    recorded = {rank: (mine,) for rank, mine in enumerate(brought)}
    return stuck(*waiting, world_size=len(brought), **{"recorded": recorded, **fields})


def collective(
    op: str = "all_reduce", seq: int = 1, size: int = 1, group: str = "0", done: bool = False
) -> Collective:
    return Collective(group, seq, op, ((size,),), ("Float",), done)


class Run:
    """Of an outcome, what questions ask for: whether it ended well, values by rank, and variables of the ranks."""

    def __init__(self, *values, ok=True, **variables):
        self.ok, self.values, self._variables = ok, dict(enumerate(values)), variables

    def __getitem__(self, name):
        return self._variables[name]
