"""The lesson these tasks belong to, and where in it things are taught: headings of its source."""

LESSON = "09_synchronised"

ONCE = "lesson 09, Parameters"
ENSEMBLE = "lesson 09, An ensemble?"
ON_PURPOSE = "lesson 09, Change weights on purpose"
NORM = "lesson 09, What that does to BatchNorm"
AVERAGED = "lesson 09, Switch it off, and average when it counts"
GLOBAL = "lesson 09, SyncBatchNorm, and what it needs"
UNTOUCHED = "lesson 09, What DDP never touches"
