"""The kernel's side of a gang: start ranks, run jobs on them, stop what must stop, say what came back.

A job's way: `gang` -> `follow_job` (`links` are the wires to its ranks), `deadlock` (the proof), `doubts` (why there is
none) -> `stop_ranks` -> `job` (its outcome) -> `rebuild_group`. No torch is imported here.
"""
