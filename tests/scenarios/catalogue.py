"""The scenarios: small scripts with one fault each, and sound ones on which the doctor must stay silent.

A scenario's first lines say what is expected: `# kind: uneven_batches`, `# culprits: 1` (or `-` for none),
`# ranks: 3`, and what it is about. Words behind `# args:` become the script's arguments.
"""

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
SILENT = "none"


@dataclass(frozen=True)
class Scenario:
    """One script and what the doctor should say of it; `kind` is `none` for a sound one."""

    path: Path
    kind: str
    culprits: tuple[int, ...] | None
    ranks: int
    arguments: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.path.parent.name}/{self.path.stem}"


def scenarios() -> list[Scenario]:
    """All of them, by name."""
    return [_read(path) for path in sorted(FOLDER.glob("*/*.py"))]


def _read(path: Path) -> Scenario:
    head = dict(
        re.findall(r"^# (kind|culprits|ranks|args): (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    )
    culprits = None
    if "culprits" in head:
        culprits = tuple(int(number) for number in re.findall(r"\d+", head["culprits"]))
    return Scenario(
        path, head["kind"], culprits, int(head.get("ranks", "2")), tuple(head.get("args", "").split())
    )
