"""Slides in a browser: nothing sticks out of a slide, the speaker reads the notes, and no network is asked."""

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from playwright.sync_api import expect

from realranks.draw import Drawing, Frame, Stepper, Text
from tests.browser.servers import CHECKOUT
from tests.browser.slides_that_fit import look_at
from tools.sections import lesson_of, read_lesson
from tools.slides import deck_page, make_deck

pytestmark = pytest.mark.browser


def written(path, lesson):
    path.write_text(deck_page(make_deck(lesson)), encoding="utf-8")
    return path


def test_every_slide_of_a_lesson_holds_what_is_on_it_and_the_speaker_reads_the_notes(page, tmp_path, shots):
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    lesson = read_lesson(CHECKOUT / "notebooks/00_first_ranks.ipynb")
    looked = look_at(page, written(tmp_path / "00.html", lesson))
    assert [(slide.h, slide.v, slide.wrong) for slide in looked if slide.wrong] == []
    assert len(looked) > 30
    page.evaluate("Reveal.slide(1, 0)")
    page.screenshot(path=shots / "slides.png")
    with page.expect_popup() as opened:
        page.keyboard.press("s")
    opened.value.get_by_text("Everybody chooses before anybody runs the next cell.").wait_for()
    opened.value.close()
    assert [url for url in asked if not url.startswith(("file:", "data:", "about:", "blob:"))] == []


def test_a_slide_that_holds_too_much_is_told(page, tmp_path):
    wide = "# 06 · T\n\nWords.\n\n## A\n\n" + "much" * 600
    lesson = lesson_of(new_notebook(cells=[new_markdown_cell(wide)]), "06_x")
    assert [slide.wrong for slide in look_at(page, written(tmp_path / "06.html", lesson))][-1]


def test_a_stepper_is_built_up_frame_by_frame_forward_and_back(page, tmp_path, shots):
    said = ("Nothing has been sent.", "Rank 0 has sent.", "Rank 1 has answered.")
    frames = tuple(Frame(Drawing(300, 60, (Text(9, 30, text),), text), text) for text in said)
    shown = new_output("display_data", data={"text/html": Stepper(frames, "T").html(), "text/plain": "[T]"})
    cells = [
        new_markdown_cell("# 06 · T\n\nWords.\n\n## A"),
        new_code_cell("stepper", outputs=[shown]),
        new_markdown_cell("## B\n\nWords."),
    ]
    lesson = lesson_of(new_notebook(cells=cells), "06_x")
    assert [
        slide.wrong for slide in look_at(page, written(tmp_path / "06.html", lesson)) if slide.wrong
    ] == []
    words = page.locator("[data-is=said]")
    place = words.evaluate("each => Reveal.getIndices(each.closest('section'))")
    page.evaluate("({ h, v }) => Reveal.slide(h, v, -1)", place)
    expect(words).to_have_text(said[0])
    for text in said[1:]:
        page.keyboard.press("PageDown")
        expect(words).to_have_text(text)
    page.screenshot(path=shots / "slides_stepper.png")
    page.keyboard.press("PageDown")
    expect(
        page.locator("section.present section.present h2, section.present > header h2").first
    ).to_have_text("B")
    page.keyboard.press("PageUp")
    expect(words).to_have_text(said[2])
    page.keyboard.press("PageUp")
    expect(words).to_have_text(said[1])
