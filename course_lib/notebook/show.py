"""Show an outcome: live while the cell runs, complete and stable when it is over."""

from __future__ import annotations

import base64
import os
import struct
import sys
from typing import TYPE_CHECKING

from course_lib.notebook.live import live_html, live_text
from course_lib.outcome.fold import rank_label
from course_lib.outcome.html import html_report
from course_lib.outcome.outcome import Outcome
from course_lib.outcome.progress import Progress

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.display import DisplayHandle
    from matplotlib.figure import Figure

#: Cells shorter than this show nothing before they end: no flicker.
_LIVE_AFTER = 0.4
#: What a PNG begins with; behind it come its chunks: length, kind, data, checksum.
_PNG = b"\x89PNG\r\n\x1a\n"


def _shell() -> InteractiveShell | None:
    """IPython's shell, in a kernel or a terminal; None elsewhere."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def in_notebook() -> bool:
    """True in an IPython session (a kernel or a terminal)."""
    return _shell() is not None


def this_cell() -> str | None:
    """The id of the cell that runs; None where whoever runs it does not tell (nbclient, a terminal)."""
    asks = getattr(_shell(), "get_parent", None)
    found = asks().get("metadata", {}).get("cellId") if asks is not None else None
    return str(found) if found else None


def can_update() -> bool:
    """False where outputs are saved or compared (`DDP_COURSE_LIVE=0`).

    nbval keeps a display's first state and ignores what replaces it; a silent cell that takes long would leave
    "(no output)" behind.
    """
    return hasattr(_shell(), "kernel") and os.environ.get("DDP_COURSE_LIVE") != "0"


def register() -> None:
    """Have IPython, where this runs in one, show outcomes as HTML, and say in words what figures show."""
    shell = _shell()
    if shell is not None and shell.display_formatter is not None:
        shell.display_formatter.formatters["text/html"].for_type(Outcome, html_report)
        shell.display_formatter.mimebundle_formatter.for_type_by_name(
            "matplotlib.figure", "Figure", _with_alternative_text
        )


def _with_alternative_text(figure: Figure) -> tuple[dict[str, object], dict[str, object]]:
    """No picture, which IPython makes itself, but what goes into its metadata: exports and screen readers have it."""
    from course_lib.draw.described import described  # a kernel that draws nothing does without

    return {}, {"image/png": {"alt": described(figure)}}


class View:
    """One place in the output area: progress while the ranks run, then the outcome in its stead."""

    def __init__(self) -> None:
        self._handle: DisplayHandle | None = None
        self._live = can_update()

    def progress(self, progress: Progress) -> None:
        """Show how far the ranks are; called while they run."""
        if not self._live or progress.seconds < _LIVE_AFTER:
            return
        self._publish({"text/plain": live_text(progress), "text/html": live_html(progress)})

    def finish(self, outcome: Outcome) -> None:
        """Put the outcome where the progress was, and the pictures below."""
        nothing = outcome.ok and repr(outcome) == "(no output)"
        if nothing and self._handle is None:
            pass
        elif in_notebook():
            self._publish({"text/plain": repr(outcome), "text/html": html_report(outcome)})
        else:
            print(outcome, flush=True)
        owners: dict[bytes, list[int]] = {}
        for rank, pictures in sorted(outcome.pictures.items()):
            for picture in pictures:
                owners.setdefault(picture, []).append(rank)
        for picture, ranks in owners.items():
            self._picture(rank_label(ranks), picture)

    def _publish(self, bundle: dict[str, str]) -> None:
        from IPython.display import display

        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)

    @staticmethod
    def _picture(owner: str, png: bytes) -> None:
        if in_notebook():
            from IPython.display import display

            bundle = {"text/plain": f"<figure of {owner}>", "image/png": base64.b64encode(png).decode()}
            words = description_in(png)
            display(bundle, metadata={"image/png": {"alt": words}} if words else None, raw=True)


def description_in(png: bytes) -> str:
    """The text that a PNG has under the keyword `Description` (PNG specification, section 11.3.4); "" for none."""
    place = len(_PNG)
    while png.startswith(_PNG) and place + 8 <= len(png):
        length, kind = struct.unpack_from(">I4s", png, place)
        keyword, _, text = png[place + 8 : place + 8 + length].partition(b"\0")
        if keyword == b"Description" and kind == b"tEXt":
            return text.decode("latin-1")
        if keyword == b"Description" and kind == b"iTXt" and text[:1] == b"\0":  # not compressed
            return text[2:].split(b"\0", 2)[-1].decode()  # behind the language and the translated keyword
        place += length + 12
    return ""


def show_html(text: str, html: str) -> None:
    """Show something that has a text and an HTML form; prints the text where there is no notebook."""
    if in_notebook():
        from IPython.display import display

        display({"text/plain": text, "text/html": html}, raw=True)
    else:
        print(text, flush=True)
