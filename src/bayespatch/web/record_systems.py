"""Settings of the record systems that this server works with."""

from __future__ import annotations

import json
import re
from dataclasses import MISSING, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from bayespatch import fhir
from bayespatch.fhir.resources import Coding
from bayespatch.fhir.rules import SYSTEMS
from bayespatch.types import JSONMapping, JSONObject
from bayespatch.web.fetching import OAuthClient, is_protected, read_secret
from bayespatch.web.settings import read_toml

Kind = TypeVar("Kind")
PATIENT_VIEW, ORDER_SELECT = HOOKS = ("patient-view", "order-select")


@dataclass(frozen=True)
class Client:
    """A record system that calls the CDS Hooks services.

    Attributes
    ----------
    name : str
        Name of the record system in the audit log.
    issuer : str
        The issuer ("iss") of its tokens.
    keys : str
        File with its public keys (JWKS); it is read again when it changes.
    origin : str
        Origin of its web pages if they call the services themselves (CORS); otherwise empty.
    """

    name: str
    issuer: str
    keys: str
    origin: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,50}", self.name):
            raise ValueError(f"name={self.name!r} may contain only letters, digits, - and _; correct it")
        if self.origin and (not is_protected(self.origin) or self.origin.count("/") != 2):
            raise ValueError(f"origin={self.origin!r} is not an origin; write https://HOST without a path")
        read_keys(self.keys, 0)


@dataclass(frozen=True)
class Server:
    """A FHIR server from whose records the consulting page is opened (SMART on FHIR).

    Attributes
    ----------
    address : str
        Its base URL; the "iss" of a launch.
    client_id : str
        Client id of this server at the authorization server.
    client_secret_file : str
        File with the client's secret; empty for a public client.
    scopes : str
        Requested scopes; empty: launching, and reading the resource types of the mapping.
    """

    address: str
    client_id: str
    client_secret_file: str = ""
    scopes: str = ""

    def __post_init__(self) -> None:
        if self.address.rstrip("/") != self.address or not is_protected(self.address):
            raise ValueError(f"address={self.address!r} is not an https address without a final slash; correct it")
        read_secret(self.client_secret_file)

    @property
    def client(self) -> OAuthClient:
        """The registration of this server at the authorization server."""
        return OAuthClient(self.client_id, read_secret(self.client_secret_file))


@dataclass(frozen=True)
class RecordSystems:
    """The record systems that may call this server, and the services for them.

    Attributes
    ----------
    mapping : Mapping
        Mapping of the columns to FHIR resources.
    label : str
        Source label on every card.
    description : str
        Description of the services.
    orders : tuple of Coding
        Orders for which `order-select` returns a card; empty: all.
    clients : tuple of Client
        Record systems that call the CDS Hooks services.
    servers : tuple of Server
        FHIR servers from whose records the consulting page is opened.
    """

    mapping: fhir.Mapping
    label: str = "bayespatch"
    description: str = "The probability of the outcome, and the past patients on whom it is based."
    orders: tuple[Coding, ...] = ()
    clients: tuple[Client, ...] = ()
    servers: tuple[Server, ...] = ()

    def __post_init__(self) -> None:
        for name in ("name", "issuer"):
            values = [getattr(client, name) for client in self.clients]
            if len(set(values)) < len(values):
                raise ValueError(f"client: two clients have the same {name}; correct one")

    @classmethod
    def read(cls, path: str) -> RecordSystems:
        """Read the settings from a TOML file; file names are relative to it."""
        given = read_toml(path)
        folder = Path(path).parent
        try:
            clients = tuple(
                _made(Client, _beside(folder, one, "keys"), f"client[{j}]")
                for j, one in enumerate(_tables(given.pop("client", []), "client"))
            )
            servers = tuple(
                _made(Server, _beside(folder, one, "client_secret_file"), f"server[{j}]")
                for j, one in enumerate(_tables(given.pop("server", []), "server"))
            )
            file = given.pop("mapping", None)
            if not isinstance(file, str):
                raise ValueError("mapping is missing; name the mapping file")
            orders = given.pop("orders", [])
            if not isinstance(orders, list) or not all(isinstance(one, str) and "|" in one for one in orders):
                raise ValueError('orders is not a list of codes; write system|code, such as "rxnorm|83367"')
            made = {"mapping": fhir.Mapping.load(folder / file), "orders": tuple(map(_coding, orders))}
            return _made(cls, {**given, **made, "clients": clients, "servers": servers}, "")
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error


def _coding(text: str) -> Coding:
    """A code, written as ``system|code``."""
    system, _, code = text.rpartition("|")
    return Coding(SYSTEMS.get(system, system), code)


def _beside(folder: Path, given: JSONMapping, name: str) -> JSONObject:
    """Settings in which a file name is made relative to the settings file."""
    file = given.get(name)
    return {**given, name: str(folder / file)} if isinstance(file, str) and file else dict(given)


def _tables(value: object, name: str) -> list[JSONMapping]:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise ValueError(f"{name} is not a list of tables; write [[{name}]]")
    return value


def _made(kind: type[Kind], given: JSONMapping, where: str) -> Kind:
    """Create a dataclass from settings; unknown, missing and non-text settings are rejected."""
    place = f"{where}." if where else ""
    allowed = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    for name, value in given.items():
        if name not in allowed:
            raise ValueError(f"{place}{name} is not a setting; choose from {', '.join(allowed)}")
        if allowed[name].type == "str" and not isinstance(value, str):
            raise ValueError(f"{place}{name}={value!r} is not text; put it in quotes")
    for name, field in allowed.items():
        if name not in given and field.default is MISSING:
            raise ValueError(f"{place}{name} is missing; add it")
    try:
        return kind(**given)
    except ValueError as error:
        raise ValueError(f"{place}{error}") from error


@lru_cache(maxsize=50)
def read_keys(path: str, _changed: int) -> KeySet:
    """The public keys in a JWKS file, without encryption keys and shared secrets."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
        keys = [one for one in document["keys"] if one["kty"] in ("RSA", "EC", "OKP") and one.get("use") != "enc"]
        if not keys:
            raise ValueError("it has no public signing key")
        if any("d" in one for one in keys):
            raise ValueError("it has a private key")
        return KeySet.import_key_set({"keys": keys})
    except (OSError, ValueError, KeyError, TypeError, JoseError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ValueError(f"keys={path!r} is not a file with public keys ({reason}); pass a JWKS file") from error
