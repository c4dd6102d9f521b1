"""The lesson these tasks belong to, and where in it things are taught: headings of its source."""

LESSON = "02_process_groups"

LAUNCHER = "lesson 02, torchrun: who says who is who"
BACKENDS = "lesson 02, Backends: which one when"
DEVICES = "lesson 02, One GPU per rank"
BROKEN = "lesson 02, Every way to start wrong"
GROUPS = "lesson 02, Smaller groups"
EVERYBODY = "lesson 02, Everybody calls new_group"
TIMEOUTS = "lesson 02, Timeouts"
END = "lesson 02, The end"
