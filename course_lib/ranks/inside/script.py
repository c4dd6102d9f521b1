"""Run a script on a rank as `torchrun` would run it: as `__main__`, with its own arguments and folder first.

Used inside a rank.
"""

from __future__ import annotations

import io
import os
import sys
import types
from collections.abc import Sequence

from course_lib.ranks.inside.own_ranks import OwnRanks


def run_script(main: types.ModuleType, path: str, arguments: Sequence[str]) -> None:
    """Execute the file at `path` in the module `main`; what it raises is raised here, but `sys.exit(0)` is an end.

    Raises:
        OSError: the file cannot be read. SyntaxError: it is not Python.
    """
    sys.argv = [path, *arguments]
    sys.path.insert(0, os.path.dirname(path))
    rank, world_size = os.environ["RANK"], os.environ["WORLD_SIZE"]
    os.environ.update(
        GROUP_WORLD_SIZE="1",
        ROLE_NAME="default",
        ROLE_RANK=rank,
        ROLE_WORLD_SIZE=world_size,
        TORCHELASTIC_RESTART_COUNT="0",
        TORCHELASTIC_MAX_RESTARTS="0",
        TORCHELASTIC_RUN_ID="none",
        MPLBACKEND="agg",
    )
    main.__dict__.pop("display", None)
    main.__dict__.update(__name__="__main__", __file__=path, __spec__=None, __cached__=None)
    with io.open_code(path) as file:
        source = file.read()
    own_ranks = OwnRanks(os.path.dirname(path))
    own_ranks.take_part()
    try:
        exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)
        own_ranks.play()  # processes that nobody has joined are joined when the script ends
    except SystemExit as ended:
        if ended.code not in (None, 0):
            raise
