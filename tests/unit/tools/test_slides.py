"""Slides: short enough, nothing cut off, in the order of the lesson; one file that needs nothing beside it."""

import re
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from course_lib import questions
from course_lib.questions import Option, Question
from realranks.draw import Box, Drawing
from tools.asked import find_questions
from tools.sections import lesson_of, read_lesson
from tools.slides import Look, deck_page, make_deck, shortened_deck
from tools.slides.cuts import LINES, code_lines, one_blank_line, paragraphs, shortened, split_lines

ROOT = Path(__file__).parents[3]
LESSONS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
TWO_HOURS = ROOT / "notebooks/two_hours.ipynb"
ASKED = '<div class="ddp-box ddp-ask"><ol><li>yes</li><li>no</li></ol></div>'


def shown(html: str, plain: str):
    return new_output("display_data", {"text/html": html, "text/plain": plain})


def printed(text: str):
    return new_output("stream", name="stdout", text=text)


def deck_of(*cells):
    return make_deck(lesson_of(new_notebook(cells=list(cells)), "06_x"))


def slides_of(*cells):
    return [slide for chapter in deck_of(*cells).chapters for slide in chapter]


def looks(slide):
    return [block.look for block in slide.blocks]


QUESTION = (
    new_markdown_cell("# 06 · Title\n\n> *“Who asks?”*\n\n## Break it"),
    new_code_cell("p = predict('Does it?', {})", outputs=[shown(ASKED, "Does it?\n  1. yes\n  2. no")]),
    new_code_cell("%%ranks --predicted\ndist.barrier()", outputs=[printed("The run says “no”. (No ...)")]),
    new_markdown_cell("It does not.\n\n## Next\n\nMore."),
)


def test_a_question_the_cell_that_decides_and_what_came_of_it_are_slides_of_their_own():
    opening, asks, runs, came, explains, after = slides_of(*QUESTION)
    assert "Who asks?" in opening.blocks[0].content
    assert looks(asks) == [Look.QUESTION]
    assert asks.blocks[0].answers == ("yes", "no")
    assert "predict" not in "".join(block.content for block in asks.blocks)
    assert looks(runs) == [Look.CODE]
    assert looks(came) == [Look.PRINTED]
    assert [block.content for block in explains.blocks] == ["It does not."]
    assert (explains.title, after.title) == ("Break it", "Next")


def test_the_notes_of_a_question_say_which_answer_comes_true_and_what_to_say_to_the_others(monkeypatch):
    options = Option("yes", "ok", "Not quite."), Option("no", "hang", "Never told.")
    monkeypatch.setattr(
        questions, "read_questions", lambda _: {"06.does": Question("06.does", "Does it?", options)}
    )
    notes = slides_of(*QUESTION)[1].notes
    assert "**A. yes.** Not quite." in notes
    assert "**B. no.** **This is what the run does.**" in notes
    assert "Never told." not in notes
    assert "It does not." in notes
    assert "about 3 min" in notes


def test_a_cell_that_draws_shows_its_figure_alone_with_its_alternative_text():
    figure = new_output(
        "display_data",
        {"image/png": "aGk=", "text/plain": "<Figure>"},
        metadata={"image/png": {"alt": "A curve."}},
    )
    cell = new_code_cell("import matplotlib.pyplot as plt\nplt.plot([1])", outputs=[figure])
    (slide,) = slides_of(new_markdown_cell("# 06 · T"), cell)[1:]
    assert looks(slide) == [Look.PNG]
    assert slide.blocks[0].alt == "A curve."


def test_a_drawing_is_a_picture_on_a_slide_too():
    drawing = Drawing(60, 20, (Box(0, 0, 60, 20, "odd"),), 'a "box"')
    (slide,) = slides_of(
        new_markdown_cell("# 06 · T"), new_code_cell("", outputs=[shown(drawing.html(), "[x]")])
    )[1:]
    assert [(block.look, block.alt) for block in slide.blocks] == [(Look.SVG, 'a "box"')]
    assert drawing.html().partition("src=")[2].rstrip(">") in deck_page(
        deck_of(new_markdown_cell("# 06 · T"), new_code_cell("", outputs=[shown(drawing.html(), "[x]")]))
    )


def test_what_is_folded_in_the_lesson_shows_its_outputs_only():
    cell = new_code_cell(
        "secret = 1", outputs=[printed("six\n")], metadata={"jupyter": {"source_hidden": True}}
    )
    (slide,) = slides_of(new_markdown_cell("# 06 · T"), cell)[1:]
    assert [block.content for block in slide.blocks] == ["six"]


def test_a_section_below_deeper_is_marked_and_not_counted():
    cells = [
        new_markdown_cell(
            "# 06 · T\n\nx\n\n## Deeper: more\n\nWords.\n\n### Still deeper\n\nw\n\n## Rule of thumb\n\n> R."
        )
    ]
    marks = {slide.title: slide.mark for slide in slides_of(*cells)}
    assert marks == {"06 · T": "", "Deeper: more": "Deeper", "Still deeper": "Deeper", "Rule of thumb": ""}
    assert "Not part of the core" in next(s.notes for s in slides_of(*cells) if s.title == "Deeper: more")


