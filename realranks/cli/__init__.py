"""The engine from a terminal: `doctor`, `attach`, `host` and `export`, one module a word.

A module here turns words into one call of the room that does the work, prints what came back and picks the exit code.
`app` loads the module of the command that is used, so that `--help` answers at once; nothing below imports this room,
so that using the engine never pays for typer.
"""

from realranks.cli.app import ENGINE


def main() -> None:
    """Run the command line; the console script `realranks` starts here."""
    ENGINE.typer()()
