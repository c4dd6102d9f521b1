"""Ranks that name different roots for the same collective: another `src` of a broadcast, say."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from realranks.doctor.notes import notes_of
from realranks.doctor.sentences import diagnosis, text
from realranks.doctor.words import at_line, blocked_in, lines_of, rank_list
from realranks.outcome.outcome import Diagnosis, Kind, Outcome
from realranks.outcome.partners import Partners
from realranks.outcome.probe_notes import RootedCall

_WORDS = {"broadcast": "src", "scatter": "src", "reduce": "dst", "gather": "dst"}


def different_roots(outcome: Outcome) -> Diagnosis | None:
    """Detect the first collective for which the members of a group named different roots."""
    notes = notes_of(outcome)
    if outcome.kind is Kind.HANG and not blocked_in(outcome):
        return None
    if outcome.kind is Kind.HANG and not notes:
        return _blocked_roots(outcome)
    groups = {name: ranks for facts in outcome.facts.values() for name, ranks in facts.all_groups().items()}
    for name, members in groups.items():
        if len(members) > 1 and set(members) <= set(notes):
            found = _first_difference({rank: notes[rank].rooted.get(name, ()) for rank in members})
            if found is not None:
                return _diagnosis(outcome, found, members, groups.values())
    return None


def _first_difference(made: Mapping[int, Sequence[RootedCall]]) -> dict[int, RootedCall] | None:
    by_number = {rank: {entry.number: entry for entry in entries} for rank, entries in made.items()}
    for number in sorted(set.intersection(*(set(each) for each in by_number.values()))):
        met = {rank: each[number] for rank, each in by_number.items()}
        if len({entry.operation for entry in met.values()}) > 1:
            return None  # not the same collective: another rule's business
        if len({entry.root for entry in met.values()}) > 1:
            return met
    return None


def _diagnosis(
    outcome: Outcome,
    met: Mapping[int, RootedCall],
    members: Sequence[int],
    groups: Collection[tuple[int, ...]],
) -> Diagnosis:
    operation = next(iter(met.values())).operation
    word = _WORDS[operation]
    roots = {
        rank: members[entry.root] if entry.root < len(members) else entry.root for rank, entry in met.items()
    }
    own = all(root == rank for rank, root in roots.items())
    what = "every rank names itself" if own else f"the ranks name different ranks as {word} ({_taken(roots)})"
    end = "none can go on" if outcome.kind is Kind.HANG else "what came out is not what was sent"
    lines = {rank: f"{operation}({word}={roots[rank]}){at_line(entry.where)}" for rank, entry in met.items()}
    words = {"operation": operation, "where": next(iter(met.values())).where, "how": what, "end": end}
    meant = {tuple(rank for rank in roots if roots[rank] == root): root for root in roots.values()}
    if all(len(ranks) > 1 and ranks in groups and root in ranks for ranks, root in meant.items()):
        words["meant"] = " and ".join(rank_list(ranks) for ranks in sorted(meant))
        return diagnosis("different_roots.of_groups", outcome, (), lines_of(lines), **words)
    return diagnosis("different_roots", outcome, (), lines_of(lines), word=word, **words)


def _blocked_roots(outcome: Outcome) -> Diagnosis | None:
    """Detect unwatched ranks that wait in one collective whose arguments on their stacks name different roots."""
    blocked = blocked_in(outcome)
    roots = {rank: root for rank, w in blocked.items() if (root := _root_of(w.partners)) is not None}
    if len(set(roots.values())) < 2:
        return None
    own = all(root == rank for rank, root in roots.items())
    how = "each takes itself" if own else _taken(roots)
    return diagnosis("different_roots.blocked", outcome, first=blocked[min(roots)], how=how)


def _taken(roots: Mapping[int, int]) -> str:
    """Format as `ranks 0 and 2 take rank 0, rank 1 takes rank 1`."""
    by_root: dict[int, list[int]] = {}
    for rank, root in roots.items():
        by_root.setdefault(root, []).append(rank)
    return ", ".join(
        text("{ranks} {ranks:takes} rank ", ranks=ranks) + str(root) for root, ranks in by_root.items()
    )


def _root_of(partners: Partners | None) -> int | None:
    return partners.root if partners is not None else None
