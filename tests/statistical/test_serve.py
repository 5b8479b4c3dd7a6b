"""``bayespatch serve`` in several processes, which take seconds to start."""

from tests.cli.test_serve import check_service


def test_it_begins_answers_and_ends_in_two_processes(tmp_path):
    check_service(tmp_path, workers=2)
