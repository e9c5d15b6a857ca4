"""What storing and indexing cost, beside the work they cannot avoid and beside LangGraph's store.

    python -m benchmarks.storing [--rounds N] [--passages N] [--json FILE]

Storing is timed without the background: for the measured part the store does not wake its indexer, so that it does not
take the processor from either side; the jobs it would find are written all the same, in the timed transaction. Indexing
is timed by itself, as `flush_index` of what was stored, in passages a second of wall time and of processor time (this
process and the server's together, which is what one core would do).

LangGraph's AsyncPostgresStore, if installed (the `bench` extra), writes and searches the same texts with the same
embedder in the same server. It embeds within `aput`; here that is the indexer's work, so both sums are shown.
"""

import argparse
import asyncio
import json
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from statistics import median, quantiles
from unittest.mock import patch

from psycopg import AsyncConnection

from benchmarks.comparing import WARM_UP, Measured, Timed, compare, print_measured, timed
from benchmarks.langgraph_store import Peer, is_installed, open_peer
from benchmarks.passages import new_content
from benchmarks.scratch import RawTable, processor_seconds, scratch_store
from benchmarks.searching import query_from
from memory_context import AgentMemory, MemoryStore
from memory_context.foundation.tokens import default_token_counter
from memory_context.store.items import NewItem

__all__ = ["PASSAGES", "main", "measure_storing"]

SIZES = {"1 kB": 1_000, "40 kB": 40_000}
STORING_TARGET = 1.5
LATE_TARGET = 3
INDEXING_TARGET = 300
BOTH_TARGET = 200
PAUSE_SECONDS = 0.01
PASSAGES = 2_000
BATCHES = 10
DEPTH = 10
_INDEXED_SHAPES = {"short": 1, "long": 20}  # passages an item


