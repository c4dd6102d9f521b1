"""The scenarios: small scripts with one fault each, and sound ones on which the doctor must stay silent.

A scenario's first lines say what is expected: `# kind: uneven_batches`, `# culprits: 1` (or `-` for none),
`# ranks: 3`, and what it is about. Words behind `# args:` become the script's arguments, with `{free_port}` for a port
that is free at that moment; `# timeout: 3` stops the script after so many seconds (more than the usual 60 where it
starts interpreters again and again, each of which loads torch).
Ranks are forked, which takes milliseconds. With `# start: spawn`, each has an interpreter of its own, as under
`ddp-course doctor`: strings have another hash on every rank.
Behind `# open:` stands why the doctor is still wrong about it: such a scenario may fail, and the table shows it.
"""

import re
import socket
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
SILENT = "none"
#: Seconds until a scenario is stopped that does not ask for less.
TIMEOUT = 60.0


@dataclass(frozen=True)
class Scenario:
    """One script and what the doctor should say of it; `kind` is `none` for a sound one."""

    path: Path
    kind: str
    culprits: tuple[int, ...] | None
    ranks: int
    words: tuple[str, ...]
    timeout: float
    start: str
    open: str

    @property
    def name(self) -> str:
        return f"{self.path.parent.name}/{self.path.stem}"

    def arguments(self) -> tuple[str, ...]:
        """The script's arguments for one run."""
        return tuple(word.replace("{free_port}", str(_free_port())) for word in self.words)


def scenarios() -> list[Scenario]:
    """All of them, by name."""
    return [_read(path) for path in sorted(FOLDER.glob("*/*.py"))]


def _read(path: Path) -> Scenario:
    text = path.read_text(encoding="utf-8")
    head = dict(re.findall(r"^# (kind|culprits|ranks|args|timeout|start|open): (.*)$", text, re.MULTILINE))
    culprits = None
    if "culprits" in head:
        culprits = tuple(int(number) for number in re.findall(r"\d+", head["culprits"]))
    return Scenario(
        path,
        head["kind"],
        culprits,
        int(head.get("ranks", "2")),
        tuple(head.get("args", "").split()),
        float(head.get("timeout", TIMEOUT)),
        head.get("start", "forkserver"),
        head.get("open", ""),
    )


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
