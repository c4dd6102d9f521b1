"""Lesson 09: what becomes of a change on rank 1, on real ranks, and what the pictures are made of."""

import pytest

from course_lib.lessons.synchronised.lab import CHANGES, ChangeExplorer, what_travels
from realranks.cells.run import run_quietly
from realranks.draw import Text

EQUAL, OTHER, DIFFER = (
    "weights end equal, as without the change",
    "weights end equal, not as without the change",
    "weights end different",
)
#: How weights end, by what rank 1 changes and when.
ENDS = {
    "weights": (EQUAL, DIFFER, DIFFER, DIFFER),
    "buffers": (EQUAL, EQUAL, EQUAL, EQUAL),
    "gradient": (OTHER, DIFFER, EQUAL),
    "momentum": (DIFFER, DIFFER),
    "learning rate": (DIFFER, DIFFER),
    "random seed": (OTHER, OTHER, OTHER),
    "loss": (OTHER,),
    "zero_grad": (OTHER, OTHER),
    "eval mode": (OTHER, OTHER),
}


@pytest.fixture(scope="module")
def explorer():
    return ChangeExplorer()


@pytest.mark.parametrize("what", CHANGES)
def test_each_change_ends_as_the_lesson_says(explorer, what):
    explorer.what.value = what
    assert explorer.when.options == CHANGES[what][1]
    for moment, end in zip(CHANGES[what][1], ENDS[what], strict=True):
        explorer.when.value = moment
        assert f"Rank 1 {CHANGES[what][0]} (▼): {end}<" in explorer.picture.value


def test_where_no_kernel_runs_there_is_the_first_run(explorer):
    assert "Rank 1 adds 1 to its weight (▼): weights end different" in explorer.static.html()


def test_what_travels_is_what_four_ranks_hold():
    signs = [
        [shape.text for shape in frame.drawing.shapes if isinstance(shape, Text) and shape.text[-1] in "=≠"]
        for frame in what_travels().frames
    ]
    assert signs == [
        ["weights ≠", "buffers ≠"],
        ["weights =", "buffers ="],
        ["weights =", "buffers ="],
        ["weights =", "buffers ≠"],
        ["weights =", "buffers ≠", ".grad ="],
        ["weights =", "buffers ≠", ".grad =", "momentum ="],
        ["weights =", "buffers =", ".grad =", "momentum ="],
        ["weights =", "buffers ≠", ".grad =", "momentum ="],
    ]


def messages(fake, init_sync):
    """What DDP asks of its backend when it wraps a model, and in its forwards; fake all-reduces have no result."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torch.profiler import profile

    if fake:
        import torch.testing._internal.distributed.fake_pg

        dist.init_process_group("fake", rank=0, world_size=2, store=dist.HashStore())

    def asked(profiler):
        events = sorted(profiler.events(), key=lambda event: event.time_range.start)
        return [event.name for event in events if event.name.startswith("c10d::")]

    with profile() as wrapping:
        net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
        ddp = DistributedDataParallel(net, init_sync=init_sync)
    with profile() as steps:
        for training in (True, True, False, False, True):
            with torch.set_grad_enabled(training):
                ddp.train(training)(torch.randn(4, 4))
    return asked(wrapping), asked(steps)


@pytest.mark.parametrize("init_sync", [True, False])
def test_ddp_asks_the_same_of_any_backend(init_sync):
    """So what is sent, and when, is decided above it. Without `init_sync`, nothing when it wraps."""
    with_gloo = run_quietly(messages, False, init_sync, ranks=2, backend="gloo")
    with_fake = run_quietly(messages, True, init_sync, ranks=1, init=False)
    wrapping, forwards = with_gloo.values[0]
    assert with_fake.values[0] == (wrapping, forwards)
    assert bool(wrapping) is init_sync
    assert forwards == ["c10d::broadcast_"] * 6  # two types, and none after a forward without gradients
