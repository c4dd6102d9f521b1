"""The recipes of lessons 06 to 10 on the model that people ask about; a script of torchrun.

It has a frozen layer, a BatchNorm frozen by `eval()` and one that is not, a head that is used now and then and one that
nobody uses. AdamW decays its weights, and an ordinary step comes before the recipe's. Each recipe trains it twice: in
DDP, and wrapped by hand in something that averages gradients before the optimizer's step, without DDP.
"""

import copy
import gc
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from course_lib.lab.patterns import batch, loss
from tests.support.lesson_code import definitions

STEPS = 4
OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "unused": {"find_unused_parameters": True},
    "view": {"gradient_as_bucket_view": True},
    "static": {"static_graph": True},
}


class Asked(nn.Module):
    """The sum of the heads that are asked for; without `spare` heads there is only the one that is always used."""

    def __init__(self, spare: bool) -> None:
        super().__init__()
        self.frozen, self.stem = nn.Linear(6, 6).requires_grad_(False), nn.Linear(6, 6)
        self.still, self.norm = nn.BatchNorm1d(6), nn.BatchNorm1d(6)
        self.heads = nn.ModuleList(nn.Linear(6, 6) for _ in range(3 if spare else 1))
        for name in ("running_mean", "running_var"):
            nn.init.uniform_(self.still.get_buffer(name), 0.5, 1.5)
        self.still.eval()

    def body(self, x: Tensor) -> Any:
        """What all heads see."""
        return self.norm(self.still(self.stem(self.frozen(x))).tanh())

    def forward(self, x: Tensor, heads: tuple[int, ...] = (0,)) -> Any:
        """By default, of the head that is always used."""
        x = self.body(x)
        return sum(self.heads[head](x) for head in heads)


