"""What `doctor --attach` and `--from` print of one run and of several, and how they end."""

import json

import pytest
import typer
from typer.testing import CliRunner

from realranks.cli import attach
from realranks.cli.app import ENGINE
from realranks.scripts.external import save
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


@pytest.mark.parametrize("command", ["doctor", "attach"])
def test_saved_files_are_judged_for_a_program_too(tmp_path, command):
    folder = tmp_path / "seen"
    for snapshot in (each for name in (SOUND, HUNG) for each in LOOKS[name].run(tmp_path)):
        save(snapshot, folder)
    done = CliRunner().invoke(ENGINE.typer(), [command, "--from", str(folder), "--json"])
    told = json.loads(done.stdout)
    assert done.exit_code == told["exit_code"] == 1
    assert told["problem"] is None
    kinds = {run["kind"]: run["diagnosis"] for run in told["runs"]}
    assert kinds["running"] is None
    assert kinds["hang"]["id"] == "rank_only_collective"
    assert kinds["hang"]["sentence"] in done.stderr


@pytest.mark.parametrize("command", ["doctor", "attach"])
def test_a_folder_without_files_is_told_to_a_program_too(tmp_path, command):
    done = CliRunner().invoke(ENGINE.typer(), [command, "--from", str(tmp_path), "--json"])
    told = json.loads(done.stdout)
    assert done.exit_code == told["exit_code"] == 2
    assert told["problem"].startswith(f"{tmp_path} holds no file of ")
    assert told["problem"] in done.stderr
    assert told["runs"] == []
