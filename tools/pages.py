"""Pages of docs/ that are made of the saved notebooks: written as a whole or not at all, and compared."""

import os
from pathlib import Path


def write_page(path: Path, text: str) -> None:
    """Write the page; a course without docs gets none."""
    if not path.parent.is_dir():
        return
    unfinished = path.with_suffix(f"{path.suffix}.part")
    unfinished.write_text(text, encoding="utf-8", newline="\n")
    os.replace(unfinished, path)


def is_up_to_date(path: Path, text: str) -> bool:
    """Return whether the page is this text; a course without docs has no page, and none that is old."""
    if not path.parent.is_dir():
        return True
    return path.is_file() and path.read_text(encoding="utf-8") == text
