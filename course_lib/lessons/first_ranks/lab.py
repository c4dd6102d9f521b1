"""Lesson 00: processes and their memories as a picture, collectives side by side, and what torchrun says in the end."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from course_lib.lab.explorer import Explorer, buttons, explore
from realranks.cells.run import run_quietly
from realranks.draw import Arrow, Box, Drawing, Text
from realranks.draw.drawing import Shape
from realranks.outcome.outcome import Kind, Outcome
from realranks.outcome.steady import steady_message

#: The collectives of the lesson in the order in which they are shown, and what each leaves where.
COLLECTIVES = {
    "broadcast": "rank 1's, to all",
    "reduce": "sum, to rank 1",
    "all_gather": "all parts, to all",
    "reduce_scatter": "sum, in parts",
    "all_reduce": "sum, to all",
}
#: How many ranks the lesson's cells run on.
_LESSONS_RANKS = 4
#: The rank that broadcasts, and the one that gets what is reduced.
_ROOT = 1
_LEFT, _CELL, _ROW, _GAP = 56, 26, 30, 14
#: gloo's two wordings for a connection that is gone; a race decides which of them comes.
_LOST = re.compile(r"Connection closed by peer.*|(Read|Write) error .*Connection reset by peer.*")


def four_processes(ranks: int = 4) -> Drawing:
    """Draw the kernel and the processes that run a cell: each has its own `x`, and all call all_reduce."""
    width, between, top = 160, 26, 78
    left = (760 - ranks * width - (ranks - 1) * between) / 2
    shapes: list[Shape] = [Box(280, 4, 200, 30, "even", "the notebook's kernel")]
    bar = top + 82
    for rank in range(ranks):
        x = left + rank * (width + between)
        middle = x + width / 2
        shapes += [
            Arrow(380, 34, middle, top - 3, dashed=True),
            Box(x, top, width, 194),
            Text(middle, top + 18, f"rank {rank}", 13, "middle", bold=True),
            Box(middle - 52, top + 28, 104, 28, f"rank {rank % 4}", f"x = {rank}.0"),
            Arrow(middle, top + 58, middle, bar - 2, 2),
            Arrow(middle, bar + 34, middle, bar + 58, 2),
            Box(middle - 52, bar + 60, 104, 28, "sum", "x = ?"),
            Text(middle, top + 187, "a process, its own memory", 11, "middle", faint=True),
        ]
    shapes.append(Box(left - 8, bar, 760 - 2 * left + 16, 32, "even", "all_reduce(x)", size=13))
    return Drawing(
        760,
        top + 202,
        tuple(shapes),
        f"The notebook's kernel sends a cell to {ranks} processes, rank 0 to rank {ranks - 1}. Each has its own memory "
        "with its own number in x. all_reduce goes through all of them; what x is afterwards is left open.",
        "One cell, four processes, four variables called x",
    )


def draw_collectives(outcome: Outcome) -> Drawing:
    """Draw what the ranks bring, and what each collective leaves: a row per rank, a column per number.

    Args:
        outcome: its ranks have `mine`, what they bring, and `after`, what they hold after each of `COLLECTIVES`.
    """
    brought, after = outcome["mine"], outcome["after"]
    ranks = sorted(brought)
    columns: list[tuple[str, str, dict[int, Sequence[float]]]] = [("before", "what each brings", brought)]
    for name, words in COLLECTIVES.items():
        columns.append((name, words, {rank: after[rank][name] for rank in ranks}))
    shapes: list[Shape] = []
    shapes += [Text(_LEFT - 8, 30 + rank * _ROW + 18, f"rank {rank}", 13, "end") for rank in ranks]
    x = float(_LEFT)
    for name, words, held in columns:
        middle = x + len(ranks) * _CELL / 2
        shapes += [
            Text(middle, 20, name, 12, "middle", bold=True, mono=name != "before"),
            *_number_rows(x, 30, name, held),
            Text(middle, 30 + len(ranks) * _ROW + 12, words, 11, "middle", faint=True),
        ]
        x += len(ranks) * _CELL + _GAP
    bottom = 30 + len(ranks) * _ROW + 36
    left_over = "?: the documentation promises nothing of what reduce leaves on the other ranks"
    shapes.append(Text(_LEFT, bottom, left_over, 11, faint=True))
    said = "; ".join(f"{name}: {_in_words(name, held)}" for name, _, held in columns)
    return Drawing(x, bottom + 8, tuple(shapes), said, "Five collectives, side by side: what each rank holds")


def _number_rows(
    x: float,
    y: float,
    name: str,
    held: Mapping[int, Sequence[float]],
    root: int = _ROOT,
    cell: float = _CELL,
    row: float = _ROW,
) -> Iterator[Shape]:
    """Yield a row of numbers for each rank; a part of a sum is in the column that it is the sum of."""
    for rank, numbers in held.items():
        first = _first_place(name, rank)
        for place in range(len(held)):
            at = (x + place * cell, y + rank * row, cell, cell)
            if not 0 <= place - first < len(numbers):
                yield Box(*at, edge=0.5, dashed=True)
                continue
            number = numbers[place - first]
            if _undefined(name, rank, root):
                yield Box(*at, "plain", "?", f"this run has left {number:g}", edge=0.5, dashed=True)
            else:
                yield Box(*at, _look(name, rank, place, root), f"{number:g}", edge=0.5, size=11)


def _first_place(name: str, rank: int) -> int:
    return rank if name == "reduce_scatter" else 0


def _undefined(name: str, rank: int, root: int) -> bool:
    return name == "reduce" and rank != root


def _look(name: str, rank: int, place: int, root: int) -> str:
    """Return the look of the rank that has brought this number; of sums, that of sums."""
    brought_by = {"before": rank, "broadcast": root, "all_gather": place}
    return f"rank {brought_by[name]}" if name in brought_by else "sum"


def _in_words(name: str, held: Mapping[int, Sequence[float]], root: int = _ROOT) -> str:
    rows = (
        f"rank {rank} "
        + ("undefined" if _undefined(name, rank, root) else " ".join(f"{number:g}" for number in numbers))
        for rank, numbers in held.items()
    )
    return ", ".join(rows)


def call_collective(name: str, root: int, numbers: Sequence[float]) -> list[float]:
    """Call one of `COLLECTIVES` on four times this rank's number and return the result; runs on every rank."""
    import torch
    import torch.distributed as dist

    rank, world = dist.get_rank(), dist.get_world_size()
    mine = torch.full((world,), float(numbers[rank]))
    gathered, part = [torch.empty(1) for _ in range(world)], torch.empty(1)
    calls: dict[str, Callable[[], object]] = {
        "broadcast": lambda: dist.broadcast(mine, src=root),
        "reduce": lambda: dist.reduce(mine, dst=root),
        "all_gather": lambda: dist.all_gather(gathered, mine[:1]),
        "reduce_scatter": lambda: dist.reduce_scatter(part, list(mine.split(1))),
        "all_reduce": lambda: dist.all_reduce(mine),
    }
    calls[name]()
    held = {"all_gather": torch.cat(gathered), "reduce_scatter": part}.get(name, mine)
    return [float(number) for number in held.tolist()]


