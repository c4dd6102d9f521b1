"""The base of all lessons' explorables: controls in a running notebook, a picture where no kernel is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from realranks.cells.show import widget_view
from realranks.draw import Drawing, Stepper

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


#: What `explore` calls with the controls' values: a picture, and below a drawing or above a stepper some HTML.
Draw = Callable[..., Drawing | Stepper | tuple[Drawing | Stepper, str]]


class Declared(Explorer):
    """One that `explore` has made; each control is an attribute, too, by its name.

    Attributes:
        draw, find, chosen: the function, the task and the controls that `explore` has got.
    """

    def __init__(self, draw: Draw, controls: str, find: str, chosen: Mapping[str, ipywidgets.Widget]) -> None:
        import ipywidgets as widgets

        self.draw, self.controls, self.find, self.chosen = draw, controls, find, chosen
        self.picture, self.steps = widgets.HTML(), widgets.Output()
        rows: list[ipywidgets.Widget] = [to_find(find)] if find else []
        for kind, group in groupby(chosen.values(), type):
            alike = [*group]
            is_short = kind in (widgets.ToggleButton, widgets.BoundedIntText)
            rows += [widgets.HBox(alike, layout={"flex_flow": "row wrap"})] if is_short else alike
        for control in chosen.values():
            control.observe(self._change, names="value")
        self.whole = widgets.VBox([*rows, self.picture, self.steps])

    def _change(self, _: object) -> None:
        try:
            self.show()
        except RuntimeError as error:  # an exception in a callback is shown nowhere
            self.picture.value = f"<pre>{escape(str(error))}</pre>"

    @in_turn
    def show(self) -> Drawing:
        """Draw what the controls now ask for."""
        drawn = self.draw(**{name: control.value for name, control in self.chosen.items()})
        shown, words = drawn if isinstance(drawn, tuple) else (drawn, "")
        if isinstance(shown, Drawing):
            self.picture.value = shown.svg() + words
            return shown
        # Outputs of a widget run the scripts in them; the value of an HTML widget does not.
        data = {"text/html": shown.html(), "text/plain": repr(shown)}
        self.picture.value = words
        self.steps.outputs = ({"output_type": "display_data", "data": data, "metadata": {}},)
        return shown.strip()

    def __getattr__(self, name: str) -> Any:
        try:
            return vars(self)["chosen"][name]
        except KeyError:
            raise AttributeError(name) from None


def explore(
    draw: Draw,
    words: str,
    find: str = "",
    still: Drawing | None = None,
    /,
    **controls: ipywidgets.Widget,
) -> Declared:
    """Return controls above a picture that each change draws anew.

    The web site has its own controls, and what `draw` returns for each of their settings.

    Args:
        draw: takes the controls' values by their names; words that it returns too are HTML.
        words: what can be played with.
        find: see `to_find`.
        still: the picture before anything is changed; without it, it is drawn.
    """
    explorer = Declared(draw, words, find, controls)
    explorer.static = still or explorer.show()
    if still is not None:
        explorer.picture.value = still.svg()
    return explorer
