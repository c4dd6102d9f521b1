"""Which lines wait for another rank, judged without running any of the learner's code."""

import ast
import sys
from collections import deque
from datetime import timedelta
from types import ModuleType, SimpleNamespace

import pytest

from course_lib.ranks.inside import blocking_calls


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
    assert blocking_calls._is_soon(ast.parse(source, mode="eval").body, sys._getframe()) is is_soon
