"""Lesson 15: five ways to make an all-reduce of messages, run on real ranks and stepped through round by round.

A way is a list of rounds, and a round a list of messages that travel at the same time. Pictures, counts and the run on
ranks are all made of this list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from course_lib.lab.explorer import Explorer, buttons, explore
from realranks.cells.run import run_quietly
from realranks.draw import Arrow, Box, Drawing, Frame, Stepper, Text
from realranks.draw.drawing import Shape

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Message:
    """Pieces `first` to `last` - 1 of a tensor that is cut into as many pieces as there are ranks.

    Attributes:
        adds: the receiver adds them to its own; otherwise it replaces its own.
    """

    sender: int
    receiver: int
    first: int
    last: int
    adds: bool


Rounds = list[list[Message]]


def _ring(n: int) -> Rounds:
    return _ring_among(list(range(n)), 0, n)


def _ring_among(ranks: Sequence[int], first: int, last: int, laps: Sequence[int] = (0, 1)) -> Rounds:
    """Return a ring among some ranks over these pieces; lap 0 adds up, lap 1 passes the sums on."""
    n, piece = len(ranks), (last - first) // len(ranks)
    found: Rounds = []
    for lap in laps:
        for step in range(n - 1):
            found.append([])
            for place, rank in enumerate(ranks):
                start = first + (place - step + lap) % n * piece
                receiver = ranks[(place + 1) % n]
                found[-1].append(Message(rank, receiver, start, start + piece, lap == 0))
    return found


def _tree(n: int) -> Rounds:
    hops = [2**k for k in range((n - 1).bit_length())]
    up = [[Message(r, r - hop, 0, n, True) for r in range(hop, n, 2 * hop)] for hop in hops]
    return up + _back(up)


def _back(up: Rounds) -> Rounds:
    """Return the same messages in the opposite direction, with the sums."""
    return [[Message(m.receiver, m.sender, m.first, m.last, False) for m in each] for each in reversed(up)]


def _halving(n: int) -> Rounds:
    parts, hop = [(0, n)] * n, n // 2
    up: Rounds = []
    while hop:
        up.append([])
        for rank, (first, last) in enumerate(parts):
            middle = (first + last) // 2
            low, high = (first, middle), (middle, last)
            parts[rank], given = (high, low) if rank & hop else (low, high)
            up[-1].append(Message(rank, rank ^ hop, *given, True))
        hop //= 2
    return up + _back(up)


def _double_tree(n: int) -> Rounds:
    """Return two trees with half of the tensor each; ranks with children in the first are leaves of the second.

    The tree is NCCL's (`ncclGetBtree` in `src/graph/trees.cc`), the second one its mirror image (`ncclGetDtree`, for
    an even number of ranks).
    """
    depth = [0] * n
    parents = {rank: _parent(rank, n) for rank in range(1, n)}
    for rank in range(1, n):
        above = rank
        while above:
            above, depth[rank] = parents[above], depth[rank] + 1
    up: Rounds = [[] for _ in range(max(depth))]
    for rank, parent in parents.items():
        level = up[max(depth) - depth[rank]]
        level.append(Message(rank, parent, 0, n // 2, True))
        level.append(Message(n - 1 - rank, n - 1 - parent, n // 2, n, True))
    return up + _back(up)


def _parent(rank: int, n: int) -> int:
    bit = rank & -rank
    parent = (rank ^ bit) | (bit << 1)
    return parent if parent < n else rank ^ bit


def _two_levels(n: int) -> Rounds:
    """Return the rounds of two machines with half of the ranks each: reduce-scatter, all-reduce, all-gather."""
    half = n // 2
    machines = (range(half), range(half, n))
    add, tell = (
        _at_once([_ring_among(machine, 0, n, [lap]) for machine in map(list, machines)]) for lap in (0, 1)
    )
    pairs = [((place + 1) % half * 2, place) for place in range(half)]  # the pieces that both have complete
    between = _at_once([_ring_among([rank, rank + half], first, first + 2) for first, rank in pairs])
    return add + between + tell


def _at_once(several: Sequence[Rounds]) -> Rounds:
    return [[message for each in together for message in each] for together in zip(*several, strict=True)]


#: By name, what makes the rounds for a number of ranks, which is a power of two.
WAYS: dict[str, Callable[[int], Rounds]] = {
    "ring": _ring,
    "tree": _tree,
    "halving": _halving,
    "double tree": _double_tree,
    "two levels": _two_levels,
}


@dataclass(frozen=True)
class Count:
    """The cost of one all-reduce in a way; sizes are parts of the tensor's.

    Attributes:
        rounds: how many messages follow each other. busiest: what the rank sends that sends most.
        cable: what passes, in one direction, between the first half of the ranks and the second.
    """

    rounds: int
    busiest: float
    cable: float


def count(way: str, n: int) -> Count:
    """Count the messages of a way on n ranks."""
    rounds = WAYS[way](n)
    sent, cable = [0.0] * n, 0.0
    for message in (message for each in rounds for message in each):
        size = (message.last - message.first) / n
        sent[message.sender] += size
        cable += size if message.sender < n // 2 <= message.receiver else 0
    return Count(len(rounds), max(sent), cable)


def all_reduce_by(way: str, x: torch.Tensor) -> int:
    """Add up x over all ranks, in place, by the messages of a way; runs on every rank.

    Args:
        way: one of `WAYS`.
        x: of one dimension; its length is a multiple of the number of ranks.

    Returns:
        How many bytes this rank has sent.
    """
    import torch
    import torch.distributed as dist

    rank, n, sent = dist.get_rank(), dist.get_world_size(), 0
    pieces = x.view(n, -1)
    for messages in WAYS[way](n):
        sending, came = [], []
        for m in messages:
            if m.sender == rank:
                given = pieces[m.first : m.last].clone()
                sending.append(dist.isend(given, m.receiver))
                sent += given.nbytes
        for m in messages:
            if m.receiver == rank:
                came.append((m, torch.empty_like(pieces[m.first : m.last])))
                dist.recv(came[-1][1], m.sender)
        for m, tensor in came:
            mine = pieces[m.first : m.last]
            mine.copy_(mine + tensor if m.adds else tensor)
        for work in sending:
            if work is not None:
                work.wait()
    return sent


def same_sums(way: str) -> bool:
    """Return whether a way gives what `dist.all_reduce` gives; runs on every rank."""
    import torch
    import torch.distributed as dist

    x = torch.arange(2 * dist.get_world_size()) * 2.0 ** dist.get_rank()
    right = x.clone()
    dist.all_reduce(right)
    all_reduce_by(way, x)
    return torch.equal(x, right)


# -- stepped through ----------------------------------------------------------------------------------------------

_LEFT, _ACROSS, _TOP, _HIGH = 20.0, 730.0, 94.0, 84.0


def step_through(way: str, n: int) -> Stepper:
    """Draw a frame for each round: who sends to whom, and whose numbers each piece of each rank then holds."""
    held = [[{rank} for _ in range(n)] for rank in range(n)]
    frames = [
        Frame(_frame(way, held, []), f"Before: each of {n} ranks has its own numbers in all {n} pieces.")
    ]
    rounds = WAYS[way](n)
    for number, messages in enumerate(rounds, start=1):
        before = [[set(piece) for piece in rank] for rank in held]
        for m in messages:
            for piece in range(m.first, m.last):
                came = before[m.sender][piece]
                held[m.receiver][piece] = held[m.receiver][piece] | came if m.adds else set(came)
        frames.append(Frame(_frame(way, held, messages), _describe(number, len(rounds), messages, n, held)))
    last = len(rounds)
    return Stepper(tuple(frames), f"{way.capitalize()} on {n} ranks", (1, last // 2, last))


def _describe(number: int, last: int, messages: Sequence[Message], n: int, held: list[list[set[int]]]) -> str:
    sizes = {m.last - m.first for m in messages}
    size = "the whole tensor" if sizes == {n} else " or ".join(f"{each}/{n}" for each in sorted(sizes))
    complete = sum(all(len(piece) == n for piece in rank) for rank in held)
    end = f" {complete} of {n} ranks have all sums." if complete else ""
    way = "is added up" if messages[0].adds else "replaces what was there"
    return f"Round {number} of {last}: {len(messages)} messages with {size} of the tensor; what comes {way}.{end}"


def _frame(way: str, held: list[list[set[int]]], messages: Sequence[Message]) -> Drawing:
    """Draw a column of pieces for each rank; arcs above go to the right, those below to the left."""
    n = len(held)
    across = _ACROSS / n
    width = min(44.0, across - 8)
    middles = [_LEFT + (rank + 0.5) * across for rank in range(n)]
    bottom = _TOP + _HIGH
    shapes: list[Shape] = []
    for rank, x in enumerate(middles):
        first = 0
        for last in range(1, n + 1):
            if last < n and len(held[rank][last]) == len(held[rank][first]):
                continue
            full = len(held[rank][first])
            look = "sum" if full == n else "odd" if full > 1 else "plain"
            place = (x - width / 2, _TOP + first * _HIGH / n, width, (last - first) * _HIGH / n)
            hint = f"rank {rank}, pieces {first} to {last - 1}: numbers of {full} of {n} ranks"
            shapes.append(Box(*place, look, "", hint, 0.5))
            first = last
        shapes.append(Text(x - width / 2 - 2, _TOP - 3, str(rank), 11, "end", faint=True))
    boundary = _LEFT + _ACROSS / 2
    shapes.append(Arrow(boundary, 4, boundary, bottom + 86, 1, dashed=True, plain=True, faint=True))
    for m in messages:
        x, to = middles[m.sender], middles[m.receiver]
        far = abs(m.sender - m.receiver) / n
        aside = 3 if to > x else -3
        y = _TOP - 2 if to > x else bottom + 2
        heavy = 1 + 2.5 * (m.last - m.first) / n
        shapes.append(Arrow(x + aside, y, to - aside, y, heavy, bend=8 + 76 * far))
    shapes += [
        Text(
            12,
            bottom + 102,
            "white: own numbers; striped: a partial sum; green: the sum of all",
            11,
            faint=True,
        ),
        Text(_LEFT + _ACROSS, bottom + 102, "dashed: the border between two machines", 11, "end", faint=True),
    ]
    return Drawing(760, bottom + 110, tuple(shapes), "", f"{way.capitalize()}: what each rank holds")


def explore_all_reduces() -> Explorer:
    """Return controls for a way and a number of ranks: real ranks run it, and it is stepped through."""

    def draw(way: str, ranks: int) -> tuple[Stepper, str]:
        same = all(run_quietly(same_sums, way, ranks=ranks, backend="gloo").values.values())
        found = count(way, ranks)
        return step_through(way, ranks), (
            f"<p>{found.rounds} rounds. The busiest rank sends {found.busiest:g} × the tensor, and "
            f"{found.cable:g} × the tensor passes the border each way. It has run on {ranks} ranks, and gave "
            f"{'the same sums as' if same else 'other sums than'} <code>dist.all_reduce</code>.</p>"
        )

    alt = "A ring on 8 ranks: in each of 14 rounds every rank sends an eighth of the tensor to the next one"
    explorer = explore(
        draw,
        "five ways to make an all-reduce, on 4, 8 or 16 ranks, round by round",
        "the way in which no rank sends more than in the ring, in fewer rounds; the one that sends least over the "
        "border between two machines; and how the rounds of each grow from 8 to 16 ranks.",
        replace(step_through("ring", 8).strip(), alt=alt),
        way=buttons("way", list(WAYS), label="5em"),
        ranks=buttons("ranks", [4, 8, 16], 8, "5em"),
    )
    explorer.show()
    return explorer
