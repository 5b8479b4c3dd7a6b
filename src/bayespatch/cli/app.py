"""Common parts of all commands: registration, errors, interruption."""

from __future__ import annotations

import inspect
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from typing import NamedTuple

from bayespatch.cli.terminal import say

try:
    import typer
except ImportError as error:
    raise ImportError('the command line needs typer and rich: pip install "bayespatch[cli]"') from error

_EXAMPLES = "\n\nExamples\n--------\n"
# Errors in the input, shown as one sentence without a traceback
_FAILURES = (ValueError, ImportError, OSError, MemoryError, FloatingPointError, RecursionError)
_INTERRUPTED, _TERMINATED = 130, 143


@dataclass
class _GlobalOptions:
    """Options given before the name of the command."""

    traceback: bool = False


class CommandGroup(NamedTuple):
    """A group of subcommands, such as ``casebase import``."""

    about: str
    commands: Sequence[Callable[..., object]]


def new_app(
    commands: Sequence[Callable[..., object]],
    about: str,
    version: str,
    groups: Mapping[str, CommandGroup] | None = None,
) -> typer.Typer:
    """The Typer application with its commands, in this order. Help shows a docstring's examples after the options."""
    options = _GlobalOptions()
    app = typer.Typer(
        name="bayespatch",
        help=about,
        no_args_is_help=True,
        pretty_exceptions_enable=False,  # they would print local variables, which contain patient data
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    def tell_version(wanted: bool) -> None:
        if wanted:
            print(version)
            raise typer.Exit()

    @app.callback()
    def program(
        traceback: bool = typer.Option(False, "--traceback", help="Show the traceback of an error, for a bug report."),
        _: bool = typer.Option(False, "--version", callback=tell_version, is_eager=True, help="Show the version."),
    ) -> None:
        options.traceback = traceback

    _register(app, commands, options)
    for name, group in (groups or {}).items():
        inside = typer.Typer(name=name, help=group.about, no_args_is_help=True)
        _register(inside, group.commands, options)
        app.add_typer(inside, name=name)
    return app


def _register(app: typer.Typer, commands: Sequence[Callable[..., object]], options: _GlobalOptions) -> None:
    for command in commands:
        text, examples = help_of(command)
        epilog = "\n\n".join(["Examples:", *examples])
        app.command(command_name(command), help=text, epilog=epilog)(_plainly(command, options))


def command_name(command: Callable[..., object]) -> str:
    """The name of a command: the function's name without a trailing underscore, with hyphens."""
    return command.__name__.rstrip("_").replace("_", "-")


def help_of(command: Callable[..., object]) -> tuple[str, list[str]]:
    """The help text and the examples from a command's docstring."""
    text, _, examples = (inspect.getdoc(command) or "").partition(_EXAMPLES)
    return text, examples.splitlines()


def _plainly(command: Callable[..., object], options: _GlobalOptions) -> Callable[..., object]:
    """Wrap a command so that it reports a failure as one sentence and an exit code."""

    @wraps(command)
    def run(*args: object, **kwargs: object) -> None:
        if sys.stdout is None:
            say("bayespatch: standard output is closed; redirect it to a file or to /dev/null")
            raise typer.Exit(1)
        with _notes(), _terminable() as code:
            try:
                command(*args, **kwargs)
                sys.stdout.flush()
            except KeyboardInterrupt:
                say("bayespatch: interrupted; no incomplete file was left behind")
                raise typer.Exit(code[-1]) from None
            except BrokenPipeError:  # the reader closed the pipe early
                _close_stdout()
                raise typer.Exit(1) from None
            except _FAILURES as error:
                if options.traceback:
                    raise
                say(f"bayespatch: {_sentence(error)}")
                try:
                    sys.stdout.flush()
                except OSError:
                    _close_stdout()
                raise typer.Exit(1) from None

    return run


def _sentence(error: BaseException) -> str:
    """The error in one line, with a substitute message if Python provides none."""
    text = " ".join(str(error).split())
    if isinstance(error, MemoryError):
        return text or "out of memory; pass fewer cases, parents or draws, or run it on a larger machine"
    if isinstance(error, RecursionError):
        return "the input is nested too deeply; pass simple values"
    return text or type(error).__name__


def _close_stdout() -> None:
    """Discard the output buffer; otherwise Python would fail to flush it at exit."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


@contextmanager
def _terminable() -> Iterator[list[int]]:
    """Handle SIGTERM like Ctrl-C, with a last checkpoint if one was requested; yields the exit code."""
    code = [_INTERRUPTED]

    def stop(*_: object) -> None:
        code.append(_TERMINATED)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # only the main thread receives signals
        yield code
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield code
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _notes() -> Iterator[None]:
    """Print each warning once, as a line on stderr."""
    shown = set()

    def note(message: Warning | str, *_: object, **__: object) -> None:
        line = f"note: {' '.join(str(message).split())}"
        if line not in shown:
            shown.add(line)
            say(line)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        warnings.showwarning = note
        yield


def usage_error(text: str) -> Exception:
    """A usage error."""
    return typer.BadParameter(text)
