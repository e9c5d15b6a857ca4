"""Warnings of what goes on failing: once for each consequence, and again only after it has worked in between.

While a store is away each context tries it again and again; a warning a try would bury everything else in the log.
"""

import logging
import threading
from weakref import WeakKeyDictionary

__all__ = ["OutageLog", "outages_of"]

_logger = logging.getLogger("memory_context")


class OutageLog:
    """What is failing now, by topic."""

    def __init__(self) -> None:
        self._failing: set[str] = set()

    def failed(self, topic: str, message: str, *args: object) -> None:
        """Log a failure: as a warning if the topic worked before, else for debugging."""
        level = logging.DEBUG if topic in self._failing else logging.WARNING
        self._failing.add(topic)
        _logger.log(level, message, *args, stacklevel=2)

    def worked(self, topic: str) -> None:
        """Log that a topic works again, if it was failing; costs nothing otherwise."""
        if topic in self._failing:
            self._failing.discard(topic)
            _logger.info("%s again", topic)


_logs: "WeakKeyDictionary[object, OutageLog]" = WeakKeyDictionary()
_lock = threading.Lock()


def outages_of(owner: object) -> OutageLog:
    """Return the log of what fails with a store, or a part of one, for all who use it."""
    with _lock:
        log = _logs.get(owner)
        if log is None:
            log = _logs[owner] = OutageLog()
        return log