@pytest.mark.parametrize("path", [*LESSONS, TWO_HOURS], ids=lambda path: path.stem)
def test_nothing_of_a_lesson_is_lost_and_what_is_put_on_a_slide_should_fit(path):
    lesson = read_lesson(path)
    slides = [slide for chapter in make_deck(lesson).chapters for slide in chapter]
    for slide in slides:
        assert sum(block.lines for block in slide.blocks) <= LINES, slide.title
    of = {
        look: "\n".join(b.content for slide in slides for b in slide.blocks if b.look is look)
        for look in Look
    }
    code = {line.strip() for line in of[Look.CODE].splitlines()} | {""}
    questions = {question.asked_in for question in find_questions(lesson)}
    cells = [part.cell for section in lesson.sections for part in section.parts if part.cell is not None]
    for cell in (cell for cell in cells if cell.id not in questions):
        outputs = [output.get("data", {}) for output in cell.outputs]
        drawn = [html for data in outputs if (html := data.get("text/html", "")).startswith("<img")]
        if not drawn and not any("image/png" in data or "image/svg+xml" in data for data in outputs):
            hidden = cell.metadata.get("jupyter", {}).get("source_hidden")
            lines = {line.strip() for line in cell.source.splitlines() if not line.startswith("%load_ext")}
            assert hidden or lines <= code
        for data in outputs:
            if "image/png" in data:
                assert "".join(data["image/png"].split()) in of[Look.PNG]
            elif (html := data.get("text/html")) in drawn:
                assert html.partition("base64,")[2].rstrip('">') in of[Look.SVG]
            elif html:
                html, plain = (
                    text.replace(" (No prediction was made.)", "") for text in (html, data["text/plain"])
                )
                lines = plain.splitlines()
                assert html in of[Look.PANEL] or all(line in of[Look.PRINTED] for line in lines)


@pytest.mark.parametrize("path", [*LESSONS, TWO_HOURS], ids=lambda path: path.stem)
def test_a_room_sees_some_two_dozen_slides_of_the_core_and_the_speaker_has_the_rest(path):
    whole = make_deck(read_lesson(path))
    core = [slide for chapter in whole.chapters for slide in chapter if not slide.mark]
    short = [slide for chapter in shortened_deck(whole).chapters for slide in chapter]
    assert len(short) <= (90 if path is TWO_HOURS else 35)
    assert not any(slide.mark for slide in short)
    for look in (Look.QUESTION, Look.SVG, Look.PNG):
        assert [b for s in short for b in s.blocks if b.look is look] == [
            b for s in core for b in s.blocks if b.look is look
        ]
    said = "\n".join(slide.notes for slide in short)
    shown = [block for slide in short for block in slide.blocks]
    texts = [block for slide in core for block in slide.blocks if block.look is Look.TEXT]
    assert all(block in shown or block.content in said for block in texts)
    assert deck_page(shortened_deck(whole))


def test_a_page_brings_everything_along():
    page = deck_page(deck_of(*QUESTION))
    assert "Permission is hereby granted" in page
    assert "MarkedJS" in page
    elements = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"<(?:script|link|img|iframe)\b[^>]* (?:src|href)=\"(?!data:)", elements)
    assert page.count("</script>") == 3, "nothing in reveal.js may end its element early"


def test_links_to_files_of_the_course_are_words_on_a_slide():
    page = deck_page(
        deck_of(
            new_markdown_cell(
                "# 06 · T\n\nSee [lesson 00](00_first_ranks.ipynb) and [x](https://example.org)."
            )
        )
    )
    assert "00_first_ranks.ipynb" not in page
    assert 'href="https://example.org"' in page


def test_text_in_a_question_is_text():
    cells = [
        new_markdown_cell("# 06 · T"),
        new_code_cell("p", outputs=[shown(ASKED, "Is `a<b`?\n  1. <script>\n  2. no")]),
    ]
    page = deck_page(deck_of(*cells))
    assert "Is <code>a&lt;b</code>?" in page
    assert "<li>&lt;script&gt;</li>" in page


def test_a_paragraph_is_shortened_to_whole_sentences_and_never_within_a_mark():
    text = (
        "One is short. **Two holds a mark. It goes on.** "
        + "Three has many words in it, as sentences do. " * 8
    )
    assert (
        shortened(text, 20).text
        == "One is short. **Two holds a mark. It goes on.** Three has many words in it, as sentences do."
    )
    assert shortened(text, 20).less
    assert not shortened("Short enough.", 20).less
    assert shortened("| a | b |\n| - | - |").text == "| a | b |\n| - | - |"


def test_a_list_is_one_block_and_its_items_are_shortened_one_by_one():
    text = "- **First.** " + "Word after word is said. " * 10 + "\n- Second.\n\n  More of it."
    (block,) = paragraphs(text)
    first, second = shortened(block).text.split("\n")
    assert first.startswith("- **First.** Word")
    assert len(first) < 120
    assert second == "- Second. More of it."


def test_long_code_is_split_where_it_may_be_and_every_piece_fits():
    code = "\n\n\n".join(f"def f{n}(x):\n" + "\n".join(f"    x += {m}" for m in range(6)) for n in range(9))
    lines = one_blank_line(code)
    pieces = list(split_lines(lines))
    assert [line for piece in pieces for line in piece if line] == [line for line in lines if line]
    assert all(piece[0].startswith("def") for piece in pieces)
    assert all(code_lines(piece) <= LINES for piece in pieces)


def test_two_hours_have_slides_with_the_replies_of_the_lessons_questions():
    deck = make_deck(read_lesson(TWO_HOURS))
    asking = [slide for chapter in deck.chapters for slide in chapter if looks(slide)[-1:] == [Look.QUESTION]]
    assert len(asking) > 15
    assert all("This is what the run does." in slide.notes for slide in asking)
    first = questions.question_named("00.skips", {})
    assert all(option.reply in asking[0].notes for option in first.options)
    assert "Lesson" not in deck_page(deck).partition('<p class="number">')[2].partition("</p>")[0]
