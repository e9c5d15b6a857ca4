"""What is done to a store as a whole, and not by an agent: looking at it, migrating, taking data out and in."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING

from memory_context.errors import SchemaError

from ..database import Database, prepare
from ..schema import MigrationState
from ..sql import Part, part_of
from .status import StoreStatus, fetch_status, fetch_vector_advice, migration_states

if TYPE_CHECKING:
    from ..transfer import ImportReport, ReadLines

__all__ = ["StoreAdmin"]


class StoreAdmin:
    """What is done to one database as a whole.

    Args:
        database: Which one.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def status(self) -> StoreStatus:
        """Return how the store stands; nothing is migrated or set up for it.

        Raises:
            StoreError: The database failed.
        """
        return await fetch_status(self._database.location, self._database.limits)

    async def stop(self) -> int | None:
        """Stop the embedded server and its keeper, and wait for their end; return its process number, None if none ran.

        Raises:
            ValueError: The store is on a server of your own.
            StoreUnavailableError: Other processes use the server.
        """
        folder = self._database.location.folder
        if folder is None:
            raise ValueError(f"{self._database.location.describe()} is no embedded server: stop it where it runs")
        from ..embedded import stop

        return await asyncio.to_thread(stop, folder)

    async def migrations(self) -> list[MigrationState]:
        """Return all migrations that this version or the database knows, in order; none is applied for it.

        Raises:
            StoreError: The database failed.
        """
        return await migration_states(self._database.location, self._database.limits)

    async def migrate(self, part: Part | None = None) -> list[str]:
        """Bring the schema up to this version; return the names of what was applied.

        The first use of a store does so too, but leaves the `post` part alone on a server of your own.

        Args:
            part: `pre`: only what the version before this one works with; run it before this version is deployed.
                `post`: the rest, once this version runs everywhere. None for all, with nobody at work.

        Raises:
            SchemaError: A person has to do something first; says what.
            StoreUnavailableError: The server does not answer or could not be started, or a table was in use.
        """
        pending = [one.name for one in await self.migrations() if one.state == "pending"]
        if part == "post" and (early := [name for name in pending if part_of(name) != "post"]):
            raise SchemaError(
                f"{early[0]} comes first: run memory-context migrate --pre before you deploy this version"
            )
        await prepare(self._database.location, self._database.limits, only_pre=part == "pre")
        states = {one.name: one.state for one in await self.migrations()}
        return [name for name in pending if states[name] == "applied"]

    async def vector_advice(self) -> str | None:
        """Return what to do about a pgvector that could damage indexes; None if it is recent enough.

        Raises:
            StoreError: The database failed.
        """
        return await fetch_vector_advice(self._database.location, self._database.limits)

    def export_lines(
        self, user_id: str, session_id: str | None = None, *, progress: Callable[[int, int | None], None] | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield everything of a user that is not derived, as the pieces of a file; nothing for an unknown user.

        It shows one moment, whatever is written meanwhile. JSON Lines: a header, a line a row, a last line without
        which the file is cut off. Close the generator if you do not read it to its end.

        Args:
            user_id: Whose.
            session_id: Only this session and those of its sub-agents, with the items that they refer to; None for all.
            progress: Called with the rows done and the rows there are; None where only a session is asked for.

        Raises:
            StoreError: The database failed; what was yielded until then is no whole file.
        """
        from ..transfer import export_lines

        return export_lines(self._database, user_id, session_id, progress)

    async def import_lines(
        self, read: "ReadLines", user_id: str | None = None, *, only_check: bool = False, trust_origins: bool = False
    ) -> "ImportReport":
        """Take in a file that `export_lines` wrote; return what became of its records.

        What is there is never changed. Known rows are left out, so that an import that was broken off can be repeated.
        Rows come page by page: do not go on with a session before all of it is there.

        Args:
            read: Reads the file from its beginning, line by line; called up to four times, at last to store it.
            user_id: Whose it shall be; None for the user in the file.
            only_check: Find out what importing it would do, and store nothing.
            trust_origins: Believe what the file says of whose words an item holds, as is done anyway for a file that
                this installation signed for the same user. Otherwise what the user or the application stored counts as
                imported: its preferences and facts are not taken for the user's own.

        Raises:
            SecretError: An item is of type user_secret; nothing was stored.
            TransferError: A line is not as it has to be, or the store has something else in its place: nothing was
                stored.
            ConflictError: Somebody stored something else meanwhile; what was stored until then stays.
            StoreError: The database failed; what was stored until then stays.
        """
        from ..transfer import import_lines

        return await import_lines(self._database, read, user_id, only_check=only_check, trust_origins=trust_origins)