def explore_collectives(outcome: Outcome | None = None) -> Explorer:
    """Return controls for a collective, its root and the ranks' numbers: each choice runs on four real ranks.

    Args:
        outcome: as for `draw_collectives`; the picture begins with its first collective.
    """
    import ipywidgets as widgets

    def draw(name: str, root: int, **numbers: int) -> Drawing:
        brought = [*numbers.values()]
        return draw_one(run_collective(name, root, brought), name, root, brought)

    first, still = next(iter(COLLECTIVES)), None
    if outcome:
        held = {rank: outcome["after"][rank][first] for rank in range(_LESSONS_RANKS)}
        still = draw_one(held, first, _ROOT, [outcome["mine"][rank][0] for rank in range(_LESSONS_RANKS)])
    numbers = {
        f"rank_{rank}": widgets.BoundedIntText(
            value=2**rank, min=0, max=99, description=f"rank {rank}", layout={"width": "9.5em"}
        )
        for rank in range(_LESSONS_RANKS)
    }
    return explore(
        draw,
        f"{', '.join(COLLECTIVES)}, the root, the ranks' numbers",
        "four numbers and a root with which <code>broadcast</code> and <code>all_reduce</code> leave the same on "
        "every rank.",
        still,
        name=buttons("collective", list(COLLECTIVES), first),
        root=buttons("root", range(_LESSONS_RANKS), _ROOT),
        **numbers,
    )


def run_collective(name: str, root: int, numbers: Sequence[float]) -> dict[int, list[float]]:
    """Return what each of four ranks holds after one collective, which runs on four new ranks."""
    outcome = run_quietly(call_collective, name, root, list(numbers))
    return {rank: list(held) for rank, held in outcome.values.items()}


