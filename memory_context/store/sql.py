"""The SQL files of this package: query blocks and migrations. All SQL lies in `sql/`, none in Python.

A query file holds named blocks: `-- name: fetch_memory :one`, a comment on its purpose, one statement.
`{may_read(item)}` in it stands for a text of `fragments.sql`.
A migration is named `NNNN_pre_what.sql` or `NNNN_post_what.sql`, see `Migration`; only the first has no part.
"""

import hashlib
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal, cast

__all__ = ["Migration", "Part", "expanded", "load_migrations", "load_queries", "part_of", "sql_folder"]

Part = Literal["pre", "post"]

_BLOCK = re.compile(r"^-- name: (\w+) :(?:one|many|exec)$", re.MULTILINE)
_FRAGMENT = re.compile(r"^-- fragment: (\w+)\((\w*)\)$", re.MULTILINE)
_USE = re.compile(r"\{(\w+)\(([\w.]*)\)\}")
_COMMENT_LINE = re.compile(r"^\s*--.*\n", re.MULTILINE)
_NO_TRANSACTION = re.compile(r"^-- transaction: none$", re.MULTILINE)
_END_OF_STATEMENT = re.compile(r";\s*$", re.MULTILINE)
_TOKEN = re.compile(r"--[^\n]*|/\*.*?\*/|('(?:[^']|'')*'|\"[^\"]*\"|\w+|[^\w\s])", re.DOTALL)


@dataclass(frozen=True)
class Migration:
    """One migration file.

    Attributes:
        version: The number its name starts with; they are applied in this order.
        name: The file's name without its ending.
        part: `pre`: the version of the package before this one works with it. `post`: that version does not; this one
            works without it, too.
        scripts: The whole file, which runs in one transaction; or its statements, each of which ends with a line, if
            the line `-- transaction: none` says that they need none (CREATE INDEX CONCURRENTLY).
        is_transactional: Whether they run in a transaction. If not, they may run again after they were broken off.
        checksum: SHA-256 of the statements, to notice a file that changed after it ran. Comments and white space do not
            count.
    """

    version: int
    name: str
    part: Part
    scripts: tuple[str, ...] = field(repr=False)
    is_transactional: bool
    checksum: str


def sql_folder() -> Path:
    """Return the folder of the SQL files: in the installed package, or beside it in a checkout."""
    package = Path(__file__).parents[1]
    return next(folder for folder in (package / "sql", package.parent / "sql") if (folder / "migrations").is_dir())


@cache
def load_queries(name: str) -> dict[str, bytes]:
    """Return the statements of `queries/<name>.sql` by the names of their blocks.

    As bytes, since the driver's types accept computed SQL only so. Comments are dropped: a percent sign in them would
    count
    as a parameter.
    """
    _, *pieces = _BLOCK.split(_read(sql_folder() / "queries" / f"{name}.sql"))
    return {
        block: expanded(_COMMENT_LINE.sub("", text).strip().rstrip(";")).encode()
        for block, text in zip(pieces[::2], pieces[1::2], strict=True)
    }


@cache
def _fragments() -> dict[str, tuple[str, str]]:
    """Return the word that each fragment is written with, and its text."""
    _, *pieces = _FRAGMENT.split(_read(sql_folder() / "fragments.sql"))
    return {
        name: (word, _COMMENT_LINE.sub("", text).strip())
        for name, word, text in zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True)
    }


def expanded(text: str) -> str:
    """Return a statement with the texts of `fragments.sql` in place of their names."""

    def fragment(use: re.Match[str]) -> str:
        word, its_text = _fragments()[use[1]]
        return expanded(re.sub(rf"(?<![\w.])(?<!%\(){word}\b", use[2], its_text) if word else its_text)

    return _USE.sub(fragment, text)


@cache
def load_migrations() -> tuple[Migration, ...]:
    """Return all migrations in order."""
    return tuple(_migration(path) for path in sorted((sql_folder() / "migrations").glob("[0-9]*.sql")))


def part_of(name: str) -> Part | None:
    """Return the part that a migration's name says; None if it says none."""
    found = re.match(r"[0-9]+_(pre|post)_", name)
    return cast(Part, found[1]) if found else None


def _migration(path: Path) -> Migration:
    text, name = _read(path), path.stem
    version, part = int(name.split("_")[0]), part_of(name)
    if part is None and version > 1:
        raise ValueError(f"{path}: name it {version:04}_pre_… or {version:04}_post_…")
    is_transactional = _NO_TRANSACTION.search(text) is None
    scripts = (text,)
    if not is_transactional:
        scripts = tuple(one for one in _END_OF_STATEMENT.split(_COMMENT_LINE.sub("", text)) if one.strip())
    tokens = " ".join(filter(None, _TOKEN.findall(text)))
    checksum = hashlib.sha256(tokens.encode()).hexdigest()
    return Migration(version, name, part or "pre", scripts, is_transactional, checksum)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")  # universal newlines
