"""Limits of request bodies. JSON values are counted before parsing, which takes up to a hundred times the memory."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, fields
from itertools import accumulate
from typing import Any, Literal, TypeVar

from memory_context.foundation.runtime.background import in_thread_if_large

__all__ = [
    "PROBLEM",
    "BodyLimits",
    "BodyRefusal",
    "BoundedJson",
    "ClientGone",
    "check_json",
    "off_the_loop",
    "read_body",
    "replayed",
    "send_json",
]

PROBLEM = b"application/problem+json"

_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_VALUE_BYTES = 64  # punctuation, blanks and numbers, on average
_LONGEST_NUMBER = 4_300  # characters, Python's limit
_LONG_NUMBER = re.compile(rb"[0-9+.eE-]{%d}" % (_LONGEST_NUMBER + 1))

_Result = TypeVar("_Result")
_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]


@dataclass(frozen=True)
class BodyLimits:
    """Limits of one request body, above zero.

    Attributes:
        values: Array elements and object members at all depths.
        seconds: Time to arrive.
    """

    size_bytes: int
    values: int = 1_000
    depth: int = 64
    seconds: float = 30

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) <= 0:
                raise ValueError(f"{field.name}={getattr(self, field.name)!r}: use more than zero")


class BodyRefusal(Exception):
    """A body over a limit, or no JSON; the text is the remedy."""

    def __init__(self, kind: Literal["too-large", "too-slow", "not-json"], detail: str) -> None:
        super().__init__(detail)
        self.kind = kind

    @property
    def status(self) -> int:
        return {"too-large": 413, "too-slow": 408, "not-json": 400}[self.kind]


class ClientGone(Exception):
    """The client disconnected too early."""


async def read_body(
    receive: Callable[[], Awaitable[Mapping[str, Any]]], limits: BodyLimits, announced: bytes | str = ""
) -> bytes:
    """Return a body within limits; `announced` is its Content-Length. Raises BodyRefusal or ClientGone."""
    length = announced.decode("latin-1") if isinstance(announced, bytes) else announced
    if length.isascii() and length.isdigit() and (len(length) > 18 or int(length) > limits.size_bytes):
        raise _too_large(limits)
    try:
        return await asyncio.wait_for(_received(receive, limits), limits.seconds)
    except asyncio.TimeoutError:
        raise BodyRefusal("too-slow", f"a body has {limits.seconds:g} s to arrive: send it again") from None


async def _received(receive: Callable[[], Awaitable[Mapping[str, Any]]], limits: BodyLimits) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        body += message.get("body", b"")
        if len(body) > limits.size_bytes:
            raise _too_large(limits)
        if not message.get("more_body"):
            return bytes(body)


def _too_large(limits: BodyLimits) -> BodyRefusal:
    return BodyRefusal("too-large", f"a body has at most {limits.size_bytes:,} bytes: send less at a time")


def check_json(body: bytes, limits: BodyLimits) -> None:
    """Count commas and brackets outside of strings; raise BodyRefusal over the limits.

    Parsers of text that is not JSON fail within the limits.
    """
    if b"\0" in body:  # UTF-16 and UTF-32, which some parsers accept
        raise BodyRefusal("not-json", "send JSON in UTF-8")
    bare = body.replace(b"\\\\", b"").replace(b'\\"', b"")  # remaining quotes delimit strings
    most_quotes = 4 * limits.values + 4  # a member has two strings at most
    pieces = bare.split(b'"', most_quotes + 1)
    has_all = len(pieces) <= most_quotes + 1
    structure = b"".join(pieces[::2] if has_all else pieces[:-1:2])
    brackets = structure.translate(None, _NO_BRACKETS)[: 2 * limits.values]
    if max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > limits.depth:
        raise BodyRefusal("not-json", f"arrays and objects are nested too deeply, more than {limits.depth} deep")
    values = structure.count(b",") + structure.count(b"[") + structure.count(b"{")
    if not has_all or values > limits.values or len(structure) > _VALUE_BYTES * limits.values:
        text = f"a body has at most {limits.values:,} values, and few blanks between them: send less at a time"
        raise BodyRefusal("too-large", text)
    if _LONG_NUMBER.search(structure):
        raise BodyRefusal("not-json", f"a number has more than {_LONGEST_NUMBER} characters: send it as text")


async def off_the_loop(function: Callable[[bytes], _Result], body: bytes) -> _Result:
    """Call a function, for a large body in a thread."""
    return await in_thread_if_large(len(body) / 3, function, body)


def replayed(body: bytes, receive: _Receive) -> _Receive:
    """Return an ASGI channel that repeats a body, then goes on."""
    whole: list[_Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> _Message:
        return whole.pop() if whole else await receive()

    return receive_again


class BoundedJson:
    """ASGI middleware that refuses JSON over limits."""

    def __init__(self, app: Callable[[Any, _Receive, _Send], Awaitable[None]], limits: BodyLimits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Any, receive: _Receive, send: _Send) -> None:
        headers: dict[bytes, bytes] = dict(scope.get("headers", ()))
        if scope["type"] == "http" and b"json" in headers.get(b"content-type", b"").lower():
            try:
                body = await read_body(receive, self._limits, headers.get(b"content-length", b""))
                await off_the_loop(lambda body: check_json(body, self._limits), body)
            except ClientGone:
                return
            except BodyRefusal as refusal:
                type_ = f"urn:problem-type:memory-context:{refusal.kind}"
                problem = {"type": type_, "status": refusal.status, "detail": str(refusal)}
                await send_json(send, refusal.status, problem)
                return
            receive = replayed(body, receive)
        await self._app(scope, receive, send)


async def send_json(send: _Send, status: int, value: Mapping[str, Any], media_type: bytes = PROBLEM) -> None:
    """Send a JSON response."""
    body = json.dumps(value).encode()
    headers = [(b"content-type", media_type), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
