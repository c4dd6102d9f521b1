"""Task 1: the loop of the lesson's question, in processes of torchrun's agent, with memory that runs out anywhere."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Literal, TypedDict

from course_lib.lessons.process_groups.tasks.bare import without_group
from course_lib.tasks.launching import become_a_process, launch, leave, write_whole
from course_lib.tasks.task import Miss, Recognised, Task, Trial, check, recognise_by_name
from course_lib.tasks.toys import ranks_text
from course_lib.tasks.weights import ROUNDING, close, farthest, numbers

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.nn.parallel import DistributedDataParallel
    from torch.optim import Optimizer

    LossOf = Callable[[nn.Module, Tensor], Tensor]
    Answer = Callable[[DistributedDataParallel, Optimizer, Iterable[Tensor], LossOf], object]

_STEPS = 5
#: Seconds until a launch is given up: a way out of a hang, and no measure.
_SECONDS = 25.0


class Failure(TypedDict):
    """An allocation that fails: in a part of a step, `where` (0 to 1) in the order of its allocations."""

    step: int
    rank: int
    part: Literal["forward", "backward", "optimizer"]
    where: float


class Case(TypedDict):
    """A launch on so many processes."""

    ranks: int
    fails: list[Failure]


class Note(TypedDict):
    """The final weights of a process, the error that ended it, or "", and how many images it drew."""

    error: str
    weights: list[float]
    drawn: int


class Seen(TypedDict):
    """The processes that came to their end, by rank, and whether others had to be killed."""

    late: bool
    notes: dict[str, Note]


#: By misconception, and `right`, the weights at the end.
Oracle = dict[str, list[float]]
ThisTrial = Trial[Case, Seen, Oracle]


class DetectionLoop(Task[Case, Seen, Oracle]):
    """A training loop that survives an out-of-memory error on any rank, or ends all ranks."""

    name = "out_of_memory.detection_loop"
    world_sizes = (1,)
    seconds = 120.0  # launches have a patience of their own; an answer that works needs a second for each
    tolerance = ROUNDING

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield launches on 2 to 4 ranks that run out of memory in forward, in backward and in the optimizer.

        In two of them memory runs out in forward and backward on some ranks, and in one step on all; then in the
        optimizer of one rank, in the first step, where it makes its state.
        """
        for ranks in (chance.randint(2, 3), 4):
            steps = chance.sample(range(_STEPS), 4)
            parts: list[Literal["forward", "backward"]] = [
                "forward",
                "backward",
                chance.choice(("forward", "backward")),
            ]
            fails = [
                Failure(step=step, rank=chance.randrange(ranks), part=part, where=chance.random())
                for step, part in zip(steps, parts, strict=False)
            ]
            fails += [
                Failure(step=steps[-1], rank=rank, part="forward", where=chance.random())
                for rank in range(ranks)
            ]
            yield {"ranks": ranks, "fails": sorted(fails, key=lambda one: (one["step"], one["rank"]))}
        yield {"ranks": 2, "fails": [Failure(step=0, rank=chance.randrange(2), part="optimizer", where=0.0)]}

    def describe(self, case: Case) -> str:
        where = (f"rank {one['rank']} in step {one['step'] + 1}, in {one['part']}" for one in case["fails"])
        return "out of memory: " + "; ".join(where)

    def trial(self, answer: Answer, case: Case) -> Seen:
        without_group()
        with tempfile.TemporaryDirectory(dir=os.getcwd()) as name:
            folder = Path(name)
            ended = launch(_process, answer, case, name, ranks=case["ranks"], folder=folder, seconds=_SECONDS)
            notes: dict[str, Note] = {
                str(rank): json.loads(path.read_text())
                for rank in range(case["ranks"])
                if (path := folder / f"note-{rank}.json").is_file()
            }
        if any(note["error"].startswith("_NotAttempted") for note in notes.values()):
            answer(None, None, (), None)  # type: ignore[arg-type]  # says so here, where it is heard
        return {"late": ended.late, "notes": notes}

    def oracle(self, case: Case, world_size: int) -> Oracle:
        """Train one process that never draws the failed images, rightly and as misconceptions have it."""
        ranks = range(case["ranks"])
        failed: dict[int, set[int]] = {}
        for one in case["fails"]:
            failed.setdefault(one["step"], set()).add(one["rank"])
        good = {step: [rank for rank in ranks if rank not in those] for step, those in failed.items()}
        return {
            "right": _train_alone(case["ranks"], good),
            "zeros_counted": _train_alone(case["ranks"], good, divisor=case["ranks"]),
            "skipped_by_all": _train_alone(case["ranks"], {step: [] for step in failed}),
            "frozen_moved": _train_alone(case["ranks"], good, zeros="frozen"),
            "unused_moved": _train_alone(case["ranks"], good, zeros="unused"),
            "nobody_good": _train_alone(case["ranks"], good, zeros="nobody"),
        }

    @check("All processes end by themselves.", gate=True)
    def ends(self, trial: ThisTrial) -> Miss | None:
        if not trial.seen[0]["late"]:
            return None
        return Miss(
            f"{self._where(trial)}: after {_SECONDS:g} s there were processes that waited", "swallowed"
        )

    @check("Memory that runs out in forward or backward ends no process.", gate=True)
    def survives(self, trial: ThisTrial) -> Miss | None:
        if _in_optimizer(trial.case):
            return None
        notes = trial.seen[0]["notes"]
        for rank in range(trial.case["ranks"]):
            note = notes.get(str(rank))
            if note is None or note["error"]:
                errors = " ".join(each["error"] for each in notes.values())
                known = "forward_only" if "can't allocate memory" in errors else None
                if known is None and ("finished reduction" in errors or "gloo" in errors):
                    known = "swallowed"
                return Miss(
                    f"{self._where(trial)}: rank {rank} ended with {note['error'] if note else 'no word'}",
                    known,
                )
        return None

    @check("All ranks have the same weights at the end, bit by bit.")
    def equal(self, trial: ThisTrial) -> Miss | None:
        weights = {
            rank: note["weights"] for rank, note in trial.seen[0]["notes"].items() if not note["error"]
        }
        for rank, mine in sorted(weights.items()):
            if not _in_optimizer(trial.case) and mine != weights["0"]:
                return Miss(f"{self._where(trial)}: the weights of rank {rank} are not those of rank 0")
        return None

    @check("They are those of one process that has never drawn the images that failed.")
    def right(self, trial: ThisTrial) -> Miss | None:
        for rank, note in sorted(trial.seen[0]["notes"].items()):
            if not _in_optimizer(trial.case) and not close(note["weights"], trial.oracle["right"]):
                gap = farthest(note["weights"], trial.oracle["right"])
                return Miss(f"{self._where(trial)}: the weights of rank {rank} are off by up to {gap:.2g}")
        return None

    @check("Memory that runs out in the optimizer's step ends the training.")
    def loud(self, trial: ThisTrial) -> Miss | None:
        step, failing = trial.case["fails"][0]["step"], trial.case["fails"][0]["rank"]
        note = trial.seen[0]["notes"].get(str(failing))
        if not _in_optimizer(trial.case) or note is None:
            return None
        # AdamW's state is incomplete then, and its next step may end with a KeyError: going on counts, not the error.
        if note["drawn"] > step + 1:
            return Miss(f"{self._where(trial)}: rank {failing} went on with its next image", "step_in_try")
        if not note["error"]:
            return Miss(f"{self._where(trial)}: rank {failing} ended without an error", "step_in_try")
        return None

    def recognise(self, trials: Sequence[ThisTrial]) -> Recognised:
        return recognise_by_name(
            [trial for trial in trials if not _in_optimizer(trial.case)],
            next(iter(trials)).oracle if trials else (),
            lambda trial, name: trial.on_all_ranks(trial.oracle[name]),
            lambda seen, right: all(close(note["weights"], right) for note in seen["notes"].values()),
        )

    def _where(self, trial: ThisTrial) -> str:
        return f"on {ranks_text(trial.case['ranks'])}, {self.describe(trial.case)}"


