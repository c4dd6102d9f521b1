"""The base of all lessons' explorables: controls in a running notebook, a picture where no kernel is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

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

    `explore` makes one of a function and its controls; a subclass makes the attributes itself.

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


def buttons(
    words: str, options: Iterable[object] | Mapping[str, object], first: object = None, label: str = "9em"
) -> ipywidgets.ToggleButtons:
    """Return a control with a button for each option; a mapping has the words on the button for each value."""
    import ipywidgets as widgets

    options = options if isinstance(options, Mapping) else list(options)
    value = {} if first is None else {"value": first}
    style = {"button_width": "auto", "description_width": label}
    return widgets.ToggleButtons(options=options, description=words, style=style, **value)


def slider(
    words: str,
    options: Iterable[object] | Mapping[str, object],
    first: object,
    label: str = "17em",
    runs: bool = False,
) -> ipywidgets.SelectionSlider:
    """Return a control with a place for each option; what `runs` is drawn when the control is let go."""
    import ipywidgets as widgets

    options = options if isinstance(options, Mapping) else list(options)
    shape = {"style": {"description_width": label}, "layout": {"width": "36em"}}
    return widgets.SelectionSlider(
        options=options, value=first, description=words, continuous_update=not runs, **shape
    )


def tick(words: str, first: bool = False) -> ipywidgets.Checkbox:
    """Return a control that is on or off."""
    import ipywidgets as widgets

    return widgets.Checkbox(first, description=words, indent=False)


class _Declared(Explorer):
    """One that `explore` has made; each control is an attribute, too, by its name."""

    def __init__(self, controls: str, chosen: Mapping[str, ipywidgets.Widget]) -> None:
        import ipywidgets as widgets

        self.controls = controls
        self.chosen = chosen
        self.picture = widgets.HTML()

    def __getattr__(self, name: str) -> Any:
        try:
            return vars(self)["chosen"][name]
        except KeyError:
            raise AttributeError(name) from None


def explore(
    draw: Callable[..., Drawing | tuple[Drawing, str]],
    words: str,
    find: str = "",
    still: Drawing | None = None,
    /,
    **controls: ipywidgets.Widget,
) -> _Declared:
    """Return controls above a picture that each change draws anew.

    Args:
        draw: takes the controls' values by their names; a text that it returns too is shown below the picture.
        words: what can be played with.
        find: see `to_find`.
        still: the picture before anything is changed; without it, it is drawn.
    """
    import ipywidgets as widgets

    explorer = _Declared(words, controls)

    @in_turn
    def show(_: object = None) -> Drawing:
        drawn = draw(**{name: control.value for name, control in controls.items()})
        drawing, below = drawn if isinstance(drawn, tuple) else (drawn, "")
        explorer.picture.value = drawing.svg() + below
        return drawing

    explorer.static = still or show()
    if still is not None:
        explorer.picture.value = still.svg()
    for control in controls.values():
        control.observe(show, names="value")
    goals = [to_find(find)] if find else []
    explorer.whole = widgets.VBox([*goals, *controls.values(), explorer.picture])
    return explorer
