"""`%%ranks` and `%ranks`: the learner's way to real ranks."""

from __future__ import annotations

import argparse
import itertools
import keyword
import warnings

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments

from realranks.cells import hosts
from realranks.cells.foresight import foreseen
from realranks.cells.judge import refusing, show_and_check
from realranks.cells.options import options_of
from realranks.cells.refused import UsageError
from realranks.cells.session import NO_RANKS, RUN_ABOVE, SESSION
from realranks.cells.show import View, show_html, this_cell
from realranks.doctor import with_diagnosis
from realranks.outcome.expect import Expectation
from realranks.outcome.html import panel
from realranks.outcome.outcome import exit_text
from realranks.outcome.syntax import NUMBERED, compile_cell, compile_if_clean
from realranks.ranks.kernel.gang import Gang
from realranks.ranks.kernel.interrupts import press_after
from realranks.watch.around import as_around

DEFAULT_TIMEOUT = 300.0
#: A function keeps the file name of the cell that defined it, so each cell needs one of its own.
_numbers = itertools.count(1)
#: Of the code of a cell, as the learner sees it: line 1 is the %%ranks line.
_FIRST_LINE = 2
_COMMANDS = ("rescue", "restart", "stop", "hosts")


@magics_class
class RankMagics(Magics):
    """The magics that start ranks and run cells on them."""

    @magic_arguments()
    @argument("size", nargs="?", help="number of ranks; left out: the ranks that are there")
    @argument("names", nargs="*", help="after 'hosts': the machines to start ranks on, or off")
    @argument("--only", help="run on these ranks only, e.g. 0,2; with hosts also b:* or b:0")
    @argument("--via", help="with hosts: the command that reaches a machine, {} for its name (default: ssh)")
    @argument("--open", action="store_true", help="with hosts: public addresses too")
    @argument("--fresh", action="store_true", help="start new ranks first")
    @argument(
        "--no-init", action="store_true", help="ranks without a process group: init_process_group is yours"
    )
    @argument("--expect", help="ok (default), raises, died, hang, slow; also raises:ValueError, died:2")
    @argument(
        "--predicted",
        action="store_true",
        help="expect what one of the answers of the predict(...) above says, whichever it is",
    )
    @argument("--timeout", help="seconds until late ranks are stopped (default 300)")
    @argument("--backend", help="gloo or nccl (default: decided by the machine)")
    @argument("--as", dest="name", help="bind the Outcome to this name")
    @argument("--trace", action="store_true", help="record a timeline of this cell on every rank")
    @argument("--watch", action="store_true", help="also look for silent faults: ranks that drift apart")
    @argument("--no-doctor", action="store_true", help="do not explain what happened: find out by yourself")
    @argument(
        "--stop-after",
        help="press the stop button after this many seconds (for lessons that run by themselves)",
    )
    @line_cell_magic
    def ranks(self, line: str, cell: str | None = None) -> None:
        """Run a cell on real ranks (`%%ranks 4`), or look after them.

        `%ranks` says who is alive and what each rank does. `%ranks rescue` frees blocked ranks and rebuilds the process
        group, keeping variables. `%ranks restart` starts as many new ranks, `%ranks stop` ends them.
        `%ranks hosts a b` starts ranks on these machines from then on, `%ranks hosts off` on this one again.
        """
        options = options_of(self.ranks, line, "%%ranks")
        if options.names and (cell is not None or options.size != "hosts"):
            raise UsageError(
                f"%%ranks {line}: unrecognized arguments: {' '.join(options.names)}. Try %%ranks?."
            )
        if cell is None:
            _command(options)
        else:
            with refusing():
                self._run(options, cell)

    def _run(self, options: argparse.Namespace, cell: str) -> None:
        shell = self.shell
        assert shell is not None
        label = f"{NUMBERED}{next(_numbers)}"
        code = compile_if_clean(cell, label, _FIRST_LINE)
        if not code:
            _check_source(cell, label)
        view = View()
        if options.predicted and options.expect is not None:
            raise UsageError(
                "--predicted and --expect exclude each other: the prediction says what to expect."
            )
        expectation = (
            foreseen(cell, this_cell()) if options.predicted else Expectation.parse(options.expect or "ok")
        )
        timeout = _seconds(options.timeout, DEFAULT_TIMEOUT, "--timeout")
        stop_after = _seconds(options.stop_after, 0.0, "--stop-after")
        only = None if options.only is None else hosts.ranks_of(options.only, SESSION.gang)
        if only is None:
            only = _rank_numbers(options.only)
        named = options.name is not None
        if named and (not options.name.isidentifier() or keyword.iskeyword(options.name)):
            raise UsageError(f"--as {options.name}: not a valid variable name, such as in --as out.")
        gang, note = SESSION.gang_for(
            _size(options.size),
            backend=options.backend,
            init=False if options.no_init else None,
            fresh=options.fresh,
            only=only,
        )
        new = gang.job == 0
        timer = press_after(stop_after) if stop_after else None
        try:
            outcome = gang.run_cell(
                cell,
                label=label,
                first_line=_FIRST_LINE,
                code=code,
                only=only,
                timeout=timeout,
                trace=options.trace,
                around=as_around() if options.watch else None,
                on_progress=view.progress,
            )
        finally:
            if timer is not None:
                timer.cancel()
        if not options.no_doctor:
            outcome = with_diagnosis(outcome)
        notes = [] if note is None else [note]
        if new and any(error.type == "NameError" for error in outcome.errors.values()):
            notes.append(f"These ranks are new: no cell above has run on them. {RUN_ABOVE}")
        if notes:
            import dataclasses

            outcome = dataclasses.replace(outcome, notes=(*notes, *outcome.notes))
        if options.name:
            # Bound before it is judged: also an outcome that fails the cell can be looked at afterwards.
            shell.user_ns[options.name] = outcome
        judged_outcome = show_and_check(outcome, expectation, view)
        if options.name:
            shell.user_ns[options.name] = judged_outcome


