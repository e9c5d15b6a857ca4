"""Saved states as Redis values: compressed JSON, exact for every str."""

import asyncio
import json
import logging
import zlib
from collections.abc import Collection, Mapping
from typing import Any, cast

from memory_context.identifiers import SessionKey
from memory_context.utf8 import from_utf8, to_utf8

from ..claims import Redaction
from .server import RedisServer, name_of

__all__ = ["RedisStates"]

_KEEP_SECONDS = 7 * 24 * 3600
_REPLACE = "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('set', KEYS[1], ARGV[2], 'KEEPTTL') end"
_logger = logging.getLogger("memory_context")


class RedisStates:
    """Saved states in Redis. They include unarchived messages: a killed process loses no finished request.

    Args:
        url: As for `RedisClaims`.
        keep_seconds: Lifetime of a state; older sessions come from the archive.

    Raises:
        ImportError: The redis package is not installed.
        ValueError: Not a Redis URL.
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
