"""`run`: functions, closures and lambdas on real ranks, from a plain cell or script."""

import sys
import threading

import cloudpickle
import pytest

from course_lib import run
from realranks.cells.refused import UnexpectedOutcome, UsageError
from realranks.faults import delay, exit_with, fail, kill
from realranks.outcome.outcome import Kind

# As for functions of a notebook: the ranks get them by value and need not import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def rank_times(factor=1):
    import torch.distributed as dist

    return dist.get_rank() * factor


def train(steps=3):
    import torch
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(torch.nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    return True


def test_a_function_is_called_on_every_rank():
    assert run(rank_times, 10, ranks=3).values == {0: 0, 1: 10, 2: 20}


def test_lambdas_and_closures_travel():
    offset = 5
    assert run(lambda x: rank_times() + offset + x, 1, ranks=2).values == {0: 6, 1: 7}


def test_what_cannot_be_pickled_is_named():
    lock = threading.Lock()
    with pytest.raises(UsageError, match="`lock`, a lock that"):
        run(lambda: lock, ranks=2)
    with pytest.raises(UsageError, match="argument 0, a lock"):
        run(rank_times, lock, ranks=2)


def test_what_cannot_be_unpickled_on_the_ranks_is_an_error_there():
    class Odd:
        def __reduce__(self):
            return (int, ("not a number",))

    outcome = run(rank_times, Odd(), ranks=2, expect="raises:ValueError")
    assert outcome.kind is Kind.RAISES


def test_another_end_than_expected_raises_with_the_outcome_in_hand(capsys):
    with pytest.raises(
        UnexpectedOutcome, match="expected ok, but ranks 0 and 1 raise ZeroDivisionError"
    ) as caught:
        run(lambda: 1 // 0, ranks=2)
    assert caught.value.outcome.kind is Kind.RAISES
    assert "Not expected" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("fault", "expect"),
    [
        (kill(rank=1, at="step", nth=2), "died:1"),
        (exit_with(rank=0, code=7, at="forward", nth=3), "died:0"),
        (fail(rank=1, at="forward", nth=2), "raises:1"),
        (fail(rank=0), "raises:InjectedFault"),
        (delay(rank=1, seconds=0.6, at="forward"), "ok"),
    ],
)
def test_a_fault_strikes_its_rank_at_its_moment(fault, expect):
    assert run(train, ranks=2, faults=[fault], expect=expect).never_struck == ()


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            kill(rank=1, at="step", nth=99),
            "rank 1 never struck: it waits for step number 99, and step came 3 times",
        ),
        (
            fail(rank=0, at="collective"),
            "collective never came on that rank (collectives count that the code calls",
        ),
        (delay(rank=1, seconds=9, at="forward", nth=10), "forward came 3 times"),
    ],
)
def test_a_fault_that_never_strikes_fails_the_run(fault, said):
    """Else one would believe that the code has survived it."""
    with pytest.raises(UnexpectedOutcome, match="never struck") as raised:
        run(train, ranks=2, faults=[fault])
    assert said in str(raised.value)
    assert said in repr(raised.value.outcome)


def test_a_fault_that_another_one_kept_from_striking_is_only_told():
    outcome = run(
        train,
        ranks=2,
        faults=[kill(rank=0, at="step", nth=2), fail(rank=0, at="step", nth=3)],
        expect="died:0",
    )
    assert outcome.never_struck == ()  # rank 0 cannot say so any more
    outcome = run(
        train,
        ranks=2,
        faults=[fail(rank=0, at="step", nth=2), fail(rank=0, at="step", nth=3)],
        expect="raises:0",
    )
    assert "step number 3" in repr(outcome)


def test_a_fault_before_a_collective_strikes():
    def several():
        import torch
        import torch.distributed as dist

        for _ in range(3):
            dist.all_reduce(torch.ones(1))

    run(several, ranks=2, faults=[kill(rank=1, at="collective", nth=2)], expect="died:1")


def test_a_fault_for_a_rank_that_is_not_there_is_refused():
    with pytest.raises(UsageError, match="rank 5"):
        run(train, ranks=2, faults=[kill(rank=5)])


def test_a_timeline_is_recorded_on_request():
    outcome = run(train, ranks=2, trace=True)
    assert list(outcome.timeline.ranks) == [0, 1]
    assert outcome.timeline.seconds(0, "backward") > 0
    assert run(rank_times, ranks=1).timeline is None


def test_values_and_collectives_outlive_the_ranks():
    outcome = run(train, ranks=2)
    assert outcome.values == {0: True, 1: True}
    assert "all_reduce" in {c.op for c in outcome.collectives[0]}
    with pytest.raises(LookupError, match="cannot be fetched"):
        outcome["model"]


def test_a_large_value_outlives_the_ranks_too():
    outcome = run(lambda: bytes(10_000_000 + rank_times()), ranks=2)
    assert {rank: len(value) for rank, value in outcome.values.items()} == {0: 10_000_000, 1: 10_000_001}


@pytest.mark.parametrize("bad", [0, -1, "two", 1.5, None, True, 10**9])
def test_a_number_of_ranks_that_cannot_be_is_refused_in_one_line(bad):
    with pytest.raises(UsageError) as caught:
        run(train, ranks=bad)
    assert "\n" not in str(caught.value)


def test_two_threads_run_ranks_at_once():
    results = {}

    def one(name):
        results[name] = [run(rank_times, name, ranks=2).values for _ in range(3)]

    threads = [threading.Thread(target=one, args=(name,)) for name in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == {name: [{0: 0, 1: name}] * 3 for name in (1, 2, 3)}


def test_without_a_process_group_env_rendezvous_works_twice():
    def twice():
        import torch
        import torch.distributed as dist

        sums = []
        for _ in range(2):
            dist.init_process_group("gloo")
            x = torch.ones(1)
            dist.all_reduce(x)
            sums.append(x.item())
            dist.destroy_process_group()
        return sums

    assert run(twice, ranks=3, init=False).values == {rank: [3.0, 3.0] for rank in range(3)}
