"""Lesson 03: the deck and who is dealt what, as pictures; what its predictions ask; deals to be played with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

from course_lib.lab.deals import deal, deal_all
from course_lib.lab.explorer import Explorer, buttons, explore, slider, tick
from realranks.cells.run import run_quietly
from realranks.draw import Arrow, Box, Cell, Drawing, Text, grid
from realranks.draw.drawing import Shape
from realranks.outcome.outcome import Outcome

#: What each rank takes: the indices of its samples, in order.
Deal = Mapping[int, Sequence[int]]

_LEFT, _ROW, _WIDTH = 64, 28, 760
#: The ways to resume of the section "Killed in the middle of an epoch": names of variables, and words for them.
_WAYS = {
    "restarted": "epoch 1 again",
    "forgot": "skip 3, no set_epoch",
    "resumed": "set_epoch(1), skip 3",
}
#: The deals that stand for the explorer where no kernel runs, as arguments of `deal`.
_SHOWN: dict[str, tuple[int, int, bool, bool, int | None]] = {
    "in order": (10, 0, False, False, 0),
    "in order, drop_last=True": (10, 0, False, True, 0),
    "shuffled, epoch 0": (10, 0, True, False, 0),
    "shuffled, epoch 1": (10, 1, True, False, 0),
}


def the_deck(samples: int = 10, ranks: int = 4) -> Drawing:
    """Draw the samples, dealt to the ranks in turn; the places left in the last round are a question."""
    card, between, top, hand_top = 40, 18, 22, 128
    rounds = -(-samples // ranks)
    width = rounds * ranks * card + (rounds - 1) * between
    hand_width, hand_gap = 150, 34
    left = (_WIDTH - width) / 2
    hands_left = (_WIDTH - ranks * hand_width - (ranks - 1) * hand_gap) / 2
    shapes: list[Shape] = []
    for number in range(rounds):
        start = left + number * (ranks * card + between)
        middle = start + ranks * card / 2
        shapes.append(Text(middle, 14, f"round {number + 1}", 11, "middle", faint=True))
    for place in range(rounds * ranks):
        number, rank = divmod(place, ranks)
        at = left + place * card + number * between
        hand = hands_left + rank * (hand_width + hand_gap)
        spot = hand + (hand_width - rounds * card) / 2 + number * card
        shapes += [
            _card(at, top, card, place, samples, ranks),
            _card(spot, hand_top + 28, card, place, samples, ranks),
        ]
        if number == 0:
            shapes += [
                Arrow(at + card / 2, top + 38, hand + hand_width / 2, hand_top - 4),
                Box(hand, hand_top, hand_width, 76),
                Text(hand + hand_width / 2, hand_top + 18, f"rank {rank}", 13, "middle", bold=True),
            ]
    missing = rounds * ranks - samples
    return Drawing(
        _WIDTH,
        hand_top + 86,
        tuple(shapes),
        f"{samples} samples lie in a row like a deck of cards, and are dealt to {ranks} ranks in turn, one for each in "
        f"a round. In round {rounds} there are no samples for the last {missing} ranks: question marks.",
        f"Dealt like cards: {samples} samples, {ranks} ranks",
    )


def _card(x: float, y: float, width: float, place: int, samples: int, ranks: int) -> Box:
    if place < samples:
        return Box(x, y, width - 4, 36, f"rank {place % ranks}", str(place), size=14)
    return Box(x, y, width - 4, 36, "plain", "?", dashed=True, size=14)


def draw_deal(per_rank: Deal, samples: int, settings: str = "") -> Drawing:
    """Draw when each rank (row) takes each sample (column), and in the last row how often it is taken.

    The title says which samples are not taken exactly once.

    Args:
        per_rank: the indices of the samples that each rank takes.
        samples: how many samples there are.
        settings: before the finding, how they were dealt.
    """
    title = ": ".join(filter(None, (settings, _finding(per_rank, samples))))
    title = title[:1].upper() + title[1:]
    column = min(60.0, (_WIDTH - _LEFT - 14) / max(1, samples))
    shapes = [*_deal_shapes(per_rank, samples, _LEFT, 8, column, _ROW)]
    bottom = 8 + (len(per_rank) + 1) * _ROW + 20
    words = "index of the sample; 1st, 2nd, ...: when the rank takes it; ×: how often, where more than once"
    shapes.append(Text(_LEFT, bottom + 16, words, 12, faint=True))
    return Drawing(_WIDTH, bottom + 24, tuple(shapes), _in_words(per_rank, samples), title)


def draw_deals(deals: Mapping[str, tuple[Deal, int]]) -> Drawing:
    """Draw small pictures of several deals, two beside each other.

    Args:
        deals: by their words, what each rank takes, and how many samples there are.
    """
    shapes: list[Shape] = []
    y: float = 0
    heights: list[float] = []
    for number, (words, (per_rank, samples)) in enumerate(deals.items()):
        if number % 2 == 0:
            y += max(heights, default=0)
            heights = []
        x = 54 + number % 2 * (_WIDTH / 2)
        column = (_WIDTH / 2 - 54 - 12) / max(1, samples)
        shapes.append(Text(x, y + 14, words, 12, bold=True))
        shapes += _deal_shapes(per_rank, samples, x, y + 22, column, 22)
        heights.append(22 + (len(per_rank) + 1) * 22 + 34)
    said = " ".join(
        f"{words}: {_in_words(per_rank, samples)}." for words, (per_rank, samples) in deals.items()
    )
    return Drawing(
        _WIDTH, y + max(heights, default=0), tuple(shapes), said, "Who takes which sample, and when"
    )


def _deal_shapes(
    per_rank: Deal, samples: int, left: float, top: float, column: float, row: float
) -> Iterator[Shape]:
    total = Counter(chain.from_iterable(per_rank.values()))
    for line, rank in enumerate(sorted(per_rank)):
        y = top + line * row
        yield Text(left - 8, y + row / 2 + 5, f"rank {rank}", 12, "end")
        for index in range(samples):
            places = [place for place, taken in enumerate(per_rank[rank], 1) if taken == index]
            look = "" if not places else "odd" if total[index] > 1 else "even"
            text = _ordinal(places[0]) if len(places) == 1 else f"{len(places)}×" if places else ""
            yield Box(left + index * column, y, column, row, look, text, edge=0.5)
    y = top + len(per_rank) * row
    yield Text(left - 8, y + row / 2 + 5, "in all", 12, "end", faint=True)
    for index in range(samples):
        look = "plain" if total[index] == 1 else "odd" if total[index] else "bad"
        x = left + index * column
        yield Box(x, y, column, row, look, f"{total[index]}×", edge=0.5)
        yield Text(x + column / 2, y + row + 14, str(index), 11, "middle", faint=True)


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _in_words(per_rank: Deal, samples: int) -> str:
    total = Counter(chain.from_iterable(per_rank.values()))
    taken = [
        f"rank {rank} takes {', '.join(map(str, per_rank[rank])) or 'nothing'}" for rank in sorted(per_rank)
    ]
    repeated = [index for index in range(samples) if total[index] > 1]
    missing = [index for index in range(samples) if not total[index]]
    found = [*taken, f"dealt out more than once: {_listed(repeated)}", f"to nobody: {_listed(missing)}"]
    return "; ".join(found)


def _finding(per_rank: Deal, samples: int) -> str:
    total = Counter(chain.from_iterable(per_rank.values()))
    often = {index: total[index] for index in range(samples)}
    if len(set(often.values())) == 1:
        times = often[0]
        return f"each sample is taken {'once' if times == 1 else f'{times} times'}"
    repeated = [index for index, times in often.items() if times > 1]
    missing = [index for index, times in often.items() if not times]
    found = {"taken more than once": repeated, "never": missing}
    return "; ".join(f"{words}: {_listed(which)}" for words, which in found.items() if which)


def _listed(indices: Sequence[int]) -> str:
    return ", ".join(map(str, indices)) or "none"


def explore_deals() -> Explorer:
    """Return controls for the samples, the ranks and the sampler's options: each choice runs on as many real ranks."""

    def draw(
        samples: int, ranks: int, epoch: int, shuffle: bool, drop_last: bool, seed: int | None
    ) -> Drawing:
        outcome = run_quietly(deal, samples, epoch, shuffle, drop_last, seed, ranks=ranks)
        order = f"shuffled, epoch {epoch}" if shuffle else "in order"
        return draw_deal(outcome.values, samples, f"{order}{', drop_last' * drop_last}")

    return explore(
        draw,
        "samples, ranks, epoch, shuffle, drop_last, seed",
        "",
        draw_deals(_shown_deals()),
        samples=slider("samples", range(1, 21), 10, "5em", runs=True),
        ranks=slider("ranks", range(1, 7), 4, "5em", runs=True),
        epoch=slider("epoch", range(6), 0, "5em", runs=True),
        shuffle=tick("shuffle"),
        drop_last=tick("drop_last"),
        seed=buttons("seed", [("0", 0), ("1", 1), ("the rank's number", None)], 0, "5em"),
    )


