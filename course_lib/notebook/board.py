"""`%board`: the class board of a workshop, as seen from a learner's notebook.

Cells say here what was judged and what was predicted. Unless the learner, or the hub, has joined a board, that is the
end of it: nothing of `course_lib.board` is loaded. Where they have, a thread of its own does the rest; no cell waits
for it or fails because of it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments

from realranks.cells.options import options_of
from realranks.cells.refused import UsageError
from realranks.own_files import data_folder

if TYPE_CHECKING:
    from course_lib.board.sender import Sender
    from course_lib.grading.verdict import Verdict

ADDRESS_VARIABLE = "DDP_COURSE_BOARD"
#: The file in which `course_lib.board.outbox` keeps where the learner has joined.
_JOINED_FILE = "board.sqlite"


class Link:
    """The kernel's way to a board. What is said before the sender has been loaded waits for it."""

    def __init__(self) -> None:
        self._loading = threading.Lock()
        self._swap = threading.Lock()  # held for a moment only: a cell may wait for it
        self._sender: Sender | None = None
        self._early: list[Callable[[Sender], None]] = []

    def load_early(self) -> None:
        """Load the sender while the learner reads, and join if the hub says so."""
        threading.Thread(target=self.sender, name="board-start", daemon=True).start()

    def sender(self) -> Sender:
        """Return the sender, loading it if need be; the first time, it joins where the hub says."""
        with self._loading:
            if self._sender is None:
                sender = _senders_class()()
                sender.join_as_hub_says()  # first: what is said by who has joined nothing is dropped
                with self._swap:
                    for tell in self._early:
                        tell(sender)
                    self._early, self._sender = [], sender
            return self._sender

    def tell(self, tell: Callable[[Sender], None]) -> None:
        """Have the sender told, now or when it has been loaded; returns at once."""
        with self._swap:
            if self._sender is None:
                self._early.append(tell)
            else:
                tell(self._sender)


def _senders_class() -> type[Sender]:
    """Load `course_lib.board`, which only learners who join a board need."""
    from course_lib.board.sender import Sender

    return Sender


#: None until the learner or the hub has asked for a board.
_link: Link | None = None


def tell_verdict(verdict: Verdict) -> None:
    """Send the verdict on an answer to the board, unless the task was not attempted."""
    if _link is not None and verdict.kind != "not attempted":
        ids = tuple(each.id for each in verdict.misconceptions)
        _link.tell(lambda sender: sender.tell("verdict", verdict.task, str(verdict.kind), ids))


def tell_vote(question: str, answers: Sequence[str], choice: str) -> None:
    """Send the learner's prediction to the board."""
    if _link is not None:
        _link.tell(lambda sender: sender.tell_vote(question, answers, choice))


@magics_class
class BoardMagics(Magics):
    """The magic for the class board."""

    @magic_arguments()
    @argument("address", nargs="?", help="of the board, as your instructor gives it; or: leave")
    @argument("code", nargs="?", help="the code of the board")
    @argument(
        "name", nargs="*", help="the name under which the board shows you; left out: it gives you a number"
    )
    @line_magic
    def board(self, line: str) -> None:
        """Join the class board of a workshop: `%board ADDRESS CODE NAME`; `%board` says how it is going.

        The board receives the name that you choose, the verdicts on your answers with the misconceptions that they
        name, and your predictions. It receives nothing else: neither your code nor what it printed. `%board leave`
        ends it.
        """
        options = options_of(self.board, line, "%board")
        if options.address is None:
            print(_status())
        elif options.address == "leave" and options.code is None:
            print(_leave())
        elif options.code is None:
            raise UsageError("%board needs the address and the code: %board http://10.0.0.5:8123 K7MP2QXA")
        else:
            print(_join(options.address, options.code, " ".join(options.name)))


def _join(where: str, code: str, name: str) -> str:
    global _link
    why_not = _senders_class().not_an_address(where)
    if why_not:
        raise UsageError(f"%board: {why_not}")
    if _link is None:
        _link = Link()
    why_not = _link.sender().join_at(where, code, name or os.environ.get("JUPYTERHUB_USER", ""))
    if why_not:
        raise UsageError(f"%board: {why_not}")
    return _status()


def _leave() -> str:
    global _link
    if _link is None and not (data_folder() / _JOINED_FILE).exists():
        return "You have not joined a board."
    _link = _link or Link()
    forgotten = _link.sender().leave()
    if forgotten:
        return "You have left the board: nothing is sent any more, and it has deleted what it had of you."
    return (
        "You have left the board: nothing is sent any more. It did not answer, so it still has what you sent: your "
        "instructor can remove that."
    )


def _status() -> str:
    if _link is None:
        return "You have not joined a board. %board ADDRESS CODE NAME joins one."
    sender = _link.sender()
    membership = sender.outbox.membership()
    waiting = sender.outbox.count()
    if membership is None or membership.state == "left":
        return "You have not joined a board. %board ADDRESS CODE NAME joins one."
    if membership.state == "refused":
        return f"The board at {membership.address} refused you: {membership.why}"
    lines = []
    if membership.state == "joined":
        lines.append(f"You are “{membership.name}” on the board at {membership.address}.")
    else:
        lines.append(
            f"The board at {membership.address} has not answered yet; it is asked again in the background."
        )
    if sender.trouble:
        lines.append(f"The last attempt failed: {sender.trouble}.")
    if waiting:
        lasts = "on disk" if sender.outbox.lasts else "in this kernel"
        lines.append(f"{waiting} {'message waits' if waiting == 1 else 'messages wait'} {lasts} to be sent.")
    lines.append(
        "It receives your verdicts, their misconceptions and your predictions; %board leave ends that."
    )
    return "\n".join(lines)


def register(shell: InteractiveShell) -> None:
    """Give an IPython shell the magic, and resume what was joined before."""
    global _link
    shell.register_magics(BoardMagics(shell))
    wanted = bool(os.environ.get(ADDRESS_VARIABLE)) or (data_folder() / _JOINED_FILE).exists()
    if wanted and _link is None:
        _link = Link()
        _link.load_early()
