"""Lesson 03's pictures and its explorer, on plain data."""

from types import SimpleNamespace

from course_lib.lessons.samplers.lab import (
    at_most,
    draw_deal,
    draw_deals,
    draw_resumed,
    explore_deals,
    how_many_differ,
    sees,
    the_deck,
)


def texts(svg: str, text: str) -> int:
    return svg.count(f">{text}</text>")


def test_the_deck_asks_who_gets_the_places_that_are_left():
    svg = the_deck(10, 4).svg()
    assert texts(svg, "?") == 2 * 2  # in the deck and in the hands
    assert texts(svg, "9") == 2
    assert "?" not in the_deck(8, 4).svg()


def test_a_deal_says_when_each_rank_takes_a_sample_and_how_often_all_take_it():
    drawing = draw_deal({0: [0, 2, 0], 1: [1, 2]}, 4)
    assert drawing.alt == (
        "rank 0 takes 0, 2, 0; rank 1 takes 1, 2; dealt out more than once: 0, 2; to nobody: 3"
    )
    svg = drawing.svg()
    assert texts(svg, "2nd") == 2  # sample 2, on both ranks
    assert texts(svg, "1st") == 1  # sample 1: rank 0 takes sample 0 twice
    assert [texts(svg, f"{times}×") for times in (0, 1, 2)] == [1, 1, 3]


def test_the_look_of_a_sample_is_that_of_its_total():
    shapes = draw_deal({0: [0, 1], 1: [1]}, 3).shapes
    assert [getattr(shape, "look", None) for shape in shapes if hasattr(shape, "look")] == [
        *("even", "odd", ""),
        *("", "odd", ""),
        *("plain", "odd", "bad"),
    ]


def test_places_are_ordinals():
    svg = draw_deal({0: list(range(12))}, 12).svg()
    assert [texts(svg, word) for word in ("1st", "2nd", "3rd", "4th", "11th", "12th")] == [1] * 6


def test_several_deals_are_drawn_with_their_words_and_told_one_after_the_other():
    drawing = draw_deals({"in order": ({0: [0]}, 1), "lost": ({0: []}, 1)})
    assert texts(drawing.svg(), "in order") == texts(drawing.svg(), "lost") == 1
    assert drawing.alt == (
        "in order: rank 0 takes 0; dealt out more than once: none; to nobody: none. "
        "lost: rank 0 takes nothing; dealt out more than once: none; to nobody: 0."
    )


def test_ways_to_resume_are_told_by_what_they_repeat_and_lose():
    found = {
        "restarted": {0: [0, *range(20)]},
        "forgot": {0: [0, *range(19)]},
        "resumed": {0: list(range(20))},
    }
    drawing = draw_resumed(found)
    assert drawing.alt == (
        "epoch 1 again: twice 0, never none; skip 3, no set_epoch: twice 0, never 19; "
        "set_epoch(1), skip 3: twice none, never none"
    )
    assert sees("forgot", 0, 1, 2)(found)
    assert not sees("forgot", 1)(found)


def test_numbers_of_each_kind_are_counted():
    samples = [{"torch": 0.5, "numpy": 0.5}, {"torch": 0.5, "numpy": 0.25}]
    assert how_many_differ({"noise": {0: samples}}, "noise") == "torch 1, numpy 2"


def having(**values: object) -> SimpleNamespace:
    return SimpleNamespace(values=dict(enumerate(values.values())))


def test_the_explorer_deals_anew_on_real_ranks_when_a_control_moves():
    explorer = explore_deals()
    assert "shuffled, epoch 1: rank 0 takes" in repr(explorer)
    bundle = explorer._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert bundle["text/html"] == explorer.static.html()
    explorer.samples.value = 3
    assert texts(explorer.picture.value, "2×") == 1  # sample 0, for the rank that would have none


def test_the_title_of_a_deal_says_what_is_not_taken_once():
    def title(per_rank, samples, settings=""):
        return draw_deal(per_rank, samples, settings).title

    assert title({0: [0, 2], 1: [1, 0]}, 4) == "Taken more than once: 0; never: 3"
    assert title({0: [0], 1: [1]}, 2, "in order") == "In order: each sample is taken once"
    assert title({0: [0, 1], 1: [1, 0]}, 2) == "Each sample is taken 2 times"


def test_the_title_of_the_ways_to_resume_names_the_exact_ones():
    found = {
        "restarted": {0: [0, *range(20)]},
        "forgot": {0: [0, *range(19)]},
        "resumed": {0: list(range(20))},
    }
    assert draw_resumed(found).title == "Every sample once: set_epoch(1), skip 3"


def test_the_largest_value_decides_what_is_at_most():
    assert at_most(6)(SimpleNamespace(values={0: 6, 1: 5}))
    assert not at_most(6)(SimpleNamespace(values={0: 6, 1: 10}))
