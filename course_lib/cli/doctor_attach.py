"""`ddp-course doctor --attach`, and `--from` a folder of its files: the words and exit codes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import typer

from course_lib.cli.doctor_report import show
from course_lib.ranks.outside.pyspy import NotAllowedError, UnreadableError
from course_lib.scripts.examine import Examination, verdict_text
from course_lib.scripts.from_outside import Finding, Snapshot, judged, read_saved, save, snapshots
from course_lib.scripts.machines import NotesError
from course_lib.versions import versions_line


def attached(pids: str, folder: Path | None, values: bool) -> NoReturn:
    """Look at the ranks of this machine; judge what is seen, or keep it."""
    try:
        numbers = [int(pid) for pid in pids.replace(",", " ").split()]
    except ValueError:
        raise typer.BadParameter("--pids takes numbers of processes: --pids 4711,4712.") from None
    if not os.path.isdir("/proc/self/task"):
        _refuse("--attach reads /proc, which only Linux has.")
    try:
        told = snapshots(numbers)
    except NotAllowedError as error:
        _refuse(f"{error}. {_how_to_be_allowed()}")
    except UnreadableError as error:
        _refuse(str(error))
    if not told:
        _refuse(
            "No rank runs here: no process of yours has torch loaded and RANK set, or a variable called rank. "
            "--pids PID,PID names them."
        )
    if folder is not None:
        for each in told:
            path = save(each, folder, values=values)
            typer.echo(
                f"{len(each.now)} of {each.world_size} ranks seen: {path} ({path.stat().st_size // 1024 + 1} kB)"
            )
        typer.echo(f"Copy the files of all machines into one folder: ddp-course doctor --from {folder}")
        raise typer.Exit(0)
    _report([[each] for each in told])


def judge_saved(folder: Path) -> NoReturn:
    """Judge the files of `--save`."""
    try:
        told = read_saved(folder)
    except NotesError as error:
        _refuse(str(error))
    _report([told])


def _report(runs: Sequence[Sequence[Snapshot]]) -> NoReturn:
    findings = []
    for told in runs:
        found = judged(told)
        findings.append(found)
        if len(runs) > 1:
            typer.echo(f"Run {told[0].run}, {told[0].world_size} ranks:")
        show(_text(found, sum(len(each.now) for each in told)))
    typer.echo(versions_line())
    raise typer.Exit(1 if any(found.firm for found in findings) else 0)


def _text(found: Finding, ranks: int) -> str:
    if found.outcome is None or found.outcome.diagnosis is None:
        told = f"The ranks get on, as far as two looks at {ranks} of them tell."
        return "\n".join([told, *(f"  {line}" for line in found.recorded)])
    told = verdict_text(Examination(found.outcome, ()))
    if found.firm:
        return told
    seen = found.outcome.diagnosis
    lines = [
        f"No deadlock is seen so far. {seen.summary}",
        *(f"  {line}" for line in seen.evidence),
    ]
    return "\n".join(lines)


def _how_to_be_allowed() -> str:
    """What to run where ptrace is not allowed."""
    if os.geteuid() == 0:
        return "In a container, start it with `--cap-add SYS_PTRACE`, or run this on its host."
    return 'Run: sudo env "PATH=$PATH" ddp-course doctor --attach'


def _refuse(why: str) -> NoReturn:
    typer.echo(why, err=True)
    raise typer.Exit(2)
