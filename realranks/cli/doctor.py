"""`doctor train.py`: the words and exit codes of the doctor's command."""

from __future__ import annotations

import fileinput
import math
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from realranks import own_code
from realranks.cli.attach import Json, attached, judge_saved
from realranks.cli.doctor_report import show
from realranks.cli.json_report import Judged, as_json, refuse, run_record, running_record
from realranks.cli.progress_display import StatusLine, status_line
from realranks.doctor.watchdog_log import NoWatchdogError, verdict
from realranks.outcome.outcome import Diagnosis
from realranks.ranks.kernel.gang import GangError, LaunchError
from realranks.scripts.examine import (
    Examination,
    checked,
    error_text,
    examine,
    verdict_text,
    waiting_sentence,
)
from realranks.scripts.external import holds_saved
from realranks.scripts.launching import Launcher
from realranks.scripts.like_one_process import compare_with_one_process
from realranks.scripts.machines import NotesError, outcome_of, read_folder
from realranks.versions import versions_line

CONTEXT = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}


#: How long no rank may make progress before that is said, in seconds.
_PATIENCE = 60.0


def _positive_seconds(seconds: float | None) -> float | None:
    if seconds is not None and not seconds > 0:
        raise typer.BadParameter("must be a positive number of seconds.")
    return seconds


def _problem_with(script: Path) -> str:
    """Explain why this file cannot be run at all; '' if it can."""
    if script.is_dir():
        return f"{script} is a folder: name the training script in it."
    if not script.is_file():
        return f"There is no file {script}."
    if script.suffix == ".ipynb":
        return (
            f"{script} is a notebook: the doctor runs scripts. In the notebook, `%%ranks --watch` watches a cell; or "
            f"write its cells on ranks as a script (`{own_code.command()} export {script.name}`) and give that to "
            "the doctor."
        )
    try:
        compile(script.read_bytes(), str(script), "exec", dont_inherit=True)
    except OSError as error:
        return f"{script} cannot be read: {error.strerror}."
    except SyntaxError as error:
        return "".join(traceback.format_exception_only(error)).rstrip()
    except ValueError as error:
        return f"{script} is not Python: {error}."
    return ""


def _say_meanwhile(found: Diagnosis, status: StatusLine) -> None:
    lines = [f"Still running. {found.summary}", *(f"  {line}" for line in found.evidence)]
    print("\n".join(lines), file=status.above(sys.stderr), flush=True)


