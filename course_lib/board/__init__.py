"""The class board: what a room of learners has passed, where it is stuck and what it predicted, live for the
instructor.

Two sides that share `events` (what travels, and its limits). On the instructor's machine: `app` (HTTP, and the
websocket of the page) keeps events in `store` (SQLite) and folds them into a `room` (plain data), with the tasks and
questions of `course`. In a learner's kernel: `sender` sends what `outbox` keeps on disk, through `client`. Nothing
here is imported in a kernel before the learner, or the hub, has asked for a board. Imports `own_files` and nothing
else of the course.
"""
