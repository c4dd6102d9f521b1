"""Rows that loaders gave, made up: where the rules about them speak, and where they must not."""

import pytest

from realranks.doctor import silent
from tests.support.watched import notes, watched

MODEL = {"number": 0, "ranks": [0, 1], "forwards": 4, "inputs": [5]}
ROWS = range(40)


@pytest.fixture(autouse=True)
def only_rules_about_rows(monkeypatch):
    rules = tuple(rule for rule in silent._RULES if rule in silent._IF_AVERAGED)
    monkeypatch.setattr(silent, "_RULES", rules)


def epoch(rows, indices=(), **told):
    return {
        "indices": list(indices),
        "batches": 4,
        "crc": 1,
        "ended": True,
        "rows": [list(row) for row in rows],
        **told,
    }


def loader(*epochs, trains=True, **told):
    return {
        "number": 0,
        "sampler": "RandomSampler",
        "shuffles": True,
        "samples": 80,
        "trains": trains,
        "epochs": list(epochs),
        **told,
    }


def dealt(rank, *epochs, **told):
    return loader(*epochs, **{"sampler": "DistributedSampler", "share": [rank, 2], "dealt": 40, **told})


def said(*loaders, model=MODEL):
    found = silent.silent_fault(watched(*(notes(models=[model], loaders=own) for own in loaders)))
    return found.kind if found is not None else "nothing"


def labelled(*labels):
    """Rows of a stream with these labels, each rank's in an order of its own."""
    return [loader(epoch((-1, row, labels[row % len(labels)]) for row in ROWS))]


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        ((0, 1, 2, 3), (1, 0, 2, 3), "labels_differ"),
        ((0, 1, 2, 3), (0, 1, 2, 3), "same_data"),
        ((0, 1, 2, 3), (1, 1, 1, 1), "nothing"),  # no numbering makes the one of the other
        ((0, 0, 0, 0), (1, 1, 1, 1), "nothing"),  # the rank itself is the label
        (tuple(ROWS), (*ROWS[1:], 0), "nothing"),  # each row has a label of its own
        ((None, None), (None, None), "same_data"),
    ],
)
def test_labels_differ_where_the_ranks_number_the_same_classes_otherwise(one, other, kind):
    assert said(labelled(*one), labelled(*other)) == kind


def test_a_label_that_changes_from_draw_to_draw_is_compared_with_none():
    changing = [loader(epoch([(-1, row, (row + turn) % 2) for row in ROWS for turn in (0, 1)]))]
    assert said(changing, labelled(1, 0)) == "nothing"


def test_without_a_model_that_averages_over_all_ranks_each_may_train_on_what_it_likes():
    assert said(labelled(0, 1), labelled(1, 0), model=MODEL | {"ranks": [0]}) == "nothing"


def evaluated(rows):
    return loader(epoch(rows), trains=False, evaluates=True)


def test_rows_of_the_validation_that_another_rank_trains_on_are_no_fault_where_a_rank_trains_on_its_own_too():
    low, high = [(-1, row, 0) for row in ROWS[:20]], [(-1, row, 0) for row in ROWS[20:]]
    assert (
        said([loader(epoch(low)), evaluated(high)], [loader(epoch(high)), evaluated(low)]) == "split_differs"
    )
    assert said([loader(epoch(low)), evaluated(low)], [loader(epoch(high)), evaluated(low)]) == "nothing"
    assert (
        said([loader(epoch(low)), evaluated(high[:9])], [loader(epoch(high)), evaluated([(-1, 99, 0)])])
        == "nothing"
    )


def test_datasets_are_unlike_only_where_a_number_gives_the_same_row_again():
    def drawn(rank, *bases):
        return [dealt(rank, *(epoch([(n, base + n, None) for n in ROWS], ROWS) for base in bases))]

    assert said(drawn(0, 100, 100), drawn(1, 900, 900)) == "unlike_datasets"
    assert said(drawn(0, 100, 200), drawn(1, 900, 700)) == "nothing", "each draw is another crop"
    assert said(drawn(0, 100, 100), drawn(1, 100, 100)) == "nothing"
    assert said(drawn(0, 100), drawn(1, 900)) == "nothing", (
        "drawn once: whether it stays the same is not known"
    )


