"""A person's writing in a file. Running a notebook, or only opening it, changes the file, but nothing here."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Writing:
    """The writing in a file.

    Attributes:
        digest: the same for two files in which the same is written.
        ran: a notebook that holds outputs, of which the digest does not know.
    """

    digest: str
    ran: bool = False


def writing(name: str, content: bytes) -> Writing:
    """Return the content that counts: the text of a notebook's cells; of other files every byte.

    Outputs, numbers, ids and metadata are not writing: JupyterLab changes them by itself. Nor are empty cells: it adds
    one when the last cell is run.
    """
    if name.endswith(".ipynb"):
        try:
            cells = json.loads(content)["cells"]
            text = [part for cell in cells if (part := _text(cell)) is not None]
            ran = any(cell.get("outputs") for cell in cells)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return Writing(_digest(b"not a notebook", content))
        return Writing(_digest(b"notebook", json.dumps(text, sort_keys=True).encode()), ran)
    return Writing(_digest(b"file", content))


def _text(cell: dict[str, object]) -> list[object] | None:
    source = cell["source"]
    source = "".join(source) if isinstance(source, list) else str(source)
    attachments = cell.get("attachments") or {}
    return [cell["cell_type"], source, attachments] if source.strip() or attachments else None


def _digest(kind: bytes, content: bytes) -> str:
    return hashlib.sha256(kind + b"\0" + content).hexdigest()
