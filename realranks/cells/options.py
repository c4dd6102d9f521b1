"""The words on a magic's line, read by IPython's own argument parser; one way for all magics."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from IPython.core.magic_arguments import parse_argstring

from realranks.cells.refused import UsageError


def options_of(magic: Callable[..., object], line: str, called: str) -> argparse.Namespace:
    """Parse the line of a magic that has `magic_arguments`, ignoring a comment at its end.

    `called` is the magic's name as it is typed, `%%ranks`.

    Raises:
        UsageError: an option that there is not, or a word too many; in one line.
    """
    parser = getattr(magic, "parser", None)
    assert isinstance(parser, argparse.ArgumentParser), "not a magic that has `magic_arguments`"
    parser.allow_abbrev = False
    words, _, _ = f" {line}".partition(" #")
    try:
        options: argparse.Namespace = parse_argstring(magic, words.strip())
    except Exception as error:
        raise UsageError(f"{called} {line}: {error}. Try {called}? for its options.") from None
    for name, value in vars(options).items():
        if isinstance(value, str) and len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
            setattr(options, name, value[1:-1])
    return options
