"""A lesson as slides: what is on each, how large, and what the speaker reads beside it.

A heading starts a slide; a question has one of its own, the cell that decides it the next, and what came of it another.
A cell that draws shows its figure only. Outputs are the saved ones. Prose is shortened (see `cuts`), and the speaker
notes hold the whole of it. Nothing is executed or written here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from html import unescape

import nbformat

from course_lib.build.asked import Question, find_questions
from course_lib.build.sections import Lesson, Part, Section
from course_lib.tasks.task import Task

from .cuts import (
    CODE_MIDDLE,
    CODE_SMALLEST,
    CODE_TOGETHER,
    ROOM_HEIGHT,
    ROOM_WIDTH,
    code_height,
    code_size,
    is_prose,
    one_blank_line,
    paragraphs,
    shortened,
    split_lines,
    text_height,
)

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
#: A drawing of the course (`course_lib/draw/drawing.py`).
_DRAWING = re.compile(r'<img alt="([^"]*)"[^>]* src="data:image/svg\+xml;base64,([^"]*)">')
_DRAWS = re.compile(r"^\s*(?:import matplotlib|from matplotlib)|\bplt\.", re.MULTILINE)
_OUTPUT_LINE = 16 * 1.45
_LARGEST_PANEL, _SMALLEST_PANEL = 1.9, 1.05
#: A panel's text begins behind the names of the ranks.
_NAMES = 95
#: A replay brings its width; how high it is depends on the ranks.
_OWN_WIDTH = re.compile(r"max-width: ?(\d+)px")
_REPLAY_HEIGHT = 450
#: Text above a question or a picture, and the least that a picture then has.
_LEAD = 150


class Look(Enum):
    """How a block is set; the page's template knows one way for each."""

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
        height: about how many pixels it takes.
        size: that of its letters in pixels; for a panel, how many times it is enlarged.
        alt: what a picture shows, in words.
        answers: those of a question.
    """

    look: Look
    content: str
    height: float
    size: float = 0
    alt: str = ""
    answers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Slide:
    """One slide.

    Attributes:
        title: its heading, as Markdown. mark: a word in the corner, such as "Deeper".
        notes: what the speaker reads, as Markdown.
    """

    title: str
    blocks: tuple[Block, ...]
    notes: str = ""
    mark: str = ""


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

    @property
    def height(self) -> float:
        return sum(block.height for block in self.blocks)


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


def _opening(section: Section) -> tuple[Slide, Section]:
    """The title's slide, with the question that begins the lesson, and what of its first section is left."""
    quote: list[str] = []
    rest = list(section.parts)
    if rest and rest[0].cell is None:
        blocks = paragraphs(rest[0].text)
        if blocks and blocks[0].startswith(">"):
            quote = [blocks.pop(0)]
            rest[0] = Part("\n\n".join(blocks))
    shown = tuple(Block(Look.TEXT, text, text_height(text)) for text in quote)
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
        self._lay()
        return self.done

    def _lay(self) -> None:
        """What is on the pile becomes a slide."""
        if self.pile.blocks:
            mark = "" if self.section.core else "Deeper"
            notes = "\n\n".join(dict.fromkeys(self.pile.notes))
            self.done.append(Slide(self.section.title, tuple(self.pile.blocks), notes, mark))
        self.pile = _Pile()

    def _add(self, block: Block, *notes: str) -> None:
        if self.pile.blocks and self.pile.height + block.height > ROOM_HEIGHT:
            self._lay()
        self.pile.blocks.append(block)
        self.pile.notes += notes

    def _text(self, markdown: str) -> None:
        if any(block.look is not Look.TEXT for block in self.pile.blocks):
            self._lay()  # what explains a run stands on a slide of its own
        for paragraph in paragraphs(markdown):
            short = shortened(paragraph)
            notes = [f"*In full:* {paragraph}" if is_prose(paragraph) else paragraph] if short.less else []
            for piece in _pieces_of(short.text):
                self._add(Block(Look.TEXT, piece, text_height(piece)), *notes)

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
            self._code(source, sum(block.height for block in shown), cell_id in self.deciding)
        for block in shown:
            if block.look in (Look.SVG, Look.PNG):
                self._fill(block)
            else:
                self._add(block)
        if cell_id in self.deciding:
            self._lay()

    def _fill(self, block: Block, *notes: str) -> None:
        """A question or a picture takes what is left of a slide: all of it, or what a short text above it leaves."""
        if self.pile.height > (_LEAD if block.look is Look.QUESTION else _LEAD * 0.75):
            self._lay()
        self.pile.blocks.append(replace(block, height=ROOM_HEIGHT - self.pile.height))
        self.pile.notes[:0] = notes  # first what is needed while the slide is up
        self._lay()

    def _code(self, source: str, below: float, decides: bool) -> None:
        if self.pile.blocks and self.pile.blocks[0].look in (Look.PANEL, Look.PRINTED):
            self._lay()  # what another cell has printed, whose code is on the slide before
        pieces = list(split_lines(one_blank_line(source)))
        for number, piece in enumerate(pieces, start=1):
            notes = []
            if decides and number == len(pieces):
                notes.append("**Run this cell in the notebook.** The next slide shows the saved run.")
            if len(pieces) > 1:
                of = f"part {number} of {len(pieces)}"
                notes.append(f"The cell is long: {of}. Say what it is for, and go on.")
            size = self._place(piece, None if decides or len(pieces) > 1 else below, number == 1)
            self._add(Block(Look.CODE, "\n".join(piece), code_height(piece, size), size), *notes)
        if decides or len(pieces) > 1:
            self._lay()

    def _place(self, code: Sequence[str], below: float | None, may_join: bool) -> int:
        """The size for a piece of code; begins a new slide where it is not to stand below what is on this one.

        Args:
            below: how high its outputs are, if they may stand on the same slide.
        """
        led = self.pile.height
        ways = (
            [(led, below or 0, CODE_TOGETHER), (0.0, below or 0, CODE_TOGETHER)] if below is not None else []
        )
        ways += [(led, 0, CODE_MIDDLE)]
        for above, under, least in ways:
            size = code_size(code, ROOM_HEIGHT - above - under) if above + under < ROOM_HEIGHT else None
            if size and size >= least and (may_join or not above):
                if not above:
                    self._lay()
                return size
        if led > ROOM_HEIGHT / 4 or not may_join:
            self._lay()
        size = code_size(code, ROOM_HEIGHT - self.pile.height)
        if size is None:
            self._lay()
            size = code_size(code)
        return size or CODE_SMALLEST


