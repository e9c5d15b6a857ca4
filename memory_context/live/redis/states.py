"""Saved states as values of Redis: compressed JSON, exact for every str."""

import asyncio
import json
import logging
import zlib
from collections.abc import Mapping
from typing import Any, cast

from memory_context.identifiers import SessionKey
from memory_context.utf8 import from_utf8, to_utf8

from .server import RedisServer, name_of

__all__ = ["RedisStates"]

_KEEP_SECONDS = 7 * 24 * 3600
_logger = logging.getLogger("memory_context")


class RedisStates:
    """Saved states of sessions in Redis.

    A state holds unarchived messages too, so a killed process loses nothing of finished requests while Redis keeps it.

    Args:
        url: As for `RedisClaims`.
        prefix: Prefix of all keys.
        keep_seconds: How long a state is kept; older sessions come from the archive.

    Raises:
        ImportError: The redis package is not installed.
        ValueError: The URL is not one of Redis.
    """

    def __init__(self, url: str, *, prefix: str = "memory_context:", keep_seconds: float = _KEEP_SECONDS) -> None:
        if keep_seconds <= 0:
            raise ValueError(f"keep_seconds must be above zero, got {keep_seconds!r}")
        self._server = RedisServer("RedisStates", url, prefix)
        self._keep_milliseconds = int(keep_seconds * 1000)

    async def save(self, key: SessionKey, state: Mapping[str, Any]) -> None:
        """Replace the state.

        Raises:
            StoreUnavailableError: Redis does not answer.
            StoreError: Redis refuses, for example because its memory is full.
        """
        packed = await asyncio.to_thread(_pack, state)
        await self._server.ask(self._server.client.set(self._key(key), packed, px=self._keep_milliseconds))

    async def load(self, key: SessionKey) -> Mapping[str, Any] | None:
        """Return the last state; None if there is none, or an unreadable one: the archive has the session.

        Raises:
            StoreUnavailableError: Redis does not answer.
        """
        packed = cast(bytes | None, await self._server.ask(self._server.client.get(self._key(key))))
        if packed is None:
            return None
        try:
            return await asyncio.to_thread(_unpack, packed)
        except (ValueError, zlib.error) as error:
            _logger.error("the saved state of session %r cannot be read: %s", key.session_id, error)
            return None

    async def delete(self, key: SessionKey) -> None:
        """Delete the state of a session.

        Raises:
            StoreUnavailableError: Redis does not answer.
        """
        await self._server.ask(self._server.client.delete(self._key(key)))

    async def close(self) -> None:
        """Close the connections."""
        await self._server.close()

    def _key(self, key: SessionKey) -> str:
        return f"{self._server.prefix}state:{name_of(key)}"


def _pack(state: Mapping[str, Any]) -> bytes:
    return zlib.compress(to_utf8(json.dumps(dict(state), ensure_ascii=False, separators=(",", ":"))))


def _unpack(packed: bytes) -> dict[str, Any]:
    return json.loads(from_utf8(zlib.decompress(packed)))
