"""The lesson these tasks belong to, and where in it things are taught: headings of its source."""

LESSON = "04_buckets"

AVERAGE = "lesson 04, Step 1: average after backward"
FLAT = "lesson 04, Step 2: one flat buffer"
HOOKS = "lesson 04, Step 3: hooks, while backward is still running"
BY_HAND = "lesson 04, Step 4: buckets"
SENT = "lesson 04, The real one: what it sends, and when"
CAP = "lesson 04, When a bucket is closed"
FIRST = "lesson 04, The small first bucket"
REBUILT = "lesson 04, Rebuilt in the order of arrival"
REAL = "lesson 04, What goes wrong in real life"