def draw_one(held: Mapping[int, Sequence[float]], name: str, root: int, numbers: Sequence[float]) -> Drawing:
    """Draw one collective: what the ranks bring, what they then hold, and who gives to whom."""
    ranks, cell, row, left, right, top = sorted(held), 34, 44, 90, 400, 28
    width = len(ranks) * cell
    brought = {rank: [float(numbers[rank])] * (1 if name == "all_gather" else len(ranks)) for rank in ranks}
    shapes: list[Shape] = [
        Text(left + width / 2, 16, "before", 12, "middle", bold=True),
        Text(right + width / 2, 16, f"after {name}", 12, "middle", bold=True),
        *(Text(left - 12, top + rank * row + 22, f"rank {rank}", 13, "end") for rank in ranks),
        *_number_rows(left, top, "before", brought, root, cell, row),
        *_number_rows(right, top, name, held, root, cell, row),
    ]
    takers = [rank for rank in ranks if not _undefined(name, rank, root)]
    givers = [root] if name == "broadcast" else ranks
    middle = {rank: top + rank * row + cell / 2 for rank in ranks}
    shapes += [
        Arrow(left + width + 6, middle[giver], right - 6, middle[taker], 1)
        for giver in givers
        for taker in takers
    ]
    title = f"{name}, root {root}" if name in ("broadcast", "reduce") else name
    said = f"After {name}: {_in_words(name, held, root)}"
    return Drawing(right + width + 20, top + len(ranks) * row, tuple(shapes), said, title)


def bit_equal(outcome: Outcome) -> bool:
    """Return whether rank 0's `difference`, relative to the largest change of a weight, is exactly 0."""
    return float(outcome["difference"][0]) == 0


def same_model(outcome: Outcome) -> bool:
    """Return whether the difference is rounding."""
    return 0 < float(outcome["difference"][0]) < 1e-4


def differs(outcome: Outcome) -> bool:
    """Return whether the difference is more than rounding."""
    return float(outcome["difference"][0]) >= 1e-4


def others_raise(outcome: Outcome) -> bool:
    """Return whether a rank has died, and all others raised an error."""
    return outcome.kind is Kind.DIED and len(outcome.errors) == _LESSONS_RANKS - 1


def others_pass(outcome: Outcome) -> bool:
    """Return whether a rank has died, and the others ended well."""
    return outcome.kind is Kind.DIED and not outcome.errors


#: The script of the lesson before it was made distributed.
ONE_DEVICE = """
import torch
from course_lib.data import load_digits


def main(device):
    images, labels = load_digits()
    pixels = torch.from_numpy(images).float().flatten(1).to(device) / 16
    targets = torch.from_numpy(labels).long().to(device)
    torch.manual_seed(0)
    model = torch.nn.Linear(64, 10).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for batch in torch.arange(1408).split(128):
        loss = torch.nn.functional.cross_entropy(model(pixels[batch]), targets[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    right = (model(pixels[1408:]).argmax(1) == targets[1408:]).float().mean()
    print(f"accuracy {right:.2f}")


if __name__ == "__main__":
    gpu = torch.cuda.is_available()
    main("cuda" if gpu else "cpu")
"""


def changes_to_one_device(script: str) -> str:
    """Return the lines in which this script differs from `ONE_DEVICE`: `-` removed, `+` added."""
    lines = difflib.ndiff(ONE_DEVICE.strip().splitlines(), Path(script).read_text().strip().splitlines())
    return "\n".join(line for line in lines if line[0] in "+-" and line[1:].strip())


def torchruns_last_words(log: Iterable[str]) -> str:
    """Return the rank that `torchrun` blames in the end, below this rank's own error; "" without a failure.

    Left out is what differs from run to run: time, host, process, ports in the message, and the exit code, because
    gloo's threads may abort a process on its way out.

    Args:
        log: the lines that it wrote, standard error among them.
    """
    lines = [line.rstrip() for line in log]
    begin = next((n for n, line in enumerate(lines) if line.startswith("Root Cause")), None)
    if begin is None:
        return ""
    box = itertools.takewhile(lambda line: not line.startswith("==="), lines[begin + 1 :])
    named = next((line for line in box if line.startswith("  rank ")), "")
    number = re.search(r"\d+|$", named)
    error = re.compile(rf"\[rank{number[0] if number else ''}\]: \w[\w.]*(Error|Exception): ")
    errors = [
        _LOST.sub("Connection closed (or reset) by peer", steady_message(line))
        for line in lines
        if error.match(line)
    ]
    return "\n".join([*errors[-1:], lines[begin], named])