async def measure_storing(rounds: int, passages: int = PASSAGES) -> list[Measured]:
    """Run all measurements, with so many passages to index and a quarter as many items beside LangGraph."""
    rng = random.Random(23)
    measured: list[Measured] = []
    async with scratch_store() as (store, url), RawTable.open(url) as table:
        for name, size in SIZES.items():
            measured.append(await _store_one(store, table, rng, name, size, rounds))
        measured += await _while_indexing(store, url, table, rng, passages // 4)
        with _background_off(store):
            for name, each in _INDEXED_SHAPES.items():
                measured += await _index(store, url, rng, name, each, passages)
    if not is_installed():
        print("Not compared with LangGraph: install langgraph-checkpoint-postgres (the bench extra).")
        return measured
    async with scratch_store() as (store, url), open_peer(url) as peer:
        measured += await _beside_peer(store, peer, rng, passages // 4, rounds)
    return measured


@contextmanager
def _background_off(store: MemoryStore) -> Iterator[None]:
    """Let the indexer sleep: what is stored waits for `flush_index`."""
    with patch.object(store.jobs, "wake", lambda user_id: None):
        yield


async def _store_one(
    store: MemoryStore, table: RawTable, rng: random.Random, name: str, size: int, rounds: int
) -> Measured:
    def content() -> str:
        return f"{rng.random()}\n{new_content(rng, 1 + size // 1000)}"[:size]

    async def ours() -> float:
        return await timed(store.items.insert_memories("storing", [_new_memory(content())]))

    async def raw() -> float:
        return await timed(table.insert(table.row(content())))

    with _background_off(store):
        return await compare(f"insert_memories of {name} / raw INSERT", ours, raw, rounds, STORING_TARGET)


def _new_memory(content: str) -> NewItem:
    return NewItem(content, "lines=500, 400 lines", len(content) // 4, key=f"tail_{random.randbytes(8).hex()}")


async def _while_indexing(
    store: MemoryStore, url: str, table: RawTable, rng: random.Random, items: int
) -> list[Measured]:
    """Store items of 1 kB, one every hundredth of a second, while the background indexes them.

    A raw INSERT is timed at the same pace, as any statement takes longer after a pause: alone, and by turns with ours.
    """
    memory, count = AgentMemory(store, "paced"), default_token_counter().count

    def text() -> str:
        return new_content(rng, 1)[:1000]

    async def ours() -> float:
        return await timed(memory.store(text()))

    async def insert(content: str) -> None:
        await table.insert(table.row(content))
        count(content)

    async def raw() -> float:
        return await timed(insert(text()))

    async def paced(seconds: float, *calls: Timed) -> list[list[float]]:
        times: list[list[float]] = [[] for _ in calls]
        for _ in range(items):
            for call, its_times in zip(calls, times, strict=True):
                its_times.append(await call())
                await asyncio.sleep(seconds)
        return times

    await memory.store("The embedder is loaded with the first passage.")
    await store.flush_index()
    cpu_before = processor_seconds(url)
    (stored,) = await paced(PAUSE_SECONDS, ours)
    await store.flush_index()
    cpu = processor_seconds(url) - cpu_before
    (alone,) = await paced(PAUSE_SECONDS, raw)
    turns = [median(times) for times in await paced(PAUSE_SECONDS / 2, ours, raw)]
    await store.flush_index()
    middle, late, least = median(stored), quantiles(stored, n=20)[-1], median(alone)
    each, slowest, by_turns = middle / least, late / least, turns[0] / turns[1]
    detail = f"{1000 * middle:.2f} ms, {1000 * late:.2f} ms / {1000 * least:.2f} ms"
    name = "of 1 kB while others are indexed / raw INSERT + token count alone"
    return [
        Measured(f"store {name}", each, f"<= {STORING_TARGET}", each <= STORING_TARGET, detail),
        Measured(f"95 % of stores {name}", slowest, f"<= {LATE_TARGET}", slowest <= LATE_TARGET, detail),
        Measured(
            "store of 1 kB / raw INSERT + token count, by turns while others are indexed",
            by_turns,
            f"<= {STORING_TARGET}",
            by_turns <= STORING_TARGET,
            f"{1000 * turns[0]:.2f} ms / {1000 * turns[1]:.2f} ms",
        ),
        Measured(
            "items stored and indexed a second of one core",
            items / cpu,
            f">= {BOTH_TARGET}",
            items / cpu >= BOTH_TARGET,
            f"{items} in {cpu:.2f} s of processor time",
        ),
    ]


async def _index(
    store: MemoryStore, url: str, rng: random.Random, name: str, each: int, passages: int
) -> list[Measured]:
    """Time the making of the index for so many passages, in items of a passage or of many."""
    user_id = f"indexing {name}"
    await store.flush_index()  # what was stored before is not what is timed
    for _ in range(passages // each):
        await store.items.insert_memories(user_id, [_new_memory(new_content(rng, each)[: each * 1000])])
    began, cpu_before = time.perf_counter(), processor_seconds(url)
    report = await store.flush_index()
    seconds, cpu = time.perf_counter() - began, processor_seconds(url) - cpu_before
    assert not report.pending
    assert not report.failed
    chunks = await _passages_of(url, user_id)
    what = f"items of {each} passage{'s' if each > 1 else ''}"
    return [
        Measured(
            f"passages indexed a second of one core, {what}",
            chunks / cpu,
            f">= {INDEXING_TARGET}",
            chunks / cpu >= INDEXING_TARGET,
            f"{chunks:,} in {cpu:.2f} s of processor time, {seconds:.2f} s on the clock",
        ),
        Measured(f"passages indexed a second on the clock, {what}", chunks / seconds),
    ]


async def _passages_of(url: str, user_id: str) -> int:
    async with await AsyncConnection.connect(url) as connection:
        statement = "SELECT count(*) FROM memory_context.agent_memory_chunks WHERE user_id = %s"
        (count,) = await (await connection.execute(statement, [user_id])).fetchone() or (0,)
        return int(count)


async def _beside_peer(store: MemoryStore, peer: Peer, rng: random.Random, items: int, rounds: int) -> list[Measured]:
    """Compare with LangGraph's store: what a caller waits for, all of the work, and searching."""
    memory = AgentMemory(store, "peer")
    name = "1 kB"
    batch = max(items // (WARM_UP + BATCHES), DEPTH)

    def content() -> str:
        return new_content(rng, 1)[:1000]

    with _background_off(store):
        stored = await compare(
            f"store {name} / LangGraph aput (embeds at once)",
            lambda: timed(memory.store(content())),
            lambda: timed(peer.put(content())),
            rounds,
        )
        await store.flush_index()

        async def ours() -> float:
            texts = [content() for _ in range(batch)]
            began = time.perf_counter()
            for text in texts:
                await memory.store(text)
            await store.flush_index()
            return time.perf_counter() - began

        async def theirs() -> float:
            texts = [content() for _ in range(batch)]
            began = time.perf_counter()
            for text in texts:
                await peer.put(text)
            return time.perf_counter() - began

        whole = await compare(f"store and index {batch} items of {name} / LangGraph aput", ours, theirs, BATCHES)
    searched = await compare(
        f"search among some {items} items of {name} / LangGraph asearch",
        lambda: timed(memory.search(query_from(rng), limit=DEPTH)),
        lambda: timed(peer.search(query_from(rng), DEPTH)),
        rounds,
    )
    return [stored, whole, searched]


# --- the terminal ------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.storing", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=40, help="times each pair is measured (default 40)")
    parser.add_argument("--passages", type=int, default=PASSAGES, help=f"passages indexed (default {PASSAGES})")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    given = parser.parse_args(arguments)
    measured = asyncio.run(measure_storing(given.rounds, given.passages))
    print_measured(measured, "storing and indexing")
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in measured], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
