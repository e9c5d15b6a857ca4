"""What an export and an import take: memory, which must not grow with the number of items, and time an item.

    python -m benchmarks.transferring [--items N] [--json FILE]

Each is done by a process of its own, once with few items and once with many, so that the peak of its memory is that of
the one job. Beside it, in the same run: reading the same rows in one SELECT, which an export cannot do without, and
storing such items with `insert_memories`, a hundred at a time, which an import should not be slower than.
"""

import argparse
import asyncio
import json
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path

from psycopg import AsyncConnection

from benchmarks.comparing import Measured, print_measured
from benchmarks.scratch import scratch_store
from memory_context.store.items import NewItem
from memory_context.store.memory_store import MemoryStore

__all__ = ["ITEMS", "main", "measure_transferring"]

ITEMS = 100_000
FEW_TO_MANY = 100
MEMORY_TARGET = 1.5
STORING_TARGET = 1.0
STORED_PART = 10  # of the items, stored one way, are enough to compare with
_BATCH = 100

_FILL = """
WITH contents AS (
    INSERT INTO memory_context.agent_memory_contents (
        user_id, content, content_bytes, content_sha256, beginning_sha256
    )
    SELECT %s, text, octet_length(text), sha256(text::bytea), memory_context.beginning_sha256(text, NULL)
    FROM generate_series(1, %s::int) AS i, LATERAL (SELECT i || repeat(' the build went well', 49)) AS made (text)
    RETURNING user_id, id, content_bytes, split_part(content, ' ', 1) AS i
)
INSERT INTO memory_context.agent_memories (
    user_id, memory_key, agent_id, session_id, memory_type, source, origin, summary, content_id, content_bytes,
    token_count, tags, content_metadata
)
SELECT
    user_id, 'run_shell_' || i, 'coder', 's' || i::int %% 100, 'command_output', 'run_shell', 'tool',
    'output of run ' || i, id, content_bytes, 250, '{build}', '{"message": 7, "call_id": "call_1"}'
FROM contents
"""
_READ = (
    "SELECT * FROM memory_context.agent_memories AS item JOIN memory_context.agent_memory_contents AS content "
    "ON content.user_id = item.user_id AND content.id = item.content_id WHERE item.user_id = %s"
)


async def measure_transferring(items: int = ITEMS) -> list[Measured]:
    """Run all measurements, with so many items of 1 kB, and with a hundredth of them."""
    sizes = {"few": max(items // FEW_TO_MANY, 1), "many": items}
    seconds: dict[tuple[str, str], float] = {}
    peaks: dict[tuple[str, str], float] = {}
    octets = 0
    async with scratch_store() as (_, url):
        with tempfile.TemporaryDirectory(prefix="mc-bench-") as folder:
            for user, count in sizes.items():
                await _fill(url, user, count)
                file = Path(folder, f"{user}.jsonl")
                for job in ("export", "import"):
                    seconds[job, user], peaks[job, user] = await _in_a_process(job, url, user, file)
                octets = (await asyncio.to_thread(file.stat)).st_size
        reading = await _read(url, "many")
        storing = await _store(url, -(-items // STORED_PART)) * STORED_PART
    measured: list[Measured] = []
    for job, beside, what in (
        ("export", reading, "one SELECT of the rows"),
        ("import", storing, f"insert_memories, {_BATCH} at a time"),
    ):
        memory = peaks[job, "many"] / peaks[job, "few"]
        each = {user: seconds[job, user] / count for user, count in sizes.items()}
        limit = STORING_TARGET if job == "import" else None
        ratio = seconds[job, "many"] / beside
        measured += [
            Measured(
                f"peak memory: {job} of {items:,} items / of {sizes['few']:,}",
                memory,
                f"<= {MEMORY_TARGET:g}",
                memory <= MEMORY_TARGET,
                f"{peaks[job, 'many']:.0f} MB / {peaks[job, 'few']:.0f} MB",
            ),
            Measured(
                f"time an item: {job} of {items:,} items / of {sizes['few']:,}",
                each["many"] / each["few"],
                detail=f"{1e6 * each['many']:.0f} µs / {1e6 * each['few']:.0f} µs",
            ),
            Measured(
                f"time: {job} of {items:,} items / {what}",
                ratio,
                "" if limit is None else f"<= {limit:g}",
                None if limit is None else ratio <= limit,
                f"{seconds[job, 'many']:.1f} s / {beside:.1f} s; a file of {octets / 1e6:.0f} MB",
            ),
        ]
    return measured


async def _fill(url: str, user: str, items: int) -> None:
    async with await AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(_FILL, [user, items])
        await connection.execute("ANALYZE memory_context.agent_memories")


async def _read(url: str, user: str) -> float:
    """Return the seconds of reading all rows at once."""
    async with await AsyncConnection.connect(url) as connection:
        began = time.perf_counter()
        await (await connection.execute(_READ, [user])).fetchall()
        return time.perf_counter() - began


async def _store(url: str, items: int) -> float:
    """Return the seconds of storing as many items as new ones; the index waits, as it does after an import."""
    store = MemoryStore(url)
    store.jobs.wake = lambda user_id: None
    began = time.perf_counter()
    for start in range(0, items, _BATCH):
        numbers = range(start, min(start + _BATCH, items))
        contents = {number: f"{number}{' the build went well' * 49}" for number in numbers}
        batch = [
            NewItem(
                text,
                f"output of run {n}",
                250,
                "command_output",
                "run_shell",
                key=f"run_shell_{n}",
                agent_id="coder",
                session_id=f"s{n % 100}",
            )
            for n, text in contents.items()
        ]
        await store.items.insert_memories("stored", batch)
    seconds = time.perf_counter() - began
    await store.close()
    return seconds


# --- one job in a process of its own


async def _in_a_process(job: str, url: str, user: str, file: Path) -> tuple[float, float]:
    """Return the seconds a job took and the peak of its process's memory in megabytes."""
    command = [sys.executable, "-m", "benchmarks.transferring", "--job", job, url, user, str(file)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    answer, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{job} ended with {process.returncode}")
    seconds, peak = json.loads(answer)
    return seconds, peak


async def _do(job: str, url: str, user: str, file: Path) -> float:
    store = MemoryStore(url)  # not opened: its background would index what another job left
    try:
        began = time.perf_counter()
        if job == "export":
            with file.open("wb") as out:
                async with aclosing(store.admin.export_lines(user)) as pieces:
                    async for piece in pieces:
                        out.write(piece)
        else:
            with file.open("rb") as opened:
                await store.admin.import_lines(opened, f"{user} too")
        return time.perf_counter() - began
    finally:
        await store.close()


def _peak_megabytes() -> float:
    """Return the most memory this process has had; what it was started from does not count."""
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = [line for line in status.read_text(encoding="utf-8").splitlines() if line.startswith("VmHWM:")]
        return int(line.split()[1]) / 1000
    unit = 1e6 if sys.platform == "darwin" else 1e3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


# --- the terminal


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.transferring", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--items", type=int, default=ITEMS, help=f"items to export and import (default {ITEMS})")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    parser.add_argument("--job", nargs=4, metavar=("JOB", "URL", "USER", "FILE"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.job:
        job, url, user, file = given.job
        print(json.dumps([asyncio.run(_do(job, url, user, Path(file))), _peak_megabytes()]))
        return
    measured = asyncio.run(measure_transferring(given.items))
    print_measured(measured, "export and import")
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in measured], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
