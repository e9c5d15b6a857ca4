"""Saved states of sessions in Redis. The client has bounded waits and this library's errors, without secrets."""

import asyncio
import hashlib
import json
import logging
import zlib
from collections.abc import Awaitable, Collection, Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urlsplit

from memory_context.foundation.errors import StoreError, StoreUnavailableError
from memory_context.foundation.identifiers import SessionKey
from memory_context.foundation.runtime.background import attempt
from memory_context.foundation.utf8 import from_utf8, to_utf8
from memory_context.store.redact import Traces

if TYPE_CHECKING:
    from redis.asyncio import Redis

__all__ = ["RedisStates"]

_ANSWER_SECONDS = 3.0
_CONNECTIONS = 16
_SCHEMES = ("redis", "rediss", "unix")
_KEEP_SECONDS = 7 * 24 * 3600

# KEYS: state; ARGV: the value before, the new one
_REPLACE = "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('set', KEYS[1], ARGV[2], 'KEEPTTL') end"

_T = TypeVar("_T")
_logger = logging.getLogger("memory_context")


class RedisStates:
    """Saved states in Redis, as compressed JSON, with unarchived messages: a killed process loses no finished request.

    It belongs to the event loop of its first use.

    Args:
        url: `redis://user:password@host:port/database`, `rediss://…` for TLS, or `unix:///path`.
        keep_seconds: Sessions whose states are older come from the archive.

    Raises:
        ImportError: The redis package is not installed.
        ValueError: Not a Redis URL, or a time not above zero.
    """

    def __init__(self, url: str, *, prefix: str = "memory_context:", keep_seconds: float = _KEEP_SECONDS) -> None:
        if keep_seconds <= 0:
            raise ValueError(f"keep_seconds must be above zero, got {keep_seconds!r}")
        if find_spec("redis") is None:
            raise ImportError("RedisStates needs the redis package: pip install 'memory-context[redis]'")
        self._place = _without_secrets(url)
        self._url = url
        self._prefix = prefix
        self._client: Redis | None = None
        self._keep_milliseconds = int(keep_seconds * 1000)

    async def save(self, key: SessionKey, state: Mapping[str, Any]) -> None:
        """Replace the state; raises StoreUnavailableError, or StoreError if Redis refuses (out of memory)."""
        packed = await asyncio.to_thread(_pack, state)
        await self._ask(self._redis.set(self._key(key), packed, px=self._keep_milliseconds))

    async def load(self, key: SessionKey) -> Mapping[str, Any] | None:
        """Return the last state, None if missing or unreadable; raises StoreUnavailableError."""
        packed = cast(bytes | None, await self._ask(self._redis.get(self._key(key))))
        if packed is None:
            return None
        try:
            return await asyncio.to_thread(_unpack, packed)
        except (ValueError, zlib.error) as error:
            _logger.error("the saved state of session %r cannot be read: %s", key.session_id, error)
            return None

    async def erase_traces(self, traces: Traces, sessions: Collection[SessionKey]) -> None:
        """Rewrite the states of these sessions without forgotten contents; raises StoreUnavailableError.

        A state that its session replaces meanwhile stays: a running context drops them itself.
        """
        for key in sessions:
            name = self._key(key)
            packed = cast(bytes | None, await self._ask(self._redis.get(name)))
            redacted = None if packed is None else await asyncio.to_thread(_redacted, packed, traces, key.session_id)
            if packed is not None and redacted is not None:
                await self._ask(self._redis.eval(_REPLACE, 1, name, packed, redacted))

    async def delete(self, key: SessionKey) -> None:
        await self._ask(self._redis.delete(self._key(key)))

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(StoreError):
                await self._ask(client.aclose())

    def _key(self, key: SessionKey) -> str:
        """A hash of fixed length, so that key names show no ids."""
        return f"{self._prefix}state:{hashlib.sha256(to_utf8(chr(0).join(key))).hexdigest()}"

    @property
    def _redis(self) -> "Redis":
        if self._client is None:
            from redis.asyncio import BlockingConnectionPool, Redis  # lazily: this module imports fast
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff

            pool = BlockingConnectionPool.from_url(  # pyright: ignore[reportUnknownMemberType]
                self._url,
                max_connections=_CONNECTIONS,
                timeout=_ANSWER_SECONDS,
                socket_timeout=_ANSWER_SECONDS,
                socket_connect_timeout=_ANSWER_SECONDS,
                **({} if self._url.startswith("unix:") else {"socket_keepalive": True}),
                retry=Retry(NoBackoff(), 0),
            )
            self._client = Redis.from_pool(pool)
        return self._client

    async def _ask(self, answer: Awaitable[_T]) -> _T:
        """Return the answer, or raise StoreUnavailableError; StoreError if Redis refuses."""
        from redis.exceptions import ConnectionError as Unreachable
        from redis.exceptions import RedisError
        from redis.exceptions import TimeoutError as TooSlow

        try:
            task = await attempt(answer, 2 * _ANSWER_SECONDS)  # to connect, then to answer
            if task is None:
                raise StoreUnavailableError(f"Redis does not answer ({self._place}): is it stopped, or overloaded?")
            return task.result()
        except (Unreachable, TooSlow, OSError) as error:
            text = str(error) or type(error).__name__
            raise StoreUnavailableError(
                f"Redis does not answer: {text} ({self._place}): start it, or correct the address"
            ) from error
        except RedisError as error:
            raise StoreError(f"Redis refused this: {error} ({self._place})") from error


def _without_secrets(url: str) -> str:
    """Return a URL without credentials; the ValueError does not show it."""
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES or "@" in parts.path:
        raise ValueError(
            "the address of Redis cannot be read (it is not shown, since it may hold a password): expected "
            "redis://user:password@host:port/database, with special characters percent-encoded"
        )
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _redacted(packed: bytes, traces: Traces, session_id: str) -> bytes | None:
    """Return a changed state; one that cannot be read is emptied."""
    try:
        state = _unpack(packed)
    except (ValueError, zlib.error):
        return b""
    redacted = traces.redacted(state, session_id)
    return None if redacted == state else _pack(redacted)


def _pack(state: Mapping[str, Any]) -> bytes:
    return zlib.compress(to_utf8(json.dumps(dict(state), ensure_ascii=False, separators=(",", ":"))))


def _unpack(packed: bytes) -> dict[str, Any]:
    return json.loads(from_utf8(zlib.decompress(packed)))
