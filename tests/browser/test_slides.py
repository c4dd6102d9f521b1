"""Slides in a browser: nothing sticks out of a slide, the speaker reads the notes, and no network is asked."""

from nbformat.v4 import new_markdown_cell, new_notebook

from tests.browser.servers import CHECKOUT
from tests.browser.slides_that_fit import look_at
from tools.sections import lesson_of, read_lesson
from tools.slides import deck_page, make_deck


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
