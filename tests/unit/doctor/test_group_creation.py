"""Ranks that wait for each other in init_process_group and new_group: who is not there, and who said what."""

from threading import get_ident

import pytest

from realranks.doctor.diagnose import diagnose
from realranks.doctor.group_creation import init_hang
from realranks.outcome.facts import Facts, InitArguments, StoreAddress
from realranks.outcome.outcome import Ending, Waiting
from realranks.ranks.inside.self_report import facts_of
from tests.support.outcomes import blocked, outcome, stuck

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


def said(outcome):
    """The kind and the culprits."""
    found = diagnose(outcome)
    return found.kind, found.culprits


def asked(*each, inside=None, method=None, agent_store=False, **fields):
    """Ranks that wait in init_process_group, and what they called it with: a rank and a world size."""
    inside = range(len(each)) if inside is None else inside
    facts = {
        rank: Facts(init=InitArguments(*each[rank], init_method=method), agent_store=agent_store)
        for rank in inside
    }
    waiting = [blocked(rank, "init_process_group") for rank in inside]
    return stuck(*waiting, **{"world_size": len(each), "facts": facts, **fields})


@pytest.mark.parametrize(
    ("each", "kind", "culprits"),
    [
        (((0, 3), (1, 3), (1, 3)), "init_duplicate_rank", (1, 2)),
        (((0, 3), (0, 3), (0, 3)), "init_duplicate_rank", (0, 1, 2)),
        (((2, 4), (0, 4), (2, 4), (0, 4)), "init_duplicate_rank", (0, 2)),
        (((0, 4), (0, 4), (2, 3)), "init_duplicate_rank", (0, 1)),
        (((None, 2), (None, 2)), "init_incomplete", ()),
        (((0, 3), (1, 3), (2, 4)), "init_wrong_world_size", (2,)),
        (((0, 2), (1, 3), (2, 4)), "init_wrong_world_size", (0, 2)),
        (((0, 4), (1, 4), (2, 4)), "init_wrong_world_size", ()),
        (((0, None), (1, 4), (2, 3)), "init_wrong_world_size", (1,)),
        (((0, None), (1, None)), "init_incomplete", ()),
        (((0, 2), (1, 2)), "init_incomplete", ()),
    ],
)
def test_what_ranks_have_asked_for_says_who_is_wrong(each, kind, culprits):
    assert said(asked(*each)) == (kind, culprits)


@pytest.mark.parametrize(
    ("given", "environment", "known"),
    [
        ({"rank": 1, "world_size": 2}, {"RANK": "0", "WORLD_SIZE": "4"}, (1, 2)),
        ({"rank": 0}, {"RANK": "3", "WORLD_SIZE": "4"}, (0, 4)),
        ({}, {"RANK": "3", "WORLD_SIZE": "4"}, (3, 4)),
        ({}, {}, (None, None)),
    ],
)
def test_what_neither_the_call_nor_the_environment_says_is_not_known(monkeypatch, given, environment, known):
    """It may stand in the address: tcp://...?rank=1&world_size=2. No two ranks are then both called rank -1."""
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    torchs = compile(
        "def init_process_group(init_method='env://', rank=-1, world_size=-1):\n    return facts_of(get_ident())",
        "torch/distributed/distributed_c10d.py",
        "exec",
    )
    names = {"facts_of": facts_of, "get_ident": get_ident}
    exec(torchs, names)
    init = names["init_process_group"](**given).init
    assert (init.rank, init.world_size, init.init_method) == (*known, "env://")


def test_all_world_sizes_that_are_wrong_are_told_and_no_right_one():
    assert "ask for world size 2 and 4 at" in diagnose(asked((0, 2), (1, 3), (2, 4))).summary


