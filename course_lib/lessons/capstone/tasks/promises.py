"""What a training script promises: one check for each of its fifteen faults, and one for the whole.

Two scripts are judged by them: the learner's own, from lesson 00 on, and the one of the capstone.
"""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import ClassVar

from course_lib.lessons.capstone.tasks.cases import TESTS, Case, cases
from course_lib.lessons.capstone.tasks.evidence import (
    Evidence,
    Seen,
    ThisTrial,
    other_start,
    other_statistics,
)
from course_lib.lessons.capstone.tasks.gradients import (
    first_bypass,
    first_left_over,
    first_loss,
    first_mixed_pass,
    first_two_backwards,
    first_unsynced,
    first_weight,
)
from course_lib.lessons.capstone.tasks.run import observe_launch
from course_lib.tasks import toys
from course_lib.tasks.task import Miss, Task, check
from realranks.outcome.fold import rank_list

#: Seconds that groups must be ready to wait, at least.
_PATIENT = 60.0
#: Said where a promise is not kept, and no launch looks wrong.
_NO_SYMPTOM = (
    "Every launch ends well, with the right weights for the images it took. Still, a promise is not kept: "
    "read them one by one, and print on each rank what they speak of."
)


class Promises(Task[Case, Seen, None]):
    """A training script, repaired.

    Attributes:
        models: what the script calls the model that reads digits, and the one that draws halves of them.
    """

    models: ClassVar[tuple[str, str]]
    world_sizes = (1, 2, 3, 4)
    seconds = 60.0

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        return cases(world_size, chance, self.models)

    def describe(self, case: Case) -> str:
        return f"the launch {case['launch']!r}"

    def trial(self, answer: Callable[[], str], case: Case) -> Seen:
        return observe_launch(answer(), case)

    @check(
        "Four processes on two machines: each has a share of its own, and one writes the checkpoint.",
        suspects="02 local_rank rank world_size num_replicas environ distributedsampler me all local_world_size",
    )
    def places(self, trial: ThisTrial) -> Miss | None:
        """Shares of ranks that have the same local rank."""
        seen = _launch(trial, "slow")
        if seen is None:
            return None
        shares = [list(itertools.chain(*seen.shares(rank))) for rank in seen.ranks]
        if not all(shares):
            return _not_reached(seen)
        for rank in (0, 1):
            if shares[rank] == shares[rank + 2]:
                return Miss(
                    f"ranks {rank} and {rank + 2}, on different machines, trained on the same images: "
                    f"{toys.short(shares[rank])}",
                    "local_rank",
                )
        twice = sum(len(share) for share in shares) - len(set().union(*shares))
        if twice >= seen.world_size:
            return Miss(f"{twice} of {len(seen.case['digits'])} images are in the shares of several ranks")
        missing = len(seen.case["digits"]) - len(set().union(*shares))
        if missing >= seen.world_size and all(map(seen.trained, seen.ranks)):
            return Miss(f"{missing} of {len(seen.case['digits'])} images are in the share of no rank")
        writers = [rank for rank in seen.ranks if seen.has(rank, "save")]
        return Miss(f"{rank_list(writers)} wrote the checkpoint", "local_rank") if len(writers) > 1 else None

    @check(
        "Each epoch has an order of its own.",
        suspects="03 sampler set_epoch epoch shuffle order seed distributedsampler randperm generator manual_seed",
    )
    def order(self, trial: ThisTrial) -> Miss | None:
        """Two epochs on two ranks; and the second one once more, after the kill."""
        seen = _launch(trial, "killed")
        if seen is not None:
            return _order_after_a_kill(seen)
        seen = _launch(trial, "plain")
        if seen is None:
            return None
        for rank in seen.ranks:
            epochs = seen.shares(rank)
            if len(epochs) < 2:
                return _not_reached(seen)
            if epochs[0] == epochs[1]:
                return Miss(f"rank {rank} trained on {toys.short(epochs[0])} in both epochs", "same_order")
        return None

    @check(
        "The accuracy counts each test image once.",
        suspects="03 evaluate accuracy counts seen right distributedsampler mine share test",
    )
    def accuracy(self, trial: ThisTrial) -> Miss | None:
        """25 test images on two ranks, and on four."""
        plain = _launch(trial, "plain")
        seen = plain or _launch(trial, "slow")
        if seen is None:
            return None
        found = seen.seen["checkpoint"]
        if found.get("problem") or not found["history"]:
            return _not_reached(plain) if plain else None  # who does not wait for a slow rank is told so
        given = found["history"][-1]
        if abs(given * TESTS - round(given * TESTS)) > 1e-3:
            padded = next(
                (n for n in range(TESTS + 1, TESTS + 4) if abs(given * n - round(given * n)) < 1e-3), 0
            )
            really = f"; it is {round(given * padded)} of {padded}" if padded else ""
            return Miss(
                f"rank 0 told an accuracy of {given:.4f}: no number of {TESTS} test images gives that{really}",
                "counted_twice",
            )
        if seen.as_one_process and other_statistics(seen) is None and round(given * TESTS) != found["right"]:
            return Miss(
                f"rank 0 told an accuracy of {given:.2f}; the saved model reads {found['right']} of {TESTS} right"
            )
        return None

    @check(
        "A process that is four seconds late is waited for.",
        suspects="05 timeout timedelta init_process_group patience",
    )
    def patience(self, trial: ThisTrial) -> Miss | None:
        seen = _launch(trial, "slow")
        if seen is None:
            return None
        if not seen.has(seen.case["slow"]["rank"], "slow"):
            return _not_reached(seen)
        raised = [e for rank in seen.ranks for e in seen.events(rank) if e["what"] == "raised"]
        for event in raised:
            if found := re.search(r"[Tt]imed out( waiting \d+ ?ms)?", event["message"]):
                return Miss(f"rank 1 was four seconds late, and another rank raised: {found[0]}", "impatient")
        timeouts = [
            (e["timeout"], rank) for rank in seen.ranks for e in seen.events(rank) if e["what"] == "init"
        ]
        seconds, rank = min(((s, rank) for s, rank in timeouts if s is not None), default=(_PATIENT, 0))
        if seconds < _PATIENT:
            return Miss(f"rank {rank} has made its group with a timeout of {seconds:g} s", "impatient")
        return None

    @check(
        "Blank images on one rank keep nobody waiting.",
        suspects="05 blank blanks micro_batches any share join shown chosen",
    )
    def blanks(self, trial: ThisTrial) -> Miss | None:
        """All blank images are in one share, if shares are made of all images."""
        seen = _launch(trial, "blanks")
        if seen is None:
            return None
        finished = [rank for rank in seen.ranks if seen.trained(rank)]
        micro_batches = {sum(map(len, seen.micro_batches(rank))) for rank in seen.ranks}
        if micro_batches == {0}:
            return _not_reached(seen)
        blank = set(seen.seen["blank"])
        for rank in seen.ranks:
            if blank.intersection(itertools.chain(*seen.shares(rank))):
                return Miss(f"rank {rank} trained on blank images")
        # A script that swallows every error goes on when the doctor ends the deadlock.
        if len(finished) == trial.world_size and not (len(micro_batches) > 1 and seen.deadlock):
            return None
        for rank in seen.ranks:
            for event in seen.events(rank):
                if event["what"] == "raised" and "more than 1 value per channel" in event["message"]:
                    return Miss(
                        f"in line {event['line']}, rank {rank} had a micro-batch of one image: a BatchNorm needs two"
                    )
        came = rank_list(finished) if finished else "no rank"
        return Miss(
            f"without an error of its own, {came} of 3 came out of the training{seen.doctor}", "uneven"
        )

    @check(
        "Both passes through the model that reads digits reach the gradients of all ranks.",
        suspects="06 backward loss loss_moved classifier moved forward losses reader shared_reader",
    )
    def both_passes(self, trial: ThisTrial) -> Miss | None:
        return _wrong_gradients(trial, first_two_backwards, "two_backwards")

    @check(
        "The gradients of the model that draws halves are averaged.",
        suspects="07 completer module error mender shared_mender drawn",
    )
    def completer(self, trial: ThisTrial) -> Miss | None:
        """A model that is called past its wrapper."""
        return _wrong_gradients(trial, first_bypass, "bypassed")

    @check(
        "All ranks evaluate one model.",
        suspects="09 batchnorm batchnorm1d buffers broadcast_buffers statistics eval forward_sync_buffers norm",
    )
    def one_model(self, trial: ThisTrial) -> Miss | None:
        """The running statistics at the beginning of each evaluation."""
        seen = _launch(trial, "plain")
        if seen is None:
            return None
        if not seen.evaluations(0):
            return _not_reached(seen)
        found = other_statistics(seen)
        return None if found is None else Miss(found, "own_statistics")

    @check(
        "The gradients of all micro-batches are there when the step is taken.",
        suspects="10 zero_grad optimizer.zero_grad gradients self.optimizer.zero_grad",
    )
    def nothing_lost(self, trial: ThisTrial) -> Miss | None:
        """Zeroed between two backwards of one step."""
        return _wrong_gradients(trial, first_loss, "gradients_lost")

    @check(
        "Gradients are averaged in the last micro-batch of a step.",
        suspects="10 no_sync accumulate exitstack enter_context number quiet last",
    )
    def averaged(self, trial: ThisTrial) -> Miss | None:
        """The setting of the wrapper before the last pass."""
        return _wrong_gradients(trial, first_unsynced, "not_averaged")

    @check(
        "A step follows the mean over its micro-batches.",
        suspects="10 accumulate mean loss scale lr backward manual_seed weights all losses",
    )
    def mean(self, trial: ThisTrial) -> Miss | None:
        """The weight with which losses enter backward."""
        seen = _launch(trial, "plain")
        if seen is not None and not seen.as_one_process and (other := other_start(seen)):
            return Miss(f"not to be told from a loss: {other}")  # who averages by hand may divide there
        return _wrong_gradients(trial, first_weight, "summed")

    @check(
        "A process that runs out of memory does not go on alone.",
        suspects="11 memory except runtimeerror continue error try allocate return",
    )
    def memory(self, trial: ThisTrial) -> Miss | None:
        """A real allocation that fails, in rank 1's second micro-batch."""
        seen = _launch(trial, "hungry")
        if seen is None:
            return None
        rank = seen.case["hungry"]["rank"]
        if not seen.has(rank, "hungry"):
            return _not_reached(seen)
        whats = [event["what"] for event in seen.events(rank)]
        afterwards = whats[whats.index("hungry") + 1 :]
        if not {"pass", "step", "save", "collective"} & set(afterwards):
            if not seen.seen["ok"]:
                return None
            return Miss(
                f"rank {rank} had no memory for its second micro-batch, and the run ended as if all were well",
                "swallowed",
            )
        together = all(seen.trained(other) for other in seen.ranks) and not seen.deadlock
        theirs, its = seen.backwards(0), seen.backwards(rank)
        if together and len(theirs) == len(its) and all(map(operator.ge, its, theirs)):
            return None
        return Miss(
            f"rank {rank} had no memory for its second micro-batch and went on{seen.doctor}", "swallowed"
        )

    @check(
        "After a kill and a restart, the optimizer continues with the state it had.",
        suspects="12 momentum optimizer resume load load_state_dict state checkpoint optimizer.state_dict me",
    )
    def resumed(self, trial: ThisTrial) -> Miss | None:
        """The first step after the restart."""
        seen = _launch(trial, "killed")
        if seen is None or seen.as_one_process:
            return None
        problem = seen.found(1).get("problem")
        if problem and seen.has(0, "killed"):
            return Miss(f"rank 0 was killed in epoch 2, and of the checkpoint after epoch 1, {problem}")
        for rank in seen.ranks:
            first = next((event for event in seen.events(rank, 1) if event["what"] == "step"), None)
            if first is None:
                return _not_reached(seen)
            if not first["remembers"]:
                return Miss(
                    f"the ranks were killed in epoch 2, and rank {rank} came back without momentum",
                    "forgotten",
                )
        return None

    @check(
        "All ranks come to the same collectives, to the end.",
        suspects="14 all_reduce norm barrier rank done me longest return",
    )
    def to_the_end(self, trial: ThisTrial) -> Miss | None:
        """What is called after the last evaluation has begun."""
        seen = _launch(trial, "plain")
        if seen is None:
            return None
        if not any(len(seen.evaluations(rank)) == seen.case["epochs"] for rank in seen.ranks):
            return _not_reached(seen)
        called = [seen.collectives(rank) for rank in seen.ranks]
        if seen.seen["ok"] or called[0] == called[1]:
            return None
        more = max(seen.ranks, key=lambda rank: len(called[rank]))
        last = called[more][-1]
        return Miss(f"rank {more} called {last} after the last epoch, alone{seen.doctor}", "rank_0_alone")

    @check(
        "Killed while it writes, it leaves a checkpoint that can be read.",
        suspects="14 save torch.save checkpoint write torch.load exists unlink rename new file",
    )
    def whole(self, trial: ThisTrial) -> Miss | None:
        seen = _launch(trial, "killed")
        if seen is None:
            return None
        if seen.seen["ok"] and seen.as_one_process:
            return None  # however it has found its way back
        writer = next((rank for rank in seen.ranks if seen.has(rank, "killed", 1)), None)
        if writer is None:
            good = seen.seen["ok"] and "problem" not in seen.seen["checkpoint"]
            return None if good else _not_reached(seen)
        problem = seen.found(2).get("problem")
        if problem:
            return Miss(f"rank {writer} was killed while it wrote checkpoint.pt: {problem}", "half_written")
        return None

    @check(
        "On 1 to 4 processes, it ends well, with the weights that one process would have found.",
        suspects="weights left over leftover zero_grad accumulate forward",
    )
    def as_one_process(self, trial: ThisTrial) -> Miss | None:
        """The whole: an end, and weights."""
        seen = Evidence(trial)
        name = seen.case["launch"]
        run = f"the {name!r} run on {toys.ranks_text(trial.world_size)}"
        if name != "hungry" and not seen.seen["ok"]:
            return Miss(f"{run} did not end well")
        if name in ("hungry", "blanks"):
            return None
        saved, epochs, off = seen.seen["checkpoint"], seen.case["epochs"], seen.seen["off"]
        if "problem" not in saved and (saved["epoch"], len(saved["history"])) != (epochs, epochs):
            return Miss(
                f"{run} trained {epochs} epochs; its checkpoint tells of {saved['epoch']}, its history of "
                f"{len(saved['history'])}"
            )
        if off is None:
            return Miss(f"{run} has left no weights to compare")
        if seen.as_one_process:
            return None
        return Miss(
            f"after {run}, a saved weight is {off:.4f} off{first_left_over(seen) or first_mixed_pass(seen)}"
        )

    def symptoms(self, trials: Sequence[ThisTrial]) -> tuple[str, ...]:
        seen = [(Evidence(trial), self._symptom(trial)) for trial in trials]
        found = [
            f"{each.case['launch']}, {toys.ranks_text(each.world_size)}: {said}"
            for each, said in seen
            if said
        ]
        return tuple(found) or (_NO_SYMPTOM,)

    def _symptom(self, trial: ThisTrial) -> str:
        seen = Evidence(trial)
        name, off, ok = seen.case["launch"], seen.seen["off"], seen.seen["ok"]
        stuck = seen.seen["late"] or bool(seen.seen["doctor"])
        end = "it ended" if ok else "it stood still" if stuck else "it ended with an error"
        if name == "hungry":
            return f"rank {seen.case['hungry']['rank']} had no memory; {end}" if self.memory(trial) else ""
        if name == "blanks":
            return end if self.blanks(trial) else ""
        if not ok:
            return end
        if off is None:
            return f"{end}, and left no weights"
        return "" if seen.as_one_process else f"{end}, and a saved weight is {off:.2g} off from one process's"


