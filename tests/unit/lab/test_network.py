"""Lesson 04's network: what is computed of a step, and how it is drawn; real ranks are in tests/integration."""

import pytest

from course_lib.lab.network import (
    CAPS,
    LAYER_MIB,
    LAYERS,
    MODELS,
    NETWORKS,
    CapsExplorer,
    Network,
    Step,
    against_default,
    buckets_of,
    computed_step,
    draw_against_default,
    draw_caps,
    estimate,
    fastest,
)
from course_lib.lessons.buckets.lab import buckets_fill
from realranks.draw import Box, Text

SLOW = Network(latency=0.008, bandwidth=100)


def test_a_message_takes_the_latency_and_the_time_of_its_bytes():
    assert SLOW.seconds(0) == 0.008
    assert SLOW.seconds(5) == pytest.approx(0.058)


@pytest.mark.parametrize(("latency", "bandwidth"), [(-0.001, 100), (0.001, 0)])
def test_a_network_that_is_faster_than_nothing_or_carries_nothing_is_refused(latency, bandwidth):
    with pytest.raises(ValueError, match="latency of at least 0 s and a bandwidth above 0"):
        Network(latency, bandwidth)


@pytest.mark.parametrize(
    ("cap", "buckets"),
    [
        (0.5, [1] * 16),
        (0.75, [2] * 8),
        (3, [6, 6, 4]),
        (25, [16]),
        (None, [2, 14]),
        (8, [16]),
        (7.5, [15, 1]),
    ],
)
def test_a_bucket_is_closed_when_it_has_reached_its_cap_and_the_default_has_a_small_first_one(cap, buckets):
    assert buckets_of(cap) == buckets
    assert sum(buckets) == LAYERS


@pytest.mark.parametrize("cap", CAPS)
def test_messages_follow_each_other_and_none_leaves_before_its_gradients_are_there(cap):
    step = computed_step(cap, SLOW)
    assert step.ready == pytest.approx([0.005 * (n + 1) for n in range(LAYERS)])
    done, free = 0, 0.0
    for count, (start, end) in zip(buckets_of(cap), step.sent, strict=True):
        done += count
        assert start == pytest.approx(max(free, step.ready[done - 1]))
        assert end == pytest.approx(start + 0.008 + count * LAYER_MIB / 100)
        free = end
    assert step.seconds == free


def test_one_bucket_overlaps_nothing_and_many_queue_up():
    backward, wire = LAYERS * 0.005, LAYERS * LAYER_MIB / 100
    assert computed_step(25, SLOW).seconds == pytest.approx(backward + 0.008 + wire)
    assert computed_step(0.5, SLOW).seconds == pytest.approx(0.005 + LAYERS * 0.008 + wire)
    times = {cap: computed_step(cap, SLOW).seconds for cap in CAPS}
    assert times[2] < times[None] < times[25] < times[0.5]


def test_without_latency_small_buckets_are_best_and_on_a_network_that_takes_no_time_only_the_backward_counts():
    assert computed_step(0.5, Network(0, 100)).seconds < computed_step(2, Network(0, 100)).seconds
    assert computed_step(25, Network(0, 1e9)).seconds == pytest.approx(LAYERS * 0.005)


def test_the_fastest_cap_is_that_of_the_slower_rank():
    seconds = {0: {0.5: 3.0, 2: 1.0, 25: 2.0}, 1: {0.5: 3.0, 2: 4.0, 25: 2.0}}
    by_rank = {
        rank: {cap: Step((), (), took) for cap, took in found.items()} for rank, found in seconds.items()
    }
    assert fastest(25)({"steps": by_rank})
    assert not fastest(2)({"steps": by_rank})


def test_the_shortest_measured_row_is_named_and_the_computed_times_stand_beside_the_measured():
    measured = {2: Step((0.08,), ((0.02, 0.14),), 0.14), 25: Step((0.08,), ((0.08, 0.17),), 0.17)}
    words = [shape.text for shape in draw_caps(measured, SLOW).shapes if isinstance(shape, Text)]
    assert "140 ms (132)" in words
    assert "170 ms (168)" in words
    assert words.index("140 ms (132)") + 1 == words.index("the shortest")
    assert "140" not in draw_caps(measured, SLOW).alt  # it is compared, times are not


def test_in_the_drawing_a_bucket_leaves_when_both_ranks_have_filled_it_and_in_order():
    def under_way(frame):
        return [shape.text for shape in frame.drawing.shapes if getattr(shape, "look", "") == "communication"]

    frames = buckets_fill().frames
    assert [under_way(frame) for frame in frames] == [
        [],
        [],
        [],
        ["all-reduce of bucket 0"],
        [],
        ["all-reduce of bucket 1"],
        ["all-reduce of bucket 2"],
        [],
    ]
    words = [shape.text for shape in frames[2].drawing.shapes if isinstance(shape, Box)]
    assert "bucket 0 waits" in words
    last = [shape.text for shape in frames[-1].drawing.shapes if isinstance(shape, Box)]
    assert last.count("mean") == 2 * 8


def test_the_explorer_begins_with_what_is_computed_and_that_is_shown_where_no_kernel_runs():
    explorer = CapsExplorer()
    data = explorer._repr_mimebundle_()
    assert "Computed, 8 MiB: with" in data["text/plain"]
    assert explorer.static.svg() == explorer.picture.value
    assert data["text/html"].startswith('<img alt="Computed, 8 MiB: with')
    assert "A row for each bucket_cap_mb of 0.5, 1, 2, 3, 4, 25, default" in data["text/html"]


#: By model and network, in the order of the tables: percent that caps of 0.5, 4, 25 and 100 add to the default's step.
TABLE = [
    (-3.0, -2.5, 0.2, 12.2),
    (-0.2, -0.2, 0.0, 0.8),
    (0.6, -9.8, 0.4, 40.2),
    (170.1, -2.4, 0.2, 12.0),
    (-0.6, -0.4, 0.2, 4.3),
    (0.0, 0.0, 0.0, 0.3),
    (2.0, 0.6, 0.5, 4.3),
    (58.7, -0.8, -0.4, 3.5),
]


def test_on_models_and_networks_of_real_sizes_25_and_the_default_differ_by_less_than_a_percent():
    places = [(model, network) for model in MODELS.values() for network in NETWORKS.values()]
    for (model, network), expected in zip(places, TABLE, strict=True):
        found = [100 * against_default(cap, network, model) for cap in (0.5, 4, 25, 100)]
        assert found == pytest.approx(expected, abs=0.06)
        assert abs(found[2]) < 1
    assert draw_against_default().title == "25 and the default differ by at most 0.5 %"


def test_a_busy_machine_is_noticed():
    measured = {2: Step((0.08,), ((0.02, 0.3),), 0.3), 25: Step((0.08,), ((0.08, 0.17),), 0.17)}
    assert draw_caps(measured, SLOW).title.startswith("This machine is busy")
    quiet = {2: Step((0.08,), ((0.02, 0.14),), 0.14), 25: Step((0.08,), ((0.08, 0.17),), 0.17)}
    assert draw_caps(quiet, SLOW).title == "The shortest of these steps: 2"


def test_an_estimate_has_the_bytes_of_the_parameters():
    drawing = estimate(2**18 * 97, 160, 60, NETWORKS["100 GbE: 50 us, 10 GiB/s"])
    assert drawing.title.startswith("Computed, 97 MiB")
