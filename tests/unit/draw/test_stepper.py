"""Pictures one after the other: what their page and their strip hold; what happens in a page is tried in a browser."""

import base64
import json
import re
from xml.etree import ElementTree

import pytest

from realranks.draw import Arrow, Box, Drawing, Frame, Stepper, Text
from realranks.draw.drawing import text_width
from realranks.draw.stepper import moved, wrapped

SVG = "{http://www.w3.org/2000/svg}"


def frame(number: int, said: str = "", width: float = 300) -> Frame:
    shapes = (Box(0, 0, 20, 20, "odd", str(number)), Text(0, 38, f"at {number}"), Arrow(0, 20, 20, 30))
    return Frame(
        Drawing(width, 40, shapes, "not read aloud", f"Time {number}"), said or f"It is now {number}."
    )


def stepper(frames: int = 7, **more) -> Stepper:
    return Stepper(tuple(frame(number) for number in range(frames)), "A clock", **more)


def data_of(page: str) -> dict:
    (found,) = re.findall(r'\}\)\("ddp-stepper-\w+", (\{.*\})\);</script>', page)
    return json.loads(found)


def words_of(drawing: Drawing) -> list[str]:
    return [shape.text for shape in drawing.shapes if isinstance(shape, Text)]


def test_a_page_holds_all_pictures_and_loads_nothing():
    page = stepper(seconds=0.25).html()
    data = data_of(page)
    assert data["said"] == [f"It is now {number}." for number in range(7)]
    assert data["milliseconds"] == 250
    roots = [ElementTree.fromstring(picture) for picture in data["pictures"]]
    # Its sentence is the text alternative of each picture.
    assert [root.get("aria-label") for root in roots] == data["said"]
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")


def test_where_no_script_runs_there_is_a_picture_of_the_frames_that_matter_and_all_sentences():
    one = stepper()
    page = one.html()
    (image,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)
    assert base64.b64decode(image).decode() == one.strip().svg()
    (alt,) = re.findall(r'<img[^>]* alt="([^"]*)"', page)
    assert alt == one.alt
    assert alt.startswith("A clock: 1. It is now 0. 2. It is now 1.")
    assert [word for word in words_of(one.strip()) if "now" in word] == [
        "1. It is now 0.",
        "3. It is now 2.",
        "5. It is now 4.",
        "7. It is now 6.",
    ]
    chosen = stepper(matter=(1, 2))
    assert [word for word in words_of(chosen.strip()) if word.startswith("Time")] == ["Time 1", "Time 2"]


@pytest.mark.parametrize("frames", [1, 2, 3, 4, 30])
def test_a_strip_begins_with_the_first_frame_and_ends_with_the_last(frames):
    shown = [word for word in words_of(stepper(frames).strip()) if word.startswith("Time")]
    assert shown[0] == "Time 0"
    assert shown[-1] == f"Time {frames - 1}"
    assert len(shown) == min(frames, 4)


def test_in_a_strip_no_frame_lies_on_another_and_sentences_go_on_on_the_next_line():
    long = (
        "Rank 3 sends chunk 2, which is the sum of three ranks by now, to rank 0, and it adds its own. " * 2
    )
    strip = Stepper((frame(0, long), frame(1, "Short."), frame(2, long), frame(3)), "t").strip()
    assert strip.width <= 760
    boxes = [shape for shape in strip.shapes if isinstance(shape, Box)]
    assert [(box.x, box.y) for box in boxes[:2]] == [(0, 28), (316, 28)]
    assert boxes[2].x == 0  # the third frame would leave the page
    first_row = [shape for shape in strip.shapes if isinstance(shape, Text) and shape.y < boxes[2].y]
    lines = [text for text in first_row if text.size == 13 and text.x < 300]
    assert len(lines) > 3
    assert " ".join(line.text for line in lines) == f"1. {long.strip()}"
    assert all(text_width(line.text, 13) <= 300 for line in lines)
    assert max(line.y for line in lines) < boxes[2].y - 28
    assert all(0 <= shape.y <= strip.height for shape in strip.shapes if isinstance(shape, (Text, Box)))


def test_a_shape_is_moved_whole():
    assert moved(Arrow(1, 2, 3, 4, bend=5), 10, 20) == Arrow(11, 22, 13, 24, bend=5)
    assert moved(Box(1, 2, 3, 4, "odd"), 10, 20) == Box(11, 22, 3, 4, "odd")
    assert moved(Text(1, 2, "x"), 10, 20) == Text(11, 22, "x")


def test_a_word_that_is_too_long_for_a_line_has_one_of_its_own():
    assert wrapped("a reduce_scatter_single b", 40) == ["a", "reduce_scatter_single", "b"]
    assert wrapped("", 40) == []


def test_sentences_cannot_end_the_script_or_become_markup():
    page = Stepper((frame(0, '</script><b> & "x"'),), '<i> "title"').html()
    assert page.count("</script>") == 1
    assert "<b>" not in page
    assert "<i>" not in page
    assert data_of(page)["said"] == ['</script><b> & "x"']


def test_where_pictures_are_not_shown_the_sentences_are():
    assert repr(stepper(2)) == "[A clock: 1. It is now 0. 2. It is now 1.]"


def test_the_strip_is_saved_as_a_file(tmp_path):
    saved = stepper().save(tmp_path / "strip.svg")
    assert ElementTree.parse(saved).getroot().tag == f"{SVG}svg"


@pytest.mark.parametrize(
    ("wrong", "why"), [({"frames": 0}, "at least one"), ({"matter": (0, 7)}, "no frame 7")]
)
def test_what_cannot_be_shown_is_refused(wrong, why):
    with pytest.raises(ValueError, match=why):
        stepper(**wrong)
