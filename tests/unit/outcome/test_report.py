"""What an outcome says: complete as text, the same as HTML, in the words of the doctor."""

import dataclasses
import re
from html import unescape

import pytest

from realranks.cells.live import live_html, live_text
from realranks.doctor import with_diagnosis
from realranks.outcome.html import html_report, prose
from realranks.outcome.outcome import Ending, Waiting
from realranks.outcome.progress import Progress
from realranks.outcome.report import sections, text_report
from tests.support.outcomes import collective, died, hung, outcome, raised

RANKS = range(4)


def said(one):
    return text_report(with_diagnosis(one))


def test_nothing_printed_is_said_so():
    assert said(outcome()) == "(no output)"


def test_prints_and_values_are_folded():
    text = said(outcome(stdout=dict.fromkeys(RANKS, "hello\n"), shown={0: "1", 1: "2", 2: "2", 3: "2"}))
    assert text == "rank 0    | hello\n          | 1\nranks 1-3 | hello\n          | 2"


def test_stderr_comes_after_the_output():
    text = said(outcome(stdout={0: "out\n"}, stderr={0: "err\n"}))
    assert text == "rank 0 | out\n-- stderr --\nrank 0 | err"


def test_an_error_is_shown_with_its_line_and_named():
    text = said(raised(0, 1, 2, 3))
    assert text.count("ValueError: no") == 1
    assert text.startswith("Ranks 0-3 raised ValueError.\n")


def test_what_happened_stands_above_tracebacks_and_stderr():
    text = said(raised(1, stdout={1: "printed\n"}, stderr={1: "noise\n"}))
    places = [text.index(part) for part in ("printed", "Rank 1 raised ValueError", "ValueError: no", "noise")]
    assert places == sorted(places)


def test_a_death_is_named_with_its_signal():
    assert "Rank 2 died (killed by SIGKILL)" in said(died({2: -9}))
    assert "Ranks 0 and 1 died (exit code 3)" in said(died({0: 3, 1: 3}))


@pytest.mark.parametrize(
    ("code", "stderr", "advice"),
    [
        (-9, "", "out-of-memory killer"),
        (-6, "Received data size doesn't match expected size.", "different sizes"),
        (-11, "", "a crash in C++ code"),
        (-15, "", "who sends that signal"),
        (3, "", "os._exit"),
    ],
)
def test_a_death_comes_with_advice(code, stderr, advice):
    assert advice in said(died({2: code}, stderr={2: stderr}))


def test_a_hang_names_who_waits_where_for_whom():
    text = said(hung(1, 2, 3, missing=(0,)))
    assert (
        "Ranks 1-3 wait in barrier() at In [1], line 2 for rank 0, which has left the cell without joining."
        in text
    )
    assert "rank 0     finished the cell" in text


def test_an_expectation_is_marked_with_a_sign_and_a_word():
    expected = dataclasses.replace(with_diagnosis(hung(1, missing=(0,))), expected=True)
    assert "✓ As expected: " in text_report(expected)
    assert "✗ Not expected: " in text_report(dataclasses.replace(expected, expected=False))
    assert "✗ Not expected: every rank finishes." in text_report(
        dataclasses.replace(outcome(), expected=False)
    )


def test_a_rank_ended_by_the_course_is_told():
    ended = outcome(
        "hang",
        endings={1: Ending.KILLED},
        waiting={1: Waiting(1, None, "In [1], line 2", "loop()", state="silent")},
        timed_out=True,
    )
    assert "Rank 1 did not finish in time and was stopped." in said(ended)
    assert "not answering at In [1], line 2" in said(ended)


def test_a_stop_that_costs_the_gang_is_told():
    ended = outcome(
        "raises",
        endings={1: Ending.KILLED},
        waiting={1: Waiting(1, None, "", "", state="silent")},
        interrupted=True,
    )
    assert (
        "rank 1 could not be freed and was ended. The variables of all ranks are lost: the next %%ranks starts"
        in said(ended)
    )


def test_the_tracebacks_of_ranks_that_were_freed_by_the_stop_button_are_not_shown():
    """Where they waited stands above; what the freed call raised was the course's own doing."""
    waiting = {0: Waiting(0, "barrier", "In [1], line 2", "dist.barrier()", collective("barrier"), (3,))}
    stopped = raised(0, 1, waiting=waiting, interrupted=True)
    (error,) = [section for section in sections(stopped) if section.role == "error"]
    assert [row.ranks for row in error.rows] == [(1,)]
    (error,) = [
        section
        for section in sections(dataclasses.replace(stopped, interrupted=False))
        if section.role == "error"
    ]
    assert [row.ranks for row in error.rows] == [(0, 1)]


def test_a_stop_that_came_too_late_is_told():
    assert "You pressed stop when every rank had just finished" in said(outcome(interrupted=True))


@pytest.mark.parametrize(
    "one",
    [
        outcome(stdout=dict.fromkeys(RANKS, "a <b> & c\n"), notes=("noted",)),
        raised(1),
        died({0: -11}),
        hung(0, 1, missing=(2, 3)),
        outcome("hang"),
        outcome("raises", interrupted=True, endings={0: Ending.KILLED}),
    ],
)
def test_html_says_what_the_text_says(one):
    one = with_diagnosis(one)
    html = html_report(one)
    words = unescape(re.sub(r"<style>.*?</style>|<[^>]*>", " ", html, flags=re.DOTALL)).split()
    for section in sections(one):
        for text in (section.headline, *section.lines, *(row.text for row in section.rows)):
            assert set(text.split()) <= set(words)
    assert "<b>" not in html


def test_what_stands_still_is_said_while_the_cell_runs_with_the_reason_why_it_is_no_proof():
    waiting = {0: Waiting(0, "barrier", "In [1], line 2", "dist.barrier()", collective("barrier"), (1,))}
    still = outcome(
        "hang", 2, waiting=waiting, doubts=("thread 'loader' of rank 1 lives and might still act",)
    )
    seen = live_text(Progress(7.0, {}, {}, frozenset({1}), frozenset({0}), still, 6.2)).splitlines()
    assert seen[0] == "running … 1 of 2 ranks have finished"
    assert seen[1].startswith("Nothing has moved for 6 s. Probably a deadlock: ")
    assert any("Not proved" in line and "thread 'loader'" in line for line in seen)
    assert seen[-1] == "  Nothing is ended for it: press stop to free the ranks, or wait."
    html = live_html(Progress(7.0, {}, {}, frozenset({1}), frozenset({0}), still, 6.2))
    assert "Probably a deadlock" in html


def test_while_ranks_get_on_only_their_number_is_said():
    assert (
        live_text(Progress(7.0, {}, {}, frozenset({1}), frozenset({0})))
        == "running … 1 of 2 ranks have finished"
    )


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("under `rank == 0`: a & b", "under <code>rank == 0</code>: a &amp; b"),
        ("`<b>` and `x`", "<code>&lt;b&gt;</code> and <code>x</code>"),
        ("one ` alone < two", "one ` alone &lt; two"),
    ],
)
def test_what_stands_between_backticks_is_set_as_code(text, html):
    assert re.sub(r"<code [^>]*>", "<code>", prose(text)) == html
