"""Files that several ranks write: worth knowing, because they may take turns; and the cause of what a reader raises."""

from __future__ import annotations

import re

from realranks.doctor.notes import Notes, notes_of
from realranks.doctor.sentences import diagnosis
from realranks.doctor.words import rank_list
from realranks.outcome.fold import fold
from realranks.outcome.outcome import Diagnosis, Ending, Kind, Outcome, RankError
from realranks.outcome.places import place_name
from realranks.outcome.probe_notes import FileNotes

#: What a reader raises who finds half of a file, by class; those of zlib and of struct are both called `error`.
_TORN = {
    "EOFError",
    "UnpicklingError",
    "BadZipFile",
    "BadGzipFile",
    "JSONDecodeError",
    "SafetensorError",
    "error",
}
#: The same, by message; and what is raised of a whole file whose objects `torch.load` does not take.
_TORN_WORDS = r"PytorchStreamReader failed|truncated|Errno 22|cannot reshape array|EOF|unexpected pos"
_REFUSED = r"Unsupported (global|class|operand)"


def torn_file(outcome: Outcome) -> Diagnosis | None:
    """Detect a rank that could not read a file which other ranks of the machine write."""
    if outcome.kind is not Kind.RAISES or outcome.hosts:
        return None
    notes = notes_of(outcome)
    failed = {
        rank: _file_of(error, notes[rank].files)
        for rank, error in outcome.errors.items()
        if rank in notes and outcome.endings[rank] is Ending.RAISED and _of_half_a_file(error)
    }
    for path in dict.fromkeys(failed.values()):
        readers = {rank: outcome.errors[rank].where for rank in failed if failed[rank] == path}
        writers = _writers(notes, path, written=True)
        if any(set(readers) != {writer} for writer in writers):
            culprits = readers if len(readers) < len(outcome.ranks) else ()
            words = {"file": place_name(path), "ranks": readers, "where": next(iter(readers.values()))}
            return diagnosis(
                "file_not_whole.written", outcome, culprits, writers=writers, places=_places(writers), **words
            )
    return None


def _of_half_a_file(error: RankError) -> bool:
    torn = not _TORN.isdisjoint(error.bases) or re.search(_TORN_WORDS, error.message)
    return bool(torn) and not re.search(_REFUSED, error.message)


def _file_of(error: RankError, files: FileNotes) -> str:
    """Return the newest file that was opened at the line of the error, or else the newest of all."""
    at_line = [path for path, where in files.read.items() if where == error.where]
    return next(reversed(at_line or [*files.read]), "")


def same_file(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Detect a file that several ranks of a machine write with `torch.save`."""
    for path in dict.fromkeys(path for probe in notes.values() for path in probe.files.saved):
        writers = _writers(notes, path)
        if outcome.hosts or len(writers) < 2:
            continue
        read = next((p.files.read[path] for p in notes.values() if path in p.files.read), "")
        words = {
            "file": place_name(path),
            "places": _places(writers),
            "read": f"who reads it at {read} meanwhile" if read else "who reads it meanwhile",
        }
        return diagnosis("same_file", None, (), (), ranks=writers, **words)
    return None


def _writers(notes: Notes, path: str, *, written: bool = False) -> dict[int, str]:
    """Return the ranks that have saved a file (or, if `written`, opened it to write), with their lines."""
    found = {}
    for rank, probe in notes.items():
        lines = probe.files.saved | probe.files.written if written else probe.files.saved
        if path in lines:
            found[rank] = lines[path]
    return found


def _places(writers: dict[int, str]) -> str:
    rows = fold(writers)
    return (
        " and ".join(f"{rank_list(row.ranks)} at {row.text}" for row in rows)
        if len(rows) > 1
        else f"at {rows[0].text}"
    )
