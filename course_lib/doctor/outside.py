"""Parameters that an optimizer steps and no DDP model holds: nobody averages their gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from course_lib.doctor.lessons import taught_in
from course_lib.doctor.notes import Notes
from course_lib.ranks.outcome import Diagnosis


def parameters_outside(notes: Notes) -> Diagnosis | None:
    """Such parameters that were equal on all ranks at first, or are stepped with a DDP model's, and have drifted apart.

    A rank may also keep parameters of its own on purpose (a part of a model that is cut into pieces): those were never
    equal and have an optimizer of their own.
    """
    checks = [
        found
        for place in range(min(len(told["gradients"]) for told in notes.values()))
        if (found := _comparable([told["gradients"][place] for told in notes.values()]))
    ]
    if not checks or not _differing(checks[-1]):
        return None
    mixed = bool(checks[-1][0]["gradients"])
    if _differing(checks[0]) and not mixed:
        return None
    names = _differing(checks[-1])
    shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    return Diagnosis(
        "parameters_outside",
        f"The ranks ended without an error, but parameters that no DDP model holds differ: {shown}. The optimizer "
        "steps them on every rank with gradients that nobody averages.",
        (),
        advice="make them part of the module that DistributedDataParallel wraps, or wrap their module, too.",
        lesson=taught_in(7, 6),
    )


def _comparable(checks: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The same check on all ranks, where it has such parameters and they have the same shapes."""
    shapes = [[shape for _, shape, _ in check["outside"]] for check in checks]
    return checks if shapes[0] and all(each == shapes[0] for each in shapes) else []


def _differing(checks: list[Mapping[str, Any]]) -> list[str]:
    found = []
    for number, (name, shape, _) in enumerate(checks[0]["outside"]):
        if len({check["outside"][number][2][0] for check in checks}) > 1:
            found.append(name or f"one of shape {'x'.join(map(str, shape)) or 'scalar'}")
    return found
