"""Keep Dynamo out of the probe: under torch.compile it would trace what watches a script as a part of the script.

`torch.compiler.disable` does the same, and first loads the compiler, for seconds. Runs inside a rank; imports nothing.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., object])


def passed_over(function: _Function, *, inside: bool = False) -> _Function:
    """Have Dynamo run this function as it is; `inside`: everything that it calls, too."""
    torch_s: Any = sys.modules.get("torch._C._dynamo.eval_frame")
    # A torch that has this in another form compiles the probe, too: that costs time, and changes nothing.
    with contextlib.suppress(AttributeError, TypeError):
        action = torch_s._FrameAction
        strategy = torch_s._FrameExecStrategy(action.SKIP, action.SKIP if inside else action.DEFAULT)
        torch_s.set_code_exec_strategy(function.__code__, strategy)
        function._torchdynamo_disable = True  # type: ignore[attr-defined]
    return function
