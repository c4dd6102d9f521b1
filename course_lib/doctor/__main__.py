"""`python -m course_lib.doctor [--ranks N] train.py [args]`: the same as `ddp-course doctor`."""

from course_lib.doctor.command import main

if __name__ == "__main__":
    main()
