"""The lesson these tasks belong to, and where in it things are taught: headings of its source."""

LESSON = "05_stragglers"

WAITS = "lesson 05, Who waits, and where"
MAXIMUM = "lesson 05, Does it even out?"
LESS_OFTEN = "lesson 05, Synchronise less often"
STALENESS = "lesson 05, Deeper: “Make a smaller group, then they synchronise less often”"
JOIN = "lesson 05, A rank runs out of batches"
WEIGHTS = "lesson 05, A rank has fewer samples"
