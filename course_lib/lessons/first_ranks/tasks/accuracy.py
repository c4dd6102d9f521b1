"""The accuracy that a script prints: which test images it is asked of, and whether a line tells it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from random import Random

#: Test images.
TESTS = 50
#: Of the images at even places of the first half, at odd places of it, and the same of the second half: how many there
#: are, and the fewest and the most of them that a trained model reads right.
_QUARTERS = ((13, 11, 13), (12, 5, 8), (12, 7, 9), (13, 1, 3))
#: How far from a number that is rounded to whole percents the true one may be. One image more or less is twice that.
_ROUNDED = 0.01
_NUMBER = re.compile(
    r"(?P<part>\d+)\s*(?:/|of|out of)\s*(?P<whole>\d+)|(?P<number>\d+(?P<point>\.\d*)?(?:e[-+]?\d+)?)\s*(?P<percent>%?)"
)


def right_ones(world_size: int, chance: Random) -> list[bool]:
    """Draw for each test image whether a trained model shall read it right.

    No share of the images, every second one or a half, has the accuracy of all; nor has any other number of processes.
    """
    counts = [chance.randint(fewest, most) for _, fewest, most in _QUARTERS]
    counts[-1] += (sum(counts) + world_size) % 2
    right = [False] * TESTS
    for quarter, ((size, _, _), count) in enumerate(zip(_QUARTERS, counts, strict=True)):
        places = [place for place in range(TESTS) if place // (TESTS // 2) * 2 + place % 2 == quarter]
        assert len(places) == size
        for place in chance.sample(places, count):
            right[place] = True
    return right


def tells(line: str, accuracy: float) -> bool:
    """Return whether one of the line's numbers is this accuracy, however it is rounded: 0.84, 84 %, 42/50."""
    return any(abs(number - accuracy) <= off + 1e-9 for number, off in _accuracies(line))


def _accuracies(line: str) -> Iterator[tuple[float, float]]:
    """Yield the accuracies that the numbers of a line may mean, each with its rounding error."""
    found = list(_NUMBER.finditer(line))
    for match in found:
        if match["whole"]:
            yield int(match["part"]) / max(int(match["whole"]), 1), 0.0
            continue
        number = float(match["number"])
        unit = 10.0 ** -max(len(match["point"] or ".") - 1, 0)
        if match["point"]:
            yield number, max(unit / 2, _ROUNDED)
        if match["percent"] or match["point"] or len(found) == 1:
            yield number / 100, max(unit / 200, _ROUNDED)


def of(right: Sequence[bool]) -> float:
    """Return the share of right answers."""
    return sum(right) / len(right)
