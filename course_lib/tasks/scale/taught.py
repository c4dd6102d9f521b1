"""The lesson these tasks belong to, and where in it things are taught: headings of its source."""

LESSON = "15_scale"

FIT = "lesson 15, Two numbers"
THOUSAND = "lesson 15, 1,024 ranks in one process"
HALVES = "lesson 15, Half the bytes for free?"
HOOKS = "lesson 15, Sending less: communication hooks"
MEMORY = "lesson 15, Where DDP ends: memory"
NEXT = "lesson 15, What comes next, for real"
