"""Which entries of torch's flight recorder belong to the groups that exist now, on entries that are made up."""

import pytest

from realranks.ranks.inside import flight_recorder


def entry(seq, time_ns, group="0"):
    return {
        "process_group": (group, "default_pg"),
        "collective_seq_id": seq,
        "time_created_ns": time_ns,
        "profiling_name": "gloo:all_reduce",
        "input_sizes": [[1]],
        "input_dtypes": ["Float"],
        "retired": True,
    }


@pytest.fixture
def recorded(monkeypatch):
    """The group, number and time of the collectives that are told when the recorder holds these entries."""

    def told(*entries, since_ns=0):
        monkeypatch.setattr(flight_recorder, "_entries", lambda stacks: list(entries))
        found = flight_recorder.recorded_collectives(since_ns)
        return [(one["group"], one["seq"], one["time_ns"]) for one in found]

    return told


def test_a_group_made_again_begins_anew_and_its_old_life_is_forgotten(recorded):
    old = [entry(1, 10), entry(2, 20), entry(3, 30)]
    assert recorded(*old, entry(1, 40), entry(2, 50)) == [("0", 1, 40), ("0", 2, 50)]
    assert recorded(*old[:1], entry(1, 40)) == [("0", 1, 40)], "one number that comes again is enough"


def test_another_groups_life_goes_on_when_one_is_made_again(recorded):
    entries = [entry(1, 10), entry(1, 15, "1"), entry(2, 20), entry(1, 40), entry(2, 45, "1")]
    assert recorded(*entries) == [("1", 1, 15), ("0", 1, 40), ("1", 2, 45)]


def test_what_was_issued_before_the_groups_began_is_left_out(recorded):
    assert recorded(entry(1, 10), entry(2, 20), entry(3, 30), since_ns=20) == [("0", 2, 20), ("0", 3, 30)]


def test_only_the_newest_are_told(recorded):
    many = [entry(seq, seq) for seq in range(1, flight_recorder.MAX_RECORDS + 3)]
    assert recorded(*many) == [("0", each["collective_seq_id"], each["time_created_ns"]) for each in many[2:]]


def test_a_record_says_operation_and_whether_it_is_over(monkeypatch):
    monkeypatch.setattr(flight_recorder, "_entries", lambda stacks: [{**entry(4, 9), "retired": False}])
    (found,) = flight_recorder.recorded_collectives(0)
    assert found == {
        "group": "0",
        "seq": 4,
        "op": "all_reduce",
        "sizes": [[1]],
        "dtypes": ["Float"],
        "done": False,
        "time_ns": 9,
    }


# -- entries as NCCL's recorder has them; no card was at hand to record some -------------------------------------------


def of_nccl(seq, time_ns, group="0", op="all_reduce", p2p=False):
    return {
        **entry(seq, time_ns, group),
        "profiling_name": f"nccl:{op}",
        "is_p2p": p2p,
        "p2p_seq_id": 1 if p2p else 0,
    }


def test_gloo_and_nccl_count_on_their_own_in_one_group(recorded):
    entries = [entry(1, 10), entry(2, 20), of_nccl(1, 30), of_nccl(2, 40), entry(3, 50)]
    assert recorded(*entries) == [
        ("0", 1, 10),
        ("0", 2, 20),
        ("0/nccl", 1, 30),
        ("0/nccl", 2, 40),
        ("0", 3, 50),
    ]


def test_sends_and_receives_are_left_out_and_end_no_groups_life(recorded):
    entries = [of_nccl(1, 10), of_nccl(1, 20, op="send 0->1", p2p=True), of_nccl(2, 30)]
    assert recorded(*entries) == [("0/nccl", 1, 10), ("0/nccl", 2, 30)]


def test_collectives_that_nccl_does_in_one_go_share_a_number(recorded):
    entries = [of_nccl(1, 10), of_nccl(2, 20), of_nccl(2, 20, op="coalesced"), of_nccl(3, 30)]
    assert len(recorded(*entries)) == 4


def test_a_group_of_nccls_that_counts_from_1_again_is_a_new_one(recorded):
    assert recorded(of_nccl(1, 10), of_nccl(2, 20), of_nccl(1, 30)) == [("0/nccl", 1, 30)]
