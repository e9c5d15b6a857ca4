"""A circuit breaker.

closed ──failures in a row──▶ open ──retry_seconds──▶ trial ──worked──▶ closed
                               ▲                        │
                               └────────failed──────────┘
"""

import time

__all__ = ["Breaker"]


class Breaker:
    """The back-off doubles up to `longest_seconds` (None: constant).

    Attributes:
        retry_at: Monotonic time of the next trial; 0 while closed.
    """

    def __init__(
        self, retry_seconds: float, *, failures_allowed: int = 1, longest_seconds: float | None = None
    ) -> None:
        self.retry_at = 0.0
        self._first_seconds = self._next_seconds = retry_seconds
        self._longest_seconds = retry_seconds if longest_seconds is None else longest_seconds
        self._failures_allowed = failures_allowed
        self._failures_in_a_row = 0

    @property
    def is_open(self) -> bool:
        return time.monotonic() < self.retry_at

    @property
    def is_on_trial(self) -> bool:
        """True if one failure opens it again."""
        return 0 < self.retry_at <= time.monotonic()

    @property
    def seconds_left(self) -> float:
        return max(self.retry_at - time.monotonic(), 0.0)

    def failed(self, *, at_once: bool = False) -> float:
        """Count a failure; return the seconds until a trial."""
        self._failures_in_a_row += 1
        if not (at_once or self.retry_at or self._failures_in_a_row >= self._failures_allowed):
            return 0.0
        seconds = self._next_seconds
        self._next_seconds = min(2 * seconds, self._longest_seconds)
        self.retry_at = time.monotonic() + seconds
        return seconds

    def worked(self) -> None:
        self.retry_at, self._failures_in_a_row = 0.0, 0
        self._next_seconds = self._first_seconds
