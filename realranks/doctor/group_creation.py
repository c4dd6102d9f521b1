"""Hangs in `init_process_group` and `new_group`: who is not there, and who said what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from realranks.doctor.sentences import diagnosis
from realranks.doctor.words import blocked_in, lines_of, positions, rank_list, steps
from realranks.outcome.facts import NO_FACTS, Facts, InitArguments
from realranks.outcome.outcome import Diagnosis, Kind, Outcome
from realranks.watch.majority import odd_ones


@dataclass(frozen=True)
class _Joining:
    """The ranks in `init_process_group`, and what they say of themselves.

    Attributes:
        ranks: those inside.
        call: what they are in.
        where: the line of the first.
        facts: of each of them.
        asked: what each has called it with, where that is known.
    """

    ranks: Sequence[int]
    call: str
    where: str
    facts: Mapping[int, Facts]
    asked: Mapping[int, InitArguments]

    def lines(self, odd: Collection[int] = ()) -> tuple[str, ...]:
        """List what each rank has asked for, as evidence, with the odd ones marked."""
        texts = {
            rank: f"in {self.call}"
            + (f": rank {init.rank} of world size {init.world_size}" if init.rank is not None else "")
            for rank, init in self.asked.items()
        }
        return lines_of(texts, odd)


def init_hang(outcome: Outcome) -> Diagnosis | None:
    """Diagnose a hang in which all waiting ranks wait for a process group that is not complete."""
    blocked = blocked_in(outcome)
    if outcome.kind is not Kind.HANG or not blocked:
        return None
    inside = [rank for rank, waiting in blocked.items() if waiting.call in ("init_process_group", "init_rpc")]
    if not inside:
        return _new_group(outcome)
    call = blocked[inside[0]].call or ""
    facts = {rank: outcome.facts.get(rank, NO_FACTS) for rank in inside}
    asked = {rank: each.init for rank, each in facts.items() if each.init is not None}
    joining = _Joining(inside, call, blocked[inside[0]].where, facts, asked)
    if call == "init_rpc":
        return _nobody_listens(outcome, joining)
    for rule in (
        _duplicate_rank,
        _numbered_otherwise,
        _wrong_world_size,
        _rank_missing,
        _wrong_address,
        _nobody_listens,
    ):
        found = rule(outcome, joining)
        if found is not None:
            return found
    return _incomplete(outcome, joining)


def _duplicate_rank(outcome: Outcome, joining: _Joining) -> Diagnosis | None:
    claimed = Counter(init.rank for init in joining.asked.values() if init.rank is not None)
    twice = next((number for number, count in claimed.items() if count > 1), None)
    if twice is None:
        return None
    same = tuple(rank for rank, init in joining.asked.items() if init.rank == twice)
    numbers, both = rank_list(same).removeprefix("ranks "), "both" if len(same) == 2 else "all"
    words = {"numbers": numbers, "both": both, "twice": twice, "where": joining.where}
    return diagnosis("init_duplicate_rank", outcome, same, joining.lines(same), **words)


def _numbered_otherwise(outcome: Outcome, joining: _Joining) -> Diagnosis | None:
    """Detect as many processes as ranks that are not numbered from 0 on."""
    given = {init.rank for init in joining.asked.values() if init.rank is not None}
    lacking = sorted(set(range(outcome.world_size)) - given)
    if len(given) < outcome.world_size or not lacking:
        return None
    numbers, last = rank_list(sorted(given)).removeprefix("ranks "), outcome.world_size - 1
    words = {"numbers": numbers, "lacking": lacking, "last": last, "where": joining.where}
    return diagnosis("init_rank_missing.numbered", outcome, (), joining.lines(), **words)


def _wrong_world_size(outcome: Outcome, joining: _Joining) -> Diagnosis | None:
    right = outcome.world_size
    wrong = {
        rank: init.world_size
        for rank, init in joining.asked.items()
        if init.world_size is not None and init.world_size != right
    }
    if not wrong:
        return None
    odd = tuple(wrong)
    wished = " and ".join(map(str, sorted(set(wrong.values()))))
    words = {"wished": wished, "where": joining.where, "right": right}
    culprits = odd if len(odd) < right else ()
    return diagnosis("init_wrong_world_size", outcome, culprits, joining.lines(odd), odd=odd, **words)


def _rank_missing(outcome: Outcome, joining: _Joining) -> Diagnosis | None:
    inside = joining.ranks
    absent = tuple(rank for rank in range(outcome.world_size) if rank not in inside)
    if not absent:
        return None
    words = {"inside": inside, "where": joining.where, "absent": absent}
    return diagnosis("init_rank_missing", outcome, absent, **words)


def _wrong_address(outcome: Outcome, joining: _Joining) -> Diagnosis | None:
    addresses = {rank: each.master for rank, each in joining.facts.items() if each.master is not None}
    if len(set(addresses.values())) < 2:
        return None
    hosts, ports = ({address[part] for address in addresses.values()} for part in (0, 1))
    parts = (("MASTER_ADDR", hosts), ("MASTER_PORT", ports))
    unlike = " and ".join(name for name, values in parts if len(values) > 1)
    odd = odd_ones(addresses)
    others = [rank for rank in addresses if rank not in odd]
    name = "init_wrong_address.odd_one" if odd else "init_wrong_address"
    return diagnosis(name, outcome, odd, odd=odd, unlike=unlike, others=others)


def _nobody_listens(outcome: Outcome, joining: _Joining) -> Diagnosis | None:
    stores = sorted({str(init.init_method) for init in joining.asked.values()})
    has_agent_store = any(joining.facts[rank].agent_store for rank in joining.asked)
    if not has_agent_store or not all(store.startswith("tcp://") for store in stores):
        return None
    words = {"call": joining.call, "where": joining.where, "stores": " and ".join(stores)}
    return diagnosis("init_nobody_listens", outcome, (), joining.lines(), **words)


def _incomplete(outcome: Outcome, joining: _Joining) -> Diagnosis:
    return diagnosis("init_incomplete", outcome, (), joining.lines() or None, where=joining.where)


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
    words = {"inside": inside, "where": where, "absent": absent}
    return diagnosis("new_group_on_some_ranks", outcome, few, **words)


def _members(outcome: Outcome) -> dict[str, dict[str, list[int]]]:
    """Map each group's name in torch to its members as ranks know them, and to the ranks that do."""
    members: dict[str, dict[str, list[int]]] = {}
    for rank, facts in outcome.facts.items():
        for name, ranks in facts.groups.items():
            members.setdefault(name, {}).setdefault(str(list(ranks)), []).append(rank)
    return members


