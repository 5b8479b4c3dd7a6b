"""A process that is killed leaves nothing half done; `make test-casebase` kills two hundred."""

from tests.casebase.killing import killed_often


def test_what_was_acknowledged_survives_a_kill(places):
    assert killed_often(places, 3).total() == 3
