"""EXPLAIN: from what was seen on the ranks to what went wrong, in words.

`diagnose(outcome)` reads an `Outcome` and returns a `Diagnosis`. It looks at evidence only - who waits in which
collective at which line, who has left, who raised or died - and says `unknown` where nothing fits. It may import
`watch` and `ranks`, never the notebook.
"""

from course_lib.doctor.diagnose import diagnose, explained

__all__ = ["diagnose", "explained"]
