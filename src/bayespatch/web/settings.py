"""Settings of the service."""

from __future__ import annotations

import ipaddress
import json
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path

from bayespatch.types import JSONObject

LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Settings:
    """Settings of the service; every limit applies per process.

    Attributes
    ----------
    casebase : str
        The URL of the case base.
    sign_in : bool
        Whether people must sign in and programs must send tokens. Without sign-in, everyone who can reach the page is a
        steward named "local", and the server listens only on the loopback address.
    host, port
        Address and port on which the server listens.
    hosts : tuple of str
        Allowed host names, in addition to its address and the names of the loopback address; requests for other names
        are rejected.
    certificate, key : str
        TLS files; empty: plain HTTP.
    proxies : str
        Addresses of reverse proxies whose X-Forwarded headers are trusted, separated by commas; empty: none.
    workers : int
        Number of processes.
    threads : int
        Number of predictions that a process computes at a time.
    waiting : int
        Number of predictions that may wait; any others get status 503.
    seconds : float
        Time limit for one request.
    error : float
        Monte Carlo standard error of the displayed probabilities.
    rate : int
        Maximum requests per minute from one person or token; sign-ins are limited more strictly.
    most_bytes : int
        Maximum size of a request body.
    intended_use : str
        Intended use, shown on the page about the model.
    folder : str
        Directory for temporary files of the case base; empty: the default.
    require_second_factor : bool
        Whether everyone must set up a second factor first.
    single_sign_on : str
        TOML file with the OpenID provider at which people sign in (`SingleSignOn`); empty: none.
    record_systems : str
        TOML file with the record systems that ask about their patients (`RecordSystems`); empty: none.
    security_contact : str
        A URI (mailto:, https: or tel:) for reports of vulnerabilities, published in /.well-known/security.txt.
    json_log : bool
        Whether the log has one JSON object per line.
    example : int
        The number of a consultation to show as an example; 0: none.
    """

    casebase: str
    sign_in: bool = True
    host: str = "127.0.0.1"
    port: int = 8000
    hosts: tuple[str, ...] = ()
    certificate: str = ""
    key: str = ""
    proxies: str = ""
    workers: int = 1
    threads: int = 2
    waiting: int = 16
    seconds: float = 20.0
    error: float = 0.01
    rate: int = 600
    most_bytes: int = 1_000_000
    intended_use: str = ""
    folder: str = ""
    require_second_factor: bool = False
    single_sign_on: str = ""
    record_systems: str = ""
    security_contact: str = ""
    json_log: bool = False
    example: int = 0

    def __post_init__(self) -> None:
        outside = not is_loopback(self.host)
        if outside and not self.sign_in:
            raise ValueError(
                f"host={self.host!r} can be reached from other machines without sign-in; pass a case base: --casebase"
            )
        if outside and not self.certificate and not self.proxies:
            raise ValueError(
                f"host={self.host!r} can be reached from other machines, and passwords would be sent unencrypted; pass "
                f"--certificate and --key, or --proxy with the address of a reverse proxy that has them"
            )
        if bool(self.certificate) != bool(self.key):
            raise ValueError("--certificate and --key belong together; pass both")
        if self.single_sign_on and not self.sign_in:
            raise ValueError("single sign-on needs a case base with accounts; pass --casebase")
        if self.record_systems and not self.sign_in:
            raise ValueError("record systems need a case base with accounts; pass --casebase")
        if self.workers > 1 and not self.sign_in:
            raise ValueError("several workers need a case base with accounts; pass --casebase")
        contact = self.security_contact
        if contact and (not contact.startswith(("mailto:", "https:", "tel:")) or not contact.isprintable()):
            raise ValueError(f"--security-contact {contact!r} is not a URI; pass mailto:NAME@HOST or https://...")
        for name in ("workers", "threads", "rate"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} is too small; pass 1 or more")

    @property
    def names(self) -> frozenset[str]:
        """All allowed host names."""
        own = () if self.host in ("0.0.0.0", "::") else (self.host,)
        return frozenset(name.lower() for name in (*LOOPBACK, *own, *self.hosts))

    @property
    def address(self) -> str:
        """The URL for browsers, with TLS and the standard port if there is a reverse proxy."""
        if self.proxies and self.hosts:
            return f"https://{self.hosts[0]}"
        name = self.hosts[0] if self.hosts else "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host
        host = f"[{name}]" if ":" in name else name
        return f"{'https' if self.certificate else 'http'}://{host}:{self.port}"

    def to_json(self) -> str:
        """The settings as JSON, for another process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """Read the result of `to_json`."""
        values = json.loads(text)
        return cls(**{**values, "hosts": tuple(values["hosts"])})


def is_loopback(host: str) -> bool:
    """Whether an address can only be reached from this machine.

    Examples
    --------
    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("clinic.example")
    (True, True, False, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def read_toml(path: str) -> JSONObject:
    """The settings in a TOML file."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path}: cannot be read ({error}); correct the file") from error
