"""Run anybody's script on real ranks under observation, and say how it went."""

from __future__ import annotations

import codecs
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TextIO

from course_lib.doctor.diagnose import explained, without_progress
from course_lib.doctor.notes import notes_of
from course_lib.doctor.remarks import (
    compared_collectives,
    compared_samples,
    compared_weights,
    not_looked_at,
    silent_about,
    without_gradient,
)
from course_lib.outcome.fold import rank_list, table
from course_lib.outcome.outcome import Diagnosis, Kind, Outcome
from course_lib.outcome.probe_notes import WaitingShare
from course_lib.outcome.report import sections
from course_lib.ranks.attach.script_run import ScriptRun, run_script_once
from course_lib.ranks.kernel.gang import Gang
from course_lib.ranks.kernel.job import Job
from course_lib.ranks.messages import Script
from course_lib.scripts.launching import Launcher, starts_its_ranks
from course_lib.watch.around import as_around

#: Shares of the time a rank waits, and seconds, from which on a report says for whom the others wait.
_MOST_OF_THE_TIME, _HARDLY, _LONG_ENOUGH = 0.5, 0.15, 2.0


@dataclass(frozen=True)
class Examination:
    """A script that was run: its outcome with the diagnosis, and what was compared on the way."""

    outcome: Outcome
    checked: tuple[str, ...]

    @property
    def sound(self) -> bool:
        """True when nothing is wrong: no error, no hang, no difference between ranks (warnings apart)."""
        return _is_sound(self.outcome)


def examine(
    script: str,
    arguments: Sequence[str] = (),
    *,
    ranks: int = 2,
    every: int = 50,
    timeout: float = math.inf,
    waiting: bool = True,
    patience: float = math.inf,
    on_stall: Callable[[Diagnosis], None] | None = None,
    out: TextIO | None = None,
    err: TextIO | None = None,
    launcher: Launcher = Launcher.AUTO,
    method: str = "spawn",
) -> Examination:
    """Run a script on `ranks` ranks as `torchrun` would, and watch what they do.

    A script that starts its ranks itself (`torch.multiprocessing.spawn`, or one `Process` per rank) runs once, in one
    process, and the processes it starts are watched; how many ranks there are is then the script's own business.

    Args:
        script: the file; it runs as `__main__`, with `arguments` as `sys.argv[1:]` and its folder first in `sys.path`.
        every: weights are compared at steps 0-8, 16, 32, every so many steps, and at the end.
        timeout: seconds until it is stopped. A deadlock is proved without one.
        patience: seconds in which no rank has issued a collective or made a step, after which `on_stall` is called with
            what each rank is doing, and the script goes on; without `on_stall` it is ended then.
        waiting: sample how long ranks wait for each other.
        out, err: where lines the ranks write are passed on to as they come, marked with the rank. What a script writes
            that starts its ranks itself is passed on as it is.
        launcher: who starts the ranks; by default that is read from the script (see `launching`).
        method: `spawn` starts each rank as torchrun does, in an interpreter of its own, which takes two seconds.
            `forkserver` takes milliseconds, and strings have the same hash on all ranks: a set of them the same order.

    Raises:
        GangError, LaunchError: the ranks cannot be started.
    """
    around = as_around(every, waiting)
    path = os.path.abspath(script)
    stalled = None if on_stall is None else lambda so_far: on_stall(without_progress(so_far))
    if launcher is Launcher.SCRIPT or (launcher is Launcher.AUTO and starts_its_ranks(path)):
        job = Job(
            Script(path, tuple(arguments)),
            timeout=timeout,
            repair=False,
            around=around,
            patience=patience,
            on_stall=stalled,
        )
        outcome = of_interest(run_script_once(job, (as_it_is(out), as_it_is(err)), method))
        return Examination(outcome, tuple(checked(outcome)))
    gang = Gang(ranks, init=False, method=method)
    try:
        for link in gang.links:
            if out is not None:
                link.stdout.tee = _marked(link.rank, out)
            if err is not None:
                link.stderr.tee = _marked(link.rank, err)
        outcome = gang.run_script(
            path,
            arguments,
            timeout=timeout,
            around=around,
            repair=False,
            patience=patience,
            on_stall=stalled,
        ).settled()
    finally:
        gang.stop()
    outcome = explained(outcome)
    return Examination(outcome, tuple(checked(outcome)))


def of_interest(run: ScriptRun) -> Outcome:
    """Of all that a script has done that starts its ranks itself: what is wrong, or else how its last ranks went."""
    sets = [explained(outcome) for outcome in run.sets]
    warned = [outcome for outcome in sets if outcome.diagnosis is not None]
    faulty = [outcome for outcome in sets if not _is_sound(outcome)]
    if faulty:
        return faulty[0]
    if not run.script.ok or run.script.interrupted:
        return _of_no_rank(explained(run.script))
    if not sets:
        return replace(run.script, diagnosis=_no_ranks(run.started))
    return warned[0] if warned else sets[-1]


def _is_sound(outcome: Outcome) -> bool:
    return outcome.kind is Kind.OK and (outcome.diagnosis is None or outcome.diagnosis.warning)


