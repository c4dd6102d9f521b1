"""Whether ranks train as one process would with the rows of all of them, by their first gradients."""

from __future__ import annotations

from dataclasses import dataclass

from realranks.doctor.sentences import diagnosis
from realranks.doctor.words import names_in_a_row
from realranks.outcome.outcome import Diagnosis

#: Differences, of a gradient's length, that come from the order in which numbers are added.
_ROUNDING = 0.01


@dataclass(frozen=True, repr=False)
class Comparison:
    """The gradients of the ranks' first step beside those of one process.

    Attributes:
        factor: the ranks' are so many times the others. rest: what is left of the difference after that, as a share.
        most: the parameters in which most of it is. rows: of each rank. drawn: random numbers were drawn in the step.
        averaged: the gradients were the same on all ranks.
        other_inputs: the one process's model was given rows of other values than the ranks' models.
        gathered_at: the line of a collective that passes one process's gradients on, and none of the ranks'.
        clipped_at: the line that clipped gradients before they were averaged; empty where none did.
        switched_off: what was switched off for the comparison. why_not: why nothing could be compared; else empty.
    """

    factor: float = 0.0
    rest: float = 0.0
    most: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()
    drawn: bool = False
    averaged: bool = True
    other_inputs: bool = False
    gathered_at: str = ""
    clipped_at: str = ""
    switched_off: tuple[str, ...] = ()
    why_not: str = ""

    @property
    def a_factor(self) -> bool:
        """Whether they differ by a factor only, up to rounding."""
        return self.rest <= _ROUNDING

    @property
    def alike(self) -> bool:
        """Whether they are the same, up to rounding."""
        return self.a_factor and abs(self.factor - 1) <= _ROUNDING

    def __repr__(self) -> str:
        unlike = unlike_one_process(self)
        return "\n".join([*([unlike.summary, unlike.advice] if unlike else []), *compared_with_one(self)])


def unlike_one_process(found: Comparison) -> Diagnosis | None:
    """Explain how the ranks' first gradients differ from those of one process; None if they do not, or nobody knows."""
    if found.why_not or found.alike:
        return None
    ranks = len(found.rows)
    words = {
        "ranks": range(ranks),
        "number": ranks,
        "factor": f"{found.factor:.3g}",
        "share": f"{found.rest:.0%}",
        "most": names_in_a_row(list(found.most)),
        "rows": " and ".join(map(str, found.rows)),
        "where": found.clipped_at or found.gathered_at,
    }
    if not found.averaged:
        name = "unlike_one_process.not_averaged"
    elif found.clipped_at:
        name = "unlike_one_process.clipped"
    elif found.gathered_at:
        name = "unlike_one_process.gathered"
    elif found.a_factor:
        near = {"unlike_one_process.divided": 1 / ranks, "unlike_one_process.added": float(ranks)}
        name = next(
            (name for name, n in near.items() if abs(found.factor / n - 1) <= _ROUNDING),
            "unlike_one_process.scaled",
        )
    elif found.drawn or found.other_inputs:
        return None
    else:
        name = "unlike_one_process.rows" if len(set(found.rows)) > 1 else "unlike_one_process.other"
    return diagnosis(name, None, (), (), **words)


def compared_with_one(found: Comparison) -> list[str]:
    """Say what was compared, and what could not be."""
    if found.why_not:
        return [f"not compared with one process: {found.why_not}"]
    told = []
    if not found.averaged:
        pass
    elif not found.a_factor and found.drawn:
        told.append(
            "not compared with one process: the step draws random numbers, and one process draws others"
        )
    elif not found.a_factor and found.other_inputs:
        told.append(
            "not compared with one process: its model gets other values than the ranks' (noise from a generator of the "
            "script's own, or something that is computed over a whole batch)"
        )
    elif found.alike:
        rows = sum(found.rows)
        told.append(f"the gradients are those of one process with the {rows} rows of all ranks")
    if found.switched_off:
        told.append(f"switched off for that: {' and '.join(found.switched_off)}")
    return told
