"""Formatting of the log, as text or as JSON for log collectors."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime


class JsonLines(logging.Formatter):
    """One JSON object on each line: time, level, logger, message, and the fields of a request.

    Examples
    --------
    >>> record = logging.LogRecord("web", logging.INFO, "", 0, "%(status)d", ({"status": 200},), None)
    >>> record.created = 0.0
    >>> JsonLines().format(record)
    '{"time": "1970-01-01T00:00:00.000000Z", "level": "INFO", "logger": "web", "message": "200", "status": 200}'
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        at = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        line = {"time": at, "level": record.levelname, "logger": record.name, "message": record.getMessage()}
        fields = dict(record.args) if isinstance(record.args, Mapping) else {}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps({**line, **fields}, default=str)


def configure(json_lines: bool) -> None:
    """Write the log to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if json_lines else logging.Formatter("%(asctime)s %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
