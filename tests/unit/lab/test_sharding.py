"""Lesson 17: the bytes of each stage, what its pictures say, and the hand-made optimizer of its last section."""

import re
from pathlib import Path

import pytest

from course_lib.lessons.sharding.lab import (
    Setting,
    draw_gigabytes,
    draw_stages,
    draw_whole,
    explore_stages,
    three_ways,
)
from realranks.cells.run import run_quietly
from realranks.outcome.outcome import Kind

LESSON = Path(__file__).parents[3] / "course_lib/lessons/sharding/lesson.py"


def test_the_bytes_are_those_of_the_zero_paper():
    """Its Figure 1: 7.5 billion parameters, 64 ranks, mixed precision."""
    paper = Setting(billions=7.5, ranks=64, mixed=True)
    totals = {
        stage: round(sum(paper.gigabytes(stage).values()), 1)
        for stage in ("DDP", "ZeRO 1", "ZeRO 2", "ZeRO 3")
    }
    assert totals == {"DDP": 120.0, "ZeRO 1": 31.4, "ZeRO 2": 16.6, "ZeRO 3": 1.9}


@pytest.mark.parametrize(
    ("setting", "end"),
    [
        (Setting(), "fits with ZeRO 1, ZeRO 2, ZeRO 3"),
        (Setting(ranks=2), "fits with ZeRO 2, ZeRO 3"),
        (Setting(billions=70, ranks=1024), "fits with ZeRO 3"),
        (Setting(billions=400, ranks=1), "does not fit"),
    ],
)
def test_a_title_says_what_fits_on_a_gpu(setting, end):
    assert draw_gigabytes(setting).title.endswith(f": {end}")


def test_the_controls_choose_what_is_drawn():
    explorer = explore_stages()
    explorer.ranks.value, explorer.mixed.value = 64, True
    explorer.billions.value = 7.5
    assert "7.5 billion parameters, Adam, mixed precision, 64 ranks" in explorer.picture.value


def test_every_rank_has_a_column_in_every_stage():
    assert draw_stages(ranks=4).svg().count(">3</text>") == 4


def test_on_real_ranks_only_layers_that_are_sharded_one_by_one_are_whole_one_by_one():
    outcome = run_quietly(three_ways, ranks=2)
    assert outcome.kind is Kind.OK, repr(outcome)
    assert outcome.values[0] == outcome.values[1]
    drawing = draw_whole(outcome.values[0])
    assert drawing.title == "Whole at once, at most: 1, 5, 5 of 5 layers"
    assert "per layer: at most 1 of 5 whole at once; 10 all-gather, 5 reduce-scatter" in drawing.alt


def train_beside_one_optimizer(source):
    """Runs on every rank: ten steps with frozen parameters, with shared ones, with two groups and a schedule."""
    import copy

    import torch
    import torch.distributed as dist

    space = {"torch": torch, "dist": dist}
    exec(source, space)
    found = []
    for kind in ("frozen", "tied", "groups"):
        torch.manual_seed(0)
        single = torch.nn.Sequential(*[torch.nn.Linear(10, 10) for _ in range(3)])
        if kind == "frozen":
            single[1].bias.requires_grad = False
        if kind == "tied":
            single[2].weight = single[0].weight
        sharded = copy.deepcopy(single)
        optimizers = []
        for model, make in ((single, torch.optim.AdamW), (sharded, space["ShardedOptimizer"])):
            parameters = list(model.parameters())
            groups = [{"params": parameters[:1], "lr": 0.01}, {"params": parameters[1:]}]
            more = () if model is single else (torch.optim.AdamW,)
            optimizers.append(
                make(groups if kind == "groups" else model.parameters(), *more, lr=0.1, weight_decay=0.1)
            )
        schedules = [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9) for optimizer in optimizers]
        for _ in range(10):
            batch = torch.rand(32, 10)
            for model, optimizer, schedule in zip((single, sharded), optimizers, schedules, strict=True):
                optimizer.zero_grad()
                model(batch).square().sum().backward()
                optimizer.step()
                schedule.step()
        found.append(all(map(torch.equal, single.parameters(), sharded.parameters())))
    return found, len(optimizers[1].local.state)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_the_optimizer_by_hand_fits_the_interface_of_a_public_course(ranks):
    """Stanford's CS336, assignment 2: `ShardedOptimizer(parameters, optimizer_class, **options)`."""
    (source,) = re.findall(
        r"^# %%ranks\n(class ShardedOptimizer.*?)^# %%", LESSON.read_text(), re.DOTALL | re.MULTILINE
    )
    outcome = run_quietly(train_beside_one_optimizer, source, ranks=ranks)
    assert outcome.kind is Kind.OK, repr(outcome)
    assert [same for same, _ in outcome.values.values()] == [[True, True, True]] * ranks
    assert sum(states for _, states in outcome.values.values()) == 6, "each state is on one rank"
