"""The embedded Postgres: a server in a folder, shared by its processes.

A keeper stops it after the last. However a process ends, it blocks no start or stop.
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

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from memory_context.foundation.errors import StoreUnavailableError

from . import keeper
from .location import HOME_ENV, KEEP_ENV, URL_ENV
from .sql import load_queries

__all__ = ["KeeperState", "keeper_state", "release", "remove", "start", "stop", "url_of"]

DATABASE = "memory_context"
_KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_READY_SECONDS = 60.0
_POLL_SECONDS = 0.02
_ENDING_SECONDS = 5.0
_KEEPER_SECONDS = 30.0  # on a busy machine a keeper is not scheduled for seconds
_UNKNOWN_HOLDER_SECONDS = 1.0
_LOCKS = Path("/proc/locks")

_QUERIES = load_queries("embedded")

_logger = logging.getLogger(__name__)
_lock = threading.Lock()
_shares: dict[Path, int] = {}  # locked descriptors of `holders`; a fork shares them


@dataclass(frozen=True)
class KeeperState:
    """The process that keeps an embedded server; times are in UTC.

    Attributes:
        keep_seconds: Time it keeps an unused server.
        held_by: Other users' pids, as far as known.
        stops_at: Stop time if this process is the last; else None.
    """

    pid: int
    since: datetime
    keep_seconds: float
    held_by: tuple[int, ...]
    stops_at: datetime | None


def start(folder: Path, database: str = DATABASE) -> dict[str, str]:
    """Start the folder's server and create a missing database; return superuser parameters.

    Blocks for seconds in a new folder. Safe across processes.
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
    """Return connection parameters as one string for `MemoryStore`."""
    return make_conninfo(**params)


def release(folder: Path) -> None:
    """Release this process's share; if it was the last, the server has stopped on return."""
    with _lock, suppress(OSError):  # the folder may be gone
        folder = folder.resolve()
        if folder in _shares:
            with keeper.locked(str(folder)):
                _give_up_share(folder)
                _stop_unless_held(folder)


def stop(folder: Path) -> int | None:
    """Stop a folder's server and keeper; return its pid. `StoreUnavailableError` if others use it."""
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


def remove(folder: Path) -> None:
    """Stop a folder's server and keeper, and remove the folder; `StoreUnavailableError` if others use it.

    Neither writes into the folder any more: removing it beside a `release` would race with both.
    """
    stop(folder)
    shutil.rmtree(folder)


def keeper_state(folder: Path) -> KeeperState | None:
    """Return the keeper of the folder's server."""
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
    pgdata = str(folder / "postgres")
    keep_seconds = _keep_seconds()
    with keeper.locked(str(folder)):
        running = keeper.running_postmaster(pgdata)
        if running and folder not in _shares and _is_upgraded(running, pgdata) and _stop_unless_held(folder):
            running = None
        _hold(folder, 0.0 if keep_seconds is None and running is None else keep_seconds)
        try:
            _ensure_keeper(folder)  # first: no server runs without a keeper
            if running is None:
                from .pgserver import start_server  # slow; needs the extra `local`

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
        time.sleep(_POLL_SECONDS)  # its starter may have been killed
    raise RuntimeError("it does not take connections")


def _is_upgraded(server: keeper.Postmaster, pgdata: str) -> bool:
    """Return whether the running server's program was replaced or removed."""
    try:
        program = Path(pgdata, "postmaster.opts").read_text(encoding="utf-8", errors="replace").partition(' "')[0]
        running = f"/proc/{server.pid}/exe"
        return not os.path.exists(program) or (os.path.exists(running) and not os.path.samefile(running, program))
    except OSError:
        return False


def _hold(folder: Path, keep_seconds: float | None) -> None:
    """The last `keep_seconds` given wins; None keeps it."""
    _give_up_share(folder)  # the folder may have been replaced
    share = _shares[folder] = os.open(folder / "holders", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(share, fcntl.LOCK_SH)
    if keep_seconds is not None:
        os.ftruncate(share, 0)
        os.pwrite(share, str(keep_seconds).encode(), 0)
    os.utime(share)  # resets a waiting keeper


def _give_up_share(folder: Path) -> None:
    if (share := _shares.pop(folder, None)) is not None:
        os.close(share)


def _stop_unless_held(folder: Path) -> bool:
    """Needs the folder's lock."""
    holders = os.open(folder / "holders", os.O_RDWR)
    try:
        deadline = time.monotonic() + (_KEEPER_SECONDS if _LOCKS.exists() else _UNKNOWN_HOLDER_SECONDS)
        while not keeper.is_unheld(holders):  # the keeper locks it for a moment after the last holder
            if _holders(folder) or time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        pgdata = str(folder / "postgres")
        keeper.stop_server(pgdata, keeper.running_postmaster(pgdata))
        return True
    finally:
        os.close(holders)


def _holders(folder: Path) -> list[int]:
    try:
        file = os.stat(folder / "holders")
        place = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
        locks = [line.split() for line in _LOCKS.read_text(encoding="ascii").splitlines()]
    except OSError:
        return []
    return [int(one[4]) for one in locks if one[1] == "FLOCK" and one[3] == "READ" and one[5] == place]


def _ensure_keeper(folder: Path) -> None:
    """A keeper with an older protocol is replaced."""
    watch = os.open(folder / "watch", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not keeper.is_unheld(watch):
            found = keeper.read_keeper(watch)
            if found is not None and found.protocol >= keeper.PROTOCOL:
                return
            _end_keeper(folder)  # an older one; this process holds the server
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
    """End the folder's keeper; its server keeps running."""
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
    """Find a Python: `sys.executable` is none in embedding applications."""
    for candidate in (sys.executable, os.path.join(sys.exec_prefix, "bin", "python3"), shutil.which("python3")):
        if candidate and os.path.basename(candidate).startswith("python") and os.access(candidate, os.X_OK):
            return candidate
    raise RuntimeError("there is no Python interpreter to run the process that stops the server: put python3 on PATH")


def _ensure_database(params: dict[str, str]) -> None:
    conninfo = make_conninfo(**{**params, "dbname": "postgres"})
    create = _QUERIES.composed("create_database", database=sql.Identifier(params["dbname"]))
    with psycopg.connect(conninfo, autocommit=True, connect_timeout=5) as connection:
        if not connection.execute(_QUERIES["fetch_database_exists"], {"name": params["dbname"]}).fetchone():
            # concurrent creation
            with suppress(psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation):
                connection.execute(create)
