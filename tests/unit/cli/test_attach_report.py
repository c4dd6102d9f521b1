"""What `doctor --attach` and `--from` print of one run and of several, and how they end."""

import pytest
import typer

from realranks.cli import attach
from tests.records.catalogue import everything

LOOKS = {each.name: each for each in everything() if each.records.kind == "attach"}
HUNG, SOUND = "skipped", "trains"


@pytest.fixture
def printed(tmp_path, capsys):
    """Return a function that reports on recorded looks at runs, and gives the text and the exit code."""

    def report(*names):
        runs = [LOOKS[name].run(tmp_path) for name in names]
        with pytest.raises(typer.Exit) as ended:
            attach._report(runs)
        return capsys.readouterr().out, ended.value.exit_code

    return report


def test_one_run_has_no_heading(printed):
    text, code = printed(HUNG)
    assert not text.startswith("Run ")
    assert code == 1


def test_each_of_several_runs_has_one_and_one_that_hangs_decides_the_exit_code(printed):
    text, code = printed(SOUND, HUNG)
    assert text.count(" ranks:\n") == 2
    assert code == 1


def test_ranks_that_get_on_are_no_error(printed):
    text, code = printed(SOUND)
    assert text.startswith("The ranks get on") or "No deadlock is seen so far." in text
    assert code == 0
