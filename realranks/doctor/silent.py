"""Silent faults of runs that ended well: all rules in the order in which they are asked. A new rule is a line here.

The first rule that finds an error speaks; what is only worth knowing (`warning` in diagnoses.toml) is said where no
rule finds one. A run that was not watched has no notes (`watch.probe`): the rules in `_BEFORE` do without.
"""

from __future__ import annotations

from collections.abc import Callable

from realranks.doctor import data, drift, samples, training
from realranks.doctor.errors import nothing_loaded, swallowed_complaint
from realranks.doctor.files import same_file
from realranks.doctor.memory import graphs_kept
from realranks.doctor.metrics import mean_of_means
from realranks.doctor.mismatches import mismatch_in_passing
from realranks.doctor.notes import Notes, notes_of
from realranks.doctor.nothing_distributed import nothing_distributed
from realranks.doctor.outside_ddp import parameters_outside
from realranks.doctor.random_numbers import same_random_numbers
from realranks.doctor.roots import different_roots
from realranks.doctor.schedules import schedule_fault
from realranks.doctor.slowness import slow_steps
from realranks.outcome.outcome import Diagnosis, Outcome

_BEFORE: tuple[Callable[[Outcome], Diagnosis | None], ...] = (
    swallowed_complaint,
    mismatch_in_passing,
    different_roots,
)
_RULES: tuple[Callable[[Outcome, Notes], Diagnosis | None], ...] = (
    drift.drifted_weights,
    nothing_distributed,
    parameters_outside,
    training.gradients_cut,
    training.modes_differ,
    training.modes_of_parts_differ,
    training.clipped_scaled,
    training.clipped_apart,
    drift.drifted_buffers,
    drift.drifted_copies,
    nothing_loaded,
    data.same_data,
    # Samplers deal out what was split before.
    samples.split_differs,
    samples.unlike_subsets,
    data.overlapping_shards,
    data.same_order_every_epoch,
    data.rows_left_out,
    samples.labels_differ,
    samples.split_twice,
    samples.same_stream,
    samples.one_shard_evaluated,
    samples.stale_workers,
    samples.unlike_datasets,
    samples.not_split,
    samples.each_draws_all,
    samples.overlapping_parts,
    mean_of_means,
    schedule_fault,
    same_random_numbers,
    same_file,
    graphs_kept,
    training.too_many_threads,
    slow_steps,
)
#: Rows are compared only where a DDP model averages over all ranks: otherwise each rank may train on what it likes.
_IF_AVERAGED = {rule for rule in _RULES if rule.__module__ == samples.__name__}


def silent_fault(outcome: Outcome) -> Diagnosis | None:
    """Detect a fault in a run that every rank has finished; None if there is none, or the run was not watched."""
    found = next((found for rule in _BEFORE if (found := rule(outcome)) is not None), None)
    notes = notes_of(outcome)
    if found is not None or len(notes) < 2:
        return found
    averaged = samples.averages(notes)
    worth_knowing = None
    for rule in _RULES:
        found = rule(outcome, notes) if averaged or rule not in _IF_AVERAGED else None
        if found is not None and not found.warning:
            return found
        worth_knowing = worth_knowing or found
    return worth_knowing
