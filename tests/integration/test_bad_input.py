"""What cannot be done is refused in one clear line, and changes nothing."""

import pytest

from tests.support.ranks_and_kernels import until_gone

REFUSED = {
    "%%ranks 0\n1": "At least 1 rank is needed, not 0.",
    "%%ranks -1\n1": "At least 1 rank is needed, not -1.",
    "%%ranks abc\n1": "%%ranks abc: the number of ranks is a whole number, as in %%ranks 4.",
    "%%ranks 2.5\n1": "%%ranks 2.5: the number of ranks is a whole number, as in %%ranks 4.",
    "%%ranks ²\n1": "%%ranks ²: the number of ranks is a whole number, as in %%ranks 4.",
    "%%ranks 100000\n1": "100000 ranks need about 8000.0 GB of memory",
    "%%ranks 2 3\n1": "unrecognized arguments: 3",
    "%%ranks --no-such\n1": "--no-such",
    "%%ranks --only 9\n1": "There is no rank 9: the 2 ranks are 0 to 1.",
    "%%ranks --only x\n1": "--only x: ranks are numbers separated by commas, as in --only 0,2.",
    "%%ranks --only ,\n1": "ranks are numbers separated by commas",
    "%%ranks --only=-1\n1": "ranks are numbers separated by commas",
    "%%ranks --backend foo\n1": "No backend 'foo': choose auto, gloo, nccl.",
    "%%ranks --expect foo\n1": "No expectation 'foo'",
    "%%ranks --expect raises:\n1/0": None,
    "%%ranks --expect died:x\n1": "after died: comes ranks, as in died:2.",
    "%%ranks --expect ok:1\n1": "after ok: comes nothing.",
    "%%ranks --timeout 0\n1": "--timeout 0: the seconds must be a positive number, as in --timeout 20.",
    "%%ranks --timeout soon\n1": "--timeout soon: the seconds must be a positive number",
    "%%ranks --timeout nan\n1": "--timeout nan: the seconds must be a positive number",
    "%%ranks --as 1x\n1": "--as 1x: not a valid variable name",
    "%%ranks 2 --as class\n1": "not a valid variable name",
    "%%ranks\ntorch?": "line 2: torch? asks the notebook for help",
    "%%ranks\n!ls": "line 2: !ls is a command of the notebook",
    "%%ranks\n1\n%timeit 1": "line 3: %timeit is a command of the notebook",
    "%%ranks\nx = 'a\x00b'": "null bytes",
    "%ranks dance": "%ranks dance: say %ranks, or %ranks rescue | restart | stop",
    "%ranks 4": "A cell starts with %%ranks.",
}


@pytest.fixture(autouse=True)
def _gang_of_two(kernel):
    assert kernel.run("%%ranks 2\nkept = 1").status == "ok"


@pytest.mark.parametrize("source", REFUSED)
def test_it_is_refused_in_one_line(kernel, source):
    expected = REFUSED[source]
    shown = kernel.run(source)
    if expected is None:
        assert shown.status == "ok"
        return
    assert shown.status == "error"
    assert expected in shown.error
    assert len(shown.error.strip().splitlines()) == 1
    assert not shown.displays
    assert kernel.run("%%ranks\nkept").status == "ok", "the gang is as it was"


def test_nccl_without_gpus_says_why_and_what_to_do(kernel):
    if kernel.run("machine().gpus").value != "0":
        pytest.skip("there are GPUs here")
    shown = kernel.run("%%ranks --backend nccl\n1")
    assert "--backend nccl cannot work here: this machine has no GPU" in shown.error
    assert "Use gloo" in shown.error


def test_a_syntax_error_is_shown_once_with_its_line(kernel):
    shown = kernel.run("%%ranks\nx = 1\ny = = 2")
    assert shown.status == "error"
    assert shown.error.count("SyntaxError") == 1
    assert "line 3" in shown.error
    assert "y = = 2" in shown.error


@pytest.mark.parametrize("source", ["s = '''\n%d\n!\n'''", "x = (10\n% 3)", "# !ls\n1"])
def test_percent_and_exclamation_marks_in_plain_python_are_fine(kernel, source):
    assert kernel.run(f"%%ranks\n{source}").status == "ok"


