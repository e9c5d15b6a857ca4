"""The embedded Postgres: a real server in a folder, for those who name none.

All processes with the same folder share its server; a keeper process stops it when they are gone (`keeper`). However a
process ends, it blocks neither the next start nor the last stop. Nothing reaches the user's terminal. An error names
the
folder, and the variable that chooses another. A running server is found without loading the library that starts it.
"""

import fcntl
import logging
import math
import os
import shutil
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import cast

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from typing_extensions import LiteralString

from memory_context.errors import StoreUnavailableError

from . import keeper
from .location import HOME_ENV, KEEP_ENV, URL_ENV
from .sql import load_queries

__all__ = ["KeeperState", "keeper_state", "release", "start", "stop", "url_of"]

DATABASE = "memory_context"
_KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")  # what an interpreter may need to start
_READY_SECONDS = 60.0
_POLL_SECONDS = 0.02
_ENDING_SECONDS = 5.0  # of a keeper that was told to end

_QUERIES = load_queries("embedded")

_logger = logging.getLogger(__name__)
_lock = threading.Lock()
_shares: dict[Path, int] = {}  # descriptors of `holders`, locked; a fork shares them


@dataclass(frozen=True)
class KeeperState:
    """The process that keeps an embedded server.

    Attributes:
        pid: Its process id.
        since: When it began, in UTC.
        keep_seconds: How long it keeps the server after its last user.
        held_by: Other processes that use the server now, as far as the system tells.
        stops_at: When it stops the server if this process is the last; None while others use it.
    """

    pid: int
    since: datetime
    keep_seconds: float
    held_by: tuple[int, ...]
    stops_at: datetime | None


def start(folder: Path, database: str = DATABASE) -> dict[str, str]:
    """Start the folder's server unless it runs, and return the superuser's parameters for a database, made if missing.

    Blocks for a few seconds when the folder is new. Safe in many threads and processes at once.

    Raises:
        StoreUnavailableError: It could not be started.
    """
    try:
        with _lock:
            folder = folder.resolve()
            folder.mkdir(parents=True, exist_ok=True)
            server = _start(folder)
        params = {"host": server.socket_folder, "port": server.port, "user": "postgres", "dbname": database}
        _ensure_database(params)
    except (ImportError, OSError, RuntimeError, ValueError, subprocess.SubprocessError, psycopg.Error) as error:
        said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise StoreUnavailableError(
            f"the embedded Postgres in {folder} cannot be used: {said}. Choose another folder with {HOME_ENV}, "
            f"or a server of your own with {URL_ENV}"
        ) from error
    return params


def url_of(params: dict[str, str]) -> str:
    """Return connection parameters as one string, which `MemoryStore` takes."""
    return make_conninfo(**params)


def release(folder: Path) -> None:
    """Release this process's share of the folder's server; if it was the last, the server has stopped on return.

    A process that ends releases its share too; the keeper then stops the server in its time.
    """
    with _lock, suppress(OSError):  # the folder may be gone
        folder = folder.resolve()
        if folder in _shares:
            with keeper.locked(str(folder)):
                _give_up_share(folder)
                _stop_unless_held(folder)


def stop(folder: Path) -> int | None:
    """Stop a folder's server and its keeper; return the server's process id, None if no server runs.

    Raises:
        StoreUnavailableError: Other processes use the server; names them as far as the system tells.
    """
    folder = folder.resolve()
    if not (folder / "holders").exists():
        return None
    with _lock, keeper.locked(str(folder)):
        _give_up_share(folder)
        running = keeper.running_postmaster(str(folder / "postgres"))
        if not _stop_unless_held(folder):
            pids = ", ".join(map(str, _holders(folder)))
            raise StoreUnavailableError(
                f"the embedded Postgres in {folder} is in use by process {pids or 'numbers unknown'}: end it first"
            )
        _end_keeper(folder)
    return running.pid if running else None


def keeper_state(folder: Path) -> KeeperState | None:
    """Return the keeper of the folder's server; None if there is none."""
    folder = folder.resolve()
    if not (folder / "watch").exists():
        return None
    with keeper.locked(str(folder)):
        watch = os.open(folder / "watch", os.O_RDWR)
        try:
            record = None if keeper.is_unheld(watch) else keeper.read_keeper(watch)
        finally:
            os.close(watch)
    if record is None:
        return None
    others = tuple(pid for pid in _holders(folder) if pid != os.getpid())
    seconds = float((folder / "holders").read_text(encoding="ascii") or 0)
    stops_at = None if others else datetime.now(timezone.utc) + timedelta(seconds=seconds)
    return KeeperState(record.pid, datetime.fromtimestamp(record.since, timezone.utc), seconds, others, stops_at)


def _start(folder: Path) -> keeper.Postmaster:
    """Return the folder's server; it runs, a keeper watches it, and this process is among its holders."""
    pgdata = str(folder / "postgres")
    keep_seconds = _keep_seconds()
    with keeper.locked(str(folder)):
        running = keeper.running_postmaster(pgdata)
        if running and folder not in _shares and _is_upgraded(running, pgdata) and _stop_unless_held(folder):
            running = None
        _hold(folder, 0.0 if keep_seconds is None and running is None else keep_seconds)
        try:
            _ensure_keeper(folder)  # before the server: there is none that nobody would stop
            if running is None:
                from .pgserver import start_server  # its import is slow, and only the extra `local` has what it needs

                start_server(folder)
            return _ready(pgdata)
        except BaseException:
            _give_up_share(folder)
            raise


