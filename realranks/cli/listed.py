"""A command with others below it, each of which is loaded when it is used: `--help` needs none of them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Annotated

import typer
from typer.core import TyperCommand, TyperGroup

from realranks.versions import versions_line


@dataclass(frozen=True)
class Commands:
    """The commands of one console script.

    Attributes:
        name: of the script. does: what it is for, in a line.
        modules: in the order of `--help`, of each command the module, and the first line of its docstring. The module
            has a function of the command's name, and perhaps `CONTEXT`, its settings; or `app`, with commands below it.
        load: imports a module.
    """

    name: str
    does: str
    modules: Mapping[str, tuple[str, str]]
    load: Callable[[str], ModuleType] = importlib.import_module

    def typer(self) -> typer.Typer:
        """Return the application with all its commands."""
        commands = self

        class Listed(TyperGroup):
            """The commands by name and first line; one that is to be run is loaded then."""

            def __init__(self, **settings: object) -> None:
                listed = {name: TyperCommand(name, help=line) for name, (_, line) in commands.modules.items()}
                super().__init__(**{**settings, "commands": listed})  # type: ignore[arg-type]

            def resolve_command(self, ctx, args):  # type: ignore[no-untyped-def]  # its types are of typer's own copy of click
                name, listed, rest = super().resolve_command(ctx, args)
                return name, commands.command(name) if name is not None else listed, rest

        app = typer.Typer(
            name=self.name,
            cls=Listed,
            no_args_is_help=True,
            add_completion=False,
            pretty_exceptions_enable=False,
        )
        app.callback(help=self.does)(_only_a_version)
        return app

    def command(self, name: str) -> TyperCommand | TyperGroup:
        """Load a command."""
        module = self.load(self.modules[name][0])
        if hasattr(module, "app"):
            return typer.main.get_group(module.app)
        alone = typer.Typer(add_completion=False)
        alone.command(name, context_settings=getattr(module, "CONTEXT", None))(
            getattr(module, module.__name__.rpartition(".")[2])
        )
        return typer.main.get_command(alone)  # type: ignore[return-value]

    def command_line(self) -> TyperGroup:
        """Return the application as a command with those below it, all loaded, for pages that list them."""
        group = typer.main.get_group(self.typer())
        group.commands = {name: self.command(name) for name in self.modules}
        return group


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(versions_line())
        raise typer.Exit(0)


def _only_a_version(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Say which course, torch and machine this is.",
            callback=_say_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    pass
