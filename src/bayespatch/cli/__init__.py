"""The command line: one module per command; ``app`` registers and runs them.

``options`` defines single options, ``shared`` groups of options; ``terminal`` and ``files`` write the output.

Results go to stdout, everything else to stderr. Exit codes: 0 for success; 1, with a one-sentence message, for invalid
input or a failed operation; 2 for a usage error; 130 after Ctrl-C and 143 after SIGTERM, both of which write a last
checkpoint if one was requested. Modules that take a while to load are imported by the commands that need them, so that
help and completion are quick.
"""

from __future__ import annotations

import io
import sys


def main() -> None:
    """The program ``bayespatch``."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal may not be able to encode every character
    try:
        from bayespatch.cli.commands import app
    except ImportError as error:
        print(f"bayespatch: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    app()
