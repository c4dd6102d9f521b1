"""Files that several ranks write: worth knowing, because they may take turns; and the cause of what a reader raises."""

from __future__ import annotations

from collections.abc import Iterator

from realranks.doctor.notes import Notes, notes_of
from realranks.doctor.sentences import diagnosis
from realranks.doctor.words import rank_list
from realranks.outcome.fold import fold
from realranks.outcome.outcome import Diagnosis, Ending, Kind, Outcome
from realranks.outcome.places import place_name


def torn_file(outcome: Outcome) -> Diagnosis | None:
    """Detect a rank that could not read a file which several ranks of the machine write."""
    if outcome.kind is not Kind.RAISES:
        return None
    notes = notes_of(outcome)
    for path, writers in _written_together(outcome, notes):
        readers = {
            rank: error.where
            for rank, error in outcome.errors.items()
            if outcome.endings[rank] is Ending.RAISED
            and rank in notes
            and notes[rank].files.loaded.get(path) == error.where
        }
        if readers:
            words = {"file": place_name(path), "ranks": readers, "where": next(iter(readers.values()))}
            culprits = readers if len(readers) < len(outcome.ranks) else ()
            return diagnosis(
                "file_not_whole.written", outcome, culprits, writers=writers, places=_places(writers), **words
            )
    return None


def same_file(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Detect a file that several ranks of a machine write with `torch.save`."""
    for path, writers in _written_together(outcome, notes):
        read = next((p.files.loaded[path] for p in notes.values() if path in p.files.loaded), "")
        words = {
            "file": place_name(path),
            "places": _places(writers),
            "read": f"who reads it at {read} meanwhile" if read else "who reads it meanwhile",
        }
        return diagnosis("same_file", None, (), (), ranks=writers, **words)
    return None


def _written_together(outcome: Outcome, notes: Notes) -> Iterator[tuple[str, dict[int, str]]]:
    """Yield the files that several ranks have written, with their lines; none of ranks on several machines."""
    paths = (
        () if outcome.hosts else dict.fromkeys(path for probe in notes.values() for path in probe.files.saved)
    )
    for path in paths:
        writers = {
            rank: probe.files.saved[path] for rank, probe in notes.items() if path in probe.files.saved
        }
        if len(writers) > 1:
            yield path, writers


def _places(writers: dict[int, str]) -> str:
    return " and ".join(f"{rank_list(row.ranks)} at {row.text}" for row in fold(writers))
