"""SHOW: `%%ranks`, `run` and `machine` in a notebook, and what comes back there, live and when it is over.

`magics` and `run` start a run (on the gang of `session`), `show` shows it, `judge` compares it with what was expected.
What is built on them registers itself: who keeps questions that a run decides in `foresight`, who adds links to what is
shown in `show`.
"""
