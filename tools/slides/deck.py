"""A lesson as slides: what is on each, and what the speaker reads beside it.

A heading starts a slide; a question has one of its own, the cell that decides it the next, and what came of it another.
A cell that draws shows its figure only. Outputs are the saved ones. Prose is shortened (see `cuts`), and the speaker
notes hold the whole of it. Nothing is executed or written here.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from html import unescape

import nbformat

from course_lib.tasks.task import Task
from tools.asked import Question, find_questions
from tools.sections import Lesson, Part, Section
from tools.slides.cuts import (
    LINES,
    code_lines,
    is_prose,
    one_blank_line,
    paragraphs,
    shortened,
    split_lines,
    text_lines,
)

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
#: A drawing of the course (`realranks/draw/drawing.py`).
_DRAWING = re.compile(r'<img alt="([^"]*)"[^>]* src="data:image/svg\+xml;base64,([^"]*)">')
_DRAWS = re.compile(r"^\s*(?:import matplotlib|from matplotlib)|\bplt\.", re.MULTILINE)
#: A replay or stepper, whatever it shows, is as high as so many lines; a line of a panel as so many of code.
_REPLAY, _PANEL_LINE = 18, 1.15
#: How the element of a stepper begins (`realranks/draw/scripted.py`).
_STEPPER = 'id="ddp-stepper-'
#: Text above a question, and above a picture: so many lines may stay.
_LEAD, _PICTURE_LEAD = 6, 5


class Look(Enum):
    """The look of a block; the page's template knows one way for each."""

    TEXT = "text"
    CODE = "code"
    PRINTED = "printed"
    PANEL = "panel"
    SVG = "svg"
    PNG = "png"
    QUESTION = "question"


@dataclass(frozen=True)
class Block:
    """Something on a slide.

    Attributes:
        content: Markdown, code, printed text, HTML, or a picture's data in base64.
        lines: about how many lines of code have room where it is.
        alt: what a picture shows, in words.
        answers: those of a question.
    """

    look: Look
    content: str
    lines: float
    alt: str = ""
    answers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Slide:
    """One slide.

    Attributes:
        title: its heading, as Markdown. mark: a word in the corner, such as "Deeper".
        notes: what the speaker reads, as Markdown. decides: it shows the run that decides a question.
    """

    title: str
    blocks: tuple[Block, ...]
    notes: str = ""
    mark: str = ""
    decides: bool = False


@dataclass(frozen=True)
class Deck:
    """A lesson's slides, chapter by chapter."""

    lesson: Lesson
    chapters: tuple[tuple[Slide, ...], ...]


@dataclass
class _Pile:
    """Blocks that wait for a slide, and what is to be said about them."""

    blocks: list[Block] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    decides: bool = False

    @property
    def lines(self) -> float:
        return sum(block.lines for block in self.blocks)


def make_deck(lesson: Lesson, tasks: Sequence[Task] = ()) -> Deck:
    """Return the slides of a saved lesson.

    Args:
        tasks: those of the lesson, for the notes.
    """
    questions = {question.asked_in: question for question in find_questions(lesson)}
    clock = 0.0
    chapters: list[tuple[Slide, ...]] = []
    for chapter in lesson.chapters:
        minutes = sum(section.room_minutes for section in chapter)
        clock += minutes if chapter[0].core else 0
        slides: list[Slide] = []
        for section in chapter:
            if section.level == 1 and not chapters:
                opening, section = _opening(section)
                slides.append(opening)
            slides += _Cut(section, questions).slides()
        if not slides:  # a heading and nothing else
            slides = [Slide(chapter[0].title, ())]
        about = _time(chapter[0], minutes, clock, lesson.room_minutes())
        if chapter[0].title.lower().startswith("your turn"):
            about += _tasks(tasks)
        notes = "\n\n".join(filter(None, (about, slides[0].notes)))
        slides[0] = replace(slides[0], notes=notes)
        chapters.append(tuple(slides))
    return Deck(lesson, tuple(chapters))


def shortened_deck(deck: Deck) -> Deck:
    """Reduce a lesson's core to what a room needs to see; the rest is in the notes of the slide before.

    Questions and the runs that decide them, pictures, what a section begins with, the rule of thumb and the tasks.
    """
    chapters = [_short(chapter) for chapter in deck.chapters if not any(slide.mark for slide in chapter)]
    return replace(deck, chapters=tuple(chapters))


