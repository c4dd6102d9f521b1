"""The lesson these tasks belong to, and where in it things are taught: headings of its source."""

LESSON = "13_debugging"

PATIENT = "lesson 13, The patient"
LEVELS = "lesson 13, TORCH_DISTRIBUTED_DEBUG"
FATES = "lesson 13, Dead, stopped, or elsewhere"
TIMEOUTS = "lesson 13, Timeouts, and NCCL's variables"
RECORDER = "lesson 13, The flight recorder"
ANALYSER = "lesson 13, The analyser, fixed and mistrusted"
