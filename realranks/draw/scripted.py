"""A picture in a page, and the script that makes buttons and more beside it: nothing is loaded from elsewhere.

It works in a notebook that has just run and in an exported page, without a kernel. Where scripts are not run, the
picture is left.
"""

from __future__ import annotations

import json
import zlib
from functools import cache
from html import escape
from pathlib import Path


def scripted(
    script: str, label: str, width: float, image: str, data: object, folder: Path = Path(__file__).parent
) -> str:
    """Build an element with its script.

    Args:
        script: `replay` or `stepper`; a file of the folder that holds a function of the element's id and the data.
        label: names the group of buttons for screen readers.
        width: pixels that the element takes where there is room.
        image: what is left where scripts are not run; an `<img>`, because a page that is not trusted drops `<svg>`.
        folder: where the script is; this one.
    """
    written = _json(data)
    code = _source(folder / f"{script}.js")
    name = f"ddp-{script}-{zlib.crc32((label + image + written).encode()):08x}"
    return (
        f'<div id="{name}" role="group" aria-label="{escape(label)}" data-lm-suppress-shortcuts="true" '
        f'style="max-width: {width:g}px">\n{image}\n'
        f"<script>({code})({_json(name)}, {written});</script>\n</div>"
    )


@cache
def _source(path: Path) -> str:
    return path.read_text(encoding="utf-8").strip().rstrip(";")


def _json(value: object) -> str:
    """Convert to JavaScript for a script element; nothing in it can end the element."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
