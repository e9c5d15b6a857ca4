"""What a client may ask for: how much, how often, how long.

Promises: a body that is too large is never read to its end; one user's haste takes nothing from another; when the place
where requests are counted is away, they are let through.
"""

import logging
import math
import time
from dataclasses import dataclass, fields

from fastapi import Request
from limits import RateLimitItemPerMinute
from limits.aio.strategies import MovingWindowRateLimiter
from limits.storage import storage_from_string

from .problems import ProblemError

__all__ = ["ChatLimits", "RequestLimiter", "read_body"]

_logger = logging.getLogger("memory_context")

_MEMORY = "async+memory://"
_WARN_SECONDS = 60.0


@dataclass(frozen=True)
class ChatLimits:
    """What one client may ask for.

    Attributes:
        body_bytes: The most a body has.
        messages: The most messages a request has.
        text_characters: The most characters a message has.
        requests_per_minute: Of one user, or of one address where users are not told apart.
        run_seconds: How long an agent may take for an answer.
        wait_seconds: How long a request waits for the session, if another one or another process is at work on it.
        ping_seconds: How often a streamed answer says that it is still there.

    Raises:
        ValueError: One of them is not above zero.
    """

    body_bytes: int = 1_000_000
    messages: int = 100
    text_characters: int = 200_000
    requests_per_minute: int = 120
    run_seconds: float = 600
    wait_seconds: float = 10
    ping_seconds: int = 15

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value <= 0:
                raise ValueError(f"{field.name}={value!r}: use more than zero")


class RequestLimiter:
    """Counts requests in a moving window of a minute.

    Args:
        per_minute: How many there may be.
        storage_url: Where they are counted: in memory, or `async+redis://…` for several processes together.
    """

    def __init__(self, per_minute: int, storage_url: str = _MEMORY) -> None:
        options = {} if storage_url == _MEMORY else {"implementation": "redispy"}
        self._item = RateLimitItemPerMinute(per_minute)
        self._limiter = MovingWindowRateLimiter(storage_from_string(storage_url, **options))  # pyright: ignore[reportArgumentType]
        self._warned_at = -math.inf

    async def check(self, who: str) -> None:
        """Count a request.

        Raises:
            ProblemError: There were too many; says when to come back.
        """
        try:
            if await self._limiter.hit(self._item, "chat", who):
                return
            window = await self._limiter.get_window_stats(self._item, "chat", who)
        except Exception as error:
            if time.monotonic() - self._warned_at > _WARN_SECONDS:
                self._warned_at = time.monotonic()
                _logger.warning("requests are not counted for now: %r", error)
            return
        seconds = max(1, math.ceil(window.reset_time - time.time()))
        raise ProblemError(
            "too-many-requests",
            f"more than {self._item.amount} in a minute; come back in {seconds} s",
            retry_after_seconds=seconds,
        )


async def read_body(request: Request, limit_bytes: int, media_types: tuple[str, ...]) -> bytes:
    """Return the body of a request, read no further than the limit.

    Raises:
        ProblemError: It is of another type (415) or too large (413).
        ClientDisconnect: The client went away meanwhile.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in media_types or request.headers.get("content-encoding", "identity") != "identity":
        raise ProblemError("wrong-media-type", f"send JSON, uncompressed, as {' or '.join(media_types)}")
    too_large = ProblemError("too-large", f"a body has at most {limit_bytes:,} bytes: send less at a time")
    announced = request.headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and (len(announced) > 18 or int(announced) > limit_bytes):
        raise too_large
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit_bytes:
            raise too_large
    return bytes(body)
