"""Claims and saved states in Redis.

Claims are keys with leases, all renewed together three times per lease; an unrenewed claim counts as lost before others
can take it. The client has bounded waits and this library's errors, without secrets.
"""

import asyncio
import hashlib
import json
import logging
import time
import uuid
import zlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urlsplit

from memory_context.foundation.errors import SessionBusyError, StoreError, StoreUnavailableError
from memory_context.foundation.identifiers import SessionKey
from memory_context.foundation.runtime.background import Background, Timer, attempt, begin
from memory_context.foundation.utf8 import from_utf8, to_utf8

from .claims import Redaction, busy_text

if TYPE_CHECKING:
    from redis.asyncio import Redis

__all__ = ["RedisClaims", "RedisStates"]

_ANSWER_SECONDS = 3.0
_CONNECTIONS = 16
_SCHEMES = ("redis", "rediss", "unix")
_KEEP_SECONDS = 7 * 24 * 3600
_RETRY_SECONDS = (0.02, 0.25)  # between attempts at a taken claim: first, longest
_RENEWED_AT_ONCE = 500  # a script blocks Redis
_AGAIN_SECONDS = 1.0  # between renewals while Redis is away
_LOST_AFTER = 0.8  # share of a lease; leaves room for clocks

# KEYS: claim; ARGV: holder, lease in ms, channel prefix, name of the claim
_CLAIM = """
local holder = redis.call('get', KEYS[1])
if holder and holder ~= ARGV[1] then
    redis.call('publish', ARGV[3] .. holder, 'wanted ' .. ARGV[4] .. ' ' .. ARGV[1])
    return 0
end
redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""
# KEYS: claim; ARGV: holder, name of the claim, channels of the askers
_RELEASE = """
if redis.call('get', KEYS[1]) == ARGV[1] then
    redis.call('del', KEYS[1])
    for place = 3, #ARGV do redis.call('publish', ARGV[place], 'released ' .. ARGV[2]) end