def _short(chapter: Sequence[Slide]) -> tuple[Slide, ...]:
    kept = [chapter[0]]
    for slide in chapter[1:]:
        looks = {block.look for block in slide.blocks}
        in_steps = any(block.look is Look.PANEL and _STEPPER in block.content for block in slide.blocks)
        if slide.decides or in_steps or looks & {Look.QUESTION, Look.SVG, Look.PNG}:
            kept.append(slide)
            continue
        texts = [block.content for block in slide.blocks if block.look is Look.TEXT]
        texts += [f"(In the notebook: a cell.) {slide.notes}"] if Look.CODE in looks else [slide.notes]
        kept[-1] = replace(kept[-1], notes="\n\n".join(filter(None, (kept[-1].notes, *texts))))
    return tuple(kept)


def _opening(section: Section) -> tuple[Slide, Section]:
    """Return the title's slide with the question that begins the lesson, and the rest of its first section."""
    quote: list[str] = []
    rest = list(section.parts)
    if rest and rest[0].cell is None:
        blocks = paragraphs(rest[0].text)
        if blocks and blocks[0].startswith(">"):
            quote = [blocks.pop(0)]
            rest[0] = Part("\n\n".join(blocks))
    shown = tuple(Block(Look.TEXT, text, text_lines(text)) for text in quote)
    return Slide(section.title, shown), replace(section, parts=tuple(rest))


def _time(section: Section, minutes: float, clock: float, whole: int) -> str:
    if not section.core:
        return (
            f"**Deeper: about {max(1, round(minutes))} min.** Not part of the core; nothing later needs it."
        )
    return f"**Section: about {max(1, round(minutes))} min.** At its end, {round(clock)} of {whole} min of the core."


def _tasks(tasks: Sequence[Task]) -> str:
    if not tasks:
        return ""
    lines = ["", "", "**Tasks, and where people get stuck:**", ""]
    for task in tasks:
        lines.append(f"- **{task.title}** (`{task.name}`)")
        lines += [f"    - {item.sentence}" for item in task.misconceptions]
    return "\n".join(lines)


class _Cut:
    """One section on its way to slides."""

    def __init__(self, section: Section, questions: Mapping[str, Question]) -> None:
        self.section = section
        self.questions = questions
        self.deciding = {question.decided_in for question in questions.values() if question.decided_in}
        self.pile = _Pile()
        self.done: list[Slide] = []

    def slides(self) -> list[Slide]:
        for part in self.section.parts:
            if part.cell is None:
                self._text(part.text)
            else:
                self._cell(part)
        self._make_slide()
        return self.done

    def _make_slide(self) -> None:
        """Make a slide of what is on the pile."""
        if self.pile.blocks:
            mark = "" if self.section.core else "Deeper"
            notes = "\n\n".join(dict.fromkeys(self.pile.notes))
            self.done.append(
                Slide(self.section.title, tuple(self.pile.blocks), notes, mark, self.pile.decides)
            )
        self.pile = _Pile()

    def _add(self, block: Block, *notes: str) -> None:
        if self.pile.blocks and self.pile.lines + block.lines > LINES:
            self._make_slide()
        self.pile.blocks.append(block)
        self.pile.notes += notes

    def _text(self, markdown: str) -> None:
        if any(block.look is not Look.TEXT for block in self.pile.blocks):
            self._make_slide()  # what explains a run stands on a slide of its own
        for paragraph in paragraphs(markdown):
            short = shortened(paragraph)
            notes = [f"*In full:* {paragraph}" if is_prose(paragraph) else paragraph] if short.less else []
            for piece in _pieces_of(short.text):
                self._add(Block(Look.TEXT, piece, text_lines(piece)), *notes)

    def _cell(self, part: Part) -> None:
        assert part.cell is not None
        cell_id = part.cell.get("id", "")
        if question := self.questions.get(cell_id):
            self._fill(
                Block(Look.QUESTION, question.asks, 0, answers=question.answers),
                *_question_notes(question),
            )
            return
        shown = list(_outputs(part.cell.outputs))
        source = _visible(part)
        pictured = any(block.look in (Look.SVG, Look.PNG) for block in shown)
        if source and not (pictured and _DRAWS.search(source)):
            self._code(source, sum(block.lines for block in shown), cell_id in self.deciding)
        for block in shown:
            if block.look in (Look.SVG, Look.PNG):
                self._fill(block)
            else:
                self._add(block)
                self.pile.decides |= cell_id in self.deciding
        if cell_id in self.deciding:
            self._make_slide()

    def _fill(self, block: Block, *notes: str) -> None:
        """Give a question or a picture the rest of a slide: all of it, or what a short text above it leaves."""
        if self.pile.lines > (_LEAD if block.look is Look.QUESTION else _PICTURE_LEAD):
            self._make_slide()
        self.pile.blocks.append(block)
        self.pile.notes[:0] = notes  # first what is needed while the slide is up
        self._make_slide()

    def _code(self, source: str, below: float, decides: bool) -> None:
        if self.pile.blocks and self.pile.blocks[0].look in (Look.PANEL, Look.PRINTED):
            self._make_slide()  # what another cell has printed, whose code is on the slide before
        pieces = list(split_lines(one_blank_line(source)))
        alone = decides or len(pieces) > 1
        for number, piece in enumerate(pieces, start=1):
            notes = []
            if decides and number == len(pieces):
                notes.append("**Run this cell in the notebook.** The next slide shows the saved run.")
            if len(pieces) > 1:
                of = f"part {number} of {len(pieces)}"
                notes.append(f"The cell is long: {of}. Say what it is for, and go on.")
            block = Block(Look.CODE, "\n".join(piece), code_lines(piece))
            together = 0 if alone or block.lines + below > LINES else below
            if number > 1 or self.pile.lines + block.lines + together > LINES:
                self._make_slide()
            self._add(block, *notes)
            self.pile.decides |= decides
        if alone:
            self._make_slide()


