"""What a client may ask for: how much, how often, how long.

Promises: a body that is too large is never read to its end; one user's haste takes nothing from another; when the place
where requests are counted is away, they are let through.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TypeVar

from fastapi import Request
from limits import RateLimitItemPerMinute
from limits.aio.strategies import MovingWindowRateLimiter
from limits.storage import storage_from_string
from starlette.requests import ClientDisconnect

from ..access import BodyLimits, BodyRefusal, ClientGone, check_json, off_the_loop
from ..access import read_body as read_bytes
from ..outages import OutageLog
from .problems import ProblemError, ProblemKind

__all__ = ["ChatLimits", "RequestLimiter", "read_body"]


_MEMORY = "async+memory://"
_DEPTH = 16
_JSON = "application/json"
_KINDS: Mapping[str, ProblemKind] = {"too-large": "too-large", "too-slow": "body-too-slow", "not-json": "not-json"}

_Parsed = TypeVar("_Parsed")


@dataclass(frozen=True)
class ChatLimits:
    """What one client may ask for.

    Attributes:
        body_bytes: The most a body has.
        body_seconds: How long a body may take to arrive.
        messages: The most messages a request has; what a body holds beside is bounded by it.
        text_characters: The most characters a message has.
        requests_per_minute: Of one user, or of one address where users are not told apart.
        run_seconds: How long an agent may take for an answer.
        wait_seconds: How long a request waits for the session, if another one or another process is at work on it.
        ping_seconds: How often a streamed answer says that it is still there.

    Raises:
        ValueError: One of them is not above zero.
    """

    body_bytes: int = 1_000_000
    body_seconds: float = 30
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

    @property
    def body(self) -> BodyLimits:
        """What a body may be, with room for twice the fields of as many messages."""
        return BodyLimits(self.body_bytes, values=8 * self.messages + 64, depth=_DEPTH, seconds=self.body_seconds)


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
        self._outages = OutageLog()

    async def check(self, who: str) -> None:
        """Count a request.

        Raises:
            ProblemError: There were too many; says when to come back.
        """
        try:
            is_allowed = await self._limiter.hit(self._item, "chat", who)
            window = None if is_allowed else await self._limiter.get_window_stats(self._item, "chat", who)
        except Exception as error:
            self._outages.failed("counting requests", "requests are not counted for now: %r", error)
            return
        self._outages.worked("counting requests")
        if window is None:
            return
        seconds = max(1, math.ceil(window.reset_time - time.time()))
        raise ProblemError(
            "too-many-requests",
            f"more than {self._item.amount} in a minute; come back in {seconds} s",
            retry_after_seconds=seconds,
        )


async def read_body(request: Request, limits: ChatLimits, parse: Callable[[bytes], _Parsed]) -> _Parsed:
    """Return what the body of a request says; it is read and parsed no further than the limits.

    Args:
        request: The request.
        limits: What its body may be.
        parse: Makes a value of JSON; of a large body in a thread.

    Raises:
        ProblemError: It is of another type (415), too large (413), too slow (408) or too deep (400), or `parse` fails.
        ClientDisconnect: The client went away meanwhile.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != _JSON or request.headers.get("content-encoding", "identity") != "identity":
        raise ProblemError("wrong-media-type", f"send JSON, uncompressed, as {_JSON}")

    def parse_within_limits(body: bytes) -> _Parsed:
        check_json(body, limits.body)
        return parse(body)

    try:
        body = await read_bytes(request.receive, limits.body, request.headers.get("content-length", ""))
        return await off_the_loop(parse_within_limits, body)
    except BodyRefusal as refusal:
        raise ProblemError(_KINDS[refusal.kind], str(refusal)) from None
    except ClientGone:
        raise ClientDisconnect from None
