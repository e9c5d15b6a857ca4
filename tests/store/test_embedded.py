"""The embedded server: started for whoever needs it, shared, stopped by the last, and never heard of."""

import asyncio
import os
import signal
from pathlib import Path

import psutil
import pytest

from memory_context import errors
from memory_context.store import MemoryStore, NewMemory, embedded
from memory_context.store.location import Location
from tests.conftest import StartPython

FIRST_USE = """
import asyncio
from memory_context.store import MemoryStore, NewMemory

async def main():
    await MemoryStore().insert_memories("alice", [NewMemory("k", "content", "", 1, "custom")])

asyncio.run(main())
"""

HOLD_UNTIL_TOLD = """
import asyncio, sys
from memory_context.store import MemoryStore

async def main():
    async with MemoryStore() as store:
        print(await store.select_keys("alice"), flush=True)
        sys.stdin.readline()

asyncio.run(main())
"""


def server_runs(home: Path) -> bool:
    return (home / "postgres" / "postmaster.pid").exists()


async def finish(process: asyncio.subprocess.Process) -> None:
    assert [part.decode() for part in await process.communicate(b"\n")] == ["", ""]
    assert process.returncode == 0


async def test_a_first_use_prints_nothing_and_stops_its_server(home: Path, start_python: StartPython) -> None:
    """With every warning switched on, in a folder whose parents do not exist."""
    deep = home / "not" / "yet" / "there"
    process = await start_python(
        FIRST_USE, MEMORY_CONTEXT_HOME=str(deep), PYTHONDEVMODE="1", XDG_RUNTIME_DIR="/nonexistent"
    )
    await finish(process)
    assert (deep / "postgres" / "PG_VERSION").exists()
    assert not server_runs(deep)


async def test_even_an_application_that_logs_everything_hears_nothing_of_it(
    home: Path, start_python: StartPython
) -> None:
    """At INFO; the reports of the library are this library's, at DEBUG."""
    await finish(await start_python("import logging; logging.basicConfig(level=logging.INFO)\n" + FIRST_USE))


async def test_two_processes_share_one_server(home: Path, start_python: StartPython) -> None:
    """The first to end leaves it to the other."""
    async with MemoryStore() as store:
        await store.insert_memories("alice", [NewMemory("k", "content", "", 1, "custom")])
        process = await start_python(HOLD_UNTIL_TOLD)
        assert await process.stdout.readline() == b"['k']\n"
        await finish(process)
        assert await store.select_keys("alice") == ["k"]
    embedded.release(home)
    assert not server_runs(home)


async def test_processes_that_start_together_share_one_server(home: Path, start_python: StartPython) -> None:
    """In a new folder."""
    processes = [await start_python(HOLD_UNTIL_TOLD) for _ in range(3)]
    for process in processes:
        assert await process.stdout.readline() == b"[]\n"
    await asyncio.gather(*(finish(process) for process in processes))
    assert not server_runs(home)


async def test_a_killed_process_does_not_keep_the_server_running(home: Path, start_python: StartPython) -> None:
    """Whoever is last alive stops it."""
    killed, last = await start_python(HOLD_UNTIL_TOLD), await start_python(HOLD_UNTIL_TOLD)
    for process in (killed, last):
        assert await process.stdout.readline() == b"[]\n"
    killed.kill()
    await killed.wait()
    await finish(last)
    assert not server_runs(home)


async def test_a_killed_process_blocks_nobody(home: Path, start_python: StartPython) -> None:
    """The next one finds the server running, uses it, and stops it."""
    killed = await start_python(HOLD_UNTIL_TOLD)
    assert await killed.stdout.readline() == b"[]\n"
    killed.kill()
    await killed.wait()
    assert server_runs(home)
    await finish(await start_python(FIRST_USE))
    assert not server_runs(home)


@pytest.mark.parametrize("left_behind", ["server", "file of holders"])
async def test_what_a_crash_left_behind_is_cleared_away(home: Path, left_behind: str) -> None:
    """After a restart of a container a process number belongs to somebody else; a file may be cut."""
    embedded.start(home)
    pid_file = home / "postgres" / "postmaster.pid"
    pid, _, rest = pid_file.read_text().partition("\n")
    embedded.release(home)
    if left_behind == "server":
        psutil.wait_procs([psutil.Process(int(pid))] if psutil.pid_exists(int(pid)) else [], timeout=5)
        pid_file.write_text(f"{os.getpid()}\n{rest}")
    else:
        (home / "postgres" / ".handle_pids.json").write_text("[12")
    async with MemoryStore() as store:
        assert await store.select_keys("alice") == []


async def test_a_crashed_server_is_started_again(home: Path) -> None:
    """Nothing that was committed is lost."""
    async with MemoryStore() as store:
        await store.insert_memories("alice", [NewMemory("k", "content", "", 1, "custom")])
        pid = int((home / "postgres" / "postmaster.pid").read_text().split()[0])
        family = [psutil.Process(pid), *psutil.Process(pid).children()]
        for process in family:
            process.send_signal(signal.SIGKILL)
        psutil.wait_procs(family, timeout=5)
        with pytest.raises(errors.StoreUnavailableError):
            await store.select_keys("alice")
        assert await store.fetch_contents("alice", ["k"]) == {"k": "content"}


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


async def test_a_folder_of_another_postgres_is_not_touched(home: Path) -> None:
    """The text says how it is brought over."""
    (home / "postgres").mkdir()
    (home / "postgres" / "PG_VERSION").write_text("9\n")
    with pytest.raises(errors.StoreUnavailableError, match=r"made by Postgres 9.*upgrade_db"):
        await MemoryStore().open()


async def test_a_long_folder_name_works_and_its_socket_is_private(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library moves the socket to a shared place then; the server trusts whoever reaches it."""
    folder = home / ("long" * 25)
    params = embedded.start(folder)
    try:
        socket = Path(params["host"]) / f".s.PGSQL.{params['port']}"
        assert str(home) not in params["host"]
        assert socket.stat().st_mode & 0o077 == 0
    finally:
        embedded.release(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="for root only")
def test_as_root_the_folder_is_outside_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's own system user has to pass through all parents."""
    monkeypatch.delenv("MEMORY_CONTEXT_HOME", raising=False)
    monkeypatch.delenv("MEMORY_CONTEXT_URL", raising=False)
    assert Location.in_force().folder == Path("/var/lib/memory-context")
