"""What the operating system counts on the ranks' connections."""

import sys

import pytest

COUNT = """
from course_lib.watch.tcp_bytes import bytes_sent

numbers = torch.ones(300_000)
dist.all_reduce(numbers)
before = bytes_sent()
dist.all_reduce(numbers)
(bytes_sent() - before) / numbers.nbytes
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells")
def test_an_all_reduce_on_four_ranks_sends_one_and_a_half_times_its_size_from_each(shared_ranks):
    out = shared_ranks(COUNT)
    assert out.ok, out
    assert all(1.5 <= count < 1.55 for count in out.values.values()), out.values


def test_nothing_is_counted_where_the_system_does_not_tell(monkeypatch):
    from course_lib.watch.tcp_bytes import bytes_sent

    monkeypatch.setattr(sys, "platform", "darwin")
    assert bytes_sent() is None
