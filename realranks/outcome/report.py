"""An `Outcome` section by section, as text that is complete and the same on every run.

`sections` is the one place that decides what is shown and in which order; the notebook's HTML is drawn from the same
sections.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from realranks.outcome.expect import in_words
from realranks.outcome.fold import Folded, fold, rank_list, table
from realranks.outcome.outcome import Ending, Kind, Outcome, exit_text
from realranks.outcome.steady import steady, steady_log, steady_message


@dataclass(frozen=True)
class Section:
    """One part of the report.

    Attributes:
        role: `output`, `error`, `verdict`, `note` or `stderr`.
        headline: a sentence, or empty. rows: text by ranks. lines: free lines below.
    """

    role: str
    headline: str = ""
    rows: tuple[Folded, ...] = ()
    lines: tuple[str, ...] = ()


def sections(outcome: Outcome) -> list[Section]:
    """Split the report into sections in reading order: what happened comes before the tracebacks."""
    parts: list[Section] = []
    parts += [Section("output", rows=tuple(rows)) for rows in _output(outcome) if rows]
    verdict = _verdict(outcome)
    if verdict is not None:
        parts.append(verdict)
    own_errors = {
        rank: steady_message_in(error.traceback)
        for rank, error in outcome.errors.items()
        if outcome.endings.get(rank) is Ending.RAISED
        and not (outcome.interrupted and rank in outcome.waiting)
    }
    if own_errors:
        parts.append(Section("error", rows=tuple(fold(own_errors))))
    stderr = fold({rank: steady_log(text) for rank, text in outcome.stderr.items()})
    if stderr:
        parts.append(Section("stderr", "stderr", rows=tuple(stderr)))
    if outcome.notes or outcome.never_struck:
        parts.append(Section("note", lines=(*outcome.never_struck, *outcome.notes)))
    return parts


def steady_message_in(traceback: str) -> str:
    """Remove ports and build paths from the message at the end of a traceback."""
    head, newline, message = traceback.rpartition("\n")
    return steady(head) + newline + steady_message(message) if "\n" not in message else steady(traceback)


def _output(outcome: Outcome) -> list[list[Folded]]:
    """Fold what was printed, with the value below it, rank by rank.

    Values are folded separately if they fold better than the printed text.
    """
    printed = {rank: steady(outcome.stdout.get(rank, "")) for rank in outcome.ranks}
    values = {rank: steady(outcome.shown.get(rank, "")) for rank in outcome.ranks}
    if len(fold(values)) < len(fold(printed)):
        return [fold(printed), fold(values)]
    together = {}
    for rank in outcome.ranks:
        break_needed = printed[rank] and values[rank] and not printed[rank].endswith("\n")
        together[rank] = printed[rank] + ("\n" if break_needed else "") + values[rank]
    return [fold(together)]


def _verdict(outcome: Outcome) -> Section | None:
    quiet = outcome.kind is Kind.OK and not outcome.interrupted and outcome.diagnosis is None
    if quiet and outcome.expected is not False:
        return None
    verdict = _what_happened(outcome)
    if outcome.expected is None:
        return verdict
    mark = "✓ As expected: " if outcome.expected else "✗ Not expected: "
    return replace(verdict, headline=mark + verdict.headline)


def _what_happened(outcome: Outcome) -> Section:
    diagnosis = outcome.diagnosis
    if diagnosis is not None:
        lines = list(diagnosis.evidence)
        if diagnosis.advice:
            lines.append(f"What to do: {diagnosis.advice}")
        if diagnosis.lesson:
            lines.append(f"Taught in: {diagnosis.lesson}")
        head = "Worth knowing: " if diagnosis.warning else ""
        return Section("verdict", head + diagnosis.summary, lines=tuple(lines))
    if outcome.exits:
        ends = ", ".join(f"rank {rank}: {exit_text(code)}" for rank, code in outcome.exits.items())
        return Section("verdict", f"died: {ends}")
    if outcome.kind is Kind.HANG:
        return Section("verdict", f"hang: {rank_list(outcome.waiting)} did not finish")
    return Section("verdict", f"{in_words(outcome)}.")


def text_report(outcome: Outcome) -> str:
    """Render the whole report as plain text."""
    return as_text(sections(outcome)) or "(no output)"


def as_text(parts: Iterable[Section]) -> str:
    """Render sections of a report as plain text."""
    blocks = []
    for section in parts:
        lines = []
        if section.headline:
            lines.append(f"-- {section.headline} --" if section.role == "stderr" else section.headline)
        if section.rows:
            lines.append(table(section.rows))
        lines += [f"  {line}" if section.headline else line for line in section.lines]
        blocks.append("\n".join(lines))
    return "\n".join(blocks)
