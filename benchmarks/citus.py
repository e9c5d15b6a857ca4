"""The same SQL on Citus: every table distributed by its user, two users who store, search and read.

    python -m benchmarks.citus postgresql://user:password@coordinator/empty_database

The database has to be empty, with the extensions `citus` and `vector` to be had on all nodes. No figure of this project
was made with it: no package of Citus was at hand.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from graphlib import TopologicalSorter

import psycopg
from psycopg import AsyncConnection

from memory_context import AgentMemory, MemoryStore

__all__ = ["distribute", "main"]

_ITEMS = 200
_TABLES = """
    SELECT c.table_name, ARRAY(
        SELECT referenced.relname::text FROM pg_constraint AS fk
        JOIN pg_class AS referenced ON referenced.oid = fk.confrelid
        WHERE fk.contype = 'f' AND fk.conrelid = format('memory_context.%I', c.table_name)::regclass
            AND fk.confrelid <> fk.conrelid
    )
    FROM information_schema.columns AS c
    JOIN information_schema.tables AS t USING (table_schema, table_name)
    WHERE c.table_schema = 'memory_context' AND c.column_name = 'user_id' AND t.table_type = 'BASE TABLE'
"""


async def distribute(url: str) -> list[str]:
    """Create the tables and distribute those that have users, all by the same column; return their names.

    Raises:
        psycopg.errors.FeatureNotSupported: The server has no Citus.
    """
    async with await AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute("CREATE EXTENSION IF NOT EXISTS citus")
        async with MemoryStore(url):
            pass  # its first operation runs the migrations
        referenced = dict(await (await connection.execute(_TABLES)).fetchall())
        names = [*TopologicalSorter(referenced).static_order()]  # what a foreign key refers to comes first
        for name in names:
            beside = "default" if name == names[0] else f"memory_context.{names[0]}"
            await connection.execute(
                "SELECT create_distributed_table(%s, 'user_id', colocate_with => %s)",
                [f"memory_context.{name}", beside],
            )
    return names


async def _work(url: str) -> None:
    async with MemoryStore(url) as store:
        for user in ("alice", "bob"):
            memory = AgentMemory(store, user)
            began = time.perf_counter()
            refs = [
                await memory.store(f"{user}: note {number} on the harbour", description=f"note {number}")
                for number in range(_ITEMS)
            ]
            await store.flush_index()
            stored = time.perf_counter()
            hits = await memory.search("note 7 on the harbour", limit=10)
            item = await memory.retrieve(refs[7].key)
            found = all(hit.item.content.startswith(user) for hit in hits) and item.content.startswith(
                f"{user}: note 7 "
            )
            print(
                f"{user}: {_ITEMS} items stored and indexed in {stored - began:.2f} s, "
                f"searched and read in {1000 * (time.perf_counter() - stored):.0f} ms, "
                f"{len(hits)} hits: {'only own ones' if found else 'WRONG'}"
            )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it from the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.citus", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("url", nargs="+", help="of a coordinator's empty database; several are tried one by one")
    failed = 0
    for url in parser.parse_args(arguments).url:
        try:
            tables = asyncio.run(distribute(url))
            print(f"distributed by user_id: {', '.join(tables)}")
            asyncio.run(_work(url))
        except psycopg.Error as error:
            print(f"not run: {str(error).strip().splitlines()[0]}", file=sys.stderr)
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
