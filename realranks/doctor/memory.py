"""Memory that grows with each step, because the graph of each step is kept."""

from __future__ import annotations

from realranks.doctor.notes import Notes
from realranks.doctor.sentences import diagnosis
from realranks.outcome.outcome import Diagnosis, Outcome

#: How far the growth over the second half may differ from that over the first one.
_ALIKE = 0.25


def graphs_kept(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Detect ranks of which as many more of autograd's nodes are alive after each step."""
    grown = {rank: _growth(probe.graphs.nodes) for rank, probe in notes.items()}
    ranks = [rank for rank, nodes in grown.items() if nodes]
    if not ranks:
        return None
    held = notes[ranks[0]].graphs.held_by
    words = {"ranks": ranks, "nodes": grown[ranks[0]], "held": f" (by the variable {held})" if held else ""}
    return diagnosis("graphs_kept", None, (), (), **words)


def _growth(nodes: list[int]) -> int:
    """Return how many nodes more are alive after each step; 0 where they do not grow evenly."""
    if len(nodes) < 3:
        return 0
    first, second = nodes[1] - nodes[0], nodes[2] - nodes[1]
    return second // 4 if first >= 4 and abs(second - first) <= _ALIKE * first else 0