def _ready(pgdata: str) -> keeper.Postmaster:
    deadline = time.monotonic() + _READY_SECONDS
    while (server := keeper.running_postmaster(pgdata)) is not None and time.monotonic() < deadline:
        if server.is_ready:
            return server
        time.sleep(_POLL_SECONDS)  # a starter was killed between starting it and this
    raise RuntimeError("it does not take connections")


def _is_upgraded(server: keeper.Postmaster, pgdata: str) -> bool:
    """Whether the program that runs as the server was replaced or removed, with the extensions it would load."""
    try:
        program = Path(pgdata, "postmaster.opts").read_text(encoding="utf-8", errors="replace").partition(' "')[0]
        running = f"/proc/{server.pid}/exe"
        return not os.path.exists(program) or (os.path.exists(running) and not os.path.samefile(running, program))
    except OSError:
        return False


def _hold(folder: Path, keep_seconds: float | None) -> None:
    """Take a share. The last that says how long the server is kept is heeded; None says nothing."""
    _give_up_share(folder)  # the folder may be another one by now
    share = _shares[folder] = os.open(folder / "holders", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(share, fcntl.LOCK_SH)
    if keep_seconds is not None:
        os.ftruncate(share, 0)
        os.pwrite(share, str(keep_seconds).encode(), 0)
    os.utime(share)  # tells a keeper that waits that somebody came


def _give_up_share(folder: Path) -> None:
    if (share := _shares.pop(folder, None)) is not None:
        os.close(share)


def _stop_unless_held(folder: Path) -> bool:
    """Stop the server unless some process holds it; whether nobody did. Only under the folder's lock."""
    holders = os.open(folder / "holders", os.O_RDWR)
    try:
        deadline = time.monotonic() + 1.0
        while not keeper.is_unheld(holders):  # the keeper has the lock for a moment when the last holder goes
            if _holders(folder) or time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        pgdata = str(folder / "postgres")
        keeper.stop_server(pgdata, keeper.running_postmaster(pgdata))
        return True
    finally:
        os.close(holders)


def _holders(folder: Path) -> list[int]:
    """Return the processes with a shared lock on `holders`; none where the system does not tell."""
    try:
        file = os.stat(folder / "holders")
        place = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
        locks = [line.split() for line in Path("/proc/locks").read_text(encoding="ascii").splitlines()]
    except OSError:
        return []
    return [int(one[4]) for one in locks if one[1] == "FLOCK" and one[3] == "READ" and one[5] == place]


def _ensure_keeper(folder: Path) -> None:
    """Start a keeper unless one of this protocol or a newer one runs. It inherits its lock, and nothing else."""
    watch = os.open(folder / "watch", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not keeper.is_unheld(watch):
            found = keeper.read_keeper(watch)
            if found is not None and found.protocol >= keeper.PROTOCOL:
                return
            _end_keeper(folder)  # of an earlier version; this process holds the server meanwhile
            fcntl.flock(watch, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(watch, 0)
        subprocess.run(
            [_interpreter(), "-I", "-S", keeper.__file__, str(folder), str(watch)],
            check=True,
            timeout=30,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ},
            pass_fds=[watch],
            start_new_session=True,
        )
    finally:
        os.close(watch)


def _end_keeper(folder: Path) -> None:
    """End the folder's keeper and wait for its end; it leaves the server as it is."""
    try:
        watch = os.open(folder / "watch", os.O_RDWR)
    except FileNotFoundError:
        return
    try:
        if keeper.is_unheld(watch):
            return
        if (found := keeper.read_keeper(watch)) is not None:
            with suppress(ProcessLookupError):
                os.kill(found.pid, 9)
        else:
            from .pgserver import end_keepers

            end_keepers(str(folder))
        deadline = time.monotonic() + _ENDING_SECONDS
        while not keeper.is_unheld(watch):
            if time.monotonic() > deadline:
                raise RuntimeError("the process that keeps its server does not end")
            time.sleep(_POLL_SECONDS)
    finally:
        os.close(watch)


def _keep_seconds() -> float | None:
    """Return how long the server is kept after its last holder is gone; None if nobody said."""
    text = os.environ.get(KEEP_ENV)
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise ValueError(f"{KEEP_ENV}={text!r}: give a number of seconds, 0 or more")
    return seconds


def _interpreter() -> str:
    """Return a Python to run the keeper with; an application that embeds Python is none itself."""
    for candidate in (sys.executable, os.path.join(sys.exec_prefix, "bin", "python3"), shutil.which("python3")):
        if candidate and os.path.basename(candidate).startswith("python") and os.access(candidate, os.X_OK):
            return candidate
    raise RuntimeError("there is no Python interpreter to run the process that stops the server: put python3 on PATH")


def _ensure_database(params: dict[str, str]) -> None:
    conninfo = make_conninfo(**{**params, "dbname": "postgres"})
    create = sql.SQL(cast("LiteralString", _QUERIES["create_database"].decode()))
    with psycopg.connect(conninfo, autocommit=True, connect_timeout=5) as connection:
        if not connection.execute(_QUERIES["fetch_database_exists"], {"name": params["dbname"]}).fetchone():
            # another process may be creating it
            with suppress(psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation):
                connection.execute(create.format(database=sql.Identifier(params["dbname"])))
