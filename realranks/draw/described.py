"""Descriptions of matplotlib figures in words: alternative text for readers who cannot see them, and for exports.

A figure says what it shows in its titles, labels, legend and data; nothing is guessed. Imports no matplotlib: a figure
brings it along.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: More is not listened to.
_MAX_CHARACTERS = 900
_MAX_VALUES = 12
#: Matplotlib's name for what has none.
_UNNAMED = "_"


def described(figure: Figure) -> str:
    """Describe a figure in text: titles, axes, and for each line or group of bars its name and values."""
    parts = [_plain(figure.get_suptitle()), *(_panel(axes) for axes in figure.axes)]
    text = " ".join(_sentence(part) for part in parts if part)
    return text if len(text) <= _MAX_CHARACTERS else f"{text[: _MAX_CHARACTERS - 2]} …"


def _panel(axes: Axes) -> str:
    title = next((text for where in ("center", "left", "right") if (text := axes.get_title(loc=where))), "")
    across, up = _plain(axes.get_xlabel()), _plain(axes.get_ylabel())
    measured = [f"across: {across}" if across else "", f"up: {up}" if up else ""]
    shown = [*_lines(axes), *_bars(axes), *_images(axes), *_written(axes)]
    parts = [_plain(title), "; ".join(part for part in measured if part), "; ".join(shown)]
    return " ".join(_sentence(part) for part in parts if part)


def _lines(axes: Axes) -> Iterator[str]:
    for line in axes.get_lines():
        name = str(line.get_label())
        values = _numbers(line.get_ydata())
        if name.startswith(_UNNAMED) or not values:
            continue
        ends = f" from {values[0]:.3g} to {values[-1]:.3g}" if len(values) > 1 else f" at {values[0]:.3g}"
        yield f"{_plain(name)}{ends}"


def _bars(axes: Axes) -> Iterator[str]:
    for container in axes.containers:
        patches = [patch for patch in getattr(container, "patches", ()) if hasattr(patch, "get_width")]
        if not patches:
            continue
        lying = getattr(container, "orientation", "vertical") == "horizontal"
        values = [patch.get_width() if lying else patch.get_height() for patch in patches]
        labels = axes.get_yticklabels() if lying else axes.get_xticklabels()
        names = [_plain(label.get_text()) for label in labels]
        name = _plain(str(container.get_label()))
        pairs = _paired(names, values)
        yield pairs if name.startswith(_UNNAMED) or not name else f"{name}: {pairs}"


def _paired(names: Sequence[str], values: Sequence[float]) -> str:
    """Pair the values with the names of their bars, if each has one."""
    some = [f"{value:.3g}" for value in values[:_MAX_VALUES]]
    if len(names) == len(values) and all(names):
        some = [f"{name} {value}" for name, value in zip(names, some, strict=False)]
    more = f" and {len(values) - _MAX_VALUES} more" if len(values) > _MAX_VALUES else ""
    return ", ".join(some) + more


def _images(axes: Axes) -> Iterator[str]:
    for image in axes.get_images():
        shape: Sequence[int] = getattr(image.get_array(), "shape", ())
        if len(shape) >= 2:
            yield f"a map of {shape[0]} rows and {shape[1]} columns"


def _written(axes: Axes) -> Iterator[str]:
    """Describe the text in the panel itself: names beside lines, numbers in cells."""
    texts = [_plain(text.get_text()) for text in axes.texts if text.get_text().strip()]
    if texts:
        more = f" and {len(texts) - _MAX_VALUES} more" if len(texts) > _MAX_VALUES else ""
        yield f"written in it: {', '.join(texts[:_MAX_VALUES])}{more}"


def _numbers(data: object) -> list[float]:
    found = []
    for value in data if isinstance(data, Iterable) else ():
        try:
            number = float(value)
        except (TypeError, ValueError):
            return []
        if math.isfinite(number):
            found.append(number)
    return found


def _plain(text: str) -> str:
    """Put a label on one line, without the dollar signs of mathematics."""
    return re.sub(r"\s+", " ", text.replace("$", "")).strip()


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."