def _launch(trial: ThisTrial, name: str) -> Evidence | None:
    """Return the launch that a check is about; None for the others."""
    return Evidence(trial) if trial.case["launch"] == name else None


def _wrong_gradients(
    trial: ThisTrial, first: Callable[[Evidence], str | None], misconception: str
) -> Miss | None:
    """Find the first place in the plain run where gradients go wrong in this way."""
    seen = _launch(trial, "plain")
    if seen is None or seen.as_one_process:
        return None
    if not any(True for _ in seen.groups(0)):
        return _not_reached(seen)
    found = first(seen)
    return None if found is None else Miss(found, misconception)


def _order_after_a_kill(seen: Evidence) -> Miss | None:
    """Compare what the second epoch trains on before rank 0 is killed in it, and afterwards."""
    for rank in seen.ranks:
        before, after = seen.micro_batches(rank), seen.micro_batches(rank, 1)
        if seen.found(1).get("epoch") != 1 or len(before) < 2 or not after:
            return None  # said elsewhere
        first, begun, again = (list(itertools.chain(*epoch)) for epoch in (*before[:2], after[0]))
        if again == first:
            return Miss(
                f"after a kill in epoch 2 and a restart, rank {rank} trained on {toys.short(again)}, in the order of "
                "epoch 1",
                "same_order",
            )
        both = min(len(begun), len(again))  # a rank may be stopped at any moment
        if again[:both] != begun[:both]:
            return Miss(
                f"rank {rank} had begun epoch 2 with {toys.short(begun)}, and began it with {toys.short(again)} after "
                "a kill and a restart"
            )
    return None


def _not_reached(seen: Evidence) -> Miss:
    return Miss(f"not reached on {toys.ranks_text(seen.world_size)}, because {seen.end()}")
