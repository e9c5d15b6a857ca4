"""One connection with a deadline on every wait.

At the deadline or on cancellation it is closed at once and its statement cancelled. Errors hold no password.
"""

import array
import asyncio
import math
import time
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar, cast

import psycopg
from psycopg import AsyncConnection, waiting
from psycopg.abc import PQGen
from psycopg.adapt import AdaptersMap
from psycopg.conninfo import make_conninfo
from psycopg.pq import PollingStatus
from psycopg.pq.abc import PGcancelConn, PGconn
from psycopg.rows import DictRow, dict_row

from memory_context.foundation.errors import StoreError, StoreUnavailableError
from memory_context.foundation.runtime.background import Timer, attempt

from .codec import ADAPTERS
from .limits import extend

__all__ = ["Connection", "DeadlineError", "connect", "dedicated", "driver_errors"]

try:
    import fcntl
    import termios
except ImportError:  # Windows
    fcntl = termios = None


_CONNECT_SECONDS = 3  # per address of a host
_CANCEL_SECONDS = 5.0
_LIVENESS = {  # detects a dead peer while idle
    "keepalives": "1",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}

_RV = TypeVar("_RV")


class DeadlineError(psycopg.OperationalError):
    """The server did not answer in time."""


class Connection(AsyncConnection[DictRow]):
    """A connection closed at its deadline or on cancellation.

    Attributes:
        is_direct: True if the server's process is its own; False behind a pooler, or as long as that is not known.
        prepared: Names of prepared statements, by query and types of parameters.
    """

    _deadline = math.inf
    _bytes_per_second = math.inf

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.is_direct = False
        self.prepared: dict[tuple[bytes, tuple[int, ...] | None], bytes] = {}

    def allow(self, seconds: float, *, bytes_per_second: float = math.inf) -> None:
        """Set the deadline; each `bytes_per_second` received extends it by a second."""
        self._deadline = time.monotonic() + seconds
        self._bytes_per_second = bytes_per_second

    async def fetch(
        self, query: bytes, params: Mapping[str, Any] | None = None, *, binary: bool = False
    ) -> list[DictRow]:
        """Return a statement's rows; in binary it may keep its snapshot until the transaction's next statement."""
        cursor = await self.execute(query, params, binary=binary)
        return await cursor.fetchall() if cursor.description else []

    @property
    def seconds_left(self) -> float:
        return max(self._deadline - time.monotonic(), 0.0)

    async def wait(self, gen: PQGen[_RV], interval: float = 0.1, timeout: float | None = None) -> _RV:
        """Wait until the deadline; after cancellation psycopg itself would wait 5 s."""
        limit = {} if timeout is None else {"timeout": timeout}  # new in psycopg 3.3
        interval = min(interval, max(self.seconds_left, 0.001))
        bounded = self._bounded(gen)
        try:
            return await waiting.wait_async(bounded, self.pgconn.socket, interval=interval, **limit)
        except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit, DeadlineError):
            _request_cancel(self.pgconn)
            self.pgconn.finish()
            with suppress(psycopg.Error):  # suspended, it would complain when collected
                bounded.close()
            with suppress(psycopg.Error):
                gen.close()
            raise

    def _bounded(self, gen: PQGen[_RV]) -> Generator[Any, Any, _RV]:
        try:
            state = next(gen)
            began = time.monotonic()
            while True:
                ready = yield state
                if ready & waiting.Ready.R and self._bytes_per_second < math.inf:
                    more = _bytes_to_read(self.pgconn.socket) / self._bytes_per_second
                    self._deadline += more
                    extend(more)
                if (now := time.monotonic()) >= self._deadline:
                    raise DeadlineError(f"no whole answer within {now - began:.3g} s")
                state = gen.send(ready)
        except StopIteration as end:
            return cast(_RV, end.value)

    def __del__(self, *_: Any) -> None:
        """Stay silent: programs may skip closing the store."""


async def connect(params: Mapping[str, str], seconds: float, adapters: AdaptersMap = ADAPTERS) -> Connection:
    """Open a connection; the deadline also covers its statements.

    PgBouncer rules out `options` and session settings; statements are prepared on direct connections only.
    """
    deadline = time.monotonic() + seconds
    defaults = {"connect_timeout": str(_CONNECT_SECONDS), "fallback_application_name": "memory_context", **_LIVENESS}
    conninfo = make_conninfo(**{**defaults, **params, "client_encoding": "UTF8"})
    # the driver's own timeout is at least 2 s per address
    opening = await attempt(
        Connection.connect(conninfo, autocommit=True, prepare_threshold=None, row_factory=dict_row, context=adapters),
        seconds,
    )
    if opening is None:
        raise DeadlineError(f"no connection within {seconds:.3g} s")
    connection = opening.result()
    connection.allow(max(deadline - time.monotonic(), 0.0))
    return connection


@asynccontextmanager
async def dedicated(params: Mapping[str, str], seconds: float) -> AsyncGenerator[Connection, None]:
    """Open a connection for this block; errors roll back."""
    connection = await connect(params, seconds)
    try:
        yield connection
    finally:
        connection.pgconn.finish()


def _bytes_to_read(fileno: int) -> int:
    if fcntl is None or termios is None:
        return 0
    count = array.array("i", [0])
    with suppress(OSError):
        fcntl.ioctl(fileno, termios.FIONREAD, count)
    return count[0]


def _request_cancel(connection: PGconn) -> None:
    """Use callbacks: an ending event loop would complain of a pending task."""
    try:
        loop = asyncio.get_running_loop()
        request = connection.cancel_conn()
        request.start()
    except (psycopg.Error, RuntimeError):  # closed, or libpq before 17: statement_timeout remains
        return
    _CancelRequest(loop, request).advance()


class _CancelRequest:
    def __init__(self, loop: asyncio.AbstractEventLoop, request: PGcancelConn) -> None:
        self._loop = loop
        self._request = request
        self._watched: int | None = None
        self._timer = Timer(self._end)
        self._timer.plan(_CANCEL_SECONDS)

    def advance(self) -> None:
        self._unwatch()
        try:
            status = self._request.poll()
            if status == PollingStatus.READING:
                self._watched = self._request.socket
                self._loop.add_reader(self._watched, self.advance)
            elif status == PollingStatus.WRITING:
                self._watched = self._request.socket
                self._loop.add_writer(self._watched, self.advance)
            else:
                self._end()
        except psycopg.Error:
            self._end()

    def _unwatch(self) -> None:
        if self._watched is not None:
            self._loop.remove_reader(self._watched)
            self._loop.remove_writer(self._watched)
            self._watched = None

    def _end(self) -> None:
        self._unwatch()
        self._timer.cancel()
        self._request.finish()


# operational errors that a retry does not help
_REFUSED = (psycopg.errors.ProgramLimitExceeded, psycopg.errors.StatementTooComplex)


@contextmanager
def driver_errors(where: str) -> Generator[None, None, None]:
    """Turn driver errors into `StoreError`, or `StoreUnavailableError` if a retry can help."""
    try:
        yield
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        if isinstance(error, _REFUSED):
            raise StoreError(f"the database refused this: {_text(error)} ({where})") from error
        raise StoreUnavailableError(f"the database does not answer: {_text(error)} ({where})") from error
    except psycopg.Error as error:
        raise StoreError(f"the database refused this: {_text(error)} ({where})") from error


def _text(error: psycopg.Error) -> str:
    # first line only: DETAIL quotes row values
    return (error.diag.message_primary or str(error) or type(error).__name__).strip().splitlines()[0]
