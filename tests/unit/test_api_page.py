"""The page of the public API: made of docstrings, signatures and options, and refusing docstrings that lie."""

import re
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

import course_lib
from course_lib import watch
from course_lib.build.api import (
    PAGE,
    Documented,
    api_page,
    chapters,
    check_api_page,
    docstring_problems,
    entry_text,
    write_api_page,
)
from course_lib.cli.app import command_line

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def page() -> str:
    return api_page(command_line())


def launch(fn: int, *, signal_number: int = signal.SIGKILL, **more: str) -> None:
    """Start it.

    It may take a while.

    Args:
        fn, more: what to start,
            and with what.
        signal_number: how it ends.

    Raises:
        ValueError: it cannot start.

    More below.
    """


def test_a_function_is_shown_with_its_signature_and_its_lists():
    assert (
        entry_text(Documented(launch))
        == """### `launch`

```python
launch(fn: <class 'int'>, *, signal_number: <class 'int'> = signal.SIGKILL, **more: <class 'str'>)
```

Start it.

It may take a while.

**Args:**

- `fn`, `more`: what to start, and with what.
- `signal_number`: how it ends.

**Raises:**

- `ValueError`: it cannot start.

More below."""
    )


@dataclass(frozen=True)
class RunOn:
    """Two entries in one line.

    Attributes:
        first: one. second: two.
        third: three.
    """

    first: int
    second: int


def test_names_that_are_not_there_and_entries_in_the_line_of_another_are_told():
    assert list(docstring_problems(RunOn)) == [
        "RunOn: 'second' is described in the line of 'first'",
        "RunOn: there is no 'third' to be described",
    ]
    assert list(docstring_problems(launch)) == []


def test_every_option_of_the_rank_magic_is_on_the_page(page):
    from course_lib.notebook.magics import RankMagics

    options = {option for action in RankMagics.ranks.parser._actions for option in action.option_strings}
    assert len(options) >= 11
    assert all(f"- `{option}" in page for option in options - {"-h", "--help"})


def test_every_command_is_on_the_page(page):
    commands = command_line().commands
    assert {"lab", "notebooks", "check", "grade", "progress", "selfcheck", "doctor"} <= set(commands)
    for name in commands:
        assert re.search(rf"^### `ddp-course {name}\b", page, re.MULTILINE), name
    assert "### `ddp-course progress import FILE`" in page


def test_all_that_the_package_and_its_room_for_seeing_export_is_on_the_page(page):
    headings = set(re.findall(r"^### `([\w.]+)`$", page, re.MULTILINE))
    called = {"faults", "load_ipython_extension"}  # a module, and what %load_ext calls
    assert set(course_lib.__all__) - called <= headings
    # For the course's own use, or shown as what something else returns.
    internal = {"compare_fingerprints", "fingerprint", "CompareError", "Stage", "Timeline"}
    assert set(watch.__all__) - internal <= headings


def test_every_entry_has_words(page):
    for chapter in chapters():
        for entry in chapter.entries:
            assert entry.what.__doc__, entry.what


def test_an_old_page_is_told_and_a_course_without_docs_gets_none(tmp_path):
    commands = command_line()
    write_api_page(tmp_path, commands)
    assert not (tmp_path / PAGE).exists()
    (tmp_path / "docs").mkdir()
    assert check_api_page(tmp_path, commands) == ["docs/api.md: is not what the docstrings give"]
    write_api_page(tmp_path, commands)
    assert check_api_page(tmp_path, commands) == []
