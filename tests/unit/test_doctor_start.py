"""Ranks that wait for each other in init_process_group: where each of them looks for the store."""

import pytest

from course_lib.doctor.diagnose import diagnose
from course_lib.outcome.facts import Facts, StoreAddress
from course_lib.outcome.outcome import Ending, Waiting
from tests.unit.outcomes import outcome

HERE, THERE = StoreAddress("127.0.0.1", "29500"), StoreAddress("10.0.0.7", "29500")


def waiting_for(*addresses):
    """One rank for each address; all of them wait in init_process_group."""
    ranks = range(len(addresses))
    call = "init_process_group"
    return outcome(
        "hang",
        len(addresses),
        waiting={rank: Waiting(rank, call, "In [1], line 2", "dist.init_process_group()") for rank in ranks},
        endings=dict.fromkeys(ranks, Ending.FREED),
        facts={rank: Facts(master=address) for rank, address in enumerate(addresses)},
    )


@pytest.mark.parametrize(
    ("odd", "name"),
    [
        (THERE, "MASTER_ADDR"),
        (StoreAddress("127.0.0.1", "29501"), "MASTER_PORT"),
        (StoreAddress("10.0.0.7", "29501"), "MASTER_ADDR and MASTER_PORT"),
    ],
)
def test_the_rank_that_looks_elsewhere_is_named_with_what_is_unlike(odd, name):
    found = diagnose(waiting_for(HERE, HERE, odd, HERE))
    assert (found.kind, found.culprits) == ("init_wrong_address", (2,))
    assert f"rank 2 has another {name} than ranks 0, 1 and 3." in found.summary


def test_two_against_two_are_not_judged():
    found = diagnose(waiting_for(HERE, THERE, HERE, THERE))
    assert (found.kind, found.culprits) == ("init_wrong_address", ())
    assert "MASTER_ADDR is not the same on all of them" in found.summary


def test_whoever_does_not_come_is_named():
    late = waiting_for(HERE, HERE, HERE)
    found = diagnose(outcome("hang", 4, waiting=late.waiting, endings=late.endings, facts=late.facts))
    assert (found.kind, found.culprits) == ("init_rank_missing", (3,))
    assert "ranks 0-2 wait in init_process_group at In [1], line 2 for rank 3, which does not come." in (
        found.summary[0].lower() + found.summary[1:]
    )
