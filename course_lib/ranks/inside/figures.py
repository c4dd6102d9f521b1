"""A matplotlib backend for ranks: `plt.show()` sends the open figures to the notebook as pictures.

Loaded by matplotlib itself (MPLBACKEND) when a rank imports pyplot.
"""

from __future__ import annotations

import io
from collections.abc import Callable

from matplotlib._pylab_helpers import Gcf
from matplotlib.backend_bases import FigureManagerBase as _FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg as FigureCanvas

from course_lib.ranks.inside import worker

__all__ = ["FigureCanvas", "FigureManager", "open_figures", "png_of", "show"]


class FigureManager(_FigureManagerBase):
    """Shows a figure by sending it to the kernel."""

    @classmethod
    def pyplot_show(cls, *, block: bool | None = None) -> None:
        """What `plt.show()` does on a rank."""
        show()


FigureCanvas.manager_class = FigureManager  # type: ignore[method-assign, assignment]


def png_of(savefig: Callable[..., object]) -> bytes:
    """A figure as PNG bytes, by its own method `savefig`."""
    buffer = io.BytesIO()
    savefig(buffer, format="png", dpi=96, bbox_inches="tight")
    return buffer.getvalue()


def open_figures() -> list[bytes]:
    """All figures pyplot holds, drawn and closed: each is shown once."""
    pictures = [png_of(manager.canvas.figure.savefig) for manager in list(Gcf.get_all_fig_managers())]
    Gcf.destroy_all()
    return pictures


def show(*_: object, **__: object) -> None:
    """Send the open figures now."""
    if worker.CURRENT is not None:
        for picture in open_figures():
            worker.CURRENT._show_picture(picture)
