"""`python -m course_lib.scripts.watcher`: the process that watches ranks which `torchrun` has started.

Started by `observe()` on the first rank that enters it; ends with the ranks. Writes the one report for all of them.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import sys
from dataclasses import replace
from pathlib import Path

from course_lib.doctor.diagnose import explained
from course_lib.doctor.words import capital, rank_list
from course_lib.outcome.outcome import Outcome
from course_lib.own_files import NotOurFileError, check_ours
from course_lib.ranks.attach.meeting import ONLY_JOB, AttachedRanks, NotAllCame, accept_ranks
from course_lib.ranks.codec import decode
from course_lib.ranks.kernel import run_job
from course_lib.ranks.kernel.interrupts import StopRequests
from course_lib.ranks.kernel.job import Job, Run
from course_lib.ranks.messages import Script
from course_lib.scripts.attached_run import AttachedRun
from course_lib.scripts.examine import Examination, checked, error_text, verdict_text
from course_lib.versions import versions_line

#: By its last line the course knows a report of its own again.
_MARK = "Watched by ddp-course"


def watch(ranks: AttachedRanks) -> Outcome:
    """Watch the ranks until all have left the block, ending a proved deadlock; returns the explained outcome."""
    job = Job(Script(""), timeout=float("inf"), repair=False)
    run = ranks.run = Run(
        job, ONLY_JOB, list(ranks.links), started_ns=min(link.started_ns for link in ranks.links)
    )
    outcome = run_job.follow(ranks, run, StopRequests())
    if outcome.ok:
        statuses = ranks.get_statuses(5.0, detail=True)
        outcome = replace(
            outcome, recorded={rank: status.records for rank, status in sorted(statuses.items())}
        )
    if any(error.type == "KeyboardInterrupt" for error in outcome.errors.values()):
        outcome = replace(outcome, interrupted=True)
    return explained(outcome)


def write_report(text: str, run: AttachedRun) -> None:
    """Put the report in its file, all at once; a restarted run's follows the one before."""
    path = Path(run.report)
    attempt = f", attempt {run.attempt + 1}" if run.attempt else ""
    title = f"{Path(run.script).name} on {run.world_size} ranks{attempt}"
    text = f"{title}\n\n{text}Watched by {versions_line()}\n"
    before = ""
    try:
        check_ours(path, _MARK)
    except NotOurFileError:
        number = next(n for n in itertools.count(2) if not path.with_stem(f"{path.stem}-{n}").exists())
        taken, path = path, path.with_stem(f"{path.stem}-{number}")
        print(f"course_lib.observe: {taken} is no report, and stays: see {path}", file=sys.stderr)
    if run.attempt and path.is_file():
        before = path.read_text(encoding="utf-8", errors="replace") + "\n"
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_text(before + text, encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        print(f"course_lib.observe: no report in {path}: {error.strerror}", file=sys.stderr)
        unfinished.unlink(missing_ok=True)


def main(run: AttachedRun) -> None:
    """Meet the ranks, watch them, say what is wrong with them, let them go."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # meant for the ranks; this process ends when they have
    try:
        with socket.socket(fileno=run.fd) as listener:
            links = accept_ranks(listener)
    except NotAllCame as error:
        late = capital(rank_list(error.missing))
        text = f"{late} did not come to observe() before the run ended: nothing was watched.\n"
        write_report(text, run)
        return
    finally:
        Path(run.address).unlink(missing_ok=True)
    ranks = AttachedRanks(links)
    try:
        outcome = watch(ranks)
        found = Examination(outcome, tuple(checked(outcome)))
        parts = [error_text(outcome), verdict_text(found)]
        text = "\n".join(filter(None, parts)) + "\n"
        write_report(text, run)
        if outcome.diagnosis is not None:
            print(f"\n{verdict_text(found)}", file=sys.stderr, flush=True)
    finally:
        ranks.say_goodbye()


if __name__ == "__main__":
    main(decode(AttachedRun, json.loads(sys.argv[1])))