@pytest.mark.parametrize(
    ("each", "inside", "ran", "said_of_it"),
    [
        (((0, 4),) * 4, (0,), (0, 1, 2, 3), ("init_rank_missing", (1, 2, 3))),
        (((0, 4), (1, 4), (2, 4), (3, 4)), (0, 1, 3), (0, 1, 2, 3), ("init_rank_missing", (2,))),
        (((0, 4), (1, 4), (2, 4), (3, 4)), (0, 1), (0, 1, 2), ("init_rank_missing", (2, 3))),
        (((0, 4), (1, 4), (2, 4), (3, 4)), (0, 1), (0, 1), ("init_rank_missing", (2, 3))),
        (((0, 4), (1, 5), (2, 4), (3, 4)), (0, 1), (0, 1, 2), ("init_wrong_world_size", (1,))),
        (((0, 4), (0, 4), (2, 4), (3, 4)), (0, 1), (0, 1, 2), ("init_duplicate_rank", (0, 1))),
    ],
)
def test_a_rank_that_does_not_come_is_missing_though_it_is_not_in_the_cell_where_those_inside_ask_for_the_right_thing(
    each, inside, ran, said_of_it
):
    assert said(asked(*each, inside=inside, ranks=ran)) == said_of_it


def test_a_rank_that_waits_elsewhere_does_not_come_either():
    waiting = {0: blocked(0, "new_group"), 1: blocked(1, "init_process_group"), 2: blocked(2, "recv")}
    assert said(stuck(world_size=3, waiting=waiting)) == ("init_rank_missing", (0, 2))


def test_an_absence_is_told_before_addresses_and_addresses_before_a_store_that_nobody_makes():
    def seen(*addresses, inside):
        facts = {
            rank: Facts(
                master=address, init=InitArguments(rank, 3, init_method="tcp://x:1"), agent_store=True
            )
            for rank, address in enumerate(addresses)
        }
        return asked((0, 3), (1, 3), (2, 3), inside=inside, facts=facts)

    assert said(seen(HERE, THERE, HERE, inside=(0, 1))) == ("init_rank_missing", (2,))
    assert said(seen(HERE, THERE, HERE, inside=(0, 1, 2))) == ("init_wrong_address", (1,))
    assert said(seen(HERE, None, HERE, inside=(0, 1, 2))) == ("init_nobody_listens", ())


def test_three_addresses_on_three_ranks_blame_nobody():
    assert said(waiting_for(HERE, THERE, StoreAddress("10.0.0.8", "29501"))) == ("init_wrong_address", ())


@pytest.mark.parametrize(
    ("method", "agent_store", "kind"),
    [
        ("tcp://127.0.0.1:29500", True, "init_nobody_listens"),
        ("tcp://127.0.0.1:29500", False, "init_incomplete"),
        ("env://", True, "init_incomplete"),
        ("file:///tmp/store", True, "init_incomplete"),
        (None, True, "init_incomplete"),
    ],
)
def test_a_tcp_store_is_made_by_nobody_where_ranks_are_told_that_their_launcher_has(
    method, agent_store, kind
):
    assert said(asked((0, 2), (1, 2), method=method, agent_store=agent_store)) == (kind, ())


def test_one_rank_that_takes_another_way_is_reason_enough_not_to_say_that_nobody_makes_a_store():
    def init(rank, method):
        return Facts(init=InitArguments(rank, 2, init_method=method), agent_store=rank == 0)

    facts = {0: init(0, "tcp://127.0.0.1:29500"), 1: init(1, "env://")}
    assert said(asked((0, 2), (1, 2), facts=facts)) == ("init_incomplete", ())
    facts[1] = init(1, "tcp://127.0.0.1:29500")
    assert said(asked((0, 2), (1, 2), facts=facts)) == ("init_nobody_listens", ())


def test_only_a_hang_in_which_ranks_wait_there_is_judged():
    waiting = {0: blocked(0, "init_process_group")}
    assert init_hang(outcome("raises", 2, waiting=waiting)) is None
    assert init_hang(outcome("hang", 2)) is None
    assert init_hang(stuck(blocked(0, "barrier"), blocked(1, "barrier"))) is None


# -- new_group ---------------------------------------------------------------------------------------------------------


