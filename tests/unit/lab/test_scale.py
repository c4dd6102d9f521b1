"""Lesson 15: rings, fits, efficiencies and the rounds of all-reduces, computed; real ranks are in tests/integration."""

import dataclasses
import math

import pytest

from course_lib.lessons.scale.all_reduces import WAYS, count, explore_all_reduces, step_through
from course_lib.lessons.scale.lab import (
    B200_FOUR_NODES,
    B200_ONE_NODE,
    Job,
    Ring,
    double_tree,
    draw_efficiency,
    draw_fits,
    draw_machines,
    explore_efficiency,
    fit,
    flat_ring,
    from_eight_to_64,
    two_levels,
)
from realranks.draw import Text

SIZES = (2**10, 2**17, 2**22)


def test_a_message_of_a_ring_takes_its_rounds_and_what_a_rank_sends():
    ring = Ring(0.02, 12.5)
    assert ring.network(8).seconds(0.5) == pytest.approx(14 * 0.02 + 1.75 * 0.5 / 12.5)
    assert ring.network(1).seconds(0.5) == 0


def test_the_ninth_rank_brings_the_cable():
    cable = Ring(0.02, 12.5)
    ring = Ring(0.0025, 100, cable)
    assert ring.network(8) == Ring(0.0025, 100).network(8)
    assert ring.network(9) == cable.network(9)


@pytest.mark.parametrize("shared", [False, True])
def test_the_picture_of_the_fits_names_the_formula_that_has_missed_sixteen_ranks(shared):
    def takes(n, size):
        return 2 * (n - 1) * (5e-5 + size / (1 if shared else n) * 1e-9)

    few = {(n, size): takes(n, size) for n in (2, 4, 8) for size in SIZES}
    drawn = draw_fits(few, takes(16, SIZES[-1]))
    assert drawn.title.endswith(f"off by more than a factor of two: {'own wires' if shared else 'one wire'}")
    assert f" {1e3 * takes(16, SIZES[-1]):.0f} " in draw_fits(few).title


def test_two_levels_pass_the_cable_once_and_trees_have_few_rounds():
    found = {
        n: [round(1e3 * way(1e8, n), 1) for way in (flat_ring, two_levels, double_tree)]
        for n in (16, 64, 1024)
    }
    assert found == {16: [4.0, 0.9, 4.1], 64: [5.2, 1.2, 4.1], 1024: [24.5, 3.6, 4.2]}


def test_what_the_first_eight_lose_decides_what_64_give():
    assert [round(times) for times in from_eight_to_64().values()] == [60, 43, 58]


@pytest.mark.parametrize(("latency", "bandwidth", "at_64"), [(4e-4, math.inf, 43), (0.0, 33e9, 60)])
def test_what_the_explorer_asks_for_can_be_set_and_gives_what_the_lesson_says(latency, bandwidth, at_64):
    explorer = explore_efficiency()
    explorer.latency.value, explorer.bandwidth.value = latency, bandwidth
    job = Job(latency=latency, bandwidth=bandwidth)
    assert 8 * job.efficiency(8) == pytest.approx(7.6, abs=0.05)
    assert 64 * job.efficiency(64) == pytest.approx(at_64, abs=0.6)
    assert f"64 ranks: {64 * job.efficiency(64):.0f} times" in explorer.picture.value
    explorer.computing.value = 1.0
    assert dataclasses.replace(job, computing=1.0).efficiency(64) > 0.9


def test_strong_scaling_gives_out_first_and_buckets_help_until_their_rounds_are_the_trouble():
    job, eight, many = Job(), Job(buckets=8), Job(buckets=64)
    assert job.efficiency(1) == job.efficiency(1, strong=True) == 1
    assert all(job.efficiency(n, strong=True) < job.efficiency(n) for n in (2, 8, 64, 1024))
    assert job.efficiency(8) < eight.efficiency(8) < 1
    assert many.efficiency(1024) < eight.efficiency(1024) / 4
    assert Job(way="tree, halving").efficiency(1024) > job.efficiency(1024)


def test_two_numbers_describe_a_table_of_32_gpus_within_a_factor_of_two_and_not_the_eight_of_one_node():
    latency, per_byte = fit({(32, size): size / algbw for size, algbw in B200_FOUR_NODES.items()})
    off = [62 * (latency + size / 32 * per_byte) / size * algbw for size, algbw in B200_FOUR_NODES.items()]
    assert min(off) > 0.49
    assert max(off) < 1.4
    size, algbw = max(B200_ONE_NODE.items())
    assert 14 * (latency + size / 8 * per_byte) / size * algbw > 2


@pytest.mark.parametrize("n", [4, 8, 16, 32])
@pytest.mark.parametrize("way", WAYS)
def test_every_way_ends_with_all_sums_on_all_ranks_and_adds_nobody_twice(way, n):
    held = [[[rank] for _ in range(n)] for rank in range(n)]
    for messages in WAYS[way](n):
        before = [[list(piece) for piece in rank] for rank in held]
        for m in messages:
            for piece in range(m.first, m.last):
                came = before[m.sender][piece]
                held[m.receiver][piece] = held[m.receiver][piece] + came if m.adds else list(came)
    assert all(sorted(piece) == list(range(n)) for rank in held for piece in rank)


@pytest.mark.parametrize(
    ("way", "rounds", "busiest", "cable"),
    [
        ("ring", 14, 1.75, 1.75),
        ("tree", 6, 3, 1),
        ("halving", 6, 1.75, 4),
        ("double tree", 6, 2, 2),
        ("two levels", 8, 1.75, 1),
    ],
)
def test_what_a_way_needs_on_eight_ranks(way, rounds, busiest, cable):
    found = count(way, 8)
    assert (found.rounds, found.busiest, found.cable) == (rounds, busiest, cable)
    assert len(step_through(way, 8).frames) == rounds + 1
    assert step_through(way, 8).frames[-1].said.endswith("8 of 8 ranks have all sums.")


def test_drawings_fit_on_the_page_and_say_what_is_to_be_seen():
    explorer = explore_all_reduces()
    for drawing in (draw_machines(), draw_efficiency(Job()), explorer.static):
        assert drawing.width <= 760
        assert drawing.alt
        assert all(0 <= shape.y <= drawing.height for shape in drawing.shapes if isinstance(shape, Text))
    assert "14 rounds" in explorer.picture.value
