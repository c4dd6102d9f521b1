"""Pictures: what is drawn lies within the picture, can be read, and can be told apart without colour."""

import base64
import re
from xml.etree import ElementTree

import pytest

from course_lib.lab.network import CAPS, Network, computed_step, draw_caps, draw_computed
from course_lib.lessons.buckets.lab import buckets_fill
from course_lib.lessons.dataparallel.lab import one_step, ring
from course_lib.lessons.first_ranks.lab import COLLECTIVES, draw_collectives, draw_one, four_processes
from realranks.draw import Arrow, Bar, Block, Box, Cell, Drawing, Group, Lane, Text, blocks, grid, lanes
from realranks.draw.drawing import SMALLEST, text_width
from realranks.draw.looks import LOOKS, PATTERNS

SVG = "{http://www.w3.org/2000/svg}"
MAIN = (Bar(0, 4, "forward"), Bar(4, 6, "backward"), Bar(10, 3, "waiting"))
SENT = (Bar(5, 3, "communication", "0", "bucket 0, 3.0 ms"), Bar(8, 5, "communication", "1"))
LEGEND = {"forward": "forward", "backward": "backward", "waiting": "waiting for <others>", "sleep": "sleep"}
BROUGHT = {rank: [2.0**rank] * 4 for rank in range(4)}
LEFT = {"all_gather": [1.0, 2.0, 4.0, 8.0], "reduce_scatter": [15.0]}
AFTER = {rank: {name: LEFT.get(name, [15.0] * 4) for name in COLLECTIVES} for rank in range(4)}
RING = {0: [[1, 1], [1, 3], [3, 3]], 1: [[2, 2], [3, 2], [3, 3]]}
SLOW = Network(latency=0.008, bandwidth=100)
PICTURES = {
    "processes": four_processes(),
    "collectives": draw_collectives({"mine": BROUGHT, "after": AFTER}),
    **{name: draw_one({r: AFTER[r][name] for r in range(4)}, name, 2, [1, 2, 4, 8]) for name in COLLECTIVES},
    "two schemes": one_step(),
    **{f"ring {step}": frame.drawing for step, frame in enumerate(ring(RING).frames)},
    **{f"buckets fill {place}": frame.drawing for place, frame in enumerate(buckets_fill().frames)},
    "caps, computed": draw_computed(CAPS, SLOW),
    "caps": draw_caps({cap: computed_step(cap, SLOW) for cap in CAPS}, SLOW),
    "lanes": lanes(
        [Lane(f"rank {r}", (MAIN, SENT)) for r in range(4)], title="A step", alt="4", legend=LEGEND
    ),
    "no lanes": lanes([], title="Nothing", alt="empty", legend=LEGEND),
    "blocks": blocks(
        [
            ("first", [Group(("bucket 0 (24 B)", "0"), (Block("a.weight", 16), Block("a.bias", 8)))]),
            ("then", [Group(("bucket 0",), (Block("a.bias", 8),)), Group(("bucket 1",), (Block("b", 16),))]),
        ],
        title="Buckets",
        alt="two rows",
        axis="bytes",
    ),
    "grid": grid(
        ["rank 0", "rank 1"], list("01234"), {(0, 3): Cell("odd", "x")}, title="t", alt="g", axis="samples"
    ),
}


def parsed(drawing: Drawing) -> ElementTree.Element:
    return ElementTree.fromstring(drawing.svg())


@pytest.mark.parametrize("name", PICTURES)
def test_everything_lies_within_the_picture(name):
    drawing = PICTURES[name]
    for shape in drawing.shapes:
        match shape:
            case Box(x, y, width, height):
                assert x >= 0
                assert y >= 0
                assert x + width <= drawing.width + 0.01
                assert y + height <= drawing.height
            case Text(x, y, text, size, anchor):
                wide = text_width(text, size)
                start = x - {"start": 0, "middle": wide / 2, "end": wide}[anchor]
                assert start >= 0, text
                assert start + wide <= drawing.width, text
                assert 0 <= y <= drawing.height
            case Arrow(x1, y1, x2, y2):
                assert 0 <= min(x1, x2) <= max(x1, x2) <= drawing.width
                assert 0 <= min(y1, y2) <= max(y1, y2) <= drawing.height


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_svg_that_says_what_it_shows(name):
    drawing = PICTURES[name]
    root = parsed(drawing)
    assert root.get("aria-label") == drawing.alt
    assert root.get("role") == "img"
    texts = [node.text for node in root.iter(f"{SVG}text")]
    assert drawing.title in texts
    sizes = [float(node.get("font-size", 0)) for node in root.iter(f"{SVG}text")]
    assert min(sizes) >= SMALLEST
    image = ElementTree.fromstring(drawing.html().replace('">', '"/>'))
    assert image.get("alt") == drawing.words
    assert (
        base64.b64decode(image.get("src").removeprefix("data:image/svg+xml;base64,")).decode()
        == drawing.svg()
    )
    assert drawing.alt in repr(drawing)


