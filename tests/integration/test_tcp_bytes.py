"""What the operating system counts on the ranks' connections."""

import sys

import pytest

COUNT = """
from realranks.watch.tcp_bytes import bytes_sent

numbers = torch.ones(300_000)
dist.all_reduce(numbers)
before = bytes_sent()
dist.all_reduce(numbers)
(bytes_sent() - before) / numbers.nbytes
"""

SCATTER = COUNT.replace(
    "dist.all_reduce(numbers)", "dist.reduce_scatter_single(numbers[:75_000].clone(), numbers)"
)

only_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells")


@only_linux
def test_an_all_reduce_on_four_ranks_sends_one_and_a_half_times_its_size_from_each(shared_ranks):
    out = shared_ranks(COUNT)
    assert out.ok, out
    assert all(1.5 <= count < 1.55 for count in out.values.values()), out.values


@only_linux
def test_a_reduce_scatter_of_gloo_s_sends_what_an_all_reduce_sends(shared_ranks):
    out = shared_ranks(SCATTER)
    assert out.ok, out
    assert all(1.5 <= count < 1.55 for count in out.values.values()), out.values


def test_nothing_is_counted_where_the_system_does_not_tell(monkeypatch):
    from realranks.watch.tcp_bytes import bytes_sent

    monkeypatch.setattr(sys, "platform", "darwin")
    assert bytes_sent() is None
