"""The base of all lessons' explorables: controls in a running notebook, a picture where no kernel is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from realranks.cells.show import widget_view
from realranks.draw import Drawing

if TYPE_CHECKING:
    import ipywidgets

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")
_TURN = threading.RLock()


def in_turn(handler: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """Decorate what a control calls, so that a picture and its run belong to the same settings.

    JupyterLab may send the messages of two controls to two threads of the kernel (its setting `commsOverSubshells`,
    which `notebook/labconfig` switches off).
    """

    @wraps(handler)
    def waits_its_turn(*given: _Given.args, **named: _Given.kwargs) -> _Result:
        with _TURN:
            return handler(*given, **named)

    return waits_its_turn


class Explorer:
    """The last line of a cell: shown as controls that run something, and in exported pages as a picture.

    A subclass makes these:

    Attributes:
        whole: the controls and what they show.
        controls: what can be played with, in words.
        static: the picture that there is at first, and that is shown where no kernel runs.
    """

    whole: ipywidgets.Widget
    controls: str
    static: Drawing

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, object]:
        still = {"text/html": self.static.html(), "text/plain": repr(self)}
        return widget_view(self.whole) | still

    def __repr__(self) -> str:
        return f"[to be played with in a running notebook: {self.controls}] {self.static!r}"


def to_find(words: str) -> ipywidgets.HTML:
    """Return an explorable's task, to be shown above its controls: `words` is HTML that follows Find."""
    import ipywidgets as widgets

    return widgets.HTML(f'<p style="line-height: 1.4"><b>Find</b> {words}</p>')
