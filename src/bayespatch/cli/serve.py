"""The command that serves the consulting page and the REST interface."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Annotated

from bayespatch.cli.terminal import say, working

try:
    import typer
except ImportError as error:
    raise ImportError('the command line needs typer and rich: pip install "bayespatch[cli]"') from error

# Options by their panel of the help
_where = partial(typer.Option, rich_help_panel="Network")
_who = partial(typer.Option, rich_help_panel="Access")
_limit = partial(typer.Option, rich_help_panel="Limits")

Base = Annotated[
    str | None,
    typer.Option("--casebase", metavar="URL", help="The case base. By default, the bundled heart data are shown."),
]
Host = Annotated[str, _where("--host", help="Address to listen on.")]
Port = Annotated[int, _where("--port", help="Port to listen on.", min=1, max=65535)]
Names = Annotated[
    list[str] | None,
    _where("--name", metavar="HOST", help="Host name that users type into the browser; may be repeated."),
]
Certificate = Annotated[Path | None, _where("--certificate", metavar="FILE", help="TLS certificate (PEM).")]
PrivateKey = Annotated[Path | None, _where("--key", metavar="FILE", help="Private key of the TLS certificate (PEM).")]
Proxy = Annotated[
    str,
    _who(
        "--proxy",
        metavar="ADDRESSES",
        help="Reverse proxies whose X-Forwarded headers are trusted, separated by commas.",
    ),
]
Folder = Annotated[Path | None, typer.Option("--folder", metavar="FOLDER", help="Directory for temporary files.")]
RequireSecondFactor = Annotated[bool, _who("--require-second-factor", help="Require a second factor from all users.")]
SingleSignOn = Annotated[
    Path | None,
    _who("--single-sign-on", metavar="FILE", help="Settings of the OpenID provider for sign-in (TOML file)."),
]
RecordSystems = Annotated[
    Path | None,
    _who(
        "--record-systems",
        metavar="FILE",
        help="Settings of the record systems that use CDS Hooks or SMART (TOML file).",
    ),
]
SecurityContact = Annotated[
    str, typer.Option("--security-contact", metavar="URI", help="Contact for vulnerability reports: mailto: or https:.")
]
JsonLog = Annotated[bool, typer.Option("--json-log", help="Write the log as one JSON object per line.")]
IntendedUse = Annotated[str, typer.Option("--intended-use", metavar="TEXT", help="Shown on the model's page.")]
Workers = Annotated[int, _limit("--workers", help="Number of processes.", min=1)]
Threads = Annotated[int, _limit("--threads", help="Predictions that each process computes at a time.", min=1)]
Waiting = Annotated[int, _limit("--waiting", help="Predictions that may wait; any others get status 503.", min=0)]
Seconds = Annotated[float, _limit("--seconds", help="Time limit for a prediction, in seconds.", min=1)]
Error = Annotated[float, _limit("--error", help="Target Monte Carlo error of the probabilities.", min=0.001, max=0.05)]
Rate = Annotated[int, _limit("--rate", help="Requests per minute allowed for a person or token.", min=1)]


def serve(
    casebase: Base = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    name: Names = None,
    certificate: Certificate = None,
    key: PrivateKey = None,
    proxy: Proxy = "",
    workers: Workers = 1,
    threads: Threads = 2,
    waiting: Waiting = 16,
    seconds: Seconds = 20.0,
    error: Error = 0.01,
    rate: Rate = 600,
    intended_use: IntendedUse = "",
    folder: Folder = None,
    require_second_factor: RequireSecondFactor = False,
    single_sign_on: SingleSignOn = None,
    record_systems: RecordSystems = None,
    security_contact: SecurityContact = "",
    json_log: JsonLog = False,
) -> None:
    """Serve the consulting page and the REST interface: the bundled heart data on this machine, or a case base.

    With a case base, users must sign in; the first start prints a one-time link for the first steward.

    Examples
    --------
    $ bayespatch serve
    $ bayespatch serve --casebase clinic.db
    $ bayespatch serve --casebase postgresql://clinic@db/clinic --host 0.0.0.0 --proxy 10.0.0.2 --name clinic.example
    """
    from bayespatch.web import Settings
    from bayespatch.web.app import check_address
    from bayespatch.web.app import serve as run

    with _case_base(casebase, folder) as (url, example):
        settings = Settings(
            url,
            sign_in=casebase is not None,
            host=host,
            port=port,
            hosts=tuple(name or ()),
            certificate="" if certificate is None else str(certificate),
            key="" if key is None else str(key),
            proxies=proxy,
            workers=workers,
            threads=threads,
            waiting=waiting,
            seconds=seconds,
            error=error,
            rate=rate,
            intended_use=intended_use,
            folder="" if folder is None else str(folder),
            require_second_factor=require_second_factor,
            single_sign_on="" if single_sign_on is None else str(single_sign_on),
            record_systems="" if record_systems is None else str(record_systems),
            security_contact=security_contact,
            json_log=json_log,
            example=example,
        )
        check_address(settings)
        _check_record_systems(settings.record_systems, settings.casebase)
        if casebase is not None and _passwords_count(settings.single_sign_on):
            _first_steward(settings.casebase, settings.folder, settings.address)
        say(f"Open {settings.address} in a browser; press Ctrl-C to stop.")
        with suppress(KeyboardInterrupt):
            run(settings)
        say("stopped after answering all open requests")


def _passwords_count(path: str) -> bool:
    """Whether people may sign in with a password; raises an error if the single sign-on settings are invalid."""
    from bayespatch.web.single_sign_on import Provider, SingleSignOn

    return not path or Provider(SingleSignOn.read(path)).settings.local_passwords


def _check_record_systems(path: str, url: str) -> None:
    """Raise an error if the settings of the record systems are invalid or do not match the case base."""
    from bayespatch.casebase import CaseBase
    from bayespatch.web.record_systems import RecordSystems

    if path:
        systems = RecordSystems.read(path)
        with CaseBase.open(url, create=False) as base:
            if base.dictionary is not None:
                systems.mapping.with_dictionary(base.dictionary)


@contextmanager
def _case_base(url: str | None, folder: Path | None) -> Iterator[tuple[str, int]]:
    """The case base to serve, and the consultation to show as an example (0: none)."""
    from bayespatch.casebase import CaseBase
    from bayespatch.web import demo

    if url is not None:
        with CaseBase.open(url, create=False, folder=folder):
            pass  # a wrong URL fails here with a one-sentence message
        yield url, 0
        return
    with tempfile.TemporaryDirectory(prefix="bayespatch-") as place:
        path = str(Path(place) / "heart.db")
        with CaseBase.open(path) as base, working("Learning from 302 past patients of the bundled heart data"):
            example = demo.fill(base, "local")
        yield path, example


def _first_steward(url: str, folder: str, address: str) -> None:
    """If nobody can sign in yet, print a link that creates the first steward."""
    from bayespatch.casebase import CaseBase
    from bayespatch.casebase.people import STEWARD

    with CaseBase.open(url, create=False, folder=folder or None) as base:
        if not base.people.listed():
            secret = base.people.invite("steward", STEWARD, by="bayespatch serve")
            say(f"No account exists yet. Create the first steward with this one-time link: {address}/join/{secret}")
