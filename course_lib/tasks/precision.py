"""The conditioning of oracles: whether rounding decides, by the same computation in float32 and in float64.

A right answer adds the same numbers in another order than the oracle, so it ends a little beside it. Where training
amplifies rounding (a rate too large for that case, a value beside the kink of a ReLU) it may end far beside it, and
would be called wrong for some seeds. Such a case shows in the oracle itself: in float64 it comes out elsewhere.

Torch is imported where it is used: this module is loaded in the kernel too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: The part of a tolerance that the oracle's own rounding may use up; the rest is for that of answers.
_SHARE = 0.2
_NUMBERS = frozenset({float, int})


@dataclass(frozen=True)
class Tolerance:
    """The tolerated distance of a right number from the oracle's: absolute, and as a part of the oracle's."""

    absolute: float
    relative: float = 0.0

    def admits(self, found: float, right: float, share: float = 1.0) -> bool:
        """Return whether a number is near enough, in this share of the tolerance; inf and NaN equal themselves."""
        if found == right or (found != found and right != right):
            return True
        return abs(found - right) <= share * (self.absolute + self.relative * abs(right))

    def admits_all(self, found: Sequence[float], right: Sequence[float], share: float = 1.0) -> bool:
        """Return whether all pairs are admitted, sooner than a call for each number does.

        NaN are left to `admits`.
        """
        absolute, relative = share * self.absolute, share * self.relative
        return all(
            a == b or abs(a - b) <= absolute + relative * abs(b) for a, b in zip(found, right, strict=True)
        )


def agree(oracle: object, precise: object, tolerance: Tolerance) -> bool:
    """Return whether all numbers in these two, which are JSON-able, are equal up to a share of the tolerance."""
    if isinstance(oracle, Mapping) and isinstance(precise, Mapping):
        return oracle.keys() == precise.keys() and all(
            agree(oracle[key], precise[key], tolerance) for key in oracle
        )
    if isinstance(oracle, float | int) and isinstance(precise, float | int):
        return tolerance.admits(oracle, precise, _SHARE)
    if isinstance(oracle, Sequence) and not isinstance(oracle, str) and isinstance(precise, Sequence):
        if len(oracle) != len(precise):
            return False
        numbers = _NUMBERS.issuperset(map(type, oracle)) and _NUMBERS.issuperset(map(type, precise))
        if numbers and tolerance.admits_all(oracle, precise, _SHARE):
            return True
        return all(agree(one, other, tolerance) for one, other in zip(oracle, precise, strict=True))
    return bool(oracle == precise)


@contextlib.contextmanager
def in_float64() -> Iterator[None]:
    """Let torch compute in float64 within this block, with the random numbers that it draws in float32."""
    import torch
    from torch.overrides import TorchFunctionMode

    init = torch.nn.init
    #: What draws numbers: new tensors, and into tensors that are there.
    makes = {torch.rand, torch.randn, torch.normal}
    fills: set[Any] = {torch.Tensor.uniform_, torch.Tensor.normal_}
    # These come here whole, with all arguments by name; what they call inside does not come here again.
    fills |= {init.uniform_, init.normal_, init.kaiming_uniform_, init.kaiming_normal_}

    class Draws(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = dict(kwargs or {})
            if func in makes and kwargs.get("dtype") is None:
                return func(*args, **{**kwargs, "dtype": torch.float32}).double()
            if func in fills:
                filled, *rest = args or (kwargs.pop("tensor"),)
                if filled.dtype is torch.float64:
                    drawn = torch.empty(filled.shape, dtype=torch.float32)
                    with torch.no_grad():
                        return filled.copy_(func(drawn, *rest, **kwargs))
                return func(filled, *rest, **kwargs)
            return func(*args, **kwargs)

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with Draws():
            yield
    finally:
        torch.set_default_dtype(before)
