"""What the explorables of all lessons have in common: controls in a running notebook, a picture where no kernel is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from course_lib.draw import Drawing

if TYPE_CHECKING:
    import ipywidgets


class Explorer:
    """The last line of a cell: shown as controls that run something, in exported pages as a picture or as text.

    A subclass makes `whole` and says in its `__repr__` what can be played with.
    """

    whole: ipywidgets.Widget

    def still(self) -> Drawing | None:
        """The picture that is shown where no kernel runs; None: the text alone."""
        return None

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None
    ) -> tuple[dict[str, object], dict[str, dict[str, str]]]:
        still = self.still()
        picture, about = ({}, {}) if still is None else still._repr_mimebundle_()
        return {**self.whole._repr_mimebundle_(), **picture, "text/plain": repr(self)}, about