def _unlike_members(outcome: Outcome, inside: tuple[int, ...], where: str) -> Diagnosis | None:
    """Detect ranks that created equally many groups, but met others that were creating a different one."""
    for name, known in _members(outcome).items():
        if len(known) > 1:
            shown = " and ".join(f"{ranks} on {rank_list(who)}" for ranks, who in known.items())
            words = {"where": where, "name": name, "shown": shown}
            marked = positions(outcome, inside)
            return diagnosis("new_group_on_some_ranks.unlike", outcome, (), marked, inside=inside, **words)
    return None


def _unequal_numbers(outcome: Outcome, inside: tuple[int, ...], where: str) -> Diagnosis | None:
    """Detect that ranks created different numbers of groups before: torch names a group by its number."""
    made = {rank: facts.groups_made for rank, facts in outcome.facts.items() if facts.groups_made is not None}
    mixed = any(len(known) > 1 for known in _members(outcome).values())
    counts = Counter(made.values())
    if len(counts) < 2 or not (mixed or len(inside) == outcome.world_size):
        return None
    odd = odd_ones(made)
    lines = lines_of(
        {rank: f"{steps(count, 'process group')} asked for so far" for rank, count in made.items()}, odd
    )
    return diagnosis("new_group_on_some_ranks.unequal", outcome, odd, lines, inside=inside, where=where)
