from __future__ import annotations

import pytest

from tests.casebase.clinic import Places
from tests.source.server import postgresql_server, why_no_server


@pytest.fixture(scope="session")
def server():
    reason = why_no_server()
    if reason is not None:
        pytest.skip(reason)
    # Old segments of the log are deleted and not used again, so that bytes can be searched for.
    with postgresql_server("-c wal_recycle=off -c min_wal_size=2MB") as url:
        yield url


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def places(request, tmp_path_factory):
    """Where case bases are, on both databases."""
    server = request.getfixturevalue("server") if request.param == "postgresql" else None
    return Places(tmp_path_factory.mktemp(request.param), server)


@pytest.fixture(scope="session")
def sqlite_places(tmp_path_factory):
    return Places(tmp_path_factory.mktemp("sqlite"), None)


@pytest.fixture
def base(places):
    """A case base with 30 past cases and an active model."""
    with places.open(places.copy()) as opened:
        yield opened
    places.drop()


@pytest.fixture
def empty(places):
    with places.open(places.empty()) as opened:
        yield opened
    places.drop()
