"""SEE: what the ranks did - timelines, buckets, what is the same on all ranks and what is not.

Reads what `ranks` recorded, and looks at things on the ranks themselves (`compare`, `buckets`); knows nothing of tasks
or explanations. Importing it imports no torch.
"""

from realranks.outcome.spans import Span, Stage
from realranks.outcome.timeline import Timeline
from realranks.watch.buckets import Bucket, Buckets, buckets
from realranks.watch.compare import CompareError, Comparison, Difference, compare, compare_fingerprints
from realranks.watch.fingerprint import fingerprint
from realranks.watch.snapshot import RankSnapshot, Snapshot, snapshot

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
