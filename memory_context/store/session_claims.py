"""Rows that say which process holds a live session; only the server's clock ends a lease."""

from collections.abc import Collection
from uuid import UUID

from memory_context.foundation.identifiers import SessionKey

from .database import Database
from .sql import load_queries

__all__ = ["LEAST_SECONDS", "ClaimRows"]

_QUERIES = load_queries("session_claims")
_LEASE_SECONDS = 10.0  # a killed process keeps its sessions for so long

LEAST_SECONDS = 0.7 * _LEASE_SECONDS
"""Of a lease that remain after each answer: longer ones are not renewed, which spares writes."""


class ClaimRows:
    """The claims in one database, each with a random id. All raise StoreUnavailableError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, key: SessionKey, claim: UUID) -> bool:
        """Return whether the session is now held under this claim; else its holder hears that it is wanted."""
        params = {**key._asdict(), "claim": claim, "lease_seconds": _LEASE_SECONDS}
        *_, rows = await self._database.write(
            key.user_id, _QUERIES("delete_stale_claims"), _QUERIES("claim_session", params)
        )
        return rows[0]["is_mine"]

    async def renew(self, claims: Collection[UUID]) -> tuple[set[UUID], set[UUID]]:
        """Renew claims; return those that are lost, and those whose sessions another process wants."""
        params = {"claims": [*claims], "lease_seconds": _LEASE_SECONDS, "least_seconds": LEAST_SECONDS}
        (rows,) = await self._database.write(None, _QUERIES("renew_claims", params))
        lost = {row["claim"] for row in rows if row["is_lost"]}
        return lost, {row["claim"] for row in rows} - lost

    async def release(self, key: SessionKey, claim: UUID) -> None:
        """Pass the session to the claim that waits for it, or free it."""
        await self._database.write(
            key.user_id, *_QUERIES.each(("pass_session", "free_session"), {**key._asdict(), "claim": claim})
        )

    async def give_up(self, key: SessionKey, claim: UUID) -> None:
        """Neither hold a session nor wait for it."""
        names = ("pass_session", "free_session", "withdraw_wish")
        await self._database.write(key.user_id, *_QUERIES.each(names, {**key._asdict(), "claim": claim}))
