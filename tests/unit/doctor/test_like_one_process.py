"""What is said of the ranks' gradients beside those of one process."""

import contextlib

import pytest
import torch

from realranks.doctor.like_one_process import Comparison
from realranks.watch.first_step import gradients_of, join, switch_off


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            Comparison(1.0, 0.0, ("bias",), rows=(4, 2)),
            "the gradients are those of one process with the 6 rows of all ranks",
        ),
        (Comparison(0.5, 0.0, ("bias",), rows=(4, 4)), "The gradients are 1/2 of those"),
        (Comparison(2.0, 0.0, ("bias",), rows=(4, 4)), "The gradients are 2 times those"),
        (Comparison(0.3, 0.0, ("bias",), rows=(4, 4)), "The gradients are 0.3 times those"),
        (Comparison(1.0, 0.2, ("bias",), (4, 2)), "the ranks had 4 and 2 rows"),
        (Comparison(1.0, 0.2, ("bias",), (4, 4)), "the loss is no mean over rows (most in bias)"),
        (
            Comparison(1.0, 0.2, ("bias",), (4, 4), drawn=True),
            "not compared with one process: the step draws",
        ),
        (
            Comparison(1.0, 0.2, ("bias",), (4, 4), other_inputs=True),
            "not compared with one process: its model gets other values",
        ),
        (
            Comparison(0.5, 0.0, ("bias",), (4, 4), averaged=False),
            "The gradients are not the same on all ranks",
        ),
        (
            Comparison(1.0, 0.2, ("bias",), (4, 4), clipped_at="train.py, line 3"),
            "at train.py, line 3 each rank clips its own gradients",
        ),
        (
            Comparison(0.5, 0.0, ("bias",), (4, 4), gathered_at="train.py, line 3"),
            "no gradient comes back through the collective at train.py, line 3",
        ),
        (Comparison(why_not="no"), "not compared with one process: no"),
    ],
)
def test_a_comparison_prints_itself_as_a_sentence(found, words):
    assert words in repr(found)


def test_gradients_that_are_clipped_later_are_kept_as_they_were():
    layer = torch.nn.Linear(2, 1, dtype=torch.float64)
    layer(torch.ones(1, 2, dtype=torch.float64)).sum().backward()
    kept = gradients_of(layer)
    torch.nn.utils.clip_grad_norm_(layer.parameters(), 0.01)
    assert kept["weight"].tolist() == [[1.0, 1.0]]


def test_a_batch_that_is_joined_stays_what_it_was():
    own = {"x": torch.zeros(1)}
    assert join(own, [own, {"x": torch.ones(2)}])["x"].tolist() == [0, 1, 1]
    assert own["x"].tolist() == [0]


def test_what_is_switched_off_comes_back():
    net = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.Dropout(0.5))
    with contextlib.ExitStack() as stack:
        assert switch_off(net, stack) == {"batch normalisation", "dropout"}
        x = torch.ones(4, 2)
        assert torch.allclose(net(x), x, atol=1e-4)
    assert net[1].p == 0.5
    assert net(torch.ones(4, 2)).abs().sum() == 0
