"""Outcomes made up for tests: a few words instead of a run."""

from typing import Any

from course_lib.outcome.outcome import Collective, Ending, Kind, Outcome, RankError, Waiting


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


def collective(
    op: str = "all_reduce", seq: int = 1, size: int = 1, group: str = "0", done: bool = False
) -> Collective:
    return Collective(group, seq, op, ((size,),), ("Float",), done)
