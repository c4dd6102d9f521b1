"""The kernel's side of a gang: start ranks, run jobs on them, stop what must stop, say what came back.

A job's way: `gang` -> `run_job` (a `job` under way; `event_loop` and `rank_handle` are the wires to its ranks) ->
`deadlock_watch` (when they are asked for their status), `deadlock` (the proof), `doubts` (why there is none) ->
`stop_ranks` -> `make_outcome` -> `rebuild_group`. No torch is imported here.
"""
