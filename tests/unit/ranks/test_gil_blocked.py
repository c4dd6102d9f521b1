"""A rank that does not answer is at rest only after several checks, some time apart."""

import pytest

from realranks.ranks.kernel import gil_blocked


@pytest.mark.parametrize(
    ("clock", "used", "found"),
    [
        ((0, 0.5, 1.0, 1.6), (0, 0, 0, 0), [False, False, False, True]),
        ((0, 0.1, 0.2, 0.3), (0, 0, 0, 0), [False, False, False, False]),
        ((0, 2.0, 4.0), (0, 0, 0), [False, False, False]),
        ((0, 0.5, 1.0, 1.6), (0, 0, 0.9, 0.9), [False, False, False, False]),
        ((0, 0.5, 1.0, 1.6), (0, None, 0, 0), [False, False, False, False]),
    ],
    ids=["at rest", "too soon", "too few checks", "has computed", "not in a futex"],
)
def test_rest_takes_checks_and_time(clock, used, found, monkeypatch):
    times, seconds = iter(clock), iter(used)
    monkeypatch.setattr(gil_blocked.time, "monotonic", lambda: next(times))
    monkeypatch.setattr(gil_blocked, "_seconds_used", lambda pid: next(seconds))
    rank = gil_blocked.AtRest(1)
    assert [rank.check() for _ in clock] == found
