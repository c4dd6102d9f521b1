"""`python -m course_lib.host`: the same as `ddp-course host`, for torchrun, which starts modules."""

import sys

from course_lib.cli import main

if __name__ == "__main__":
    sys.argv.insert(1, "host")
    main()
