"""The process that stops the embedded server when the last process that uses it is gone, however that one ended.

    holder   a process that uses the server; has a shared lock on `holders`, which the kernel frees when it ends
    watcher  waits for an exclusive lock on `holders`, then some seconds for a newcomer, then stops the server
    `lock`   held while the server is started or stopped; an exclusive lock on `holders` is kept only under it
    `watch`  locked by the watcher for its life, so that there is one; whoever starts the server and finds it free
             starts another

It runs as a script with the standard library alone: it survives its parent, and an upgrade or removal of the package.
"""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress

__all__ = ["SETTLE_SECONDS", "is_unheld", "locked", "postmaster_pid", "stop_server"]

SETTLE_SECONDS = 1.0  # a server whose starter was killed may be about to write its pid file
_LOOK_SECONDS = 1.0
_POLL_SECONDS = 0.02
_STOPS = ((signal.SIGINT, 30.0), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0))  # fast, immediate, by force


def postmaster_pid(pgdata: str) -> int | None:
    """Return the number of the folder's server process; None if there is none.

    The number in a pid file may belong to another program by now, so the command line is compared.
    """
    try:
        with open(os.path.join(pgdata, "postmaster.pid"), "rb") as file:
            pid = int(file.readline())
    except (OSError, ValueError):
        return None
    return pid if _is_postmaster(pid, pgdata) else None


def stop_server(pgdata: str, pid: int | None) -> None:
    """Stop a server and wait until it has ended; None stops nothing."""
    for kind, seconds in _STOPS:
        if pid is None:
            return
        with suppress(ProcessLookupError):
            os.kill(pid, kind)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not _is_postmaster(pid, pgdata):
                return
            time.sleep(_POLL_SECONDS)


@contextmanager
def locked(folder: str) -> Generator[None, None, None]:
    """Hold the lock of a folder's start and stop. Not inherited by a fork; one thread of a process at a time."""
    descriptor = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_unheld(holders: int) -> bool:
    """Whether no process holds the server; if so, none can until the descriptor is unlocked or closed."""
    try:
        fcntl.flock(holders, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_postmaster(pid: int, pgdata: str) -> bool:
    """Whether a process is the folder's server; a zombie has no command line and is not."""
    if os.path.isdir("/proc/self"):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                command = file.read().split(b"\0")
        except FileNotFoundError:
            return False
        except OSError:  # another user's: leave it alone, it may be the server
            return True
        return command[0].endswith(b"postgres") and os.fsencode(pgdata) in command
    shown = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, check=False).stdout
    return b"postgres" in shown and os.fsencode(pgdata) in shown


def _watch(folder: str, watch: int) -> None:
    """Wait until nobody holds the folder's server, stop it, and return."""
    pgdata = os.path.join(folder, "postgres")
    holders = os.open(os.path.join(folder, "holders"), os.O_RDWR)
    has_settled = False
    while True:
        fcntl.flock(holders, fcntl.LOCK_EX)
        fcntl.flock(holders, fcntl.LOCK_UN)
        pid = postmaster_pid(pgdata)
        if not _stays_unheld(folder, holders):
            continue
        if not _is_in_place(folder, holders):  # deleted with a running server
            stop_server(pgdata, pid)
            return
        with locked(folder):
            if not is_unheld(holders):
                continue
            pid = postmaster_pid(pgdata)
            stop_server(pgdata, pid)
            if pid is not None or has_settled:
                os.close(watch)  # before `lock`: whoever starts the server next finds that nobody watches
                return
            fcntl.flock(holders, fcntl.LOCK_UN)
        has_settled = True
        time.sleep(SETTLE_SECONDS)


def _stays_unheld(folder: str, holders: int) -> bool:
    """Wait as long as the last holder asked for, or until the folder is deleted; False if somebody came meanwhile."""
    written_at = os.fstat(holders).st_mtime_ns  # by each holder when it comes
    deadline = time.monotonic() + float(os.pread(holders, 100, 0) or 0)
    while (remaining := deadline - time.monotonic()) > 0 and _is_in_place(folder, holders):
        time.sleep(min(remaining, _LOOK_SECONDS))
        if os.fstat(holders).st_mtime_ns != written_at:
            return False
    return True


def _is_in_place(folder: str, holders: int) -> bool:
    """Whether the file of holders is still the folder's: another one belongs to another server and its own watcher."""
    try:
        return os.path.samestat(os.stat(os.path.join(folder, "holders")), os.fstat(holders))
    except OSError:
        return False


if __name__ == "__main__":
    if os.fork():  # nobody's child, so nobody has to wait for it
        os._exit(0)
    with suppress(FileNotFoundError):  # the folder was deleted
        _watch(sys.argv[1], int(sys.argv[2]))
