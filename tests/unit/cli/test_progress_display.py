"""A long command says how far it is where somebody looks, and nothing where a program reads."""

import io

from rich.console import Console

from realranks.cli.progress_display import StatusLine, progress_bar, spinner


def shown(*, terminal: bool) -> str:
    screen = io.StringIO()
    with progress_bar("grading", Console(file=screen, force_terminal=terminal, width=80)) as show:
        show(2, 5)
        print("in between")
        show(5, 5)
    return screen.getvalue()


def test_on_a_terminal_there_is_a_bar_with_numbers_and_what_is_printed_stands_above_it(monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    text = shown(terminal=True)
    assert "grading" in text
    assert "5/5" in text
    assert "still about" in text
    assert text.index("in between") < text.rindex("grading")


def test_in_a_pipe_there_is_nothing(capsys):
    assert shown(terminal=False) == ""
    assert capsys.readouterr().out == "in between\n"


def test_what_is_printed_into_a_file_goes_there_though_the_bar_is_on_a_terminal(capsys):
    assert "in between" not in shown(terminal=True)
    assert capsys.readouterr().out == "in between\n"


def test_what_nobody_can_foresee_says_how_long_it_has_been_running_on_a_terminal_only():
    screens = []
    for terminal in (True, False):
        screens.append(io.StringIO())
        with spinner("train.py", Console(file=screens[-1], force_terminal=terminal, width=80)):
            pass
    assert "train.py" in screens[0].getvalue()
    assert "0:00:00" in screens[0].getvalue()
    assert screens[1].getvalue() == ""


def test_a_status_line_gives_way_to_what_is_printed_and_never_joins_half_a_line():
    screen = io.StringIO()
    line = StatusLine(screen)
    above = line.above(screen)
    line.show()
    assert screen.getvalue() == "", "nothing is waited for"
    line.tell("waiting")
    line.show()
    assert screen.getvalue() == "\rwaiting … (0 s)"
    print("half", end="", file=above)
    width = len("waiting … (0 s)")
    gone = f"\rwaiting … (0 s)\r{' ' * width}\rhalf"
    line.show()
    assert screen.getvalue() == gone, "the line would stand behind the half"
    print(" and half", file=above)
    line.tell("wait")
    line.show()
    assert screen.getvalue() == f"{gone} and half\n\rwait … (0 s)"
