"""Task 3: DDP with buckets that are sent while backward is running."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from random import Random
from typing import TYPE_CHECKING

from course_lib.lessons.buckets.tasks.synchronized import Synchronized, ThisTrial
from course_lib.lessons.buckets.tasks.training import Case, Seen, close, train
from course_lib.tasks.task import Miss, Recognised, check
from realranks.outcome.outcome import Kind, Outcome, RankState

if TYPE_CHECKING:
    from torch import nn

_KIB = 1 / 1024
#: All-reduces that twelve layers of 1 KiB take with bucket_size_mb of 4 KiB: three, or more when a bucket is closed
#: before it is full or something small is sent beside; far from one, and from twelve.
_MIN_ISSUED, _MAX_ISSUED = 3, 6


class BucketedDDP(Synchronized):
    """DDP with buckets that are sent while backward is running."""

    name = "buckets.BucketedDDP"
    world_sizes = (1, 2, 3)
    seconds = 15.0

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield one model of each kind, small buckets where ranks use different layers, and a late rank."""
        for kind, size in (
            ("plain", 0.1 * _KIB),
            ("frozen", 1),
            ("tied", 0.2 * _KIB),
            ("spare", 1),
            ("branches", 0.01 * _KIB),
            ("branches", 1),
            ("buffers", 1),
            ("many", 4 * _KIB),
        ):
            many = kind == "many"
            # In every step neighbouring ranks use different layers, others than before; with three ranks each is used.
            shifts = chance.sample(range(3), 2)
            yield {
                "kind": kind,
                "bucket_size_mb": size,
                "seed": chance.randint(1, 10_000),
                "steps": 2,
                "late": many and world_size == 2,  # one gang is enough: it takes a while
                "heads": [[(rank + shift) % 3 for rank in range(world_size)] for shift in shifts],
            }

    def describe(self, case: Case) -> str:
        return f"{super().describe(case)}, bucket_size_mb={case['bucket_size_mb']:.2g}"

    def trial(self, answer: Callable[[nn.Module, float], object], case: Case) -> Seen:
        return train(lambda module: answer(module, case["bucket_size_mb"]), case)

    @check("When it is made, all ranks get rank 0's parameters, frozen ones too.")
    def starts_equal(self, trial: ThisTrial) -> Miss | None:
        return self.start_differs(trial)

    @check("Every forward begins with rank 0's buffers.")
    def shares_buffers(self, trial: ThisTrial) -> Miss | None:
        """Seen in the buffers that a forward leaves behind: each rank's own update of rank 0's."""
        if trial.case["kind"] != "buffers" or self._unequal_starts(trial, "parameters"):
            return None
        for step, wanted in enumerate(trial.oracle["steps"]):
            for rank, seen in sorted(trial.seen.items()):
                for mine, right in zip(seen["steps"][step]["buffers"], wanted["buffers"][rank], strict=True):
                    if not close(mine, right):
                        where = (
                            f"with {self.describe(trial.case)} on {trial.world_size} ranks, step {step + 1}"
                        )
                        observed = (
                            f"{where}: after the forward a buffer of rank {rank} begins with {mine[0]:.3f}; one that "
                            f"began as rank 0's would with {right[0]:.3f}"
                        )
                        return Miss(observed, "buffers_ignored")
        return None

    @check("After finish_gradient_synchronization(), every .grad is the mean over all ranks, in every step.")
    def averages(self, trial: ThisTrial) -> Miss | None:
        """Compared with one process that does all parts."""
        if trial.case["kind"] == "buffers" and self.shares_buffers(trial) is not None:
            return None
        return self.gradients_differ(trial, self._known)

    @check("After the last step all ranks have the weights of one process that trained on everything.")
    def ends_equal(self, trial: ThisTrial) -> Miss | None:
        return self.end_differs(trial)

    @check("Gradients travel in buckets of about bucket_size_mb.")
    def fills_buckets(self, trial: ThisTrial) -> Miss | None:
        """Counted in collectives between the beginning of the backward and the end of the synchronization."""
        if trial.case["kind"] != "many":
            return None
        for rank, seen in sorted(trial.seen.items()):
            issued = seen["steps"][0]["issued"]
            if not _MIN_ISSUED <= issued <= _MAX_ISSUED:
                sent = f"{issued} collective{'s' if issued != 1 else ''}"
                observed = (
                    f"with {self.describe(trial.case)}, rank {rank} of {trial.world_size} issued {sent}"
                )
                return Miss(
                    observed, "one_bucket" if 0 < issued < _MIN_ISSUED else "bucket_each" if issued else None
                )
        return None

    @check("The first buckets are sent while backward is still running, and backward waits for none.")
    def overlaps(self, trial: ThisTrial) -> Miss | None:
        """In every step; the last rank begins its backward when rank 0 has come through its own."""
        if trial.case["kind"] != "many" or trial.world_size == 1:
            return None
        for step in range(trial.case["steps"]):
            if trial.case["late"] and not trial.seen[1]["steps"][step]["through"]:
                observed = "rank 0 did not come to the end of its backward while rank 1 had not begun its own"
                return Miss(observed, "blocking")
            if all(seen["steps"][step]["early"] == 0 for seen in trial.seen.values()):
                issued = trial.seen[0]["steps"][step]["issued"]
                # With one bucket there is nothing to overlap: that has been said.
                named = ("only_once" if step else "no_overlap") if issued >= _MIN_ISSUED else None
                came = f"when backward came to the model's inputs in step {step + 1}"
                return Miss(f"{came}, rank 0 had issued no collective", named)
        return None

    @check("finish_gradient_synchronization() waits until everything has arrived.")
    def waits(self, trial: ThisTrial) -> Miss | None:
        """On rank 0 it must not return before the last rank has begun."""
        if trial.case["late"] and trial.seen[1]["steps"][0]["hasty"]:
            return Miss("on rank 0 it returned before rank 1 had begun its backward", "not_waited")
        return None

    def _known(self, trial: ThisTrial, step: int) -> str | None:
        kind, wanted = trial.case["kind"], trial.oracle["steps"]
        if trial.case["late"] and trial.seen[1]["steps"][0]["hasty"]:
            return "not_waited"
        if step > 0 and kind == "plain":
            return "not_waited" if self._is_unfinished(trial, step) else "only_once"
        if step > 0:
            return None
        if self.fits(trial, lambda _: self.scaled(trial, trial.world_size)):
            return "summed"
        local = wanted[0]["local"]
        stayed_local = self.fits(trial, lambda rank: local[rank])
        if kind == "plain":
            return "not_copied_back" if stayed_local else None
        if kind in ("frozen", "spare") and stayed_local:
            return "never_sent"
        if kind == "branches":
            return self._known_of_branches(trial)
        return None

    def _is_unfinished(self, trial: ThisTrial, step: int) -> bool:
        """Return whether every number seen is the mean, or a partial sum that an all-reduce leaves on its way."""
        local = trial.oracle["steps"][step]["local"]
        ranks = range(trial.world_size)
        subsets = [some for size in ranks for some in combinations(ranks, size + 1)]
        for seen in trial.seen.values():
            for number, gradient in enumerate(seen["steps"][step]["gradients"]):
                parts = [part for rank in ranks if (part := local[rank][number]) is not None]
                if gradient is None or len(parts) < trial.world_size:
                    return False
                for place, found in enumerate(gradient):
                    sums = (sum(parts[rank][place] for rank in some) / trial.world_size for some in subsets)
                    if not any(close([found], [one]) for one in sums):
                        return False
        return True

    def _known_of_branches(self, trial: ThisTrial) -> str | None:
        right = trial.oracle["steps"][0]
        wrong = [
            (seen["steps"][0]["gradients"][number], right["local"][rank][number])
            for rank, seen in trial.seen.items()
            for number, mean in enumerate(right["means"])
            if not close(seen["steps"][0]["gradients"][number], mean)
        ]
        if all(local is None and found is None for found, local in wrong):
            return "absent_stays_none"
        if all(close(found, local) for found, local in wrong):
            return "never_sent"
        users = [[local is not None for local in locals_] for locals_ in zip(*right["local"], strict=True)]
        of_users = [
            mean and [trial.world_size / max(1, sum(used)) * x for x in mean]
            for mean, used in zip(right["means"], users, strict=True)
        ]
        return "mean_of_users" if self.fits(trial, lambda _: of_users) else "order_differs"

    def recognise_ending(self, outcome: Outcome, trials: Sequence[ThisTrial]) -> Recognised:
        """Recognise ranks that send different buckets: they wait for each other or fail."""
        if outcome.kind is not Kind.HANG or not trials:
            return None
        blocked = any(waiting.state == RankState.BLOCKED for waiting in outcome.waiting.values())
        spare_went_well = any(
            trial.world_size == outcome.world_size and trial.case["kind"] == "spare" for trial in trials
        )
        return "never_sent" if blocked and spare_went_well else None
