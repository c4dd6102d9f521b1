"""EXPLAIN: from what was seen on the ranks to what went wrong, in words.

`diagnose(outcome)` reads an `Outcome` and returns a `Diagnosis`. It looks at evidence only - who waits in which
collective at which line, who has left, who raised or died - and says `unknown` where nothing fits. Where a rule is:

- how ranks ended: `deaths`, `endings`, `errors` with the table `meanings`;
- hangs: the list in `hangs`, over `hang_table`; its rules are in `group_creation`, `roots`, `mismatches`,
  `script_collectives`, `absences`, `ddp_passes`, `gpu_waits`, `stuck`;
- silent faults: the list in `silent`; its rules are in `drift` with `drift_causes`, `nothing_distributed`,
  `outside_ddp`, `training`, `data`, `samples`, `schedules`; several models: `model_order`.

Their order is in `diagnose`, `hangs` and `silent`, their evidence in `alignment`, `conditions`, `loops`, `counts`,
`history`, `models` and `notes`, their sentences in `diagnoses.toml`. It may import `watch` and `ranks`, never the
notebook.
"""

from realranks.doctor.diagnose import diagnose, with_diagnosis

__all__ = ["diagnose", "with_diagnosis"]
