"""The learner's names for parameters of no DDP model, looked up in the variables of the running code."""

from __future__ import annotations

import sys

from realranks.outcome.places import is_learners


def names_in_the_code() -> dict[int, str]:
    """Find names such as `head.weight`, by the parameter's id, in the learner's frames on this stack."""
    import torch

    found: dict[int, str] = {}
    frame = sys._getframe(1)
    while frame is not None:
        if is_learners(frame.f_code.co_filename):
            for variable, value in list(frame.f_locals.items()):
                if issubclass(type(value), torch.nn.Parameter):
                    found.setdefault(id(value), variable)
                elif issubclass(type(value), torch.nn.Module):
                    for name, parameter in value.named_parameters():
                        found.setdefault(id(parameter), f"{variable}.{name}")
        frame = frame.f_back  # type: ignore[assignment]
    return found