class ByHand(nn.Module):
    """Looks like DDP, and does nothing but to call its module."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: Any) -> Any:
        """What the module gives."""
        return self.module(*inputs)

    def no_sync(self) -> Any:
        """There is nothing to leave out."""
        return nullcontext()


def average(net: nn.Module) -> None:
    """Average the gradients over the ranks; one that no rank has stays None."""
    for parameter in net.parameters():
        has_one = torch.tensor(float(parameter.grad is not None))
        dist.all_reduce(has_one, dist.ReduceOp.MAX)
        if has_one:
            gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
            dist.all_reduce(gradient, dist.ReduceOp.AVG)
            parameter.grad = gradient


class Scaler(torch.amp.GradScaler):
    """Averages by hand where DDP has done it: before `unscale_`."""

    net: nn.Module

    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        """Average, then unscale."""
        average(self.net)
        super().unscale_(optimizer)


@dataclass
class Run:
    """A training of one model with one recipe, in DDP or by hand."""

    net: Asked
    wrap: Callable[[nn.Module], Any]
    spare: bool
    by_hand: bool

    def heads(self, step: int) -> tuple[int, ...]:
        """On each rank and in each step others, where there are others."""
        return (0, 1) if self.spare and (step + dist.get_rank()) % 2 else (0,)

    def optimizer(self, *more: nn.Module) -> torch.optim.Optimizer:
        """AdamW, before which gradients are averaged by hand where DDP does not."""
        nets = [self.net, *more]
        optimizer = torch.optim.AdamW(
            [p for net in nets for p in net.parameters()], lr=0.05, weight_decay=0.1
        )
        if self.by_hand:
            optimizer.register_step_pre_hook(lambda *_: [average(net) for net in nets] and None)
        return optimizer

    def train(self, ddp: Any, step: Callable[[int], None], *more: nn.Module) -> None:
        """An ordinary step, then `step` makes the losses' backwards; after each of them the optimizer's step."""
        optimizer = self.optimizer(*more)
        for number in range(STEPS):
            optimizer.zero_grad()
            if number:
                step(number)
            else:
                loss(ddp(batch(0))).backward()
            optimizer.step()


Recipe = Callable[[Run], Any]
RECIPES: dict[str, Recipe] = {}


def recipe(function: Recipe) -> Recipe:
    """Enter it in `RECIPES`."""
    RECIPES[function.__name__] = function
    return function


# Lesson 06


@recipe
def added(run: Run) -> None:
    """Two forwards, one backward."""
    ddp = run.wrap(run.net)

    def step(number: int) -> None:
        heads = run.heads(number)
        (loss(ddp(batch(2 * number), heads)) + loss(ddp(batch(2 * number + 1), heads), 1.0)).backward()

    run.train(ddp, step)


@recipe
def by_turns(run: Run) -> None:
    """Forward, backward, forward, backward."""
    ddp = run.wrap(run.net)

    def step(number: int) -> None:
        for half in (0, 1):
            loss(ddp(batch(2 * number + half), run.heads(number)), float(half)).backward()

    run.train(ddp, step)


@recipe
def one_after_the_other(run: Run) -> None:
    """Two forwards, two backwards: what the lesson warns of."""
    ddp = run.wrap(run.net)

    def step(number: int) -> None:
        losses = [loss(ddp(batch(2 * number + half), run.heads(number)), float(half)) for half in (0, 1)]
        for each in losses:
            each.backward()

    run.train(ddp, step)


def evaluated(evaluate: Callable[[Any], object]) -> Recipe:
    """Rank 0 evaluates after each step; by hand, nobody does."""

    def train(run: Run) -> None:
        ddp = run.wrap(run.net)

        def step(number: int) -> None:
            loss(ddp(batch(number), run.heads(number))).backward()
            if dist.get_rank() == 0 and not run.by_hand:
                with torch.no_grad():
                    evaluate(ddp)

        run.train(ddp, step)

    return train


def eval_and_train(ddp: Any) -> None:
    """What reaches every part of the model."""
    ddp.module.eval()
    ddp.module(batch(9))
    ddp.module.train()


def a_copy(ddp: Any) -> None:
    """What the lesson says in words."""
    copy.deepcopy(ddp.module).eval()(batch(9))


RECIPES |= {each.__name__: evaluated(each) for each in (a_copy, eval_and_train)}


@recipe
def train_and_evaluate(run: Run) -> None:
    """The solution of task 4."""
    train = definitions("course_lib/lessons/alternation/exercises.py", ["train_and_evaluate"])[
        "train_and_evaluate"
    ]
    batches = [(batch(number), batch(number + 100)) for number in range(STEPS)]
    train(run.wrap(run.net), run.optimizer(), batches, batches[0], STEPS + 1 if run.by_hand else 1)


@recipe
def gan_step(run: Run) -> None:
    """The solution of task 2; the model is the discriminator."""
    step = definitions("course_lib/lessons/alternation/exercises.py", ["gan_step"])["gan_step"]
    torch.manual_seed(1)
    generator = nn.Linear(6, 6)
    optimizers = run.optimizer(generator), run.optimizer()
    optimizers[0].param_groups[0]["params"] = [*generator.parameters()]
    models = run.wrap(generator), run.wrap(run.net)
    for number in range(STEPS):
        step(*models, *optimizers, batch(2 * number), batch(2 * number + 1))


# Lesson 07


@recipe
def doors(run: Run) -> None:
    """Methods through a forward that takes their name: a body, then a head."""
    ddp = run.wrap(definitions("course_lib/lessons/wrappers/lesson.py", ["Doors"])["Doors"](run.net))

    def step(number: int) -> None:
        loss(ddp("forward", batch(number), run.heads(number))).backward()

    run.train(lambda x: ddp("forward", x), step)


@recipe
def pairs(run: Run) -> None:
    """The forum's wrapper, repaired: it holds the inner model, and a model in DDP of its own gets its two outputs."""
    named = definitions("course_lib/lessons/wrappers/lesson.py", ["Pair"])
    torch.manual_seed(1)
    outer = nn.Bilinear(6, 6, 1)
    a, b = run.wrap(outer), run.wrap(named["Pair"](run.net))

    def step(number: int) -> None:
        loss(a(*b([batch(2 * number), batch(2 * number + 1)]))).backward()

    run.train(lambda x: a(*b([x, x])), step, outer)


@recipe
def loss_inside(run: Run) -> None:
    """A loss with a parameter in the wrapper, which also returns outputs that are not detached."""
    named = definitions("course_lib/lessons/wrappers/lesson.py", ["Scaled", "WithLoss"])

    class Logging(named["WithLoss"]):  # type: ignore[misc]
        def forward(self, x: Tensor) -> Any:
            y = self.net(x)
            return self.criterion(y.square()), y

    criterion = named["Scaled"]()
    ddp = run.wrap(Logging(run.net, criterion))

    def step(number: int) -> None:
        value, _outputs = ddp(batch(number))
        (value - 1).square().backward()

    run.train(lambda x: ddp(x)[0], step, criterion)


