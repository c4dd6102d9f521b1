"""A lesson cut at its headings: what each section holds, how long it takes, and whether it belongs to the core.

Whatever stands under a heading that begins with "Deeper" is not needed later: plans and slides leave it to those who
want it. What closes a lesson (the rule of thumb, the tasks) is core wherever it stands. Pure: notebooks in, data out.
"""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat

from tools.minutes import RUNNING, count_questions, reading_minutes

#: Minutes that a prediction takes in a room beyond the two that it takes a reader.
ROOM_PER_QUESTION = 1
LESSON = "[0-9][0-9]_*.ipynb"
_HEADING = re.compile(r"(#{1,6}) +(.+?)\s*$")
_DEEPER = re.compile(r"deeper\b", re.IGNORECASE)
_CLOSING = ("rule of thumb", "your turn", "what goes wrong in real life", "further reading")


@dataclass(frozen=True)
class Part:
    """A piece of a section: Markdown without headings, or a code cell with its saved outputs.

    Attributes:
        text: the Markdown, or the cell's source.
        cell: the code cell; None for Markdown.
    """

    text: str
    cell: nbformat.NotebookNode | None = None


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it, up to the next heading of any level.

    Attributes:
        title: the heading, as Markdown.
        level: 1 for the lesson's own title.
        core: False under "Deeper".
    """

    title: str
    level: int
    core: bool
    parts: tuple[Part, ...]

    @property
    def minutes(self) -> float:
        """Minutes of an attentive reader; the cells' running time is counted once per lesson, not here."""
        text = [f"{self.title}\n", *(part.text for part in self.parts if part.cell is None)]
        return reading_minutes(text, self._cells)

    @property
    def room_minutes(self) -> float:
        """Minutes of a room: those of a reader, and those for choosing, counting and asking for reasons."""
        return self.minutes + ROOM_PER_QUESTION * count_questions(self._cells)

    @property
    def _cells(self) -> list[nbformat.NotebookNode]:
        return [part.cell for part in self.parts if part.cell is not None]


@dataclass(frozen=True)
class Lesson:
    """A saved lesson.

    Attributes:
        number: two digits; "" for a notebook that shows cells of several lessons. title: without the number.
        name: the notebook's name without its ending.
        before: the numbers of the lessons that it builds on.
    """

    number: str
    title: str
    name: str
    before: tuple[str, ...]
    sections: tuple[Section, ...]

    @property
    def core_minutes(self) -> int:
        """Minutes that the lesson, the index and the README promise: those of the core, rounded up to five."""
        core = sum(section.minutes for section in self.sections if section.core)
        return 5 * math.ceil((core + RUNNING) / 5)

    def room_minutes(self, without: Collection[str] = ()) -> int:
        """Return the minutes that a room needs for the core, a multiple of five.

        Args:
            without: titles of chapters that are left out.

        Raises:
            LookupError: the core has no chapter of such a title.
        """
        core = [chapter for chapter in self.chapters if chapter[0].core]
        if unknown := set(without) - {chapter[0].title for chapter in core}:
            raise LookupError(f"lesson {self.number} has no section {min(unknown)!r} in its core")
        return _rounded(section for chapter in core if chapter[0].title not in without for section in chapter)

    def parts_minutes(self, first: int, last: int) -> int:
        """Return the minutes that a room needs for what stands under the titles "1 · ..." of these numbers."""
        number, taken = 0, []
        for section in self.sections:
            if section.level == 1 and (found := re.match(r"(\d) · ", section.title)):
                number = int(found[1])
            if first <= number <= last:
                taken.append(section)
        return _rounded(taken)

    @property
    def chapters(self) -> list[list[Section]]:
        """Sections with what belongs to them: each begins with a heading of the first or second level."""
        found: list[list[Section]] = []
        for section in self.sections:
            if section.level <= 2 or not found:
                found.append([])
            found[-1].append(section)
        return found


def _rounded(sections: Iterable[Section]) -> int:
    return 5 * math.ceil((sum(section.room_minutes for section in sections) + RUNNING) / 5)


def read_lessons(root: Path) -> list[Lesson]:
    """Return the saved lessons below `root`, in their order."""
    return [read_lesson(path) for path in sorted((root / "notebooks").glob(LESSON))]


def read_lesson(path: Path) -> Lesson:
    """Return the saved lesson of a file."""
    return lesson_of(nbformat.read(path, as_version=4), path.stem)


def lesson_of(notebook: nbformat.NotebookNode, name: str) -> Lesson:
    """Return the lesson that a notebook holds."""
    cut = tuple(_sections(notebook.cells))
    title = re.sub(r"^\d\d · ", "", cut[0].title) if cut else name
    text = "\n".join(part.text for section in cut for part in section.parts if part.cell is None)
    said = re.search(r"\*\*Before this:\*\*([^.;:]*)", text)
    number = name[:2] if name[:2].isdecimal() else ""
    return Lesson(number, title, name, _numbers(said[1] if said else ""), cut)


def _numbers(text: str) -> tuple[str, ...]:
    """Return the lessons that a sentence names: '00 and 04'; '02 to 14' names all between them."""
    found: list[str] = []
    for first, last in re.findall(r"(\d\d)(?: to (\d\d))?", text):
        found += [f"{number:02}" for number in range(int(first), int(last or first) + 1)]
    return tuple(found)


def _sections(cells: Sequence[nbformat.NotebookNode]) -> Iterator[Section]:
    title, level, deeper = "", 1, 0  # deeper: the level of the heading under which all is, or 0
    parts: list[Part] = []
    for cell in cells:
        if cell.cell_type == "code":
            parts.append(Part(cell.source, cell))
            continue
        for heading, text in _pieces(cell.source):
            if heading:
                if title or parts:
                    yield Section(title, level, deeper == 0, tuple(parts))
                level, title, parts = len(heading[1]), heading[2], []
                deeper = _deeper(deeper, level, title)
            if text.strip():
                parts.append(Part(text.strip("\n")))
    if title or parts:
        yield Section(title, level, deeper == 0, tuple(parts))


def _deeper(deeper: int, level: int, title: str) -> int:
    """Return the level of "Deeper" under which a new heading is; 0 for the core."""
    if title.lower().startswith(_CLOSING):
        return 0
    if deeper and level > deeper:
        return deeper
    return level if _DEEPER.match(title) else 0


def _pieces(markdown: str) -> Iterator[tuple[re.Match[str] | None, str]]:
    """Yield each heading (None at the beginning) and the text up to the next; code blocks have no headings."""
    heading: re.Match[str] | None = None
    lines: list[str] = []
    fenced = False
    for line in markdown.splitlines():
        if line.startswith("``"):
            fenced = not fenced
        found = None if fenced else _HEADING.match(line)
        if found:
            if heading or lines:
                yield heading, "\n".join(lines)
            heading, lines = found, []
        else:
            lines.append(line)
    if heading or lines:
        yield heading, "\n".join(lines)
