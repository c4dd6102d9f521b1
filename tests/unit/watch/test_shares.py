from realranks.watch.shares import Relation, shares
from tests.support.fingerprints import indices


def test_disjoint_shares():
    found = shares({0: indices(0, 2, dataset=4), 1: indices(1, 3, dataset=4)})
    assert found.relation is Relation.DISJOINT
    assert found.lines() == ["disjoint: ranks take 2 indices each"]


def test_what_no_rank_takes_is_counted():
    found = shares({0: indices(0, 1, dataset=5), 1: indices(2, 3, dataset=5)})
    assert found.missing == 1
    assert found.lines()[1] == "taken by no rank: 1"


def test_padding_is_told_from_a_mistake():
    padded = {
        0: indices(0, 4, 8, dataset=10),
        1: indices(1, 5, 9, dataset=10),
        2: indices(2, 6, 0, dataset=10),
        3: indices(3, 7, 1, dataset=10),
    }
    found = shares(padded)
    assert found.relation is Relation.OVERLAPPING
    assert found.shared == (0, 1)
    assert found.padding == 2
    assert found.only_padding
    assert found.lines()[1] == ("taken by more than one rank: 2 (0, 1), padding that makes the shares equal")


def test_overlap_that_is_no_padding():
    found = shares({0: indices(0, 1, dataset=4), 1: indices(1, 2, dataset=4)})
    assert not found.only_padding
    assert found.lines() == [
        "overlapping: ranks take 2 indices each",
        "taken by more than one rank: 1 (1), not padding",
        "taken by no rank: 1",
    ]


def test_padding_and_a_mistake_at_once():
    found = shares({0: indices(0, 1, 2, dataset=5), 1: indices(1, 2, 3, dataset=5)})
    assert not found.only_padding
    assert "of which padding explains 1" in found.lines()[1]


def test_equal_and_reordered():
    assert shares({0: indices(0, 1), 1: indices(0, 1)}).relation is Relation.EQUAL
    assert shares({0: indices(0, 1), 1: indices(1, 0)}).relation is Relation.ORDER_DIFFERS
    assert shares({0: indices(0, 0, 1), 1: indices(0, 1, 1)}).relation is Relation.OVERLAPPING


def test_indices_that_were_not_listed_are_compared_by_their_checksum():
    here, there = indices(0, 1), indices(1, 2)
    del here["indices"], there["indices"]
    assert shares({0: here, 1: there}).relation is Relation.UNKNOWN
    assert shares({0: here, 1: here}).relation is Relation.EQUAL


def test_without_a_dataset_nothing_is_said_of_padding():
    found = shares({0: indices(0, 1), 1: indices(1, 2)})
    assert found.padding is None
    assert found.lines()[1] == "taken by more than one rank: 1 (1)"


def test_unequal_shares_are_listed():
    assert shares({0: indices(0, 1), 1: indices(2)}).lines() == ["disjoint: ranks take 2, 1 indices"]