def _check_source(cell: str, label: str) -> None:
    """Show a syntax error once, from the kernel, instead of once a rank."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the ranks show them
            compile_cell(cell, label, _FIRST_LINE)
    except SyntaxError as error:
        if error.text and error.text.rstrip().endswith("?"):
            raise UsageError(
                f"line {error.lineno}: {error.text.strip()} asks the notebook for help; ranks run plain Python. Put it "
                "in a cell without %%ranks."
            ) from None
        if error.text and error.text.lstrip().startswith(("!", "%")):
            raise UsageError(
                f"line {error.lineno}: {error.text.split()[0]} is a command of the notebook; ranks run plain Python. "
                "Put it in a cell without %%ranks."
            ) from None
        if error.lineno is None:
            raise UsageError(f"{type(error).__name__}: {error.msg}") from None
        place = f"line {error.lineno} of this cell"
        # What only the compiler finds (`return` outside a function) comes without its line.
        lines = ["", *cell.splitlines(), ""]
        source = (error.text or lines[min(error.lineno, len(lines)) - 1]).rstrip("\n")
        pointer = " " * max(0, (error.offset or 1) - 1) + "^"
        raise UsageError(
            f"{place}\n    {source}\n    {pointer}\n{type(error).__name__}: {error.msg}"
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:  # null bytes; brackets nested too deep
        raise UsageError(f"this cell: {str(error) or type(error).__name__}") from None


def _size(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"%%ranks {text}: the number of ranks is a whole number, as in %%ranks 4.") from None


def _seconds(text: str | None, default: float, option: str) -> float:
    if text is None:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < 1e7:
        raise UsageError(f"{option} {text}: the seconds must be a positive number, as in {option} 20.")
    return seconds


def _rank_numbers(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isdecimal() for part in parts):
        raise UsageError(f"--only {text}: ranks are numbers separated by commas, as in --only 0,2.")
    return tuple(sorted({int(part) for part in parts}))


def _command(options: argparse.Namespace) -> None:
    word = options.size
    if word is not None and word not in _COMMANDS:
        raise UsageError(
            f"%ranks {word}: say %ranks, or %ranks {' | '.join(_COMMANDS)}. A cell starts with %%ranks."
        )
    if word == "hosts":
        with refusing():
            _say(hosts.command(options))
        return
    gang = SESSION.gang
    if gang is None:
        _say(f"{SESSION.idle_notice or NO_RANKS} %%ranks 4 starts four.")
        return
    with refusing():
        if word == "rescue":
            moved = gang.rescue()
            _say(
                "The process group is new, variables are kept."
                if moved is not None
                else "The ranks could not be rescued: %ranks restart starts new ones."
            )
        elif word == "restart":
            SESSION.gang = gang.restarted()
            SESSION.gang.wait_ready()
            SESSION.end_when_idle()
            _say(f"{_ranks_of(gang)}, all new; the variables of the old ones are gone.")
        elif word == "stop":
            SESSION.stop()
            _say("The ranks have been stopped.")
        else:
            _say(status(gang))


def _say(text: str) -> None:
    from html import escape

    show_html(text, panel(f"<pre>{escape(text)}</pre>"))


def _ranks_of(gang: Gang) -> str:
    return f"{gang.world_size} rank{'s' if gang.world_size != 1 else ''}"


def status(gang: Gang) -> str:
    """Describe each rank in a line: whether it is alive, where, and what it is doing."""
    gang.refresh()
    statuses = gang.get_statuses()
    lines = [f"{_ranks_of(gang)}, {gang.state}, {gang.backend.name} ({gang.backend.reason})"]
    if SESSION.hosts is not None:
        lines.append(hosts.shown(SESSION.hosts))
    for link in gang.links:
        its = statuses.get(link.rank)
        if not link.alive:
            doing = exit_text(link.exit_code or 0)
        elif its is None:
            doing = "stopped by a signal" if link.is_stopped() else "does not answer"
        else:
            issued = sum(its.sequence.values())
            doing = f"idle, {issued} operations issued on its process groups"
        place = f" on {link.host_name}" if link.host_name else ""
        lines.append(f"  rank {link.rank}{place}: {doing}")
    return "\n".join(lines)


def register(shell: InteractiveShell) -> None:
    """Make the magics known to IPython."""
    shell.register_magics(RankMagics(shell))