@pytest.mark.parametrize("name", PICTURES)
def test_every_reference_is_to_something_in_the_picture(name):
    svg = PICTURES[name].svg()
    there = set(re.findall(r' id="([^"]+)"', svg))
    assert set(re.findall(r"url\(#([^)]+)\)", svg)) == there


def test_pictures_on_a_page_have_no_id_in_common_and_a_picture_has_the_same_in_every_run():
    ids = {name: set(re.findall(r' id="([^"]+)"', drawing.svg())) for name, drawing in PICTURES.items()}
    found = [each for mine in ids.values() for each in mine]
    assert len(found) > 30
    assert len(found) == len(set(found))
    assert PICTURES["processes"].svg() == four_processes().svg()
    assert four_processes(3).svg() != four_processes(4).svg()


def test_words_of_learners_are_text_and_no_markup():
    drawing = Drawing(
        90, 20, (Text(0, 10, "<b>&"), Box(0, 0, 90, 20, "plain", "<i>", 'a "hint" <x>')), 'an "alt" <z>'
    )
    root = parsed(drawing)
    assert [node.text for node in root.iter(f"{SVG}text")] == ["<b>&", "<i>"]
    assert [node.text for node in root.iter(f"{SVG}title")] == ['a "hint" <x>']
    assert root.get("aria-label") == 'an "alt" <z>'


def test_what_reduce_leaves_on_other_ranks_is_drawn_as_unknown_and_a_part_of_a_sum_in_its_place():
    words = [shape.text for shape in PICTURES["reduce"].shapes if isinstance(shape, Box)]
    assert words.count("?") == 3 * 4
    assert words.count("15") == 4
    parts = [
        shape for shape in PICTURES["reduce_scatter"].shapes if isinstance(shape, Box) and shape.text == "15"
    ]
    assert len({shape.x for shape in parts}) == len({shape.y for shape in parts}) == 4


def test_where_lanes_have_several_rows_for_what_overlaps_the_legend_says_so():
    both = lanes(
        [Lane("rank 0", (MAIN, SENT[:1], SENT[1:]))],
        title="",
        alt="",
        legend=LEGEND | {"communication": "sent"},
    )
    one = lanes([Lane("rank 0", (MAIN, SENT))], title="", alt="", legend=LEGEND | {"communication": "sent"})
    assert ">sent; a row each where they overlap</text>" in both.svg()
    assert ">sent</text>" in one.svg()


def test_what_is_not_done_is_a_dashed_frame():
    svg = lanes([Lane("rank 0", ((Bar(2, 8, "", "left"),),))], title="", alt="", legend=LEGEND).svg()
    assert svg.count("stroke-dasharray") == 1
    assert ">left</text>" in svg


def test_a_word_that_does_not_fit_is_left_out_and_the_hint_has_it():
    svg = Box(0, 0, 20, 20, "even", "transformer.h.0.attn.weight", "transformer.h.0.attn.weight").svg()
    assert "<text" not in svg
    assert "<title>transformer.h.0.attn.weight</title>" in svg


def test_looks_of_the_stages_can_be_told_apart_without_colour():
    """The lightness of the colour, and the pattern over it: no two stages share both."""

    def lightness(colour: str) -> float:
        red, green, blue = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    stages = [
        LOOKS[name] for name in ("forward", "backward", "optimizer", "waiting", "communication", "sleep")
    ]
    for place, one in enumerate(stages):
        assert not one.pattern or one.pattern in PATTERNS
        for other in stages[:place]:
            assert one.pattern != other.pattern or abs(lightness(one.fill) - lightness(other.fill)) > 0.3


def test_ticks_are_round_numbers_within_the_time_shown():
    for length in (0.13, 1, 7.9, 13, 99, 1234):
        drawing = lanes([Lane("rank 0", ((Bar(0, length, "forward"),),))], title="", alt="", legend={})
        ticks = [float(s.text) for s in drawing.shapes if isinstance(s, Text) and s.size == 11 and s.faint]
        assert ticks[0] == 0
        assert ticks[-1] <= length
        assert 4 <= len(ticks) <= 9, (length, ticks)


def test_a_picture_of_ten_thousand_bars_stays_under_four_megabytes():
    many = tuple(Bar(n, 0.8, "backward", hint=f"bar {n}") for n in range(10_000))
    assert len(lanes([Lane("rank 0", (many,))], title="", alt="", legend={}).svg()) < 4e6


def test_a_picture_can_be_saved(tmp_path):
    saved = PICTURES["grid"].save(tmp_path / "grid.svg")
    assert ElementTree.parse(saved).getroot().tag == f"{SVG}svg"
