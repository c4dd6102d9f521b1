"""Which lines wait for another rank, judged without running any of the learner's code."""

import ast
import linecache
import sys
import threading
from collections import deque
from datetime import timedelta
from types import ModuleType, SimpleNamespace

import pytest
import torch

from realranks.outcome.places import Frame
from realranks.ranks.inside import blocking_calls


class FromTorch:
    """Stands for a Work."""


FromTorch.__module__ = "torch._C"
dist = ModuleType("torch.distributed")
work, works, stack, handles = FromTorch(), [FromTorch()], deque(), {"a": FromTorch()}
mine = SimpleNamespace(work=FromTorch(), lock=object())
numbers, index, soon, later = [1], 0, timedelta(seconds=5), timedelta(hours=1)


@pytest.mark.parametrize(
    ("source", "waits_for_a_rank"),
    [
        ("work", True),
        ("works[0]", True),
        ("works[index]", True),
        ("works.pop()", True),
        ("stack.popleft()", True),
        ("handles['a']", True),
        ("mine.work", True),
        ("dist.irecv(work, 1)", True),
        ("dist.batch_isend_irecv([work])[0]", True),
        ("sys", False),
        ("mine.lock", False),
        ("numbers[0]", False),
        ("unknown", False),
        ("(lambda: 1)()", False),
        ("sys.modules['os']", False),
    ],
)
def test_a_bare_wait_counts_only_on_torchs_objects(source, waits_for_a_rank):
    assert blocking_calls._is_torchs(ast.parse(source, mode="eval").body, sys._getframe()) is waits_for_a_rank


@pytest.mark.parametrize(
    ("source", "is_soon"),
    [("soon", True), ("later", False), ("timedelta(seconds=1)", True), ("numbers", False)],
)
def test_a_timeout_is_recognised_in_the_call(source, is_soon):
    assert blocking_calls.is_soon(ast.parse(source, mode="eval").body, sys._getframe()) is is_soon


@pytest.fixture
def on_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)


@pytest.mark.parametrize(
    ("file", "function", "waits"),
    [
        ("torch/cuda/__init__.py", "synchronize", "synchronize()"),
        ("torch/cuda/streams.py", "synchronize", "synchronize()"),
        ("torch/cuda/__init__.py", "set_device", None),
        ("torch/_tensor_str.py", "__init__", "print()"),
        ("torch/nn/modules/linear.py", "forward", None),
    ],
)
def test_a_wait_for_a_gpu_is_known_by_torchs_own_functions(on_gpus, file, function, waits):
    stack = [Frame(f"/lib/site-packages/{file}", 1, function, "")]
    assert blocking_calls.waits_for_gpu(stack, 0) == waits


def test_without_cuda_in_use_nothing_is_a_wait_for_a_gpu():
    stack = [Frame("/lib/site-packages/torch/cuda/__init__.py", 1, "synchronize", "")]
    assert blocking_calls.waits_for_gpu(stack, 0) is None


@pytest.mark.parametrize(
    ("line", "waits"),
    [
        ("told.append(loss.item())", "item()"),
        ("told.append(losses[0].detach().cpu())", "cpu()"),
        ("told.append(loss.tolist())", "tolist()"),
        ("told.append(loss.sum())", None),
        ("told.append(on_cpu.item())", None),
        ("told.append(mine.item())", None),
    ],
)
def test_a_wait_for_a_gpu_is_read_from_the_learners_line(on_gpus, line, waits):
    """The thread is in the call while it is asked, as one that is blocked would."""

    class Blocked:
        """Whatever is called on it asks what the caller waits in."""

        def _ask(self):
            frame = sys._getframe(1)
            seen = [Frame(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name, "")]
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(blocking_calls, "innermost", lambda _: frame)
                return blocking_calls.waits_for_gpu(seen, threading.get_ident())

        item = tolist = sum = cpu = _ask

        def detach(self):
            return self

    of_torch = type("OfTorch", (Blocked,), {"__module__": "torch"})
    told = []
    name = f"<rank cell {line}>"
    linecache.cache[name] = (len(line), None, [line + "\n"], name)
    space = {"told": told, "loss": of_torch(), "losses": [of_torch()], "mine": Blocked(), "on_cpu": Blocked()}
    with pytest.MonkeyPatch.context() as patch:
        if "on_cpu" in line:
            # A real tensor's methods cannot ask: what the name stands for is looked up separately.
            patch.setattr(blocking_calls, "object_of", lambda *_: torch.ones(1))
        exec(compile(line, name, "exec"), space)
    assert told == [waits]
