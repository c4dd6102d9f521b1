"""`python -m realranks.ranks.hosts`: the same as `ddp-course host`."""

import sys

from realranks.ranks.hosts.agent import main

if __name__ == "__main__":
    sys.exit(main())
