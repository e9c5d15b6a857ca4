"""Claims as Redis keys with leases, all renewed together three times per lease.

A holder treats an unrenewed claim as lost before others can take it.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from memory_context.errors import SessionBusyError, StoreError, StoreUnavailableError
from memory_context.identifiers import SessionKey
from memory_context.runtime import Background, Timer, begin

from .claims import busy_text
from .redis_states import ANSWER_SECONDS, RedisServer, name_of

__all__ = ["RedisClaims"]

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
_logger = logging.getLogger("memory_context")


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
        self._server = RedisServer("RedisClaims", url, prefix, min(ANSWER_SECONDS, lease_seconds / 5))
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
        self._on_wanted: Callable[[SessionKey], None] = _ignore
        self._on_lost: Callable[[SessionKey], None] = _ignore

    def watch(self, wanted: Callable[[SessionKey], None], lost: Callable[[SessionKey], None]) -> None:
        self._on_wanted, self._on_lost = wanted, lost

    async def claim(self, key: SessionKey, wait_seconds: float) -> None:
        """Return once this process has the session; raises as `LocalClaims.claim`, and StoreUnavailableError."""
        name = name_of(key)
        if name in self._held or name in self._claiming:
            raise RuntimeError(f"session {key.session_id!r} is claimed here already")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_seconds
        pause = _RETRY_SECONDS[0]
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
        if word == "released" and name in self._claiming:
            if not self._claiming[name].done():
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


def _ignore(key: SessionKey) -> None:
    pass