def asking(*made, inside, groups=None):
    waiting = [blocked(rank, "new_group") for rank in inside]
    facts = {
        rank: Facts(groups_made=number, groups=(groups or {}).get(rank, {"0": (0, 1, 2)}))
        for rank, number in enumerate(made)
    }
    return stuck(*waiting, world_size=len(made), facts=facts)


def test_groups_made_by_some_ranks_only_shift_the_numbers_of_the_next():
    found = diagnose(asking(3, 3, 2, inside=(0, 1, 2)))
    assert (found.kind, found.culprits) == ("new_group_on_some_ranks", (2,))
    assert "numbered as" in found.summary


def test_a_number_that_means_different_groups_is_told_though_a_rank_has_gone_on():
    groups = {0: {"1": [0, 1]}, 1: {"1": [0, 1]}, 2: {"1": [0, 1, 2]}}
    found = diagnose(asking(3, 3, 2, inside=(0, 1), groups=groups))
    assert found.culprits == (2,)
    assert "numbered as" in found.summary


def test_as_many_groups_in_another_order_are_told_by_what_a_number_means():
    groups = {0: {"1": [0, 1]}, 1: {"1": [0, 1]}, 2: {"1": [0, 1, 2]}}
    found = diagnose(asking(3, 3, 3, inside=(0, 1), groups=groups))
    assert found.kind == "new_group_on_some_ranks"
    assert "number 1 is [0, 1] on ranks 0 and 1 and [0, 1, 2] on rank 2" in found.summary


def test_a_rank_that_does_not_come_to_new_group_is_named():
    found = diagnose(asking(2, 2, 1, inside=(0, 1)))
    assert found.summary.startswith("Only ranks 0 and 1 call new_group")


@pytest.mark.parametrize("call", ["new_group", "_new_group_with_tag"])
@pytest.mark.parametrize(
    ("inside", "world_size", "culprits"),
    [
        ((0,), 3, (0,)),
        ((0, 1), 3, (2,)),
        ((0, 1), 4, (2, 3)),
        ((1, 2), 5, (1, 2)),
        ((1,), 2, (0,)),
    ],
)
def test_the_fewer_of_those_that_call_new_group_and_those_that_do_not_are_named(
    call, inside, world_size, culprits
):
    waiting = [blocked(rank, call) for rank in inside]
    assert said(stuck(*waiting, world_size=world_size)) == ("new_group_on_some_ranks", culprits)


def test_ranks_that_the_cell_does_not_run_on_do_not_call_new_group_either():
    waiting = [blocked(rank, "new_group") for rank in (0, 1)]
    assert said(stuck(*waiting, world_size=3, ranks=(0, 1))) == ("new_group_on_some_ranks", (2,))


def test_beside_a_rank_in_new_group_one_in_a_collective_is_one_that_does_not_call_it():
    waiting = [blocked(0, "barrier"), blocked(1, "new_group"), blocked(2, "new_group")]
    assert said(stuck(*waiting, world_size=3)) == ("new_group_on_some_ranks", (0,))


@pytest.mark.parametrize(
    ("made", "said_of_it"),
    [
        ((3, 3, 3), ("nobody_answers", ())),
        ((3, 3, None), ("nobody_answers", ())),
        ((4, 3, 3), ("new_group_on_some_ranks", (0,))),
        ((2, 3, 4), ("new_group_on_some_ranks", ())),
    ],
)
def test_where_all_call_new_group_the_numbers_of_groups_made_before_say_who_is_odd(made, said_of_it):
    assert said(asking(*made, inside=(0, 1, 2))) == said_of_it


def test_equal_groups_under_the_same_numbers_are_no_reason():
    groups = {rank: {"0": [0, 1, 2], "1": [0, 1]} for rank in range(3)}
    assert said(asking(3, 3, 3, inside=(0, 1, 2), groups=groups)) == ("nobody_answers", ())
    assert said(asking(3, 3, 2, inside=(0, 1), groups=groups)) == ("new_group_on_some_ranks", (2,))
    assert "Only ranks 0 and 1 call" in diagnose(asking(3, 3, 2, inside=(0, 1), groups=groups)).summary
