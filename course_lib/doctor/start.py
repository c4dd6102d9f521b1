"""Hangs in `init_process_group` and `new_group`: who is not there, and who said what."""

from __future__ import annotations

from collections import Counter

from course_lib.doctor.lessons import taught_in
from course_lib.doctor.words import blocked_in, capital, lines_of, positions, rank_list, steps, verb
from course_lib.outcome.facts import NO_FACTS
from course_lib.outcome.outcome import Diagnosis, Kind, Outcome
from course_lib.watch.odd import odd_ones

_ADVICE = "start as many processes as WORLD_SIZE says, each with a RANK of its own (torchrun sets both)."


def init_hang(outcome: Outcome) -> Diagnosis | None:
    """All that wait do so for a process group that is not complete."""
    blocked = blocked_in(outcome)
    if outcome.kind is not Kind.HANG or not blocked:
        return None
    inside = [rank for rank, waiting in blocked.items() if waiting.call == "init_process_group"]
    if not inside:
        return _new_group(outcome)
    facts = {rank: outcome.facts.get(rank, NO_FACTS) for rank in inside}
    asked = {rank: each.init for rank, each in facts.items() if each.init is not None}
    told = {
        rank: f"in init_process_group: rank {init.rank} of world size {init.world_size}"
        for rank, init in asked.items()
    }
    worlds = {init.world_size for init in asked.values() if init.world_size is not None}
    claimed = Counter(init.rank for init in asked.values())
    where = blocked[inside[0]].where
    twice = [number for number, count in claimed.items() if count > 1 and number is not None]
    if twice:
        same = tuple(rank for rank, init in asked.items() if init.rank == twice[0])
        return Diagnosis(
            "init_duplicate_rank",
            f"Processes {rank_list(same).removeprefix('ranks ')} {'both' if len(same) == 2 else 'all'} say that they "
            f"are rank {twice[0]}, at {where}.",
            same,
            lines_of(told, same),
            advice="give every process a rank of its own: torchrun sets RANK, spawn passes it as the first argument.",
            lesson=taught_in(2),
        )
    if worlds and worlds != {outcome.world_size}:
        odd = tuple(r for r, init in asked.items() if init.world_size not in (None, outcome.world_size))
        wished = " and ".join(map(str, sorted(worlds - {outcome.world_size})))
        return Diagnosis(
            "init_wrong_world_size",
            f"{capital(rank_list(odd))} {verb(odd, 'asks', 'ask')} for world size {wished} at {where}, and there are "
            f"{outcome.world_size} processes: {verb(odd, 'it waits', 'they wait')} for ranks that do not exist.",
            odd if len(odd) < outcome.world_size else (),
            lines_of(told, odd),
            advice=_ADVICE,
            lesson=taught_in(2),
        )
    absent = tuple(rank for rank in range(outcome.world_size) if rank not in inside)
    if absent:
        return Diagnosis(
            "init_rank_missing",
            f"{capital(rank_list(inside))} {verb(inside, 'waits', 'wait')} in init_process_group at {where} for "
            f"{rank_list(absent)}, which {verb(absent, 'does', 'do')} not come.",
            absent,
            positions(outcome, absent),
            advice="every process that WORLD_SIZE counts must call init_process_group.",
            lesson=taught_in(2),
        )
    addresses = {rank: each.master for rank, each in facts.items() if each.master is not None}
    if len(set(addresses.values())) > 1:
        odd = odd_ones(addresses)
        unlike = " and ".join(
            name
            for place, name in enumerate(("MASTER_ADDR", "MASTER_PORT"))
            if len({address[place] for address in addresses.values()}) > 1
        )
        others = rank_list(rank for rank in addresses if rank not in odd)
        whose = (
            f"{rank_list(odd)} {verb(odd, 'has', 'have')} another {unlike} than {others}"
            if odd
            else f"{unlike} is not the same on all of them"
        )
        return Diagnosis(
            "init_wrong_address",
            f"The ranks look for each other at different addresses: {whose}.",
            odd,
            positions(outcome, odd),
            advice="give all ranks the same MASTER_ADDR and MASTER_PORT (torchrun sets both).",
            lesson=taught_in(2),
        )
    told_where = {str(init.init_method) for init in asked.values()}
    if all(where.startswith("tcp://") for where in told_where) and any(
        facts[rank].agent_store for rank in asked
    ):
        return Diagnosis(
            "init_nobody_listens",
            f"All ranks wait in init_process_group at {where} for a store at {' and '.join(sorted(told_where))}, and "
            "no rank makes one: by TORCHELASTIC_USE_AGENT_STORE=True they learn that whoever started them has.",
            (),
            lines_of(told),
            advice="use init_method='env://', or none: the store is at MASTER_ADDR and MASTER_PORT already (torchrun "
            "sets this variable, and the course does). Or take TORCHELASTIC_USE_AGENT_STORE out of os.environ first.",
            lesson=taught_in(2),
        )
    return Diagnosis(
        "init_incomplete",
        f"All ranks wait in init_process_group at {where}, and nobody can complete the process group.",
        (),
        lines_of(told) or positions(outcome),
        advice="look for an address that nobody listens on, or a store or file left over from an earlier run.",
        lesson=taught_in(2),
    )


