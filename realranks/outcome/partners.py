"""The record of whom a blocking call needs, as `ranks/inside/partners.py` reads it from the arguments of the call."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Partners:
    """The ranks that a blocking call of torch.distributed needs, as far as the call says.

    Attributes:
        call: its name.
        group: the process group's name.
        members: its global ranks.
        root: of a broadcast, reduce, scatter or gather.
        to: of a send, as a global rank.
        source: of a receive, as a global rank; None for a receive from any rank.
        tag: of a send or receive, where known.
    """

    call: str
    group: str = ""
    members: tuple[int, ...] = ()
    root: int | None = None
    to: int | None = None
    source: int | None = None
    tag: int | None = None

    def meets(self, other: Partners) -> bool:
        """Check whether a send and a receive between two ranks match: the same tag and the same group."""
        tags, groups = {self.tag, other.tag} - {None}, {self.group, other.group} - {""}
        return len(tags) < 2 and len(groups) < 2
