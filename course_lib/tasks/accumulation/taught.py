"""The lesson these tasks belong to, and where in it things are taught: headings of its source."""

LESSON = "10_accumulation"

COPIED = "lesson 10, A loop that has been copied a lot"
NO_SYNC = "lesson 10, With and without `no_sync`"
READ = "lesson 10, Read a wrong gradient"
LEFT_OVER = "lesson 10, What is left over"
CLIP = "lesson 10, Clip after the reduction, all at once"
SCALER = "lesson 10, float16 needs a scaler"