def _in_optimizer(case: Case) -> bool:
    return case["fails"][0]["part"] == "optimizer"


def _process(answer: Answer, case: Case, folder: str) -> None:
    """Run the answer in a process of the agent."""
    import torch.distributed as dist

    become_a_process()
    note: Note = {"error": "", "weights": [], "drawn": 0}
    try:
        dist.init_process_group("gloo")
        note["weights"] = _train(answer, case, note)
    except BaseException as error:
        note["error"] = f"{type(error).__name__}: {error}"[:300]
    write_whole(Path(folder, f"note-{os.environ['RANK']}.json"), note)
    leave(bool(note["error"]))


def _train(answer: Answer, case: Case, note: Note) -> list[float]:
    """Run the answer's loop on one rank and return the weights; count the images drawn, even if it raises."""
    from torch.nn.parallel import DistributedDataParallel

    from course_lib.failing_memory import Memory, allocations, inputs, loss_of, new

    rank = int(os.environ["RANK"])
    fails = {
        one["step"]: (one["part"], int(one["where"] * allocations(one["part"], one["step"], rank)))
        for one in case["fails"]
        if one["rank"] == rank
    }
    net, optimizer = new()
    ddp = DistributedDataParallel(net, find_unused_parameters=True, broadcast_buffers=False)
    images = [inputs(step, rank) for step in range(_STEPS)]
    with Memory() as memory:
        answer(ddp, optimizer, memory.watching(_count_drawn(images, note), fails), loss_of)
    return numbers(net.parameters())


def _count_drawn(images: Iterable[Tensor], note: Note) -> Iterator[Tensor]:
    """Yield the images and count in the note how many were drawn."""
    for image in images:
        note["drawn"] += 1
        yield image


def _train_alone(
    ranks: int,
    good: dict[int, list[int]],
    *,
    divisor: int | None = None,
    zeros: Literal["", "frozen", "unused", "nobody"] = "",
) -> list[float]:
    """Return the weights of one process without DDP.

    Args:
        good: the ranks whose images count, in steps in which not all do.
        divisor: of the sum of gradients; else the number of these ranks.
        zeros: instead of None, the gradients of parameters that are frozen, of those that nobody has used (where
            somebody is good), or of all that are trained, in steps in which nobody is good.
    """
    import torch

    from course_lib.failing_memory import inputs, loss_of, new

    net, optimizer = new()
    for step in range(_STEPS):
        members = good.get(step, range(ranks))
        optimizer.zero_grad()
        if members:
            losses = torch.stack([loss_of(net, inputs(step, rank)) for rank in members])
            (losses.sum() / (divisor or len(members))).backward()
        for parameter in net.parameters():
            kind = "frozen" if not parameter.requires_grad else "unused" if members else "nobody"
            if parameter.grad is None and kind == zeros:
                parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
    return numbers(net.parameters())