def beside(head: int) -> Recipe:
    """A term on a head around the wrapper, beside a forward through it; head 2 is in no forward."""

    def train(run: Run) -> None:
        ddp = run.wrap(run.net)

        def step(number: int) -> None:
            penalty = loss(ddp.module.heads[head](batch(number + 50)), 1.0)
            (loss(ddp(batch(number), run.heads(number))) + penalty).backward()

        run.train(ddp, step)

    return train


RECIPES |= {"beside_used": beside(0), "beside_unused": beside(2)}


def follows(copies_at_once: bool) -> Recipe:
    """AveragedModel as a teacher, against one that follows by hand from a copy made after wrapping."""

    def train(run: Run) -> float:
        ddp, optimizer = run.wrap(run.net), run.optimizer()
        by_hand = copy.deepcopy(ddp.module)
        teacher = AveragedModel(run.net, multi_avg_fn=get_ema_multi_avg_fn(0.9))
        if copies_at_once:
            teacher.update_parameters(run.net)
        for number in range(STEPS):
            optimizer.zero_grad()
            loss(ddp(batch(number), run.heads(number))).backward()
            optimizer.step()
            teacher.update_parameters(run.net)
            with torch.no_grad():
                for mine, its in zip(by_hand.parameters(), run.net.parameters(), strict=True):
                    mine.lerp_(its, 0.1)
        return apart(teacher.module, by_hand)

    return train


RECIPES |= {"teacher": follows(True), "teacher_without_first_update": follows(False)}


# Lesson 08


@recipe
def touch(run: Run) -> None:
    """A loss that touches every parameter."""
    touched = definitions("course_lib/lessons/unused/heads.py", ["touched"])["touched"]
    ddp = run.wrap(run.net)

    def step(number: int) -> None:
        (loss(ddp(batch(number), run.heads(number))) + touched(ddp)).backward()

    run.train(lambda x: ddp(x) + touched(ddp), step)


# Lesson 10


def grouped(function: Callable[[Run, Any, list[list[tuple[Tensor, Tensor]]]], None]) -> Recipe:
    """Train on groups of 4, 4, 2 and 1 micro-batches."""

    def train(run: Run) -> None:
        digits = [(batch(number), (batch(number + 100) > 0).long().sum(1) % 6) for number in range(11)]
        function(run, run.wrap(run.net), [digits[:4], digits[4:8], digits[8:10], digits[10:]])

    return train


def _train_on(run: Run, ddp: Any, groups: list[list[tuple[Tensor, Tensor]]]) -> None:
    named = definitions(
        "course_lib/lessons/accumulation/lesson.py",
        ["train_on"],
        nullcontext=nullcontext,
    )
    scaler, optimizer = torch.amp.GradScaler("cpu", init_scale=1024.0), run.optimizer()
    if run.by_hand:
        optimizer._optimizer_step_pre_hooks.clear()
        scaler = Scaler("cpu", init_scale=1024.0)
        scaler.net = run.net
    for group in groups:
        named["train_on"](group, ddp, optimizer, scaler, 0.3)


def _accumulate(run: Run, ddp: Any, groups: list[list[tuple[Tensor, Tensor]]]) -> None:
    named = definitions("course_lib/lessons/accumulation/exercises.py", ["accumulate"])
    optimizer = run.optimizer()
    for group in groups:
        optimizer.zero_grad()
        named["accumulate"](ddp, group, partial(nn.functional.cross_entropy, reduction="none"))
        optimizer.step()


RECIPES |= {
    "train_on": grouped(_train_on),
    "accumulate": grouped(_accumulate),
}


# What came of them


def apart(one: nn.Module, other: nn.Module) -> float:
    """The largest difference of two models' parameters."""
    return (
        (parameters_to_vector(one.parameters()) - parameters_to_vector(other.parameters())).abs().max().item()
    )


