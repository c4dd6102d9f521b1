"""What a run of the scenarios has shown: what was expected, what the doctor said, and how soon."""

import statistics
from collections import Counter
from collections.abc import Iterable

#: By scenario: the expected kind and the doctor's.
SAID: dict[str, tuple[str, str]] = {}
#: By scenario that hung: seconds from the moment a deadlock could be proved to the proof.
DELAYS: dict[str, float] = {}


def confusion(said: Iterable[tuple[str, str]]) -> list[str]:
    """One line a pair of expected and said kinds, with how often it came; wrong ones are marked and come first."""
    counts = Counter(said)
    width = max((len(expected) for expected, _ in counts), default=0)
    ordered = sorted(counts.items(), key=lambda entry: (entry[0][0] == entry[0][1], entry[0]))
    return [
        f"{expected:<{width}}  {number:3} x {got}" + ("" if expected == got else "   <- wrong")
        for (expected, got), number in ordered
    ]


def delays(seconds: Iterable[float]) -> str:
    """Median and maximum of the delays in words; empty where nothing hung."""
    found = sorted(seconds)
    if not found:
        return ""
    middle = statistics.median(found)
    return (
        f"verdict after the last event on any rank: median {middle:.2f} s, at most {found[-1]:.2f} s "
        f"({len(found)} hangs)"
    )
