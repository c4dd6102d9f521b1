"""A matplotlib backend for ranks: `plt.show()` sends the open figures to the notebook as pictures.

Loaded by matplotlib itself (MPLBACKEND) when a rank imports pyplot.
"""

from __future__ import annotations

from matplotlib.backend_bases import FigureManagerBase as _FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg as FigureCanvas

from realranks.ranks.inside import worker

__all__ = ["FigureCanvas", "FigureManager", "show"]


class FigureManager(_FigureManagerBase):
    """Shows a figure by sending it to the kernel."""

    @classmethod
    def pyplot_show(cls, *, block: bool | None = None) -> None:
        """Show the figures when `plt.show()` is called on a rank."""
        show()


FigureCanvas.manager_class = FigureManager  # type: ignore[method-assign, assignment]


def show(*_: object, **__: object) -> None:
    """Send the open figures now."""
    if worker.CURRENT is not None:
        worker.CURRENT.send_open_figures()
