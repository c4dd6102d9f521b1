"""`python -m course_lib.ranks.hosts`: the same as `ddp-course host`."""

import sys

from course_lib.ranks.hosts.agent import main

if __name__ == "__main__":
    sys.exit(main())
