"""The forkserver's process, and each that it starts anew: `python -m realranks.ranks.server`; see `forkserver`.

Nothing else is in this module: in a rank, `__main__` belongs to the learner.
"""

import sys

from realranks.ranks.process import run_and_exit
from realranks.ranks.server import forkserver

if __name__ == "__main__":
    run_and_exit(lambda: forkserver.main(sys.argv[1:]))
