"""Structured logs: one JSON object a line, or plain text for people."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

_FIELDS = ("peer", "reason", "step", "job", "rank", "world", "backup", "problem")


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in _FIELDS if hasattr(record, name)}


class JsonFormatter(logging.Formatter):
    """Time (UTC), level, logger, message and whatever fields the record carries."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        document: dict[str, Any] = {
            "time": f"{when}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_extra(record),
        }
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        return json.dumps(document, default=str)


class TextFormatter(logging.Formatter):
    """The same for a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        fields = "".join(f" {name}={value}" for name, value in _extra(record).items())
        when = time.strftime("%H:%M:%S", time.localtime(record.created))
        text = f"{when} {record.levelname:8} {record.name}: {record.getMessage()}{fields}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def configure(style: str, level: str) -> None:
    """Send all logs of this process to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
