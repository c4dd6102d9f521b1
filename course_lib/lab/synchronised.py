"""Lesson 09: what its predictions ask."""

from __future__ import annotations

from course_lib.outcome.outcome import Outcome

#: By two kinds of forward, such as `eval, no_grad`: whether the second began with rank 0's buffers.
_Sent = dict[tuple[str, str], bool]


def _sent(outcome: Outcome) -> _Sent:
    sent: _Sent = outcome["sent"][3]
    return sent


def always_sent(outcome: Outcome) -> bool:
    """Every forward began with rank 0's buffers."""
    return all(_sent(outcome).values())


def sent_in_train_mode(outcome: Outcome) -> bool:
    """Those in train mode did, and no others."""
    return all(sent == now.startswith("train") for (_, now), sent in _sent(outcome).items())


def sent_where_gradients_are_on(outcome: Outcome) -> bool:
    """Those with gradients on did, and no others."""
    return all(
        sent == ("grad" not in now and "inference" not in now) for (_, now), sent in _sent(outcome).items()
    )


def sent_by_the_forward_before(outcome: Outcome) -> bool:
    """It depended on the forward before, and on nothing else."""
    after: dict[str, set[bool]] = {}
    for (before, _), sent in _sent(outcome).items():
        after.setdefault(before, set()).add(sent)
    return all(len(each) == 1 for each in after.values()) and len(set(_sent(outcome).values())) == 2


def _off(outcome: Outcome) -> tuple[float, float]:
    """Percent by which the gradient is off with 8 samples a rank: statistics of all batches, and of the own one."""
    errors = outcome["errors"][0]
    return errors["all batches, detached"][1], errors["own batch"][1]


def detached_is_right(outcome: Outcome) -> bool:
    """Statistics that autograd does not know of give the right gradient."""
    return _off(outcome)[0] < 1


def detached_is_nearer(outcome: Outcome) -> bool:
    """They give a wrong one, but a better one than own statistics."""
    detached, own = _off(outcome)
    return 1 <= detached < own


def detached_is_further_off(outcome: Outcome) -> bool:
    """They give a worse one."""
    detached, own = _off(outcome)
    return detached >= own
