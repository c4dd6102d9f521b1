"""`python -m course_lib.cli`: the same as `ddp-course`."""

from course_lib.cli import main

if __name__ == "__main__":
    main()
