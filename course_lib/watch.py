"""What lessons use of the engine to see what ranks did, by the name by which they import it."""

from realranks.watch import (
    Bucket,
    Buckets,
    CompareError,
    Comparison,
    Difference,
    RankSnapshot,
    Snapshot,
    Span,
    Stage,
    Timeline,
    buckets,
    compare,
    compare_fingerprints,
    fingerprint,
    snapshot,
)

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
