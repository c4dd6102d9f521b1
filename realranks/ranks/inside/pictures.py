"""Figures that a rank draws, as PNGs for the notebook. Used inside a rank.

What a picture shows is in the PNG in words, too, under the keyword that PNG has for it: equal pictures stay equal
bytes, and one that is saved keeps its text. Imports no matplotlib: who has a figure has loaded it.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable

from realranks.draw.described import described


def png_of(savefig: Callable[..., object]) -> bytes:
    """Render a figure as PNG with its method `savefig`; if it is matplotlib's, embed its description."""
    buffer, words = io.BytesIO(), {}
    figure, matplotlibs = getattr(savefig, "__self__", None), sys.modules.get("matplotlib.figure")
    if matplotlibs is not None and isinstance(figure, matplotlibs.Figure):
        with contextlib.suppress(Exception):  # a figure that cannot be put into words is shown all the same
            words = {"metadata": {"Description": described(figure)}}
    savefig(buffer, format="png", dpi=96, bbox_inches="tight", **words)
    return buffer.getvalue()


def open_figures() -> list[bytes]:
    """Draw and close all figures that pyplot holds, so that each is shown once."""
    if "matplotlib.pyplot" not in sys.modules:
        return []
    from matplotlib._pylab_helpers import Gcf

    pictures = [png_of(manager.canvas.figure.savefig) for manager in list(Gcf.get_all_fig_managers())]
    Gcf.destroy_all()
    return pictures
