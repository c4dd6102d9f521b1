"""The doctor's report in a terminal: nothing lost, nothing wider than it is."""

import io

from rich.console import Console

from realranks.cli.doctor_report import show

REPORT = """\
Diagnosis: Rank 1 has finished after 4 batches, and ranks 0 and 2 wait in batch 5 in backward() at train.py, line 19.
  ranks 0,2  waiting in backward() (DDP's gradient all-reduce) at train.py, line 19: model(x).square().backward()
  rank 1     finished the script  ◀ odd one out
What to do: give every rank the same number of batches, or train inside `with Join([model]):`.
[uneven_batches]
No other fault found on ranks 0-2.
  weights compared at 5 moments"""


def shown(**options):
    file = io.StringIO()
    show(REPORT, Console(file=file, highlight=False, **options))
    return file.getvalue()


def test_a_report_that_is_not_read_in_a_terminal_stays_as_it_is():
    assert shown(width=40) == REPORT + "\n"


def test_in_a_terminal_every_word_is_there_and_no_line_is_too_wide():
    text = shown(width=60, force_terminal=True, color_system=None)
    assert all(len(line) <= 60 for line in text.split("\n"))
    assert text.split() == REPORT.split()


def test_what_a_rank_does_stands_in_a_column_of_its_own():
    lines = shown(width=60, force_terminal=True, color_system=None).split("\n")
    first = next(place for place, line in enumerate(lines) if line.startswith("  ranks 0,2  waiting"))
    assert lines[first + 1].startswith(" " * 13)
    assert lines[first + 1][13] != " "
