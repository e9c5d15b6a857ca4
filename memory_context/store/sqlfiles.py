"""The SQL of this package, read from its files: all of it lies in `sql/`, none in Python.

A query file holds named blocks: `-- name: fetch_memory :one`, a comment line on what the block is for, one statement.
"""

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["Migration", "load_migrations", "load_queries", "sql_folder"]

_BLOCK = re.compile(r"^-- name: (\w+) :(?:one|many|exec)$", re.MULTILINE)
_COMMENT_LINE = re.compile(r"^\s*--.*\n", re.MULTILINE)


@dataclass(frozen=True)
class Migration:
    """One migration file.

    Attributes:
        version: The number its name starts with; they are applied in this order.
        name: The file's name without its ending.
        script: Its statements.
        checksum: SHA-256 of the script, to notice a file that changed after it ran.
    """

    version: int
    name: str
    script: str
    checksum: str


def sql_folder() -> Path:
    """Return the folder of the SQL files: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).parents[1]
    return next(folder for folder in (package / "sql", package.parent / "sql") if (folder / "migrations").is_dir())


@cache
def load_queries(name: str) -> dict[str, bytes]:
    """Return the statements of `queries/<name>.sql` by the names of their blocks.

    As bytes, since the driver's types accept computed SQL only so. Comments are dropped: a percent sign in them would
    count as a parameter.
    """
    _, *pieces = _BLOCK.split(_read(sql_folder() / "queries" / f"{name}.sql"))
    return {
        block: _COMMENT_LINE.sub("", text).strip().rstrip(";").encode()
        for block, text in zip(pieces[::2], pieces[1::2], strict=True)
    }


@cache
def load_migrations() -> tuple[Migration, ...]:
    """Return all migrations in order."""
    migrations: list[Migration] = []
    for path in sorted((sql_folder() / "migrations").glob("[0-9]*.sql")):
        script = _read(path)
        checksum = hashlib.sha256(script.encode()).hexdigest()
        migrations.append(Migration(int(path.stem.split("_")[0]), path.stem, script, checksum))
    return tuple(migrations)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")  # universal newlines: a checkout with CRLF has the same checksums
