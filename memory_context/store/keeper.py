"""A standalone script (standard library only, it survives upgrades) that stops an unused embedded server.

holders  shared lock of each user process; content: seconds the server stays afterwards
lock     held while the server starts or stops; only then may `holders` stay locked exclusively
watch    locked by the one keeper; holds its record

held ─last holder gone─▶ waiting ─time is up, or folder deleted─▶ ended
waiting ─a newcomer─▶ held
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import NamedTuple

__all__ = [
    "PROTOCOL",
    "Postmaster",
    "has_clients",
    "is_unheld",
    "locked",
    "read_keeper",
    "running_postmaster",
    "stop_server",
]

PROTOCOL = 2
"""1 had no keeper record. `holders` never changes its format; a newer version replaces an older keeper."""
SETTLE_SECONDS = 1.0  # for a server about to write its pid
_LOOK_SECONDS = 1.0
_LEARN_SECONDS = 0.1
_POLL_SECONDS = 0.02
_STOPS = ((signal.SIGINT, 30.0), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0))  # fast, immediate, by force


class Postmaster(NamedTuple):
    """A running server."""

    pid: int
    socket_folder: str
    port: str
    is_ready: bool


class Keeper(NamedTuple):
    """A keeper's record in `watch`; `since` is Unix time."""

    protocol: int
    pid: int
    since: float


def running_postmaster(pgdata: str) -> Postmaster | None:
    """Return the folder's running server; its command line is checked, as pids are reused."""
    try:
        with open(os.path.join(pgdata, "postmaster.pid"), encoding="utf-8", errors="replace") as file:
            lines = [line.strip() for line in file] + [""] * 8
        pid = int(lines[0])
    except (OSError, ValueError):
        return None
    return Postmaster(pid, lines[4], lines[3], lines[7] == "ready") if _is_postmaster(pid, pgdata) else None


def stop_server(pgdata: str, server: Postmaster | None) -> None:
    """Stop a server and wait for its end."""
    for kind, seconds in _STOPS:
        if server is None:
            return
        with suppress(ProcessLookupError):
            os.kill(server.pid, kind)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not _is_postmaster(server.pid, pgdata):
                return
            time.sleep(_POLL_SECONDS)


@contextmanager
def locked(folder: str) -> Generator[None, None, None]:
    """Hold the lock of start and stop; for one thread, not inherited by forks."""
    descriptor = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_unheld(holders: int) -> bool:
    """Try to lock `holders` exclusively, and return whether that worked."""
    try:
        fcntl.flock(holders, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def read_keeper(watch: int) -> Keeper | None:
    """Return the record in `watch`, if any."""
    try:
        return Keeper(**json.loads(os.pread(watch, 1000, 0)))
    except (TypeError, ValueError):
        return None


def _is_postmaster(pid: int, pgdata: str) -> bool:
    """A zombie has no command line."""
    if os.path.isdir("/proc/self"):
        try:
            command = _command_of(pid)
        except FileNotFoundError:
            return False
        except OSError:  # another user's: it may be the server
            return True
        return command[0].endswith(b"postgres") and os.fsencode(pgdata) in command
    shown = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, check=False).stdout
    return b"postgres" in shown and os.fsencode(pgdata) in shown


def _command_of(pid: int) -> list[bytes]:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read().split(b"\0")


def has_clients(server: Postmaster | None) -> bool:
    """Return whether a client such as psql is connected; False without /proc."""
    if server is None:
        return False
    try:
        with open(f"/proc/{server.pid}/task/{server.pid}/children", encoding="ascii") as file:
            children = [int(pid) for pid in file.read().split()]
    except OSError:
        return False
    for pid in children:
        with suppress(OSError):
            if b" [local] " in _command_of(pid)[0]:
                return True
    return False


def _keep(folder: str, watch: int) -> None:
    pgdata = os.path.join(folder, "postgres")
    holders = os.open(os.path.join(folder, "holders"), os.O_RDWR)
    has_settled = False
    while True:
        server = _wait_until_unheld(holders, pgdata)
        if not _stays_unused(folder, holders, server):
            continue
        if not _is_in_place(folder, holders):  # deleted with a running server
            stop_server(pgdata, server)
            return
        with locked(folder):
            if not is_unheld(holders):
                continue
            server = running_postmaster(pgdata)
            stop_server(pgdata, server)
            if server is not None or has_settled:
                os.close(watch)  # before `lock`: the next starter starts a keeper
                return
            fcntl.flock(holders, fcntl.LOCK_UN)
        has_settled = True
        time.sleep(SETTLE_SECONDS)


def _wait_until_unheld(holders: int, pgdata: str) -> Postmaster | None:
    server = None
    while server is None and not is_unheld(holders):  # early: a deleted folder cannot tell
        server = running_postmaster(pgdata)
        time.sleep(_LEARN_SECONDS)
    fcntl.flock(holders, fcntl.LOCK_EX)
    fcntl.flock(holders, fcntl.LOCK_UN)
    if server is None or not _is_postmaster(server.pid, pgdata):
        return running_postmaster(pgdata)
    return server


def _stays_unused(folder: str, holders: int, server: Postmaster | None) -> bool:
    written_at = os.fstat(holders).st_mtime_ns  # each newcomer writes it
    seconds = float(os.pread(holders, 100, 0) or 0)
    deadline = time.monotonic() + seconds
    while _is_in_place(folder, holders):
        if seconds and has_clients(server):
            deadline = time.monotonic() + seconds
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            break
        time.sleep(min(remaining, _LOOK_SECONDS))
        if os.fstat(holders).st_mtime_ns != written_at:
            return False
    return True


def _is_in_place(folder: str, holders: int) -> bool:
    """A replaced file belongs to another keeper."""
    try:
        return os.path.samestat(os.stat(os.path.join(folder, "holders")), os.fstat(holders))
    except OSError:
        return False


def _main(folder: str, watch: int) -> None:
    if pid := os.fork():  # orphaned: nobody must wait for it
        record = Keeper(PROTOCOL, pid, time.time())
        os.ftruncate(watch, 0)
        os.pwrite(watch, json.dumps(record._asdict()).encode(), 0)  # before the starter continues
        os._exit(0)
    with suppress(FileNotFoundError):  # the folder was deleted
        _keep(folder, watch)


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]))
