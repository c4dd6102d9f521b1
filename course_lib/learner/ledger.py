"""The ledger of files that the course put into a learner's copy: one JSON file in it, `.ddp-course/given.json`.

A file of the copy whose writing the ledger knows is the course's, and may be replaced. Everything else is the
learner's. So a ledger that is lost, damaged or of a later version of the course costs nobody their work: all files
count as changed.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

HIDDEN = ".ddp-course"
_FILE = "given.json"
_FORMAT = 1
_MAX_REMEMBERED = 200


@dataclass(frozen=True)
class Entry:
    """The course's actions at one path of the copy.

    Attributes:
        given: digests of all that the course has ever put there, noted before it is put there: whenever an update is
            interrupted, what it leaves is known.
        has: digest of the version which the learner's file began as.
        offered: digest of the version that was last put beside the learner's file.
        new_of: for a file that was put beside another one: the path of that one.
    """

    given: tuple[str, ...] = ()
    has: str = ""
    offered: str = ""
    new_of: str = ""

    def giving(self, digest: str) -> Entry:
        """Return this entry after a version was put there."""
        known = [each for each in self.given if each != digest]
        return dataclasses.replace(self, given=(*known, digest)[-_MAX_REMEMBERED:])


Ledger = dict[str, Entry]


def ledger_file(copy: Path) -> Path:
    """Return the file of this copy's ledger."""
    return copy / HIDDEN / _FILE


def read_ledger(copy: Path) -> Ledger:
    """Read the ledger of this copy; {} where there is none, or none that can be read."""
    try:
        content = json.loads(ledger_file(copy).read_text(encoding="utf-8"))
        if content["format"] != _FORMAT:
            return {}
        return {
            str(path): Entry(
                tuple(map(str, entry["given"])),
                str(entry["has"]),
                str(entry["offered"]),
                str(entry["new_of"]),
            )
            for path, entry in content["files"].items()
        }
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return {}


def ledger_text(ledger: Ledger) -> bytes:
    """Encode the ledger as it is written."""
    files = {path: dataclasses.asdict(entry) for path, entry in sorted(ledger.items())}
    return json.dumps({"format": _FORMAT, "files": files}, indent=1).encode()


def copy_around(folder: Path) -> Path | None:
    """Return the learner's copy that contains this folder, if there is one."""
    return next((each for each in (folder, *folder.parents) if ledger_file(each).is_file()), None)
