"""The lessons' rules of thumb, and what to type when a job hangs, to be printed: docs/cheatsheet.html.

A lesson's rule is the quoted paragraph under its heading "Rule of thumb", and the commands are a section of
docs/hung-run.md. The page is made of the saved notebooks and of that file, so that each is written in one place only.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat
from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup
from nbconvert.filters.markdown_mistune import markdown2html_mistune

from tools.pages import is_up_to_date, write_page

PAGE = Path("docs/cheatsheet.html")
HEADING = "## Rule of thumb"
COMMANDS = Path("docs/hung-run.md")
COMMANDS_HEADING = "## Commands for the night"
_LESSON = "[0-9][0-9]_*.ipynb"


@dataclass(frozen=True)
class Rule:
    """A lesson's rule: the lesson's number, title and notebook, and the rule in Markdown (empty where it has none)."""

    number: str
    title: str
    notebook: str
    text: str


def find_rules(root: Path) -> list[Rule]:
    """Return the rules of the saved lessons below `root`, in the order of the lessons."""
    return [_rule(path) for path in sorted((root / "notebooks").glob(_LESSON))]


def find_commands(root: Path) -> str:
    """Return the Markdown of the commands for a job that hangs; empty where the course has no such page."""
    page = root / COMMANDS
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    return text.partition(COMMANDS_HEADING + "\n")[2].partition("\n## ")[0].strip()


def cheat_sheet(rules: list[Rule], commands: str) -> str:
    """Return the page's HTML."""
    environment = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True)
    entries = [(rule, Markup(markdown2html_mistune(rule.text))) for rule in rules]
    return environment.get_template("cheatsheet.html").render(
        entries=entries, commands=Markup(markdown2html_mistune(commands))
    )


def write_cheat_sheet(root: Path) -> None:
    """Write docs/cheatsheet.html from the saved notebooks; a course without docs gets none."""
    write_page(root / PAGE, cheat_sheet(find_rules(root), find_commands(root)))


def check_cheat_sheet(root: Path) -> list[str]:
    """Return one line for each thing wrong: a lesson without a rule, an old page."""
    if not (root / PAGE).parent.is_dir():
        return []
    rules = find_rules(root)
    problems = [
        f"notebooks/{rule.notebook}: no quoted rule under {HEADING!r}" for rule in rules if not rule.text
    ]
    if not is_up_to_date(root / PAGE, cheat_sheet(rules, find_commands(root))):
        problems.append(f"{PAGE}: is not what the notebooks give")
    return problems


def _rule(path: Path) -> Rule:
    cells = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown"]
    title = re.search(r"^# (?:\d\d · )?(.+)$", "\n".join(cells), re.MULTILINE)
    text = next((" ".join(_quoted(cell.split(HEADING, 1)[1])) for cell in cells if HEADING in cell), "")
    return Rule(path.name[:2], title[1].strip() if title else path.stem, path.name, text)


def _quoted(after: str) -> Iterator[str]:
    """Yield the lines of the first quotation."""
    begun = False
    for line in after.splitlines():
        if line.startswith(">"):
            begun = True
            yield line[1:].strip()
        elif begun:
            return
