"""Run anybody's script on real ranks under observation, and say how it went."""

from __future__ import annotations

import codecs
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TextIO

from realranks.doctor.diagnose import with_diagnosis, without_progress
from realranks.doctor.notes import notes_of
from realranks.doctor.remarks import (
    compared_collectives,
    compared_inputs,
    compared_samples,
    compared_weights,
    not_looked_at,
    random_numbers,
    silent_about,
    without_gradient,
)
from realranks.doctor.resumed import resumed
from realranks.doctor.schedules import unfinished
from realranks.doctor.slowness import SLOW
from realranks.outcome.fold import rank_list, table
from realranks.outcome.outcome import Diagnosis, Kind, Outcome
from realranks.outcome.report import sections
from realranks.ranks.kernel.gang import Gang
from realranks.ranks.kernel.job import Job
from realranks.ranks.messages import Script
from realranks.ranks.observed.script_run import ScriptRun, run_script_once
from realranks.scripts.launching import Launcher, starts_its_ranks
from realranks.watch.around import as_around

#: In a shorter run, nothing is said of waiting.
_FEWEST_SECONDS = 0.2


@dataclass(frozen=True)
class Examination:
    """A script that was run: its outcome with the diagnosis, what was compared on the way, and the evidence for it."""

    outcome: Outcome
    checked: tuple[str, ...]
    run: ScriptRun | Outcome | None = None

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
    on_stage: Callable[[str], None] = lambda _: None,
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
        on_stage: called with what is waited for from now on, in words.
        launcher: who starts the ranks; by default that is read from the script (see `launching`).
        method: `spawn` starts each rank as torchrun does, in an interpreter of its own, which takes two seconds.
            `forkserver` takes milliseconds, and strings have the same hash on all ranks: a set of them the same order.

    Raises:
        GangError, LaunchError: the ranks cannot be started.
    """
    around = as_around(every, waiting)
    path = os.path.abspath(script)
    stalled = None if on_stall is None else lambda so_far: on_stall(without_progress(so_far))
    name = os.path.basename(path)
    if launcher is Launcher.SCRIPT or (launcher is Launcher.AUTO and starts_its_ranks(path)):
        job = Job(
            Script(path, tuple(arguments)),
            timeout=timeout,
            repair=False,
            around=around,
            patience=patience,
            on_stall=stalled,
        )
        on_stage(f"running {name}, which starts its ranks itself")
        return assess(run_script_once(job, (passthrough(out), passthrough(err)), method))
    interpreters = f"{ranks} Python interpreters, each of which loads" if ranks > 1 else "Python, which loads"
    on_stage(f"starting {interpreters} torch")
    gang = Gang(ranks, init=False, method=method)
    try:
        for link in gang.links:
            if out is not None:
                link.stdout.tee = _marked(link.rank, out)
            if err is not None:
                link.stderr.tee = _marked(link.rank, err)
        gang.wait_ready()
        on_stage(f"running {name} on {rank_list(range(ranks))}")
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
    return assess(outcome)


def assess(run: ScriptRun | Outcome) -> Examination:
    """Judge a watched run from its evidence alone."""
    outcome = most_relevant_outcome(run) if isinstance(run, ScriptRun) else with_diagnosis(run)
    return Examination(outcome, tuple(checked(outcome)), run)


def most_relevant_outcome(run: ScriptRun) -> Outcome:
    """Choose the outcome to report of a script that starts its ranks itself: a faulty one, or else the last."""
    sets = [with_diagnosis(outcome) for outcome in run.sets]
    warned = [outcome for outcome in sets if outcome.diagnosis is not None]
    faulty = [outcome for outcome in sets if not _is_sound(outcome)]
    if faulty:
        return faulty[0]
    if not run.script.ok or run.script.interrupted:
        return _of_no_rank(with_diagnosis(run.script))
    if not sets:
        return replace(run.script, diagnosis=_no_ranks(run.started))
    return warned[0] if warned else sets[-1]


def _is_sound(outcome: Outcome) -> bool:
    return outcome.kind is Kind.OK and (outcome.diagnosis is None or outcome.diagnosis.warning)


def _of_no_rank(outcome: Outcome) -> Outcome:
    """Reword the outcome of the process that runs a script and starts the ranks: it is not a rank."""
    found = outcome.diagnosis
    if found is None:
        return outcome

    def renamed(text: str) -> str:
        text = text.replace("Rank 0", "The process that starts the ranks")
        return text.replace("rank 0", "the process that starts the ranks")

    evidence = tuple(map(renamed, found.evidence))
    found = replace(found, summary=renamed(found.summary), evidence=evidence, advice=renamed(found.advice))
    return replace(outcome, diagnosis=found)


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


def passthrough(stream: TextIO | None) -> Callable[[bytes], None] | None:
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
    """Describe in sentences what was compared, if there was anything to compare."""
    notes = notes_of(outcome)
    if len(notes) < 2:
        return []
    every = list(notes.values())
    sentences = []
    sentences += compared_weights(notes)
    sentences += compared_samples(outcome)
    sentences += compared_inputs(notes)
    sentences += random_numbers(notes)
    sentences += compared_collectives(outcome)
    sentences += without_gradient(notes)
    sentences += unfinished(notes)
    counts = [each.counts for each in every]
    if counts[0].steps:
        span = sorted({count.steps for count in counts})
        sentences.append(f"{' or '.join(map(str, span))} optimizer steps on each rank")
    sentences += resumed(notes)
    return sentences


def waiting_sentence(outcome: Outcome) -> str:
    """State how long ranks waited for others, if no verdict does; it has times in it, and is not part of any report."""
    shares = {rank: probe.waiting for rank, probe in notes_of(outcome).items()}
    seconds = max((each.seconds for each in shares.values()), default=0.0)
    if seconds < _FEWEST_SECONDS or (outcome.diagnosis is not None and outcome.diagnosis.kind in SLOW):
        return ""
    parts = [f"rank {rank} {each.share:.0%}" for rank, each in shares.items()]
    return f"waiting for other ranks: {', '.join(parts)} of {seconds:.1f} s"


def verdict_text(examination: Examination) -> str:
    """Render the report: what happened in the first line, then the ranks side by side, then what to do."""
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
    """Render the tracebacks of ranks that raised, folded and cut to the script's own lines."""
    parts = [table(section.rows) for section in sections(outcome) if section.role == "error"]
    return "\n".join(parts)


__all__ = [
    "Examination",
    "assess",
    "checked",
    "error_text",
    "examine",
    "most_relevant_outcome",
    "passthrough",
    "verdict_text",
    "waiting_sentence",
]