def _new_group(outcome: Outcome) -> Diagnosis | None:
    blocked = blocked_in(outcome)
    inside = tuple(
        rank for rank, waiting in blocked.items() if waiting.call in ("new_group", "_new_group_with_tag")
    )
    if not inside:
        return None
    where = blocked[inside[0]].where
    unlike = _unequal_numbers(outcome, inside, where) or _unlike_members(outcome, inside, where)
    if unlike is not None or len(inside) == outcome.world_size:
        return unlike
    absent = tuple(rank for rank in range(outcome.world_size) if rank not in inside)
    few = inside if len(inside) < len(absent) else absent
    return Diagnosis(
        "new_group_on_some_ranks",
        f"Only {rank_list(inside)} {verb(inside, 'calls', 'call')} new_group at {blocked[inside[0]].where}; "
        f"{rank_list(absent)} {verb(absent, 'does', 'do')} not.",
        few,
        positions(outcome, few),
        advice="all ranks of the default group must call new_group, in the same order, also those that will not be "
        "members (or pass use_local_synchronization=True).",
        lesson=taught_in(2),
    )


_SAME_GROUPS = (
    "all ranks of the default group must call new_group, in the same order, also those that "
    "will not be members."
)


def _members(outcome: Outcome) -> dict[str, dict[str, list[int]]]:
    """For each group, by the name torch has given it: its members as ranks know them, and the ranks that do."""
    members: dict[str, dict[str, list[int]]] = {}
    for rank, facts in outcome.facts.items():
        for name, ranks in facts.groups.items():
            members.setdefault(name, {}).setdefault(str(list(ranks)), []).append(rank)
    return members


def _unlike_members(outcome: Outcome, inside: tuple[int, ...], where: str) -> Diagnosis | None:
    """As many groups on all ranks, but not the same ones: some have met ranks that were making another group."""
    for name, known in _members(outcome).items():
        if len(known) > 1:
            shown = " and ".join(f"{ranks} on {rank_list(who)}" for ranks, who in known.items())
            return Diagnosis(
                "new_group_on_some_ranks",
                f"{capital(rank_list(inside))} {verb(inside, 'waits', 'wait')} in new_group at {where}: groups are "
                f"numbered as they are made, and number {name} is {shown}.",
                (),
                positions(outcome, inside),
                advice=_SAME_GROUPS,
                lesson=taught_in(2),
            )
    return None


def _unequal_numbers(outcome: Outcome, inside: tuple[int, ...], where: str) -> Diagnosis | None:
    """Some ranks have made more groups before: torch names groups by counting them, and these do not fit."""
    made = {rank: facts.groups_made for rank, facts in outcome.facts.items() if facts.groups_made is not None}
    mixed = any(len(known) > 1 for known in _members(outcome).values())
    counts = Counter(made.values())
    if len(counts) < 2 or not (mixed or len(inside) == outcome.world_size):
        return None
    odd = odd_ones(made)
    return Diagnosis(
        "new_group_on_some_ranks",
        f"{capital(rank_list(inside))} {verb(inside, 'waits', 'wait')} in new_group at {where}: groups are numbered as "
        "they are made, and some ranks have made more of them before than others.",
        odd,
        lines_of(
            {rank: f"{steps(count, 'process group')} asked for so far" for rank, count in made.items()}, odd
        ),
        advice=_SAME_GROUPS,
        lesson=taught_in(2),
    )