def _pieces_of(markdown: str) -> Iterator[str]:
    """Yield a list or table that is too long for a slide, in pieces."""
    if text_lines(markdown) <= LINES:
        yield markdown
        return
    if markdown.startswith("|"):
        head, rows = markdown.splitlines()[:2], markdown.splitlines()[2:]
        fits = max(1, int(len(rows) * (LINES - 4) / text_lines(markdown)))
        for start in range(0, len(rows), fits):
            yield "\n".join([*head, *rows[start : start + fits]])
        return
    items = re.split(r"\n+(?=(?:[-*]|\d+\.) )|\n\n|\n>\n", markdown)
    taken: list[str] = []
    for item in items:
        if taken and text_lines("\n".join([*taken, item])) > LINES:
            yield "\n".join(taken)
            taken = []
        taken.append(item)
    yield "\n".join(taken)


def _question_notes(question: Question) -> Iterator[str]:
    yield (
        "**Everybody chooses before anybody runs the next cell.** The class board (`ddp-course board`) shows what this "
        "room answered."
    )
    lines = []
    for letter, answer in zip("ABCDEFGH", question.answers, strict=False):
        came = " **This is what the run does.**" if answer == question.came_true else ""
        lines.append(f"- **{letter}. {answer}.**{came} {question.reply_to(answer)}".rstrip())
    yield "\n".join(lines)
    if question.explanation:
        yield f"**To say after the run:** {question.explanation}"


def _visible(part: Part) -> str:
    """Return the source that is worth a slide, without imports of the course and without folded cells."""
    assert part.cell is not None
    metadata = part.cell.metadata
    if metadata.get("jupyter", {}).get("source_hidden") or "hide-input" in metadata.get("tags", ()):
        return ""
    lines = [line for line in part.text.splitlines() if line.strip() != "%load_ext course_lib"]
    return "\n".join(lines).strip("\n")


def _outputs(outputs: Sequence[nbformat.NotebookNode]) -> Iterator[Block]:
    """Yield the blocks of a cell's saved outputs."""
    for output in outputs:
        data = output.get("data", {})
        html, words = data.get("text/html", ""), data.get("text/plain", "")
        if "image/png" in data:
            alt = output.get("metadata", {}).get("image/png", {}).get("alt", "")
            yield Block(Look.PNG, "".join(data["image/png"].split()), 0, alt=alt or words)
        elif drawing := _DRAWING.fullmatch(html):
            yield Block(Look.SVG, drawing[2], 0, alt=unescape(drawing[1]))
        elif html:
            yield from _panel(html, words)
        elif output["output_type"] == "stream":
            yield from _printed(output["text"])
        elif output["output_type"] == "error":
            yield from _printed("\n".join(output["traceback"]))
        else:
            yield from _printed(words)


def _printed(text: str) -> Iterator[Block]:
    lines = _ANSI.sub("", text).rstrip().splitlines()
    for piece in split_lines(lines) if lines else ():
        yield Block(Look.PRINTED, "\n".join(piece), code_lines(piece))


def _panel(html: str, plain: str) -> Iterator[Block]:
    """Yield a panel of the course as it is; one that is too long, as its text."""
    html, plain = (text.replace(" (No prediction was made.)", "") for text in (html, plain))
    # A replay or stepper works in a page as it does in a notebook.
    lines = _REPLAY if "<script" in html else code_lines(plain.splitlines()) * _PANEL_LINE
    if lines <= LINES:
        yield Block(Look.PANEL, html, lines)
    else:
        yield from _printed(plain)
