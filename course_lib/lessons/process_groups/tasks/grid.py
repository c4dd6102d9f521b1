"""Task 2: the row group and the column group of each rank in a grid."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, TypedDict

from course_lib.tasks import toys
from course_lib.tasks.compared import Compared
from course_lib.tasks.task import Miss, Recognised, Trial, WrongKind, check, gate
from realranks.outcome.outcome import Kind, Outcome
from realranks.ranks.inside.groups import group_members


class Case(TypedDict):
    """A grid of ranks."""

    rows: int
    columns: int


#: The members of some groups.
Members = list[list[int]]


class Right(TypedDict):
    """The members of both groups."""

    members: Members


class Seen(Right):
    """The sum of 10 ** rank over each group, too; by number, every group that this rank has made."""

    sums: list[float] | None
    numbers: dict[str, list[int]]


ThisTrial = Trial[Case, Seen, dict[str, list[Right]]]


class Grid(Compared[Case, Seen, Right]):
    """The row group and the column group of each rank in a grid."""

    name = "process_groups.grid"
    world_sizes = (2, 3, 4)

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield all grids of that many ranks, the longest last."""
        grids = [(rows, world_size // rows) for rows in range(1, world_size + 1) if world_size % rows == 0]
        chance.shuffle(grids)
        for rows, columns in sorted(grids, key=max):
            yield {"rows": rows, "columns": columns}

    def describe(self, case: Case) -> str:
        return f"a grid of {case['rows']} x {case['columns']}"

    def trial(self, answer: Callable[[int, int], object], case: Case) -> Seen:
        """Return the members of both groups and, if plausible on all ranks, the sum of 10 ** rank over each."""
        import torch
        import torch.distributed as dist

        result = answer(case["rows"], case["columns"])
        pair: list[Any] = []
        members: Members = []
        wrong: WrongKind | None = None
        try:
            pair = list(toys.items(result))
            members = _members_of_two(pair)
        except WrongKind as error:
            wrong = error  # the other ranks do not know it
        everyones: list[Members | None] = [None] * dist.get_world_size()
        dist.all_gather_object(everyones, members)
        if wrong is not None:
            raise wrong
        seen: Seen = {"members": members, "sums": None, "numbers": group_members()}
        if everyones != _groups(case["rows"], case["columns"]):
            return seen
        sums = []
        for group in pair:
            total = torch.tensor([10.0 ** dist.get_rank()])
            dist.all_reduce(total, group=group)
            sums.append(total.item())
        return {**seen, "sums": sums}

    def oracle(self, case: Case, world_size: int) -> dict[str, list[Right]]:
        return {"right": [{"members": members} for members in _groups(case["rows"], case["columns"])]}

    gives_groups = gate(
        "Every rank returns two process groups, and is in both.",
        "with {case}, rank {rank} returned {given}",
        lambda trial: "not_a_member" if trial.wrong_kinds[min(trial.wrong_kinds)] == _OUTSIDE else None,
    )

    @check("The first holds the ranks of its row, the second those of its column.")
    def right_members(self, trial: ThisTrial) -> Miss | None:
        for rank, seen in trial.seen.items():
            right = trial.oracle["right"][rank]["members"]
            for what, have, want in zip(("row", "column"), seen["members"], right, strict=True):
                if have != want:
                    return Miss(
                        f"with {self.describe(trial.case)}, the {what} of rank {rank} has ranks {have}; "
                        f"it should have {want}",
                        _known(trial, have),
                    )
        return None

    @check("All ranks make the same groups in the same order.")
    def same_groups(self, trial: ThisTrial) -> Miss | None:
        """Seen from the names that torch gives to groups; unlike groups of one name work by chance, if at all."""
        meant: dict[str, tuple[int, list[int]]] = {}
        for rank, seen in trial.seen.items():
            for number, members in seen["numbers"].items():
                first, known = meant.setdefault(number, (rank, members))
                if known != members:
                    return Miss(
                        f"with {self.describe(trial.case)}, group number {number} is {known} on rank {first} and "
                        f"{members} on rank {rank}",
                        "different_groups",
                    )
        return None

    @check("A sum over each group is the sum over its members.")
    def sums_right(self, trial: ThisTrial) -> Miss | None:
        for rank, seen in trial.seen.items():
            wanted = [
                float(sum(10**r for r in members)) for members in trial.oracle["right"][rank]["members"]
            ]
            if seen["sums"] is not None and seen["sums"] != wanted:
                return Miss(f"rank {rank} got {toys.short(seen['sums'])} instead of {toys.short(wanted)}")
        return None

    def recognise_ending(self, outcome: Outcome, trials: Sequence[ThisTrial]) -> Recognised:
        """Recognise unlike groups: ranks wait for each other in `new_group`, or meet where they should not."""
        elsewhere = any(one.where and one.call != "new_group" for one in outcome.waiting.values())
        messages = " ".join(error.message for error in outcome.errors.values())
        met = outcome.kind in (Kind.HANG, Kind.DIED) or "gloo" in messages.lower() or "closed" in messages
        return "different_groups" if met and not elsewhere else None


def _known(trial: ThisTrial, wrong: list[int]) -> str | None:
    """Recognise exchanged groups and one of all ranks: for a likeness, known answers would hang in `new_group`."""
    right = trial.oracle["right"]
    if all(seen["members"] == right[rank]["members"][::-1] for rank, seen in trial.seen.items()):
        return "transposed"
    return "everyone" if len(wrong) == trial.world_size else None


_OUTSIDE = "a group it is not in"


def _groups(rows: int, columns: int) -> list[Members]:
    """Return the members of the row and of the column, for each rank."""
    return [
        [
            [rank // columns * columns + column for column in range(columns)],
            [row * columns + rank % columns for row in range(rows)],
        ]
        for rank in range(rows * columns)
    ]


def _members_of_two(groups: Sequence[object]) -> Members:
    """Return the global ranks of the groups.

    Raises:
        WrongKind: there are not two, one is none, or this rank is not in it.
    """
    members = [_members(group) for group in groups]
    if len(members) != 2:
        raise WrongKind(f"{len(members)} groups")
    return members


def _members(group: object) -> list[int]:
    import torch.distributed as dist

    if group is dist.GroupMember.NON_GROUP_MEMBER:
        raise WrongKind(_OUTSIDE)
    if not isinstance(group, dist.ProcessGroup):
        raise toys.wrong_kind(group)
    return sorted(dist.get_process_group_ranks(group))