def doctor(
    context: typer.Context,
    script: Annotated[
        Path | None, typer.Argument(help="The training script; what follows it are its own arguments.")
    ] = None,
    ranks: Annotated[int, typer.Option("--ranks", "-n", min=1, help="How many ranks run it.")] = 2,
    steps: Annotated[
        int, typer.Option("--steps", min=1, help="Compare weights every so many optimizer steps.")
    ] = 50,
    timeout: Annotated[
        float,
        typer.Option(
            help="Stop after so many seconds (a deadlock is proved without).", callback=_positive_seconds
        ),
    ] = math.inf,
    patience: Annotated[
        float | None,
        typer.Option(
            help="End the script when for so many seconds no rank has issued a collective or made a step. Left out: "
            "say so after 60 s, and let it go on.",
            callback=_positive_seconds,
        ),
    ] = None,
    launcher: Annotated[
        Launcher,
        typer.Option(
            help="Who starts the ranks: torchrun, whose part the doctor takes, or the script itself, which then runs "
            "once, with as many ranks as it starts. auto reads it from the script.",
        ),
    ] = Launcher.AUTO,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Do not pass on what the ranks print.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FOLDER",
            help="Run nothing: judge a job on several machines by the files that observe(machines=FOLDER), or "
            "--attach --save FOLDER, has written on each of them.",
        ),
    ] = None,
    attach: Annotated[
        bool,
        typer.Option(
            "--attach",
            help="Run nothing: look at the ranks that run on this machine now (py-spy, /proc); reads only.",
        ),
    ] = False,
    pids: Annotated[
        str, typer.Option(metavar="PID,PID", help="With --attach: the processes that are the ranks.")
    ] = "",
    keep: Annotated[
        Path | None,
        typer.Option(
            "--save",
            metavar="FOLDER",
            help="With --attach: judge nothing; write what was seen into a file there.",
        ),
    ] = None,
    values: Annotated[
        bool,
        typer.Option(
            "--values", help="With --save: keep the text of lines and the values of variables, too."
        ),
    ] = False,
    ras: Annotated[
        bool,
        typer.Option(
            "--ras",
            help="With --attach: also ask NCCL's RAS service how many collectives each rank has launched. A thread of "
            "the ranks answers; some versions of NCCL have crashed over it.",
        ),
    ] = False,
    log: Annotated[
        bool,
        typer.Option(
            "--log",
            help="Run nothing: read what NCCL's watchdog has printed, in the files named behind it (- for standard "
            "input), and say which rank did not come.",
        ),
    ] = False,
    like_one_process: Annotated[
        bool,
        typer.Option(
            "--like-one-process",
            help="Run the script to its first optimizer step, then in one process with the same weights and all rows, "
            "and compare the gradients.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Run a DDP script on local ranks, watch it, and explain a hang, a crash or ranks that drift apart.

    The script runs unchanged, as torchrun would run it; once, where it starts its ranks itself. Exit code 0: nothing
    found; 1: a diagnosis is printed; 2: it could not be run.
    """
    if [script is not None, folder is not None, attach].count(True) != 1:
        raise typer.BadParameter("name a script, or --from a folder, or --attach, or --log and files.")
    with as_json(json):
        if attach:
            attached(pids, keep, values, ras)
        if folder is not None:
            if holds_saved(folder):
                judge_saved(folder)
            _judge(folder)
        assert script is not None
        if log:
            _judge_log([str(script), *context.args])
        if problem := _problem_with(script):
            refuse(problem)
        try:
            if like_one_process:
                _report(compare_with_one_process(str(script), context.args, ranks=ranks, timeout=timeout))
            with status_line(wanted=not json) as status:
                found = examine(
                    str(script),
                    context.args,
                    ranks=ranks,
                    every=steps,
                    timeout=timeout,
                    patience=_PATIENCE if patience is None else patience,
                    on_stall=(lambda stalled: _say_meanwhile(stalled, status)) if patience is None else None,
                    out=None if quiet else status.above(sys.stdout),
                    err=None if quiet else status.above(sys.stderr),
                    on_stage=status.tell,
                    launcher=launcher,
                )
        except (GangError, LaunchError) as error:
            refuse(str(error))
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        _report(found)


def _judge(folder: Path) -> NoReturn:
    try:
        outcome = outcome_of(read_folder(folder))
    except NotesError as error:
        refuse(str(error))
    if outcome is None:
        typer.echo("The job is not over, and its ranks get on, as far as these files tell.")
        raise Judged(0, [running_record()])
    _report(Examination(outcome, tuple(checked(outcome))))


def _judge_log(files: Sequence[str]) -> NoReturn:
    try:
        with fileinput.input(files, encoding="utf-8", errors="replace") as lines:
            outcome = verdict(lines)
    except OSError as error:
        refuse(f"{error.filename} cannot be read: {error.strerror}.")
    except NoWatchdogError:
        refuse(
            f"No line in {', '.join(files)} says that a collective has timed out (Watchdog caught collective operation "
            "timeout: ...). NCCL's watchdog prints it to standard error; gloo has none."
        )
    _report(Examination(outcome, ()))


def _report(found: Examination) -> NoReturn:
    errors = error_text(found.outcome)
    if errors:
        typer.echo(errors)
    show(verdict_text(found))
    if waiting := waiting_sentence(found.outcome):
        typer.echo(f"  {waiting}")
    typer.echo(versions_line())
    raise Judged(0 if found.sound else 1, [run_record(found.outcome, checked=found.checked)])
