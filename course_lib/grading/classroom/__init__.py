"""A class of learners: read a folder of submissions, grade it in parallel, keep what came out, and report.

`submissions` reads what learners handed in, `workers` grades answers in processes of their own, `results` keeps each
verdict as it comes, `batch` puts the three together into a `ClassReport`; `gradebook` (CSV, JSON) and `pages` (HTML)
write it down. One learner's broken file, or an answer that kills the grader, never stops the others. May import the
rest of `grading` and below.
"""