end
"""
# KEYS: claims; ARGV: holder, lease in ms; returns indexes of lost claims
_RENEW = """
local lost = {}
for place, key in ipairs(KEYS) do
    if redis.call('get', key) == ARGV[1] then
        redis.call('pexpire', key, ARGV[2])
    else
        lost[#lost + 1] = place
    end
end
return lost
"""
# KEYS: state; ARGV: the value before, the new one
_REPLACE = "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('set', KEYS[1], ARGV[2], 'KEEPTTL') end"

_T = TypeVar("_T")
_logger = logging.getLogger("memory_context")


class RedisServer:
    """A client in the event loop of its first use; `what` names the feature in the ImportError."""

    def __init__(self, what: str, url: str, prefix: str, answer_seconds: float = _ANSWER_SECONDS) -> None:
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
            from redis.asyncio import BlockingConnectionPool, Redis  # lazily: this module imports fast
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


class RedisClaims:
    """Claims of one cache, in Redis.

    Args:
        url: `redis://user:password@host:port/database`, `rediss://…` for TLS, or `unix:///path`.
        lease_seconds: How long a dead process keeps its claims.

    Raises:
        ImportError: The redis package is not installed.
        ValueError: Not a Redis URL, or a lease not above zero.
    """

    def __init__(self, url: str, *, prefix: str = "memory_context:", lease_seconds: float = 30) -> None:
        if lease_seconds <= 0:
            raise ValueError(f"lease_seconds must be above zero, got {lease_seconds!r}")
        self._server = RedisServer("RedisClaims", url, prefix, min(_ANSWER_SECONDS, lease_seconds / 5))
        self._lease_seconds = lease_seconds
        self._lease = str(int(lease_seconds * 1000))
        self._id = uuid.uuid4().hex
        self._held: dict[str, SessionKey] = {}
        self._askers: dict[str, set[str]] = {}
        self._claiming: dict[str, asyncio.Future[None]] = {}  # done on release
        self._returning = Background[None]("memory_context claims")
        self._renewed_at = 0.0
        self._timer = Timer(self._start_renewing)
        self._lasting = Background[None]("memory_context claims")
        self._on_wanted: Callable[[SessionKey], None] = lambda _: None
        self._on_lost = self._on_wanted

    def watch(self, wanted: Callable[[SessionKey], None], lost: Callable[[SessionKey], None]) -> None:
        self._on_wanted, self._on_lost = wanted, lost

    async def claim(self, key: SessionKey, wait_seconds: float) -> None:
        """Return once this process has the session; raises as `LocalClaims.claim`, and StoreUnavailableError."""
        name = name_of(key)
        if name in self._held or name in self._claiming:
            raise RuntimeError(f"session {key.session_id!r} is claimed here already")
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + wait_seconds, _RETRY_SECONDS[0]
        try:
            while True:
                released = self._claiming[name] = loop.create_future()
                if await self._attempt(name):
                    self._held[name] = key
                    return
                left = deadline - loop.time()
                if left <= 0:
                    raise SessionBusyError(busy_text(key, wait_seconds))
                await asyncio.wait([released], timeout=min(pause, left))
                pause = min(2 * pause, _RETRY_SECONDS[1])
        finally:
            del self._claiming[name]

    async def release(self, key: SessionKey) -> None:
        """Release a session, if need be by expiry of its lease."""
        name = name_of(key)
        if self._held.pop(name, None) is not None:
            await asyncio.wait([self._return(name)])

    async def close(self) -> None:
        self._timer.cancel()
        self._held, held = {}, self._held
        deadline = time.monotonic() + 2 * self._server.answer_seconds
        for name in held:
            if time.monotonic() < deadline:
                await asyncio.wait([self._return(name)])
        await self._returning.wait()
        await self._lasting.stop(self._server.answer_seconds)
        await self._server.close()

    async def _attempt(self, name: str) -> bool:
        if returning := self._returning.running(name):  # a pending release would undo this claim
            await asyncio.wait([returning])
        self._hear_others()
        while True:
            started = time.monotonic()
            asked = self._server.run(_CLAIM, [self._key(name)], self._id, self._lease, self._channel(""), name)
            asking = begin(asked)
            try:
                await asyncio.wait([asking])
                is_mine = bool(asking.result())
            except BaseException:  # cancelled or unanswered: Redis may still set it
                self._return(name, after=asking)
                raise
            if not is_mine or time.monotonic() - started < _LOST_AFTER * self._lease_seconds:
                break  # else paused for so long that the lease may be lost
        if is_mine and not self._held:
            self._renewed_at = started
            self._plan(self._lease_seconds / 3)
        return is_mine

    def _return(self, name: str, after: "asyncio.Future[Any] | None" = None) -> "asyncio.Task[None]":

        async def give_back() -> None:
            if after is not None:
                await asyncio.wait([after])
            channels = [self._channel(asker) for asker in self._askers.pop(name, ())]
            with suppress(StoreError):
                await self._server.run(_RELEASE, [self._key(name)], self._id, name, *channels)

        return self._returning.start(give_back, name)

    def _plan(self, seconds: float) -> None:
        self._timer.cancel()
        self._timer.plan(seconds)

    def _start_renewing(self) -> None:
        if self._held:
            self._lasting.start(self._renew, "renew")

    async def _renew(self) -> None:
        """Renew all leases; report claims that are late or taken as lost."""
        started = time.monotonic()
        last_moment = self._renewed_at + _LOST_AFTER * self._lease_seconds
        pause = self._lease_seconds / 3
        lost: list[str] = []
        names = [*self._held]
        try:
            if started > last_moment:
                raise StoreUnavailableError("this process was held up for too long to renew them")
            for start in range(0, len(names), _RENEWED_AT_ONCE):
                some = names[start : start + _RENEWED_AT_ONCE]
                places = await self._server.run(_RENEW, [self._key(name) for name in some], self._id, self._lease)
                lost += [some[place - 1] for place in places]
            self._renewed_at = started
        except StoreError as error:
            pause = min(self._lease_seconds / 10, _AGAIN_SECONDS)
            if time.monotonic() + pause + 2 * self._server.answer_seconds > last_moment:
                _logger.warning("claims of %d sessions are lost: %s", len(names), error)
                lost = [*self._held]
        for name in lost:
            key = self._held.pop(name, None)
            self._askers.pop(name, None)
            if key is not None:
                self._on_lost(key)
        if self._held:
            self._hear_others()
            self._plan(pause)

    def _hear_others(self) -> None:
        self._lasting.start(self._hear, "hear")

    async def _hear(self) -> None:
        """Handle notifications until the connection breaks; then renew at once."""
        from redis.exceptions import RedisError

        channel = self._server.client.pubsub()  # pyright: ignore[reportUnknownMemberType]
        try:
            await self._server.ask(channel.subscribe(self._channel(self._id)))  # pyright: ignore[reportUnknownMemberType]
            while True:
                heard = cast(
                    dict[str, Any] | None,
                    await channel.get_message(ignore_subscribe_messages=True, timeout=self._lease_seconds),
                )
                if heard is not None:
                    self._take_in(heard["data"].decode("utf-8", "replace"))
        except (StoreError, RedisError, OSError) as error:
            _logger.info("the connection that tells who wants a session broke: %s", error)
            if self._held and not isinstance(error, StoreError):
                self._plan(0)
        finally:
            with suppress(RedisError, OSError):
                await channel.aclose()

    def _take_in(self, text: str) -> None:
        word, name, asker = (*text.split(" "), "", "")[:3]
        if word == "released" and name in self._claiming and not self._claiming[name].done():
            self._claiming[name].set_result(None)
        elif word == "wanted" and name in self._held:
            self._askers.setdefault(name, set()).add(asker)
            self._on_wanted(self._held[name])
        elif word == "wanted" and name not in self._claiming:  # a claim given up before its answer
            self._return(name)

    def _key(self, name: str) -> str:
        return f"{self._server.prefix}claim:{name}"

    def _channel(self, holder: str) -> str:
        return f"{self._server.prefix}holder:{holder}"


class RedisStates:
    """Saved states in Redis, as compressed JSON, with unarchived messages: a killed process loses no finished request.

    `url` and errors are those of `RedisClaims`. States older than `keep_seconds` come from the archive.
    """

    def __init__(self, url: str, *, prefix: str = "memory_context:", keep_seconds: float = _KEEP_SECONDS) -> None:
        if keep_seconds <= 0:
            raise ValueError(f"keep_seconds must be above zero, got {keep_seconds!r}")
        self._server = RedisServer("RedisStates", url, prefix)
        self._keep_milliseconds = int(keep_seconds * 1000)

    async def save(self, key: SessionKey, state: Mapping[str, Any]) -> None:
        """Replace the state; raises StoreUnavailableError, or StoreError if Redis refuses (out of memory)."""
        packed = await asyncio.to_thread(_pack, state)
        await self._server.ask(self._server.client.set(self._key(key), packed, px=self._keep_milliseconds))

    async def load(self, key: SessionKey) -> Mapping[str, Any] | None:
        """Return the last state, None if missing or unreadable; raises StoreUnavailableError."""
        packed = cast(bytes | None, await self._server.ask(self._server.client.get(self._key(key))))
        if packed is None:
            return None
        try:
            return await asyncio.to_thread(_unpack, packed)
        except (ValueError, zlib.error) as error:
            _logger.error("the saved state of session %r cannot be read: %s", key.session_id, error)
            return None

    async def erase_traces(self, traces: Redaction, sessions: Collection[SessionKey]) -> None:
        """Rewrite the states of these sessions without forgotten contents; raises StoreUnavailableError.

        A state that its session replaces meanwhile stays: a running context drops them itself.
        """
        for key in sessions:
            name = self._key(key)
            packed = cast(bytes | None, await self._server.ask(self._server.client.get(name)))
            redacted = None if packed is None else await asyncio.to_thread(_redacted, packed, traces)
            if packed is not None and redacted is not None:
                await self._server.run(_REPLACE, [name], packed, redacted)

    async def delete(self, key: SessionKey) -> None:
        await self._server.ask(self._server.client.delete(self._key(key)))

    async def close(self) -> None:
        await self._server.close()

    def _key(self, key: SessionKey) -> str:
        return f"{self._server.prefix}state:{name_of(key)}"


def _redacted(packed: bytes, traces: Redaction) -> bytes | None:
    """Return a changed state; one that cannot be read is emptied."""
    try:
        state = _unpack(packed)
    except (ValueError, zlib.error):
        return b""
    redacted = traces.redacted(state)
    return None if redacted == state else _pack(redacted)


def _pack(state: Mapping[str, Any]) -> bytes:
    return zlib.compress(to_utf8(json.dumps(dict(state), ensure_ascii=False, separators=(",", ":"))))


def _unpack(packed: bytes) -> dict[str, Any]:
    return json.loads(from_utf8(zlib.decompress(packed)))
