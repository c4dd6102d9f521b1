"""The lesson this task belongs to, and where in it things are taught: headings of its source."""

LESSON = "00_first_ranks"

COLLECTIVES = "lesson 00, Five collectives, side by side"
TRAIN = "lesson 00, Train on four ranks"
SCRIPT = "lesson 00, The same as a script"
SAYS = "lesson 00, What torchrun says when a rank fails"