def test_the_first_of_many_rows_do_not_show_that_ranks_go_through_the_same_ones():
    def shuffled(order, indices):
        return [loader(epoch([(n, n, None) for n in order], indices))]

    assert said(shuffled(ROWS, ROWS), shuffled(ROWS[::-1], ROWS[::-1])) == "not_split"
    assert said(shuffled(ROWS, range(60)), shuffled(ROWS[::-1], range(60))) == "nothing"
    left = [loader(epoch([(n, n, None) for n in ROWS], ROWS, ended=False))]
    assert said(left, shuffled(ROWS[::-1], ROWS[::-1])) == "nothing"


def test_draws_with_repeats_are_a_fault_only_where_each_rank_draws_as_many_as_there_are_from_the_same_rows():
    def drew(numbers, base=0, **told):
        rows = [(n, base + n, None) for n in numbers]
        return [loader(epoch(rows, numbers), **{"samples": len(ROWS), **told})]

    one, other = [*ROWS[:-1], ROWS[0]], [*ROWS[1:], ROWS[1]]
    assert said(drew(one), drew(other)) == "not_split"
    assert said(drew(one), drew(one)) != "not_split"
    assert said(drew(one), drew(other, base=900)) == "nothing", "rows of its own"
    assert said(drew(one[::2]), drew(other[::2])) == "nothing", "its share"
    assert said(drew(one, samples=-1), drew(other, samples=-1)) == "nothing", "nobody says how many there are"


def test_parts_that_overlap_are_a_fault_only_where_they_add_up_to_one_dataset():
    def drew(numbers, base=0, **told):
        rows = [(n, base + n, None) for n in numbers]
        return [loader(epoch(rows, numbers), **{"sampler": "Share", "samples": 80, "dealt": 40} | told)]

    one, other = range(40), range(10, 50)
    assert said(drew(one), drew(other)) == "overlapping_shards"
    assert said(drew(one), drew(range(36, 76))) == "nothing", "as many as fill up a batch"
    assert said(drew(one), drew(other, base=900)) == "nothing", "rows of its own"
    assert said(drew(one, samples=160), drew(other, samples=160)) == "nothing", "not all of it"
    assert said(drew([*one, 0]), drew(other)) == "nothing", "with repeats"
    assert said(drew(one, sampler="RandomSampler"), drew(other, sampler="RandomSampler")) == "nothing"
    assert said(drew(range(80)), drew(range(80)[::-1])) == "not_split"


def test_a_share_of_a_share_is_told_from_samples_that_are_left_out():
    def drew(rank, number, batching="ShareOfBatches"):
        return [dealt(rank, epoch([], range(number)), batching=batching)]

    assert said(drew(0, 20), drew(1, 20)) == "split_twice"
    assert said(drew(0, 36), drew(1, 36)) == "nothing"
    assert said(drew(0, 20, "BatchSampler"), drew(1, 20, "BatchSampler")) == "nothing"


def test_one_shard_is_not_all_that_was_evaluated_where_the_other_rank_goes_through_its_own():
    shards = [dealt(rank, epoch([], range(rank, 80, 2)), trains=False) for rank in range(2)]
    looked = shards[0] | {"evaluates": True}
    assert said([looked], []) == "one_shard_evaluated"
    assert said([looked], [shards[1]]) == "nothing", "it evaluates with a copy of the model"
    assert said([looked | {"epochs": [epoch([], range(8), ended=False)]}], []) == "nothing"


def test_workers_that_keep_a_stream_are_found_by_what_the_script_has_set():
    def read(epochs, **told):
        return [loader(*epochs, **{"kept_workers": True, **told})]

    def streams(rank, after, **told):
        rows = [(-1, 100 * rank + row, None) for row in ROWS]
        return read([epoch(rows, settings={"epoch": 0}), epoch(rows, settings={"epoch": after})], **told)

    assert said(streams(0, 1), streams(1, 1)) == "same_order_every_epoch"
    assert said(streams(0, 0), streams(1, 0)) == "nothing"
    assert said(streams(0, 1, kept_workers=False), streams(1, 1, kept_workers=False)) == "nothing"
