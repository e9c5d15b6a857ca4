"""A Redis client with bounded waits and this library's errors, without secrets."""

import hashlib
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from memory_context.errors import StoreError, StoreUnavailableError
from memory_context.identifiers import SessionKey
from memory_context.runtime import attempt
from memory_context.utf8 import to_utf8

if TYPE_CHECKING:
    from redis.asyncio import Redis

__all__ = ["ANSWER_SECONDS", "RedisServer", "name_of"]

ANSWER_SECONDS = 3.0
_CONNECTIONS = 16
_SCHEMES = ("redis", "rediss", "unix")
_T = TypeVar("_T")


class RedisServer:
    """A client in the event loop of its first use; `what` names the feature in the ImportError."""

    def __init__(self, what: str, url: str, prefix: str, answer_seconds: float = ANSWER_SECONDS) -> None:
        if find_spec("redis") is None:
            raise ImportError(f"{what} needs the redis package: pip install 'memory-context[redis]'")
        self.prefix = prefix
        self.place = _without_secrets(url)
        self.answer_seconds = answer_seconds
        self._url = url
        self._client: Redis | None = None

    @property
    def client(self) -> "Redis":
        if self._client is None:
            from redis.asyncio import (
                BlockingConnectionPool,
                Redis,
            )  # lazily: this module imports fast
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff

            pool = BlockingConnectionPool.from_url(  # pyright: ignore[reportUnknownMemberType]
                self._url,
                max_connections=_CONNECTIONS,
                timeout=self.answer_seconds,
                socket_timeout=self.answer_seconds,
                socket_connect_timeout=self.answer_seconds,
                **({} if self._url.startswith("unix:") else {"socket_keepalive": True}),
                retry=Retry(NoBackoff(), 0),
            )
            self._client = Redis.from_pool(pool)
        return self._client

    async def run(self, script: str, keys: Sequence[str], *arguments: str | bytes) -> Any:
        return await self.ask(self.client.eval(script, len(keys), *keys, *arguments))

    async def ask(self, answer: Awaitable[_T]) -> _T:
        """Return the answer, or raise StoreUnavailableError; StoreError if Redis refuses."""
        from redis.exceptions import ConnectionError as Unreachable
        from redis.exceptions import RedisError
        from redis.exceptions import TimeoutError as TooSlow

        try:
            task = await attempt(answer, 2 * self.answer_seconds)  # to connect, then to answer
            if task is None:
                raise StoreUnavailableError(f"Redis does not answer ({self.place}): is it stopped, or overloaded?")
            return task.result()
        except (Unreachable, TooSlow, OSError) as error:
            text = str(error) or type(error).__name__
            raise StoreUnavailableError(
                f"Redis does not answer: {text} ({self.place}): start it, or correct the address"
            ) from error
        except RedisError as error:
            raise StoreError(f"Redis refused this: {error} ({self.place})") from error

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(StoreError):
                await self.ask(client.aclose())


def name_of(key: SessionKey) -> str:
    """Return a fixed-length hash, so that key names show no ids."""
    return hashlib.sha256(to_utf8("\0".join(key))).hexdigest()


def _without_secrets(url: str) -> str:
    """Return a URL without credentials; the ValueError does not show it."""
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES or "@" in parts.path:
        raise ValueError(
            "the address of Redis cannot be read (it is not shown, since it may hold a password): expected "
            "redis://user:password@host:port/database, with special characters percent-encoded"
        )
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
