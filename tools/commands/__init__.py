"""The commands of `ddp-course` that work on the course itself; `course_lib/cli/app.py` loads them in a checkout."""
