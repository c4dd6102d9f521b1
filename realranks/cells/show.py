"""Show an outcome: live while the cell runs, complete and stable when it is over."""

from __future__ import annotations

import base64
import os
import struct
import sys
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from realranks.cells.live import live_html, live_text
from realranks.draw.described import described
from realranks.draw.drawing import image
from realranks.outcome.fold import rank_label
from realranks.outcome.html import html_report, note, panel
from realranks.outcome.outcome import Outcome
from realranks.outcome.progress import Progress

if TYPE_CHECKING:
    import ipywidgets
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.display import DisplayHandle
    from matplotlib.figure import Figure

#: Cells shorter than this show nothing before they end: no flicker.
_LIVE_AFTER = 0.4
#: The same for answers: most are graded sooner, on a machine that is not busy.
_TRIALS_AFTER = 1.5
#: An output that takes no room: JupyterLab would give an empty one a line, because its prompt has one.
_NO_ROOM = "<style>.jp-OutputArea-child:has([data-ddp-over]) { display: none }</style><i data-ddp-over></i>"
#: What rewrites the HTML that a learner sees (`rewrite_html`).
_REWRITERS: list[Callable[[str], str]] = []
#: What a PNG begins with; behind it come its chunks: length, kind, data, checksum.
_PNG = b"\x89PNG\r\n\x1a\n"


def widget_view(widget: ipywidgets.Widget) -> dict[str, object]:
    """Return the MIME bundle that shows this widget, to be combined with other types (ipywidgets 7 makes none)."""
    view = {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}
    return {"application/vnd.jupyter.widget-view+json": view}


def _shell() -> InteractiveShell | None:
    """Return IPython's shell, in a kernel or a terminal; None elsewhere."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def in_notebook() -> bool:
    """Check for an IPython session (a kernel or a terminal)."""
    return _shell() is not None


def _request() -> dict[str, Any]:
    """Return the message that made this cell run; empty if there is none (a terminal)."""
    asks = getattr(_shell(), "get_parent", None)
    return asks() if asks is not None else {}


def this_cell() -> str | None:
    """Return the id of the running cell; None if the client does not send it (nbclient, a terminal)."""
    found = _request().get("metadata", {}).get("cellId")
    return str(found) if found else None


def sent_before(moment: datetime) -> bool:
    """Check whether this cell was sent to the kernel before that moment: several cells were run at once."""
    sent = _request().get("header", {}).get("date")
    return isinstance(sent, datetime) and sent < moment


def is_attended() -> bool:
    """Check for a learner at the notebook, rather than a run whose outputs are saved or compared (`DDP_COURSE_LIVE=0`).

    Unattended, no question is asked and no display replaced: nbval keeps a display's first state and ignores later
    ones, so a silent slow cell would leave "(no output)" behind.
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
    """Add the alternative text to IPython's picture: in its metadata for exports, and as HTML for JupyterLab.

    JupyterLab shows `image/png` without alternative text. If IPython makes no picture, none is made here.
    """
    words = described(figure)
    formatter = getattr(_shell(), "display_formatter", None)
    made = formatter.formatters["image/png"](figure) if formatter is not None else None
    png, more = made if isinstance(made, tuple) else (made, {})
    return _picture(words, png, more) if isinstance(png, str) else ({}, {"image/png": {"alt": words}})


def _picture(words: str, png: str, more: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    """Build the bundle and metadata to display a picture, given in base64."""
    data = "".join(png.split())
    return {"image/png": data, "text/html": image(words, "png", data)}, {"image/png": {**more, "alt": words}}


class OutputSlot:
    """One place in the output area: progress while something runs, then what came of it in its stead."""

    def __init__(self) -> None:
        self._handle: DisplayHandle | None = None
        self._live = is_attended()

    @property
    def used(self) -> bool:
        """True when something stands there."""
        return self._handle is not None

    def progress(self, text: str, html: str) -> None:
        """Show how far it is, where that can be replaced afterwards."""
        if self._live:
            self._publish(text, html)

    def finish(self, text: str, html: str) -> None:
        """Put what came of it where the progress was; prints the text where there is no notebook."""
        if in_notebook():
            self._publish(text, html)
        else:
            print(text, flush=True)

    def remove(self) -> None:
        """Leave nothing to be seen of the progress; Jupyter cannot take one of a cell's outputs away."""
        if self._handle is not None:
            self._handle.update({"text/plain": "", "text/html": _NO_ROOM}, raw=True)

    def _publish(self, text: str, html: str) -> None:
        from IPython.display import display

        bundle = _bundle(text, html)
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


class Trials:
    """The progress of grading an answer, shown where the verdict will be."""

    def __init__(self) -> None:
        self._slot = OutputSlot()
        self._started = time.monotonic()
        self._begun: dict[str, float] = {}

    def tell(self, what: str, done: int, in_all: int) -> None:
        """Show how far this is ("trials are done"), once all together has taken a while."""
        now = time.monotonic()
        took = now - self._begun.setdefault(what, now if self._begun else self._started)
        if now - self._started < _TRIALS_AFTER or done == in_all:
            return
        left = took / done * (in_all - done)
        text = f"checking … {done} of {in_all} {what}, still about {left:.0f} s"
        self._slot.progress(text, panel(note(text)))

    def finish(self, text: str, html: str) -> None:
        """Replace the progress by the verdict."""
        self._slot.finish(text, html)


class View:
    """The progress of a cell's ranks, and then the outcome in the same place."""

    def __init__(self) -> None:
        self._slot = OutputSlot()

    def progress(self, progress: Progress) -> None:
        """Show how far the ranks are; called while they run."""
        if progress.seconds >= _LIVE_AFTER:
            self._slot.progress(live_text(progress), live_html(progress))

    def finish(self, outcome: Outcome) -> None:
        """Put the outcome where the progress was, and the pictures below."""
        text = repr(outcome)
        if self._slot.used or not (outcome.ok and text == "(no output)"):
            self._slot.finish(text, html_report(outcome) if in_notebook() else "")
        owners: dict[bytes, list[int]] = {}
        for rank, pictures in sorted(outcome.pictures.items()):
            for picture in pictures:
                owners.setdefault(picture, []).append(rank)
        for picture, ranks in owners.items():
            self._picture(rank_label(ranks), picture)

    @staticmethod
    def _picture(owner: str, png: bytes) -> None:
        if in_notebook():
            from IPython.display import display

            name = f"figure of {owner}"
            bundle, metadata = _picture(description_in(png) or name, base64.b64encode(png).decode(), {})
            display({"text/plain": f"<{name}>", **bundle}, metadata=metadata, raw=True)


def description_in(png: bytes) -> str:
    """Read a PNG's text under the keyword `Description` (PNG specification, section 11.3.4); '' if it has none."""
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

        display(_bundle(text, html), raw=True)
    else:
        print(text, flush=True)


def rewrite_html(rewriter: Callable[[str], str]) -> None:
    """Pass all HTML through this function from now on where a learner sits at the notebook: it adds links, say."""
    if rewriter not in _REWRITERS:
        _REWRITERS.append(rewriter)


def _bundle(text: str, html: str) -> dict[str, str]:
    """Build the bundle to display."""
    if is_attended():
        for rewrite in _REWRITERS:
            html = rewrite(html)
    return {"text/plain": text, "text/html": html}
