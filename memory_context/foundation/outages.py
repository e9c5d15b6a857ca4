"""Warnings about outages, logged once per outage."""

import logging
import math
import threading
import time
from weakref import WeakKeyDictionary

__all__ = ["STORE_RETRY_SECONDS", "OutageLog", "outages_of"]

STORE_RETRY_SECONDS = 30.0
"""A store that failed is left alone so long; each step would wait for it otherwise."""

_logger = logging.getLogger("memory_context")


class OutageLog:
    """Failing operations by topic."""

    def __init__(self) -> None:
        self._failed_at: dict[str, float] = {}  # monotonic

    def failed(
        self, topic: str, message: str, *args: object, level: int = logging.WARNING, quiet_seconds: float = math.inf
    ) -> None:
        """Log the first failure at `level`, others for debugging; `quiet_seconds` without one end the outage."""
        now = time.monotonic()
        is_new = now - self._failed_at.get(topic, -math.inf) > quiet_seconds or topic not in self._failed_at
        self._failed_at[topic] = now
        _logger.log(level if is_new else logging.DEBUG, message, *args, stacklevel=2)

    def worked(self, topic: str) -> None:
        if topic in self._failed_at and self._failed_at.pop(topic, None) is not None:
            _logger.info("%s again", topic)


_logs: "WeakKeyDictionary[object, OutageLog]" = WeakKeyDictionary()
_lock = threading.Lock()


def outages_of(owner: object) -> OutageLog:
    """Return the outage log of a store."""
    with _lock:
        log = _logs.get(owner)
        if log is None:
            log = _logs[owner] = OutageLog()
        return log
