"""SEE: what the ranks did - timelines, and figures of them.

Reads what `ranks` recorded; knows nothing of notebooks, tasks or explanations.
"""

from course_lib.watch.timeline import Timeline

__all__ = ["Timeline"]
