"""A circuit breaker: what failed is left alone for a while.

closed ──failures in a row──▶ open ──retry_seconds──▶ trial ──worked──▶ closed
                               ▲                        │
                               └────────failed──────────┘
"""

import time

__all__ = ["Breaker"]


class Breaker:
    """Says whether something may be tried, by what came of it before.

    Args:
        retry_seconds: How long it stays open.
        failures_allowed: Failures in a row that open it.
        longest_seconds: Each failure of a trial doubles `retry_seconds`, up to this; None: it stays the same.

    Attributes:
        retry_at: When a trial is allowed, by the monotonic clock; 0 while it is closed.
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
        """Whether nothing may be tried now."""
        return time.monotonic() < self.retry_at

    @property
    def is_on_trial(self) -> bool:
        """Whether it was open, so that one failure opens it again."""
        return 0 < self.retry_at <= time.monotonic()

    @property
    def seconds_left(self) -> float:
        """How long it stays open from now on; 0 if it is not."""
        return max(self.retry_at - time.monotonic(), 0.0)

    def failed(self, *, at_once: bool = False) -> float:
        """Count a failure, and open after enough of them; return the seconds until a trial is allowed.

        Args:
            at_once: Open whatever came before.
        """
        self._failures_in_a_row += 1
        if not (at_once or self.retry_at or self._failures_in_a_row >= self._failures_allowed):
            return 0.0
        seconds = self._next_seconds
        self._next_seconds = min(2 * seconds, self._longest_seconds)
        self.retry_at = time.monotonic() + seconds
        return seconds

    def worked(self) -> None:
        """Close: it works again, or is to be tried now whatever came before."""
        self.retry_at, self._failures_in_a_row = 0.0, 0
        self._next_seconds = self._first_seconds
