"""`make records`: run scenarios, hung runs and answers on real ranks, and keep what the judges read and say.

`make records ARGS="-k uneven"` makes some of them; other arguments are pytest's, too. `make records ARGS=--words` runs
no rank: it keeps what is now said of the records as they are, for when a sentence was changed. Look at the difference
in the texts before you commit it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from tests.records.catalogue import everything
from tests.records.judged import data_of
from tests.records.store import HERE, ROOT, Records

_LIVE = (
    "tests/scenarios/test_scenarios.py",
    "tests/integration/test_attach.py",
    "tests/answers/test_answers.py",
)
_TESTS = "test_the_doctor_is_right_about or test_a_hung_run or test_a_sound_run or test_an_answer_is_what"


def main(arguments: Sequence[str]) -> int:
    """Make records, and take out those whose script or answer is gone. Returns pytest's exit code."""
    code = 0
    if "--words" in arguments:
        _say_again()
    else:
        chosen = [] if "-k" in arguments else ["-k", _TESTS]
        command = [sys.executable, "-m", "pytest", "--record", *chosen, *arguments, *_LIVE]
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
    known = defaultdict(set)
    for each in everything():
        known[each.records].add(each.name)
    for path in HERE.glob("*/*.txt"):
        records = Records(path.parent.name, path.stem)
        records.update(dict.fromkeys(set(records.names()) - known[records]))
        if not known[records]:
            records.packed.unlink()
            records.words.unlink()
    return code


def _say_again() -> None:
    changes: dict[Records, dict[str, tuple[object, str]]] = defaultdict(dict)
    for each in everything():
        data = data_of(each.records).get(each.name)
        if data is not None:
            with tempfile.TemporaryDirectory() as folder:
                changes[each.records][each.name] = data, each.say(each.run(Path(folder)))
    for records, changed in changes.items():
        records.update(changed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
