"""The lesson these tasks belong to, and where in it things are taught: headings of its source."""

LESSON = "01_dataparallel"

STEP = "lesson 01, One step by hand"
BYTES = "lesson 01, Every byte of a step"
MEMORY = "lesson 01, The master's memory"
CONVERT = "lesson 01, From DataParallel to DDP"
REAL_LIFE = "lesson 01, What goes wrong in real life"
