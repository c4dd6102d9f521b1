"""The forkserver's process, and each that it starts anew: `python -m course_lib.ranks.server`; see `forkserver`.

Nothing else is in this module: in a rank, `__main__` belongs to the learner.
"""

import sys

from course_lib.ranks.process import run_and_exit
from course_lib.ranks.server import forkserver

if __name__ == "__main__":
    run_and_exit(lambda: forkserver.main(sys.argv[1:]))
