"""One moment of all ranks, read from an outcome."""

from dataclasses import replace

from realranks.outcome.facts import Facts
from realranks.outcome.places import Frame
from realranks.outcome.wrapped import NamedShape, WrappedModel
from realranks.watch import snapshot
from tests.support.outcomes import collective, died, hung, outcome, raised

MODEL = WrappedModel(
    "Net",
    tuple(
        NamedShape(*each)
        for each in (("0.weight", (4, 2)), ("0.bias", (4,)), ("1.weight", (4, 2)), ("1.bias", (4,)))
    ),
    4,
)


def gradients(*sizes):
    return tuple(
        replace(collective("all_reduce", seq, size, done=True), stage="gradients")
        for seq, size in enumerate(sizes, start=1)
    )


def seen(records, *models):
    out = outcome(world_size=1, recorded={0: records}, facts={0: Facts(models=models, memory_bytes=5)})
    return snapshot(out)[0]


def test_buckets_are_named_where_all_sizes_fit_the_order_of_the_parameters():
    found = seen(gradients(24, 12, 12), MODEL)
    assert found.parameters == {
        0: ("1.bias", "1.weight", "0.bias", "0.weight"),
        1: ("1.bias", "1.weight"),
        2: ("0.bias", "0.weight"),
    }
    assert found.memory_bytes == 5
    assert "#3 all_reduce(12), DDP's gradients of 0.bias, 0.weight: done" in "\n".join(found.lines())


def test_nothing_is_named_where_one_size_does_not_fit_or_two_models_fit():
    other = replace(MODEL, parameters=(NamedShape("a", (24,)),))
    assert seen(gradients(24, 11, 13), MODEL).parameters == {}
    assert seen(gradients(24), MODEL, other).parameters == {}
    assert seen(gradients(12, 12), MODEL, other).parameters[1] == ("0.bias", "0.weight")
    assert seen(gradients(24)).parameters == {}


def test_other_collectives_are_no_buckets():
    assert seen((collective("broadcast", 1, 24, done=True),), MODEL).parameters == {}


def test_equal_ranks_share_a_row_and_every_ending_is_told():
    out = hung(0, 1, missing=(2,), recorded={rank: (collective("barrier"),) for rank in (0, 1)})
    text = repr(snapshot(out))
    assert "ranks 0,1 | blocked" in text
    assert "#1 barrier(1): under way" in text
    assert "ranks 2,3 | finished" in text
    assert "rank 3 " in repr(snapshot(raised(3)))
    assert "raised: ValueError: no" in repr(snapshot(raised(3)))


def test_a_crash_has_its_place_and_its_signal():
    place = Frame("/work/train.py", 7, "main", "crash()")
    text = repr(snapshot(died({1: -11}, last_places={1: (place,)})))
    assert "died: killed by SIGSEGV" in text
    assert "at train.py, line 7: crash()" in text


def test_only_the_newest_collectives_are_listed():
    lines = list(seen(gradients(*[24] * 6), MODEL).lines())
    assert lines[1] == "  2 earlier collectives"
    assert len(lines) == 6
