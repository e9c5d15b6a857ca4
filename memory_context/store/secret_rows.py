"""Rows of secrets: names and encrypted values. The store never sees a key or a value; `vault` has both."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Protocol

from .database import Database
from .sql import load_queries

__all__ = ["KeyProvider", "SealedSecret", "SecretKey", "SecretName", "SecretRows"]

_QUERIES = load_queries("secrets")
_THREADS = load_queries("threads")
_NAMES_LIMIT = 1000
_PAGE_ROWS = 100


@dataclass(frozen=True)
class SecretKey:
    """A key of 256 bits; `id` is stored beside each value that it encrypted, at most 64 bytes."""

    id: str
    material: bytes = field(repr=False)


class KeyProvider(Protocol):
    """Gives the keys of the vault, such as from a key management service."""

    def keys(self) -> Sequence[SecretKey]:
        """Return the current key first, then earlier ones that still decrypt; none for no vault."""
        ...


@dataclass(frozen=True)
class SecretName:
    """A secret as everybody may see it; without a value it came with an import."""

    name: str
    has_value: bool
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class SealedSecret:
    """An encrypted value; a session's is one masked in its tool results."""

    name: str
    session_id: str
    key_id: str
    nonce: bytes = field(repr=False)
    ciphertext: bytes = field(repr=False)


class SecretRows:
    """The rows of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def select_names(self, user_id: str) -> list[SecretName]:
        """Return the names of the user's own secrets, in order."""
        (rows,) = await self._database.read(user_id, _QUERIES("select_secret_names", limit=_NAMES_LIMIT))
        return [SecretName(**row) for row in rows]

    async def select(self, user_id: str) -> list[SealedSecret]:
        """Return the user's own secrets with a value."""
        (rows,) = await self._database.read(user_id, _QUERIES("select_secrets"))
        return [SealedSecret(**row) for row in rows]

    async def fetch(self, user_id: str, name: str) -> SealedSecret | None:
        """Return a secret of any session; None if there is none, or only its name."""
        (rows,) = await self._database.read(user_id, _QUERIES("fetch_secret", name=name))
        return SealedSecret(**rows[0]) if rows and rows[0]["key_id"] is not None else None

    async def select_of_other_keys(self, user_id: str, key_id: str, after: str = "") -> list[SealedSecret]:
        """Return a page of secrets that other keys encrypted, by name."""
        (rows,) = await self._database.read(
            user_id, _QUERIES("select_secrets_of_other_keys", key_id=key_id, after=after, limit=_PAGE_ROWS)
        )
        return [SealedSecret(**row) for row in rows]

    async def upsert(self, user_id: str, secrets: Sequence[SealedSecret]) -> None:
        """Store or replace secrets in one transaction."""
        statements = [_QUERIES("upsert_secret", asdict(one)) for one in secrets]
        is_named = any(not one.session_id for one in secrets)
        await self._database.write(user_id, *statements, _THREADS("insert_known_user"), changes_user_memory=is_named)

    async def update_key(self, user_id: str, secret: SealedSecret, known_nonce: bytes) -> bool:
        """Replace an encryption of the same value; False if it was changed meanwhile."""
        (rows,) = await self._database.write(
            user_id, _QUERIES("update_secret_key", asdict(secret), known_nonce=known_nonce)
        )
        return bool(rows)

    async def delete(self, user_id: str, name: str) -> bool:
        """Delete a secret; return whether there was one."""
        (rows,) = await self._database.write(user_id, _QUERIES("delete_secret", name=name))
        return bool(rows)
