"""`python -m realranks.scripts.watcher`: the process that watches ranks which `torchrun` has started.

Started by `observe()` on the first rank that enters it; ends with the ranks. Writes the one report for all of them.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import signal
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path

from realranks import own_code
from realranks.doctor.diagnose import with_diagnosis
from realranks.doctor.words import at_line, capital, rank_list
from realranks.outcome.fold import fold, rank_label
from realranks.outcome.outcome import EXIT_UNKNOWN, Ending, Outcome
from realranks.outcome.report import as_text, sections
from realranks.own_files import NotOurFileError, check_ours, write_whole
from realranks.ranks.codec import decode
from realranks.ranks.kernel.follow_job import follow
from realranks.ranks.kernel.interrupts import StopRequests
from realranks.ranks.kernel.job import Job, Run, collect, lost_a_peer
from realranks.ranks.kernel.stop_ranks import end
from realranks.ranks.messages import JobReply, Script, StatusReply, StatusRequest
from realranks.ranks.observed.meeting import ONLY_JOB, AttachedRanks, NotAllCame, accept_ranks
from realranks.ranks.status import RankStatus
from realranks.scripts.attached_run import AttachedRun
from realranks.scripts.examine import Examination, checked, error_text, verdict_text
from realranks.scripts.machines import (
    Notebook,
    NotesError,
    outcome_of,
    tell_verdict,
    verdict_on,
)
from realranks.versions import versions_line

#: By its last line the course knows a report of its own again.
_MARK = "Watched by ddp-course"
#: How often the ranks of one machine of several are asked, and how long they may take to say where they are.
_MACHINE_SECONDS, _LOOK_SECONDS = 1.0, 5.0
#: How long ranks that are through wait for machines of which nothing new is heard.
_OTHERS_SECONDS = 30.0


def watch(ranks: AttachedRanks) -> Outcome:
    """Watch the ranks until all have left the block, ending a proved deadlock; returns the explained outcome."""
    job = Job(Script(""), timeout=float("inf"), repair=False)
    run = ranks.run = Run(
        job, ONLY_JOB, list(ranks.links), started_ns=min(link.started_ns for link in ranks.links)
    )
    outcome = follow(ranks, run, StopRequests())
    if outcome.ok:
        statuses = ranks.get_statuses(5.0, detail=True)
        outcome = replace(
            outcome, recorded={rank: status.records for rank, status in sorted(statuses.items())}
        )
    if any(error.type == "KeyboardInterrupt" for error in outcome.errors.values()):
        outcome = replace(outcome, interrupted=True)
    return with_diagnosis(outcome)


def watch_machine(ranks: AttachedRanks, attached: AttachedRun) -> Outcome | None:
    """Watch the ranks of this machine, one of several, until the job has been judged or nothing more comes of it.

    Returns the explained outcome of the whole job on the machine that has rank 0; None on others, and where files of
    others do not come.
    """
    job = Job(Script(""), timeout=float("inf"), repair=False)
    run = Run(job, ONLY_JOB, list(ranks.links), started_ns=min(link.started_ns for link in ranks.links))
    try:
        book = Notebook(
            Path(attached.folder),
            attached.name,
            attached.attempt,
            attached.script,
            attached.world_size,
            ranks.links,
        )
    except NotesError as error:
        print(f"observe: nothing is watched: {error}", file=sys.stderr)
        return None
    last: dict[int, RankStatus] = {}
    others: dict[int, int] = {}
    heard = time.monotonic()
    over = settled = False
    while True:
        _pump(ranks, _MACHINE_SECONDS)
        # Before anything is written: what comes of ranks that have been freed elsewhere does not belong into the file.
        if (hang := verdict_on(book)) is not None:
            _free(ranks, run, hang=hang)
            return None
        collect(run)
        if not settled:
            replies = ranks.ask(StatusRequest(brief=True), StatusReply, 1.0)
            now = {rank: reply.status for rank, reply in replies.items()}
            running = [link.rank for link in run.running()]
            over = not running
            if over or all(
                rank in now and rank in last and now[rank].same_place(last[rank]) for rank in running
            ):
                book.look(ranks, _LOOK_SECONDS)
                collect(run)
            else:
                book.forget_looks()
            last = now
            book.write(run)
            settled = over and book.still
        found = {notes.machine: notes.over or notes.written_ns for notes in book.others()}
        if found != others or not over:
            others, heard = found, time.monotonic()
        if attached.ranks[0] == 0:
            with contextlib.suppress(NotesError):  # until all machines have written
                machines = book.all()
                outcome = outcome_of(machines)
                if outcome is not None and (outcome.proved or all(notes.over for notes in machines)):
                    tell_verdict(book, hang=outcome.proved)
                    _free(ranks, run, hang=outcome.proved)
                    return outcome
        if over and time.monotonic() - heard > _OTHERS_SECONDS:
            print(
                f"observe: there is no word of all machines in {book.folder}. Copy their files into one "
                f"folder: `{own_code.command()} doctor --from FOLDER` then says what has happened.",
                file=sys.stderr,
            )
            return None


def watch_tests(ranks: AttachedRanks) -> None:
    """Watch the ranks of a test suite from meeting to meeting: the first is after the collection, then after each test.

    A test in which they hang is ended, and its verdict goes to all ranks; to standard error if one is gone.
    """
    stop = StopRequests()
    over: dict[int, JobReply] = {}
    tests: list[str] = []
    text = ""
    for number in itertools.count(1):
        job = Job(Script(""), timeout=float("inf"), repair=False)
        run = ranks.run = Run(job, number, list(ranks.links), done=dict(over))
        if number == 1:
            run.started_ns = min(link.started_ns for link in ranks.links)
        else:
            ranks.go_on(number, text)
        outcome = follow(ranks, run, stop)
        over = {rank: done for rank, done in run.done.items() if done.last}
        text = _hang_text(outcome) if run.proved or outcome.exits else ""
        # A launcher that was stopped itself ends all of its ranks: that is no news.
        died = run.killed or set(outcome.exits.values()) - {-signal.SIGTERM, EXIT_UNKNOWN}
        if text and died:
            name = tests[number - 2] if number > 1 and tests else "The collection of tests"
            print(f"\n{name}\n{text}", file=sys.stderr, flush=True)
        if outcome.exits or run.killed or len(over) == len(ranks.links):
            ranks.say_goodbye(text)
            return
        if number == 1 and not text:
            collected = {done.shown or "" for done in run.done.values() if not done.last}
            if len(collected) > 1:
                print("The ranks have collected different tests: they are not watched.", file=sys.stderr)
                return
            tests = collected.pop().splitlines()


def _hang_text(outcome: Outcome) -> str:
    found = with_diagnosis(replace(outcome, what="test"))
    text = as_text(part for part in sections(found) if part.role == "verdict")
    # A fixture that waits for the others while it is torn down hides the failure before it.
    failed = {
        rank: f"{error.type}{at_line(error.where)}"
        for rank, error in found.errors.items()
        if found.endings[rank] is Ending.FREED and not lost_a_peer(error.message)
    }
    earlier = [f"  before that, {rank_label(part.ranks)} had raised {part.text}" for part in fold(failed)]
    return "\n".join([text, *earlier])


def _pump(ranks: AttachedRanks, seconds: float) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        ranks.pump(left)


def _free(ranks: AttachedRanks, run: Run, *, hang: bool) -> None:
    if hang:
        run.proved = True
        end(ranks, run, "deadlock", free_first=True)


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
        print(f"observe: {taken} is no report, and stays: see {path}", file=sys.stderr)
    if run.attempt and path.is_file():
        before = path.read_text(encoding="utf-8", errors="replace") + "\n"
    try:
        write_whole(path, before + text)
    except OSError as error:
        print(f"observe: no report in {path}: {error.strerror}", file=sys.stderr)


def main(run: AttachedRun) -> None:
    """Meet the ranks, watch them, say what is wrong with them, let them go."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # meant for the ranks; this process ends when they have
    try:
        with socket.socket(fileno=run.fd) as listener:
            links = accept_ranks(listener, run.ranks)
    except NotAllCame as error:
        if run.tests:
            return  # a rank that has refused to start; pytest has said why
        late = capital(rank_list(error.missing))
        text = f"{late} did not come to observe() before the run ended: nothing was watched.\n"
        write_report(text, run)
        return
    finally:
        Path(run.address).unlink(missing_ok=True)
    ranks = AttachedRanks(links)
    try:
        if run.tests:
            watch_tests(ranks)
            return
        outcome = watch_machine(ranks, run) if run.folder else watch(ranks)
        if outcome is None:
            return
        found = Examination(outcome, tuple(checked(outcome)))
        parts = [error_text(outcome), verdict_text(found)]
        text = "\n".join(filter(None, parts)) + "\n"
        write_report(text, run)
        if outcome.diagnosis is not None:
            print(f"\n{verdict_text(found)}", file=sys.stderr, flush=True)
    except OSError as error:
        print(f"observe: the ranks are not watched any more: {error}", file=sys.stderr)
    finally:
        ranks.say_goodbye()


if __name__ == "__main__":
    main(decode(AttachedRun, json.loads(sys.argv[1])))
