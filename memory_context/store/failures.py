"""The driver's errors, said in the words of this library.

Promise: no text made here holds a password. The driver's own messages name host, port, database and user, never a
password; what could be one in a malformed address is refused by `location` before the driver sees it.
"""

from collections.abc import Generator
from contextlib import contextmanager

import psycopg

from memory_context.errors import StoreError, StoreUnavailableError

__all__ = ["driver_errors"]

# libpq reports these as operational errors too, but waiting does not mend them
_REFUSED = (psycopg.errors.ProgramLimitExceeded, psycopg.errors.StatementTooComplex)


@contextmanager
def driver_errors(where: str) -> Generator[None, None, None]:
    """Turn what the driver raises inside into a `StoreError`, a `StoreUnavailableError` if a retry can help."""
    try:
        yield
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        if isinstance(error, _REFUSED):
            raise StoreError(f"the database refused this: {_text(error)} ({where})") from error
        raise StoreUnavailableError(f"the database does not answer: {_text(error)} ({where})") from error
    except psycopg.Error as error:
        raise StoreError(f"the database refused this: {_text(error)} ({where})") from error


def _text(error: psycopg.Error) -> str:
    # the first line only: DETAIL lines quote values of the row
    return (error.diag.message_primary or str(error) or type(error).__name__).strip().splitlines()[0]