def _pieces_of(markdown: str) -> Iterator[str]:
    """A list or table that is too long for a slide, in pieces."""
    if text_height(markdown) <= ROOM_HEIGHT:
        yield markdown
        return
    if markdown.startswith("|"):
        head, rows = markdown.splitlines()[:2], markdown.splitlines()[2:]
        fits = max(1, int(len(rows) * (ROOM_HEIGHT - 90) / text_height(markdown)))
        for start in range(0, len(rows), fits):
            yield "\n".join([*head, *rows[start : start + fits]])
        return
    items = re.split(r"\n+(?=(?:[-*]|\d+\.) )|\n\n|\n>\n", markdown)
    taken: list[str] = []
    for item in items:
        if taken and sum(text_height(each) - 8 for each in (*taken, item)) > ROOM_HEIGHT:
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
        reply = f" {question.replies[answer]}" if answer in question.replies and not came else ""
        lines.append(f"- **{letter}. {answer}.**{came}{reply}")
    yield "\n".join(lines)
    if question.explanation:
        yield f"**To say after the run:** {question.explanation}"


def _visible(part: Part) -> str:
    """The source that is worth a slide: without what only loads the course, and nothing of a cell that is folded."""
    assert part.cell is not None
    metadata = part.cell.metadata
    if metadata.get("jupyter", {}).get("source_hidden") or "hide-input" in metadata.get("tags", ()):
        return ""
    lines = [line for line in part.text.splitlines() if line.strip() != "%load_ext course_lib"]
    return "\n".join(lines).strip("\n")


def _outputs(outputs: Sequence[nbformat.NotebookNode]) -> Iterator[Block]:
    """The blocks of a cell's saved outputs. Panels that stand one below the other are enlarged alike."""
    panels: list[tuple[str, str]] = []
    for output in outputs:
        data = output.get("data", {})
        if "text/html" in data and "image/png" not in data and not _DRAWING.fullmatch(data["text/html"]):
            panels.append((data["text/html"], data.get("text/plain", "")))
            continue
        yield from _panels(panels)
        panels = []
        yield from _plain_or_picture(output)
    yield from _panels(panels)


def _plain_or_picture(output: nbformat.NotebookNode) -> Iterator[Block]:
    if output["output_type"] == "stream":
        yield from _printed(output["text"])
        return
    if output["output_type"] == "error":
        yield from _printed("\n".join(output["traceback"]))
        return
    data = output["data"]
    words = data.get("text/plain", "")
    if "image/png" in data:
        alt = output.get("metadata", {}).get("image/png", {}).get("alt", "")
        yield Block(Look.PNG, "".join(data["image/png"].split()), 0, alt=alt or words)
    elif drawing := _DRAWING.fullmatch(data.get("text/html", "")):
        yield Block(Look.SVG, drawing[2], 0, alt=unescape(drawing[1]))
    else:
        yield from _printed(words)


def _printed(text: str) -> Iterator[Block]:
    lines = _ANSI.sub("", text).rstrip().splitlines()
    if not lines:
        return
    for piece in split_lines(lines):
        size = code_size(piece) or 16
        yield Block(Look.PRINTED, "\n".join(piece), code_height(piece, size), size)


def _panels(panels: Sequence[tuple[str, str]]) -> Iterator[Block]:
    """Panels of the course as they are, enlarged as far as there is room; one that is too long, as its text."""
    still = [(html, plain) for html, plain in panels if "<script" not in html]
    size = _LARGEST_PANEL
    while size > _SMALLEST_PANEL and sum(_panel_height(plain, size) for _, plain in still) > ROOM_HEIGHT:
        size -= 0.05
    for html, plain in panels:
        if (html, plain) not in still:  # a replay: it works in a page as it does in a notebook
            width = _OWN_WIDTH.search(html)
            yield Block(
                Look.PANEL,
                html,
                _REPLAY_HEIGHT,
                round(min(1.9, ROOM_WIDTH / int(width[1])), 2) if width else 1.4,
            )
        elif (height := _panel_height(plain, size)) <= ROOM_HEIGHT:
            yield Block(Look.PANEL, html, height, round(size, 2))
        else:
            yield from _printed(plain)


def _panel_height(plain: str, size: float) -> float:
    columns = max(1, int((ROOM_WIDTH - _NAMES * size) / (7.9 * size)))
    rows = sum(max(1, -(-len(line) // columns)) for line in plain.splitlines())
    return rows * _OUTPUT_LINE * size + 30
