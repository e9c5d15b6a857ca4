"""The embedded Postgres: a server in a folder, shared by its processes, stopped by the last that ends.

`holders` in the folder has a shared lock of each process that uses the server, which the kernel frees however the
process ends; `lock` is held while a server starts or stops. Other versions use the same folder, so both names are for
good.
"""

import atexit
import fcntl
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from memory_context.foundation.errors import StoreUnavailableError

from .location import HOME_ENV, URL_ENV
from .sql import load_queries

__all__ = ["release", "remove", "running_server", "start", "stop", "url_of"]

DATABASE = "memory_context"
_READY_SECONDS = 60.0
_POLL_SECONDS = 0.02
_HELD_SECONDS = 1.0  # a process that has just ended, or another version's keeper, may hold the lock for a moment
_STOPS = ((signal.SIGINT, 30.0), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0))  # fast, immediate, by force

_QUERIES = load_queries("embedded")

_lock = threading.Lock()
_shares: dict[Path, int] = {}  # locked descriptors of `holders`; a fork shares them


class RunningServer(NamedTuple):
    """A folder's running server."""

    pid: int
    socket_folder: str
    port: str
    is_ready: bool


def start(folder: Path, database: str = DATABASE) -> dict[str, str]:
    """Start the folder's server and create a missing database; return superuser parameters.

    Blocks for seconds in a new folder. Safe across processes. The last process that used it stops it at its end.
    """
    try:
        with _lock:
            folder = folder.resolve()
            folder.mkdir(parents=True, exist_ok=True)
            server = _start(folder)
        params = {**_login(server), "dbname": database}
        if database != DATABASE:
            _ensure_database(params)
    except (ImportError, OSError, RuntimeError, ValueError, subprocess.SubprocessError, psycopg.Error) as error:
        said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise StoreUnavailableError(
            f"the embedded Postgres in {folder} cannot be used: {said}. Choose another folder with {HOME_ENV}, "
            f"or a server of your own with {URL_ENV}"
        ) from error
    return params


def url_of(params: dict[str, str]) -> str:
    """Return connection parameters as one string for `MemoryStore`."""
    return make_conninfo(**params)


def release(folder: Path) -> None:
    """Release this process's share; if it was the last, the server has stopped on return."""
    with _lock, suppress(OSError):  # the folder may be gone
        folder = folder.resolve()
        if folder in _shares:
            with _locked(folder):
                _stop_unless_held(folder, 0.0)


@atexit.register
def _release_all() -> None:
    for folder in [*_shares]:
        release(folder)


def stop(folder: Path) -> int | None:
    """Stop a folder's server; return its pid. `StoreUnavailableError` if other processes use it."""
    folder = folder.resolve()
    if not (folder / "holders").exists():
        return None
    with _lock, _locked(folder):
        running = running_server(folder)
        if not _stop_unless_held(folder, _HELD_SECONDS):
            raise StoreUnavailableError(
                f"the embedded Postgres in {folder} is in use by other processes: end them first"
            )
    return running.pid if running else None


def remove(folder: Path) -> None:
    """Stop a folder's server and remove the folder; `StoreUnavailableError` if other processes use it."""
    stop(folder)
    shutil.rmtree(folder)


def running_server(folder: Path) -> RunningServer | None:
    """Return the folder's running server; its command line is checked, as pids are reused."""
    try:
        text = (folder / "postgres" / "postmaster.pid").read_text(encoding="utf-8", errors="replace")
        lines = [*map(str.strip, text.splitlines()), *[""] * 8]
        pid = int(lines[0])
    except (OSError, ValueError):
        return None
    return RunningServer(pid, lines[4], lines[3], lines[7] == "ready") if _is_server(pid, folder) else None


def _start(folder: Path) -> RunningServer:
    with _locked(folder):
        if _hold(folder) and (left_behind := running_server(folder)):
            # by a killed process; its program may have been upgraded since
            _end(left_behind, folder)
        try:
            if running_server(folder) is not None:
                return _ready(folder)
            from .pgserver import start_server  # slow; needs the extra `local`

            start_server(folder)
            server = _ready(folder)
            # within the lock: the next process finds it, and saves a connection
            _ensure_database({**_login(server), "dbname": DATABASE})
            return server
        except BaseException:
            os.close(_shares.pop(folder))
            raise


def _login(server: RunningServer) -> dict[str, str]:
    return {"host": server.socket_folder, "port": server.port, "user": "postgres"}


def _hold(folder: Path) -> bool:
    """Take this process's share; return whether no process had one."""
    share = _shares.get(folder)
    if share is not None and _is_in_place(folder, share):
        return False
    if share is not None:
        os.close(share)  # of a folder that was replaced
    share = _shares[folder] = os.open(folder / "holders", os.O_RDWR | os.O_CREAT, 0o600)
    is_first = _is_unheld(share)
    fcntl.flock(share, fcntl.LOCK_SH)
    return is_first


def _is_in_place(folder: Path, share: int) -> bool:
    try:
        return os.path.samestat(os.stat(folder / "holders"), os.fstat(share))
    except FileNotFoundError:
        return False


def _is_unheld(holders: int) -> bool:
    """Try to lock `holders` exclusively, and return whether that worked."""
    try:
        fcntl.flock(holders, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _stop_unless_held(folder: Path, seconds: float) -> bool:
    """Give up this process's share and stop the server if nobody else has one. Needs the folder's lock."""
    if (share := _shares.pop(folder, None)) is not None:
        os.close(share)
    holders = os.open(folder / "holders", os.O_RDWR)
    try:
        deadline = time.monotonic() + seconds
        while not _is_unheld(holders):
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)
        if running := running_server(folder):
            _end(running, folder)
        return True
    finally:
        os.close(holders)


def _end(server: RunningServer, folder: Path) -> None:
    """Stop a server and wait for its end."""
    for kind, seconds in _STOPS:
        with suppress(ProcessLookupError):
            os.kill(server.pid, kind)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not _is_server(server.pid, folder):
                return
            time.sleep(_POLL_SECONDS)


def _ready(folder: Path) -> RunningServer:
    deadline = time.monotonic() + _READY_SECONDS
    while (server := running_server(folder)) is not None and time.monotonic() < deadline:
        if server.is_ready:
            return server
        time.sleep(_POLL_SECONDS)  # its starter may have been killed, or it recovers from a crash
    raise RuntimeError("it does not take connections")


def _is_server(pid: int, folder: Path) -> bool:
    """Return whether a process is the folder's server; a zombie has no command line."""
    pgdata = os.fsencode(folder / "postgres")
    if os.path.isdir("/proc/self"):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except FileNotFoundError:
            return False
        except OSError:  # another user's: it may be the server
            return True
        return command[0].endswith(b"postgres") and pgdata in command
    shown = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, check=False).stdout
    return b"postgres" in shown and pgdata in shown


@contextmanager
def _locked(folder: Path) -> Generator[None, None, None]:
    """Hold the lock of start and stop; for one thread, not inherited by forks."""
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _ensure_database(params: dict[str, str]) -> None:
    conninfo = make_conninfo(**{**params, "dbname": "postgres"})
    create = _QUERIES.composed("create_database", database=sql.Identifier(params["dbname"]))
    with psycopg.connect(conninfo, autocommit=True, connect_timeout=5) as connection:
        if not connection.execute(_QUERIES["fetch_database_exists"], {"name": params["dbname"]}).fetchone():
            # concurrent creation
            with suppress(psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation):
                connection.execute(create)
