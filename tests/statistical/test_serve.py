"""``bayespatch serve`` in several processes, which take seconds to start."""

import socket
import time

from tests.cli.test_serve import check_service, served


def test_it_begins_answers_and_ends_in_two_processes(tmp_path):
    check_service(tmp_path, workers=2)


def test_workers_end_with_the_process_that_began_them(tmp_path):
    """Even if it is killed: else they would go on, and keep the port from the next one."""
    with served(tmp_path, workers=2) as (process, port):
        process.kill()
        process.wait(10)
        for _ in range(150):
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", port)) != 0:
                    return
            time.sleep(0.1)
    raise AssertionError(f"somebody still answers on port {port}")
