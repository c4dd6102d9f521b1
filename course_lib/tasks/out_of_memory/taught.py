"""The lesson these tasks belong to, and where in it things are taught: headings of its source."""

LESSON = "11_out_of_memory"

SWALLOWED = "lesson 11, Swallowed"
NOW_AND_THEN = "lesson 11, Why it only crashes now and then"
HALF = "lesson 11, Half-reduced is worth nothing"
AGREE = "lesson 11, Way 1: agree before backward, and skip together"
ZEROS = "lesson 11, Way 2: take part with zeros"
BY_HAND = "lesson 11, Way 3: reduce by hand"
COSTS = "lesson 11, What each way costs"
REAL_LIFE = "lesson 11, What goes wrong in real life"
