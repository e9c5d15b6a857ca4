"""The keeper: the process that stops the embedded server when nobody has used it for a while.

    holder   a process that uses the server; has a shared lock on `holders`, which the kernel frees when it ends. The
             file says for how many seconds the server stays when the last holder is gone
    keeper   waits for an exclusive lock on `holders`, then those seconds for a newcomer, then stops the server
    `lock`   held while the server is started or stopped; an exclusive lock on `holders` is kept only under it
    `watch`  locked by the keeper for its life, so that there is one; holds its record. Whoever starts the server and
             finds the file free starts a keeper

    held ──last holder gone──▶ waiting ──time is up, no client──▶ stopping ──▶ ended
      ▲                          │ │                                             ▲
      └────────── a newcomer ────┘ └────────── the folder was deleted ───────────┘

It runs as a script with the standard library alone: it survives its parent, and an upgrade or removal of the package.
A version that finds a keeper of an earlier protocol replaces it (`embedded`); the file `holders` stays what it is.
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
    "SETTLE_SECONDS",
    "Keeper",
    "Postmaster",
    "has_clients",
    "is_unheld",
    "locked",
    "read_keeper",
    "running_postmaster",
    "stop_server",
]

PROTOCOL = 2
"""Of the files; 1 had no record of the keeper."""
SETTLE_SECONDS = 1.0  # a server whose starter was killed may be about to write its pid file
_LOOK_SECONDS = 1.0
_LEARN_SECONDS = 0.1
_POLL_SECONDS = 0.02
_STOPS = ((signal.SIGINT, 30.0), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0))  # fast, immediate, by force


class Postmaster(NamedTuple):
    """A server that runs: its process, and where it listens."""

    pid: int
    socket_folder: str
    port: str
    is_ready: bool


class Keeper(NamedTuple):
    """The record that a keeper leaves in `watch`: its process, and since when it keeps, in seconds since 1970."""

    protocol: int
    pid: int
    since: float


def running_postmaster(pgdata: str) -> Postmaster | None:
    """Return the folder's server; None if there is none.

    The number in a pid file may belong to another program by now, so the command line is compared.
    """
    try:
        with open(os.path.join(pgdata, "postmaster.pid"), encoding="utf-8", errors="replace") as file:
            lines = [line.strip() for line in file] + [""] * 8
        pid = int(lines[0])
    except (OSError, ValueError):
        return None
    return Postmaster(pid, lines[4], lines[3], lines[7] == "ready") if _is_postmaster(pid, pgdata) else None


def stop_server(pgdata: str, server: Postmaster | None) -> None:
    """Stop a server and wait for its end; None stops nothing."""
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
    """Hold the lock of a folder's start and stop. A fork does not inherit it; one thread of a process at a time."""
    descriptor = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_unheld(holders: int) -> bool:
    """Return whether no process holds the server; if so, none can until the descriptor is unlocked or closed."""
    try:
        fcntl.flock(holders, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def read_keeper(watch: int) -> Keeper | None:
    """Return the record in `watch`; None for a keeper of an earlier version."""
    try:
        return Keeper(**json.loads(os.pread(watch, 1000, 0)))
    except (TypeError, ValueError):
        return None


def _is_postmaster(pid: int, pgdata: str) -> bool:
    """Whether a process is the folder's server; a zombie has no command line and is not."""
    if os.path.isdir("/proc/self"):
        try:
            command = _command_of(pid)
        except FileNotFoundError:
            return False
        except OSError:  # another user's: leave it alone, it may be the server
            return True
        return command[0].endswith(b"postgres") and os.fsencode(pgdata) in command
    shown = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, check=False).stdout
    return b"postgres" in shown and os.fsencode(pgdata) in shown


def _command_of(pid: int) -> list[bytes]:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read().split(b"\0")


def has_clients(server: Postmaster | None) -> bool:
    """Return whether a client is connected that is no holder, such as psql; False where the system does not tell."""
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
    """Wait until nobody uses the folder's server any more, stop it, and return."""
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
                os.close(watch)  # before `lock`: whoever starts the server next finds that nobody watches
                return
            fcntl.flock(holders, fcntl.LOCK_UN)
        has_settled = True
        time.sleep(SETTLE_SECONDS)


def _wait_until_unheld(holders: int, pgdata: str) -> Postmaster | None:
    """Wait until no process holds the server, and return it."""
    server = None
    while server is None and not is_unheld(holders):  # learnt meanwhile: a folder that is deleted does not tell
        server = running_postmaster(pgdata)
        time.sleep(_LEARN_SECONDS)
    fcntl.flock(holders, fcntl.LOCK_EX)
    fcntl.flock(holders, fcntl.LOCK_UN)
    if server is None or not _is_postmaster(server.pid, pgdata):
        return running_postmaster(pgdata)
    return server


def _stays_unused(folder: str, holders: int, server: Postmaster | None) -> bool:
    """Wait as long as the holders asked for, or until the folder is deleted; False if somebody came meanwhile."""
    written_at = os.fstat(holders).st_mtime_ns  # by each holder when it comes
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
    """Whether the file of holders is still the folder's: another one belongs to another server and its own keeper."""
    try:
        return os.path.samestat(os.stat(os.path.join(folder, "holders")), os.fstat(holders))
    except OSError:
        return False


def _main(folder: str, watch: int) -> None:
    if pid := os.fork():  # nobody's child, so nobody has to wait for it
        record = Keeper(PROTOCOL, pid, time.time())
        os.ftruncate(watch, 0)
        os.pwrite(watch, json.dumps(record._asdict()).encode(), 0)  # before the starter goes on
        os._exit(0)
    with suppress(FileNotFoundError):  # the folder was deleted
        _keep(folder, watch)


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]))
