"""A circuit breaker.

closed ──failures in a row──▶ open ──retry_seconds──▶ trial ──worked──▶ closed
                               ▲                        │
                               └────────failed──────────┘
"""

import time

__all__ = ["Breaker"]


class Breaker:
    """Decides from earlier failures whether to try.

    Args:
        retry_seconds: How long it stays open.
        failures_allowed: Failures in a row that open it.
        longest_seconds: Upper bound of the back-off, which doubles with each failed trial; None for a constant one.

    Attributes:
        retry_at: Time of the next trial, by the monotonic clock; 0 while closed.
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
        """Whether trying is forbidden now."""
        return time.monotonic() < self.retry_at

    @property
    def is_on_trial(self) -> bool:
        """Whether one failure opens it again."""
        return 0 < self.retry_at <= time.monotonic()

    @property
    def seconds_left(self) -> float:
        """Seconds until a trial; 0 if it is not open."""
        return max(self.retry_at - time.monotonic(), 0.0)

    def failed(self, *, at_once: bool = False) -> float:
        """Count a failure and open after enough of them; return the seconds until a trial.

        Args:
            at_once: Open after this failure.
        """
        self._failures_in_a_row += 1
        if not (at_once or self.retry_at or self._failures_in_a_row >= self._failures_allowed):
            return 0.0
        seconds = self._next_seconds
        self._next_seconds = min(2 * seconds, self._longest_seconds)
        self.retry_at = time.monotonic() + seconds
        return seconds

    def worked(self) -> None:
        """Close it."""
        self.retry_at, self._failures_in_a_row = 0.0, 0
        self._next_seconds = self._first_seconds
