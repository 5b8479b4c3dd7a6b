"""The command line: each command has a module of its name; ``app`` runs them all.

``options`` says what commands take, ``shared`` what several take together, ``terminal`` and ``files`` what they give.

Results go to stdout, everything else to stderr. A command ends with 0; with 1 and one sentence where something is wrong
with what it was given; with 2 where it was called in a way that it does not know; with 130 after Ctrl-C and 143 after
SIGTERM, which both write a last checkpoint where one was asked for.
Modules that take a while to load are imported by the commands that need them, so that help and completion are quick.
"""

from __future__ import annotations

import io
import sys


def main() -> None:
    """The program ``bayespatch``."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a letter that a terminal does not have is no error
    try:
        from bayespatch.cli.commands import app
    except ImportError as error:
        print(f"bayespatch: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    app()