def _shown_deals() -> dict[str, tuple[Deal, int]]:
    outcome = run_quietly(deal_all, list(_SHOWN.values()))
    return {
        words: ({rank: found[number] for rank, found in outcome.values.items()}, setting[0])
        for number, (words, setting) in enumerate(_SHOWN.items())
    }


def how_many_differ(outcome: Outcome, name: str) -> str:
    """Describe how many different numbers of each kind the ranks' samples of `Noise` under this name have."""
    samples = [sample for rank in outcome[name].values() for sample in rank]
    return ", ".join(f"{kind} {len({sample[kind] for sample in samples})}" for kind in samples[0])


def times_seen(outcome: Outcome, name: str, samples: int = 20) -> list[int]:
    """Count how often each sample is in the lists that the ranks have under this name."""
    count = Counter(chain.from_iterable(outcome[name].values()))
    return [count[sample] for sample in range(samples)]


def draw_resumed(outcome: Outcome) -> Drawing:
    """Draw for each way to resume (row) how often the epoch has seen each sample (column)."""
    counts = [times_seen(outcome, name) for name in _WAYS]
    looks = {0: "bad", 1: "even", 2: "odd"}
    cells = {
        (row, sample): Cell(looks[count], str(count))
        for row, found in enumerate(counts)
        for sample, count in enumerate(found)
    }
    exact = [words for words, found in zip(_WAYS.values(), counts, strict=True) if set(found) == {1}]
    texts = (
        f"{words}: twice {_listed([n for n, count in enumerate(found) if count == 2])}, "
        f"never {_listed([n for n, count in enumerate(found) if not count])}"
        for words, found in zip(_WAYS.values(), counts, strict=True)
    )
    return grid(
        list(_WAYS.values()),
        [str(sample) for sample in range(len(counts[0]))],
        cells,
        title=f"Every sample once: {', '.join(exact) or 'none of these'}",
        alt="; ".join(texts),
        axis="index of the sample; the number says how often the epoch has seen it",
    )


def sees(outcome_of: str, *times: int) -> Callable[[Outcome], bool]:
    """Predict how often samples are seen in this variable of the ranks: these numbers of times, and no others."""
    return lambda outcome: set(times_seen(outcome, outcome_of)) == set(times)


def at_most(number: int) -> Callable[[Outcome], bool]:
    """Predict that no rank's value is above this number."""
    return lambda outcome: max(outcome.values.values()) <= number
