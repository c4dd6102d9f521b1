"""SEE: what the ranks did - timelines, buckets, what is the same on all ranks and what is not.

Reads what `ranks` recorded, and looks at things on the ranks themselves (`compare`, `buckets`); knows nothing of tasks
or explanations. Importing it imports no torch.
"""

from course_lib.outcome.spans import Span, Stage
from course_lib.outcome.timeline import Timeline
from course_lib.watch.buckets import Bucket, Buckets, buckets
from course_lib.watch.compare import CompareError, Comparison, Difference, compare, compare_fingerprints
from course_lib.watch.fingerprint import fingerprint
from course_lib.watch.snapshot import RankSnapshot, Snapshot, snapshot

__all__ = [
    "Bucket",
    "Buckets",
    "CompareError",
    "Comparison",
    "Difference",
    "RankSnapshot",
    "Snapshot",
    "Span",
    "Stage",
    "Timeline",
    "buckets",
    "compare",
    "compare_fingerprints",
    "fingerprint",
    "snapshot",
]