@pytest.mark.parametrize("source", ["x = 1\nreturn x", "x = 1\nawait f(x)", "x = 1\nbreak"])
def test_what_only_the_compiler_finds_is_shown_with_its_line_too(kernel, source):
    shown = kernel.run(f"%%ranks\n{source}")
    assert "line 3" in shown.error
    assert source.splitlines()[1] in shown.error


def test_options_may_be_quoted(kernel):
    assert kernel.run("%%ranks --expect 'raises:ValueError' --as \"out\"\nraise ValueError").status == "ok"
    assert kernel.run("out.kind").value == "<Kind.RAISES: 'raises'>"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("run(5, ranks=2)", "needs a function"),
        ("run(len, ranks=2, timeout=-1)", "timeout=-1"),
        ("run(len, ranks=2, timeout='x')", "timeout='x' must be a positive number of seconds"),
        ("run(len, ranks='4')", "ranks='4' must be a whole number"),
        ("run(len, faults=['kill'])", "faults= takes what realranks.faults makes"),
        ("run(len, ranks=2, expect='dance')", "No expectation 'dance'"),
        ("from realranks.faults import delay\ndelay(0, 1, at='noon')", "No moment 'noon'"),
    ],
)
def test_run_refuses_in_one_line_too(kernel, source, says):
    shown = kernel.run(source)
    assert says in shown.error
    assert len(shown.error.strip().splitlines()) == 1


def test_a_working_folder_that_is_gone_does_not_keep_ranks_from_starting(kernel):
    kernel.run(
        "import os, tempfile\nhome, gone = os.getcwd(), tempfile.mkdtemp()\nos.chdir(gone)\nos.rmdir(gone)"
    )
    shown = kernel.run("%%ranks 2 --fresh\n1")
    kernel.run("os.chdir(home)")
    assert shown.status == "ok", shown.text


def test_what_cannot_be_pickled_is_named(kernel):
    kernel.run("import threading\nlock = threading.Lock()\ndef uses_it():\n    return lock")
    shown = kernel.run("run(uses_it, ranks=2)")
    assert "`lock`, a lock that `uses_it` uses" in shown.error
    assert len(shown.error.strip().splitlines()) == 1


def test_a_number_too_large_for_the_memory_leaves_the_old_gang(kernel):
    assert kernel.run("%%ranks 100000\n1").status == "error"
    assert kernel.run("%%ranks\nkept").status == "ok"


def test_a_cell_with_a_warning_is_warned_about_by_the_ranks_only(kernel):
    shown = kernel.run("%%ranks\nx = '\\d'")
    assert shown.status == "ok"
    assert shown.stderr == ""
    assert "SyntaxWarning" in shown.text or "DeprecationWarning" in shown.text or shown.displays == []


def test_whoever_runs_the_machine_may_allow_fewer_ranks(kernel):
    kernel.run("import os; os.environ['DDP_COURSE_MAX_RANKS'] = '2'")
    try:
        shown = kernel.run("%%ranks 3\n1")
        assert shown.error.splitlines() == [
            "3 ranks are more than this machine is set up for: 2 at most (DDP_COURSE_MAX_RANKS)."
        ]
        assert kernel.run("%%ranks 2\n1").status == "ok"
    finally:
        kernel.run("del os.environ['DDP_COURSE_MAX_RANKS']")


def test_a_gang_that_nobody_uses_is_ended_where_that_is_wanted_and_told(kernel):
    kernel.run("import os; os.environ['DDP_COURSE_IDLE_MINUTES'] = '0.05'")
    try:
        kernel.run("%%ranks 2 --fresh\nmine = 7")
        shown = kernel.run("%%ranks\nmine")
        assert shown.status == "ok"  # in use
        before = kernel.ranks()
        until_gone(before)
        shown = kernel.run("%%ranks\nmine")
        assert shown.error.startswith(
            "Nobody had used the ranks for 0.05 minutes: they were ended, and their variables"
        )
        assert shown.error.endswith("%%ranks 4 alone starts four ranks.")
        assert "These are new ones." in kernel.run("%%ranks 2\n1").text
    finally:
        kernel.run("del os.environ['DDP_COURSE_IDLE_MINUTES']")
