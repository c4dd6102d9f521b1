"""A long command says how far it is where somebody looks, and nothing where a program reads."""

import io

from rich.console import Console

from course_lib.cli.how_far import how_far


def shown(*, terminal: bool) -> str:
    screen = io.StringIO()
    with how_far("grading", Console(file=screen, force_terminal=terminal, width=80)) as show:
        show(2, 5)
        print("in between")
        show(5, 5)
    return screen.getvalue()


def test_on_a_terminal_there_is_a_bar_with_numbers_and_what_is_printed_stands_above_it():
    text = shown(terminal=True)
    assert "grading" in text
    assert "5/5" in text
    assert "still about" in text
    assert text.index("in between") < text.rindex("grading")


def test_in_a_pipe_there_is_nothing(capsys):
    assert shown(terminal=False) == ""
    assert capsys.readouterr().out == "in between\n"
