"""The lesson these tasks belong to, and where in it things are taught: headings of its source."""

LESSON = "14_checkpoints"

LOG = "lesson 14, One number for the log"
AVERAGES = "lesson 14, Which numbers may be averaged"
SLOW = "lesson 14, The write in slow motion"
KILLED = "lesson 14, Killed"
BARRIER = "lesson 14, A barrier in the right place"
PREFIX = "lesson 14, The prefix module."
WEIGHTS_ONLY = "lesson 14, weights_only"
RESUME = "lesson 14, Bit by bit"
