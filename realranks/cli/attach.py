"""`attach`, which is `doctor --attach`, too, and `--from` a folder of its files: the words and exit codes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from realranks import own_code
from realranks.cli.doctor_report import show
from realranks.cli.json_report import RUNNING, Judged, as_json, refuse, run_record, running_record
from realranks.ranks.external.pyspy import NotAllowedError, UnreadableError
from realranks.scripts.examine import Examination, verdict_text
from realranks.scripts.external import (
    Finding,
    Snapshot,
    assess_snapshots,
    by_run,
    read_saved,
    save,
    snapshots,
)
from realranks.scripts.machines import NotesError
from realranks.versions import versions_line

Pids = Annotated[str, typer.Option(metavar="PID,PID", help="The processes that are the ranks.")]
Keep = Annotated[
    Path | None,
    typer.Option("--save", metavar="FOLDER", help="Judge nothing; write what was seen into a file there."),
]
Values = Annotated[
    bool,
    typer.Option("--values", help="With --save: keep the text of lines and the values of variables, too."),
]
Ras = Annotated[
    bool,
    typer.Option(
        "--ras",
        help="Also ask NCCL's RAS service how many collectives each rank has launched. A thread of the ranks answers; "
        "some versions of NCCL have crashed over it.",
    ),
]
Saved = Annotated[
    Path | None,
    typer.Option(
        "--from", metavar="FOLDER", help="Look at nothing: judge the files of --save in this folder."
    ),
]
Json = Annotated[
    bool,
    typer.Option(
        "--json", help="Write the verdict to standard output as one JSON object, all else to standard error."
    ),
]


def attach(
    pids: Pids = "",
    keep: Keep = None,
    values: Values = False,
    ras: Ras = False,
    saved: Saved = None,
    json: Json = False,
) -> None:
    """Look at the ranks that run on this machine now, and explain a hang; reads only (py-spy, /proc).

    Exit code 0: they get on, as far as is seen; 1: a diagnosis is printed; 2: they could not be looked at.
    """
    with as_json(json):
        if saved is not None:
            judge_saved(saved)
        attached(pids, keep, values, ras)


def attached(pids: str, folder: Path | None, values: bool, ras: bool) -> NoReturn:
    """Look at the ranks of this machine; judge what is seen, or keep it."""
    try:
        numbers = [int(pid) for pid in pids.replace(",", " ").split()]
    except ValueError:
        raise typer.BadParameter("--pids takes numbers of processes: --pids 4711,4712.") from None
    if not os.path.isdir("/proc/self/task"):
        refuse("--attach reads /proc, which only Linux has.")
    try:
        found = snapshots(numbers, ras=ras)
    except NotAllowedError as error:
        refuse(f"{error}. {_how_to_be_allowed()}")
    except UnreadableError as error:
        refuse(str(error))
    if not found:
        refuse(
            "No rank runs here: no process of yours has torch loaded and RANK set, or a variable called rank. "
            "--pids PID,PID names them."
        )
    if folder is not None:
        for each in found:
            path = save(each, folder, values=values)
            typer.echo(
                f"{len(each.now)} of {each.world_size} ranks seen: {path} ({path.stat().st_size // 1024 + 1} kB)"
            )
        typer.echo(
            f"Copy the files of all machines into one folder: {own_code.command()} doctor --from {folder}"
        )
        raise typer.Exit(0)
    _report([[each] for each in found])


def judge_saved(folder: Path) -> NoReturn:
    """Judge the files of `--save`."""
    try:
        runs = by_run(read_saved(folder))
    except NotesError as error:
        refuse(str(error))
    if not runs:
        refuse(f"{folder} holds no file of --attach --save.")
    _report(runs)


def _report(runs: Sequence[Sequence[Snapshot]]) -> NoReturn:
    findings = []
    for run in runs:
        found = assess_snapshots(run)
        findings.append(found)
        if len(runs) > 1:
            typer.echo(f"Run {run[0].run}, {run[0].world_size} ranks:")
        show(_text(found, sum(len(each.now) for each in run)))
    typer.echo(versions_line())
    records = [_record(found, run) for found, run in zip(findings, runs, strict=True)]
    raise Judged(1 if any(found.firm for found in findings) else 0, records)


def _record(found: Finding, run: Sequence[Snapshot]) -> dict[str, Any]:
    name, world_size = run[0].run, run[0].world_size
    if found.outcome is None:
        return running_record(world_size, found.recorded, name)
    certainty = found.kind if found.kind in ("proved", "probable") else None
    record = run_record(found.outcome, certainty, found.recorded, name)
    return record if found.firm else {**record, "kind": RUNNING}


def _text(found: Finding, ranks: int) -> str:
    if found.outcome is None or found.outcome.diagnosis is None:
        text = f"The ranks get on, as far as two looks at {ranks} of them tell."
        return "\n".join([text, *(f"  {line}" for line in found.recorded)])
    text = verdict_text(Examination(found.outcome, ()))
    if found.firm:
        return text
    seen = found.outcome.diagnosis
    lines = [
        f"No deadlock is seen so far. {seen.summary}",
        *(f"  {line}" for line in seen.evidence),
    ]
    return "\n".join(lines)


def _how_to_be_allowed() -> str:
    """Return the advice for systems that forbid ptrace."""
    if os.geteuid() == 0:
        return "In a container, start it with `--cap-add SYS_PTRACE`, or run this on its host."
    return f'Run: sudo env "PATH=$PATH" {own_code.command()} doctor --attach'
