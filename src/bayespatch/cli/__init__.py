"""The command line: ``app`` runs commands, ``options`` says what they take, ``terminal`` and ``files`` what they give.

Results go to stdout, everything else to stderr. A command ends with 0; with 1 and one sentence where something is wrong
with what it was given; with 2 where it was called in a way that it does not know; with 130 after Ctrl-C.
Rooms that take a while to load are imported by the commands that need them, so that help and completion are quick.
"""

from __future__ import annotations

import sys


def main() -> None:
    """The program ``bayespatch``."""
    try:
        from bayespatch.cli.commands import app
    except ImportError as error:
        print(f"bayespatch: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    app()
