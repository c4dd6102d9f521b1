"""What a rank raises is shown as the learner's lines, whatever it is."""

import pytest

from realranks.outcome.html import html_report
from realranks.outcome.outcome import Ending, Kind


def test_a_traceback_shows_the_learners_lines_with_the_numbers_of_the_notebook_cell(ranks):
    outcome = ranks("def f():\n    raise ValueError('no')\n\nf()")
    assert outcome.kind is Kind.RAISES
    assert outcome.errors[0].where == "In [1], line 3"
    assert "In [1], line 5" in outcome.errors[0].traceback
    assert "realranks" not in str(outcome)
    assert str(outcome).count("ValueError: no") == 1, "shown once for all four"


def test_what_happened_inside_torch_is_folded(ranks):
    error = ranks("torch.nn.Linear(2, 2)(torch.ones(3))").errors[0]
    assert "more in torch" in error.traceback
    assert error.where == "In [1], line 2"
    assert len(error.traceback.splitlines()) < 8


NASTY = {
    "cannot be pickled": (
        "class E(Exception):\n    def __init__(self, a, b): self.c = lambda: 1\nraise E(1, 2)",
        "E",
    ),
    "whose str raises": ("class E(Exception):\n    def __str__(self): raise RuntimeError\nraise E()", "E"),
    "whose str is a number": ("class E(Exception):\n    def __str__(self): return 3\nraise E()", "E"),
    "is a group": ("raise ExceptionGroup('many', [ValueError(1), KeyError(2)])", "ExceptionGroup"),
    "comes from deep inside": ("def f(n): return f(n + 1)\nf(0)", "RecursionError"),
    "is very long": ("raise ValueError('x' * 30_000_000)", "ValueError"),
    "has odd characters": ("raise ValueError('\\ud800 \\x00 日本')", "ValueError"),
    "is SystemExit": ("sys.exit(3)", "SystemExit"),
    "is exit()": ("exit()", "SystemExit"),
    "is KeyboardInterrupt": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "is GeneratorExit": ("raise GeneratorExit", "GeneratorExit"),
    "is its own cause": ("e = ValueError('x')\ne.__cause__ = e\nraise e", "ValueError"),
    "has a note": ("e = ValueError('x')\ne.add_note('look here')\nraise e", "ValueError"),
    "has notes that are none": ("e = ValueError('x')\ne.__notes__ = 5\nraise e", "ValueError"),
    "answers no question": (
        "class E(Exception):\n    def __getattribute__(self, name): raise ValueError(name)\nraise E()",
        "E",
    ),
    "lets nobody set anything": (
        "class E(Exception):\n    def __setattr__(self, *_): raise ValueError\nraise E()",
        "E",
    ),
    "is of a class that answers no question": (
        (
            "class M(type):\n    def __getattribute__(self, name): raise ValueError(name)\n"
            "class E(Exception, metaclass=M): pass\nraise E()"
        ),
        "E",
    ),
    "is a syntax error at run time": ("eval('1 +')", "SyntaxError"),
    "comes from a string of code": ("exec('1/0')", "ZeroDivisionError"),
    "comes from the value's repr being a loop of itself": ("x = []\nx.append(x)\nx[0][5]", "IndexError"),
}


@pytest.mark.parametrize("name", NASTY)
def test_an_exception_is_reported_and_the_rank_goes_on_when_it(shared_ranks, name):
    source, expected = NASTY[name]
    outcome = shared_ranks(source)
    assert outcome.kind is Kind.RAISES, str(outcome)
    assert {error.type for error in outcome.errors.values()} == {expected}
    assert len(str(outcome)) < 50_000
    assert str(outcome).encode(), "a notebook is written in UTF-8"
    assert html_report(outcome)
    assert shared_ranks("1").ok


def test_the_parts_of_a_group_and_its_notes_are_named(shared_ranks):
    text = str(shared_ranks("raise ExceptionGroup('many', [ValueError(1), KeyError(2)])"))
    assert "- ValueError: 1" in text
    assert "- KeyError: 2" in text


def test_the_error_before_the_error_is_told(shared_ranks):
    text = str(shared_ranks("try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise ValueError('later')"))
    assert "while handling ZeroDivisionError: division by zero" in text


def test_one_rank_raising_leaves_the_others_waiting_and_they_are_freed(ranks):
    outcome = ranks("if rank == 1:\n    raise ValueError('no')\ndist.barrier()")
    assert outcome.kind is Kind.RAISES
    assert outcome.endings[1] is Ending.RAISED
    assert {outcome.endings[rank] for rank in (0, 2, 3)} == {Ending.FREED}
    assert "ranks 0, 2 and 3 wait for it in barrier()" in outcome.diagnosis.summary
    assert ranks("x = torch.ones(1)\ndist.all_reduce(x)\nx.item()").values[0] == 4.0


def test_a_rank_that_raises_after_an_async_collective_does_not_shift_the_next_cell(ranks):
    ranks("if rank == 1:\n    raise ValueError\nwork = dist.all_reduce(torch.ones(1), async_op=True)")
    outcome = ranks("x = torch.ones(1)\ndist.all_reduce(x)\nx.item()")
    assert outcome.values == dict.fromkeys(range(4), 4.0)


def test_a_syntax_error_in_a_cell_given_directly_is_an_error_not_a_death(ranks):
    outcome = ranks("def")
    assert outcome.kind is Kind.RAISES
    assert outcome.errors[0].type == "SyntaxError"


def test_a_reply_longer_than_any_message_does_not_break_the_wire(ranks):
    outcome = ranks("class Long:\n    def __repr__(self): return 'r' * 200_000_000\nLong()", only=(0,))
    assert outcome.ok
    assert len(str(outcome)) < 50_000


@pytest.mark.parametrize(
    "stop",
    [
        "breakpoint()",
        "import pdb; pdb.set_trace()",
        "import pdb; pdb.Pdb().set_trace()",
        "dist.breakpoint(0)",
    ],
)
def test_a_debugger_is_refused_at_its_own_line(ranks, stop):
    ranks("import torch.distributed as dist")
    outcome = ranks(f"x = 1\n{stop}\ny = 2")
    assert "no debugger works on a rank" in outcome.errors[0].message
    assert "--as out" in outcome.errors[0].message
    assert outcome.errors[0].where.endswith("line 3")