def compare(name: str, mode: str) -> dict[str, Any]:
    """Train with a recipe in DDP and by hand, and say what came of it.

    Spare heads are there where DDP looks for unused parameters and where everything is touched.
    """
    spare = mode == "unused" or name in ("touch", "beside_unused")
    torch.manual_seed(0)
    net = Asked(spare)
    twin, start = copy.deepcopy(net), copy.deepcopy(net)
    found: dict[str, Any] = {}
    for run in (
        Run(net, partial(DistributedDataParallel, **OPTIONS[mode]), spare, False),
        Run(twin, ByHand, spare, True),
    ):
        try:
            value = RECIPES[name](run)
        except RuntimeError as error:
            return {"raises": str(error)[:60]}
        found.setdefault("value", value)
    mine = parameters_to_vector(net.parameters()).detach()
    theirs = mine.clone()
    dist.broadcast(theirs, src=0)
    return found | {
        "equal": torch.equal(mine, theirs),
        "off": apart(net, twin),
        "moved": apart(net, start) > 0.01,
        "frozen": torch.equal(net.frozen.weight, start.frozen.weight),
        "unused": not spare or torch.equal(net.heads[2].weight, start.heads[2].weight),
        "modes": [part.training for part in net.modules()] == [part.training for part in start.modules()],
        "statistics": dist.get_rank() > 0 or torch.equal(net.still.running_mean, start.still.running_mean),
    }


# The check of lesson 08, and what it does not see


@dataclass
class Output:
    """Not known to torch's pytree."""

    y: Tensor


class Wraps(Asked):
    """Returns a dataclass."""

    def forward(self, x: Tensor, heads: tuple[int, ...] = (0,)) -> Any:
        """Its only field is the output."""
        return Output(super().forward(x, heads))


def silent_failures() -> Iterator[tuple[str, bool, bool]]:
    """What goes wrong, whether gradients then differ between the ranks, and whether DDP's own check raises."""

    def around(ddp: Any) -> None:
        loss(ddp.module(batch(0))).backward()

    def twice(ddp: Any) -> None:
        one, other = loss(ddp(batch(0))), loss(ddp(batch(1)))
        one.backward()
        other.backward()

    def not_synchronised(ddp: Any) -> None:
        with ddp.no_sync():
            loss(ddp(batch(0))).backward()

    def left_out(ddp: Any) -> None:
        loss(ddp(batch(0))).backward()

    def in_a_dataclass(ddp: Any) -> None:
        loss(ddp(batch(0)).y).backward()

    for mistake, net, options in (
        (around, Asked(False), {}),
        (twice, Asked(False), {}),
        (not_synchronised, Asked(False), {}),
        (in_a_dataclass, Wraps(False), {"static_graph": True}),
        (left_out, Asked(True), {}),
    ):
        ddp = DistributedDataParallel(net, **options)
        mistake(ddp)
        mine = parameters_to_vector(p.grad for p in ddp.parameters() if p.grad is not None)
        theirs = mine.clone()
        dist.broadcast(theirs, src=0)
        differs = torch.tensor(float(not torch.equal(mine, theirs)))
        dist.all_reduce(differs, dist.ReduceOp.MAX)
        try:
            ddp._check_reducer_finalized()
            raised = False
        except RuntimeError:
            raised = True
        yield mistake.__name__, bool(differs), raised


def touched_behind_a_reentrant_checkpoint() -> str:
    """The first words of what it raises."""
    from torch.utils.checkpoint import checkpoint

    touched = definitions("course_lib/lessons/unused/heads.py", ["touched"])["touched"]

    class Reentrant(Asked):
        def forward(self, x: Tensor, heads: tuple[int, ...] = (0,)) -> Any:
            return checkpoint(partial(super().forward, heads=heads), x, use_reentrant=True)

    ddp = DistributedDataParallel(Reentrant(False))
    try:
        (loss(ddp(batch(0).requires_grad_())) + touched(ddp)).backward()
    except RuntimeError as error:
        return str(error).partition(".")[0]
    return ""


def main(folder: str, table: str) -> None:
    """Write what came of each recipe and mode in `table`."""
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo")
    found = {}
    for name, mode in json.loads(table):
        print(name, mode, file=sys.stderr, flush=True)  # where a recipe hangs, this is what tells which
        found[f"{name}, {mode}"] = compare(name, mode)
    found["check"] = {name: [differs, raised] for name, differs, raised in silent_failures()}
    found["reentrant"] = {"raises": touched_behind_a_reentrant_checkpoint()}
    Path(folder, f"rank{dist.get_rank()}.json").write_text(json.dumps(found), encoding="utf-8")
    gc.collect()  # first the wrapped models go, then the group
    dist.destroy_process_group()
    sys.stderr.flush()
    os._exit(0)  # gloo's threads may abort a process that just ends, and all has been written


if __name__ == "__main__":
    main(*sys.argv[1:])
