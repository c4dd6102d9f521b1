"""The course from a terminal: `ddp-course lab | check | grade | doctor | ...`, one module a word.

A module here turns words into one call of the room that does the work, prints what came back and picks the exit code.
`app` loads the module of the command that is used, so that `ddp-course --help` answers at once; nothing in the course
imports this room, so `import course_lib` never pays for typer.
"""

from course_lib.cli.app import application


def main() -> None:
    """Run the command line; the console script `ddp-course` starts here."""
    application()()