def _of_no_rank(outcome: Outcome) -> Outcome:
    """The outcome of the process that runs a script and starts the ranks: it is none of them."""
    told = outcome.diagnosis
    if told is None:
        return outcome

    def renamed(text: str) -> str:
        text = text.replace("Rank 0", "The process that starts the ranks")
        return text.replace("rank 0", "the process that starts the ranks")

    evidence = tuple(map(renamed, told.evidence))
    told = replace(told, summary=renamed(told.summary), evidence=evidence, advice=renamed(told.advice))
    return replace(outcome, diagnosis=told)


def _no_ranks(started: int) -> Diagnosis:
    processes = (
        "started no process"
        if not started
        else "started processes, and none of them has joined a process group"
    )
    return Diagnosis(
        "no_ranks",
        f"The script has ended and has {processes}: there were no ranks to watch.",
        advice="where the number of processes is torch.cuda.device_count(), it is 0 on a machine without GPUs. Under "
        "torchrun, or with the option --launcher torchrun, the launcher gives the number."
        if not started
        else "each process that is to be a rank calls init_process_group.",
    )


def as_it_is(stream: TextIO | None) -> Callable[[bytes], None] | None:
    """Pass on what comes at once."""
    if stream is None:
        return None
    decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(chunk: bytes) -> None:
        stream.write(decoder.decode(chunk))
        stream.flush()

    return write


def _marked(rank: int, stream: TextIO) -> Callable[[bytes], None]:
    """Pass on complete lines as they come, each with its rank in front."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    pending = ""

    def write(chunk: bytes) -> None:
        nonlocal pending
        *lines, pending = (pending + decoder.decode(chunk)).split("\n")
        stream.writelines(f"[rank {rank}] {line}\n" for line in lines)
        if lines:
            stream.flush()

    return write


def checked(outcome: Outcome) -> list[str]:
    """What was compared, in sentences; only where there was something to compare."""
    notes = notes_of(outcome)
    if len(notes) < 2:
        return []
    told = list(notes.values())
    sentences = []
    sentences += compared_weights(notes)
    sentences += compared_samples(notes)
    sentences += compared_collectives(outcome)
    sentences += without_gradient(notes)
    counts = [each.counts for each in told]
    if counts[0].steps:
        span = sorted({count.steps for count in counts})
        sentences.append(f"{' or '.join(map(str, span))} optimizer steps on each rank")
    return sentences


def waiting_sentence(outcome: Outcome) -> str:
    """How long ranks waited for others; the only sentence with times in it, and not part of any report."""
    shares = {rank: told.waiting for rank, told in notes_of(outcome).items()}
    if not shares or max(each.seconds for each in shares.values()) < 0.2:
        return ""
    parts = [f"rank {rank} {each.share:.0%}" for rank, each in shares.items()]
    seconds = max(each.seconds for each in shares.values())
    return f"waiting for other ranks: {', '.join(parts)} of {seconds:.1f} s{_waited_for(shares)}"


def _waited_for(shares: Mapping[int, WaitingShare]) -> str:
    """A clause about the one rank for which all others wait most of the time, and at which line it is meanwhile."""
    late = min(shares, key=lambda rank: shares[rank].share)
    told = shares[late]
    others = [each.share for rank, each in shares.items() if rank != late]
    if not others or min(others) < _MOST_OF_THE_TIME or told.share > _HARDLY or told.seconds < _LONG_ENOUGH:
        return ""
    does = "sleeps, or waits for data" if told.asleep > _MOST_OF_THE_TIME else "computes"
    at = f" ({told.line} in {told.at_line:.0%} of its time)" if told.line else ""
    return f". The others wait most of the time for rank {late}, which {does}{at}"


def verdict_text(examination: Examination) -> str:
    """The report: what happened in the first line, then the ranks side by side, then what to do."""
    outcome, diagnosis = examination.outcome, examination.outcome.diagnosis
    lines = []
    if diagnosis is not None:
        lines.append(f"{'Worth knowing' if diagnosis.warning else 'Diagnosis'}: {diagnosis.summary}")
        lines += [f"  {line}" for line in diagnosis.evidence]
        if diagnosis.advice:
            lines.append(f"What to do: {diagnosis.advice}")
        if diagnosis.lesson:
            lines.append(f"Taught in: {diagnosis.lesson}")
        lines.append(f"[{diagnosis.kind}]")
    if examination.sound:
        other = "" if diagnosis is None else "other "
        but = silent_about(outcome) if diagnosis is None else ""
        lines.append(f"No {other}fault found on {rank_list(outcome.ranks)}{but}.")
        lines += [f"  {sentence}" for sentence in examination.checked]
    lines += [f"  {sentence}" for sentence in not_looked_at(outcome)]
    return "\n".join(lines)


def error_text(outcome: Outcome) -> str:
    """The tracebacks of ranks that raised, folded, cut to the script's own lines."""
    parts = [table(section.rows) for section in sections(outcome) if section.role == "error"]
    return "\n".join(parts)


__all__ = [
    "Examination",
    "as_it_is",
    "checked",
    "error_text",
    "examine",
    "of_interest",
    "verdict_text",
    "waiting_sentence",
]
