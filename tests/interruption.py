"""Ctrl-C in tests, and what it must leave behind: nothing."""

import signal
import threading

import pytest


@pytest.fixture(autouse=True)
def ctrl_c_interrupts():
    """Also where the tests run in the background of a shell, which ignores Ctrl-C there."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def no_thread_left() -> bool:
    return not [thread for thread in threading.enumerate() if thread.name.startswith("bayespatch")]
