"""The one name of it that is imported."""

from typing import NoReturn

__all__ = ["Traceloop"]


class Traceloop:
    """Telemetry that nobody may begin."""

    @staticmethod
    def init(**options: object) -> NoReturn:
        """Fail: no test has a key of the service."""
        raise AssertionError("telemetry begins")
