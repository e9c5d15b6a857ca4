"""Loads the SQL files.

A block is `-- name: fetch_memory :one`, a comment, one statement; `{may_read(item)}` names a fragment.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple, cast

from psycopg import sql
from typing_extensions import LiteralString

from memory_context.foundation.patterns import regex

__all__ = ["Migration", "Queries", "Statement", "expanded", "load_migrations", "load_queries", "sql_folder"]

_BLOCK = regex(r"^-- name: (\w+) :(?:one|many|exec)$", re.MULTILINE)
_FRAGMENT = regex(r"^-- fragment: (\w+)\((\w*)\)$", re.MULTILINE)
_USE = regex(r"\{(\w+)\(([\w.]*)\)\}")
_COMMENT_LINE = regex(r"^\s*--.*\n", re.MULTILINE)
_NO_TRANSACTION = regex(r"^-- transaction: none$", re.MULTILINE)
_END_OF_STATEMENT = regex(r";\s*$", re.MULTILINE)
_TOKEN = regex(r"--[^\n]*|/\*.*?\*/|('(?:[^']|'')*'|\"[^\"]*\"|\w+|[^\w\s])", re.DOTALL)


class Statement(NamedTuple):
    """SQL with its parameters; a transaction adds `user_id`, the user it acts as.

    With `keeps_plan` each connection keeps one plan, whatever the parameters, unless a pooler stands in between.
    """

    query: bytes
    params: Mapping[str, Any] = {}
    keeps_plan: bool = False


class Queries(Mapping[str, bytes]):
    """The blocks of a file by name, read at first use; a call gives one with its parameters."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._expanded: dict[str, bytes] = {}

    @cached_property
    def _blocks(self) -> dict[str, str]:
        _, *pieces = _BLOCK.split(_read(sql_folder() / "queries" / f"{self._file}.sql"))
        return dict(zip(pieces[::2], pieces[1::2], strict=True))

    def __getitem__(self, name: str) -> bytes:
        if name not in self._expanded:
            # without comments, whose percent signs would be parameters
            text = _COMMENT_LINE.sub("", self._blocks[name]).strip().rstrip(";")
            self._expanded[name] = expanded(text).encode()
        return self._expanded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._blocks)

    def __len__(self) -> int:
        return len(self._blocks)

    def __call__(self, name: str, params: Mapping[str, Any] | None = None, /, **more: Any) -> Statement:
        return Statement(self[name], {**(params or {}), **more})

    def composed(self, name: str, **parts: sql.Composable) -> sql.Composed:
        """Return a block with identifiers or literals in place of `{part}`."""
        return sql.SQL(cast(LiteralString, self[name].decode())).format(**parts)

    def each(self, names: Iterable[str], params: Mapping[str, Any]) -> list[Statement]:
        """Return several blocks with the same parameters."""
        return [self(name, params) for name in names]


@dataclass(frozen=True)
class Migration:
    """One migration file, `NNNN_pre_what.sql`: the version before works with it.

    Attributes:
        scripts: The file; single statements with `-- transaction: none`, which may run again after an interruption.
        checksum: SHA-256 without comments and white space.
    """

    version: int
    name: str
    scripts: tuple[str, ...] = field(repr=False)
    is_transactional: bool
    checksum: str


def sql_folder() -> Path:
    """Return the folder of the SQL files."""
    package = Path(__file__).parents[1]
    return next(folder for folder in (package / "sql", package.parent / "sql") if (folder / "migrations").is_dir())


@cache
def load_queries(name: str) -> Queries:
    """Return the blocks of a file: a command that reads uses few of the files."""
    return Queries(name)


@cache
def _fragments() -> dict[str, tuple[str, str]]:
    _, *pieces = _FRAGMENT.split(_read(sql_folder() / "fragments.sql"))
    return {
        name: (word, _COMMENT_LINE.sub("", text).strip())
        for name, word, text in zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True)
    }


def expanded(text: str) -> str:
    """Return a statement with its fragments inserted."""

    def fragment(use: re.Match[str]) -> str:
        word, its_text = _fragments()[use[1]]
        return expanded(re.sub(rf"(?<![\w.])(?<!%\(){word}\b", use[2], its_text) if word else its_text)

    return _USE.sub(fragment, text)


@cache
def load_migrations() -> tuple[Migration, ...]:
    """Return all migrations in order."""
    return tuple(_migration(path) for path in sorted((sql_folder() / "migrations").glob("[0-9]*.sql")))


def _migration(path: Path) -> Migration:
    text, name = _read(path), path.stem
    version = int(name.split("_")[0])
    if version > 1 and not name.startswith(f"{version:04}_pre_"):
        raise ValueError(f"{path}: name it {version:04}_pre_…, and let the version before work with it")
    is_transactional = _NO_TRANSACTION.search(text) is None
    scripts = (text,)
    if not is_transactional:
        scripts = tuple(one for one in _END_OF_STATEMENT.split(_COMMENT_LINE.sub("", text)) if one.strip())
    tokens = " ".join(filter(None, _TOKEN.findall(text)))
    checksum = hashlib.sha256(tokens.encode()).hexdigest()
    return Migration(version, name, scripts, is_transactional, checksum)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")  # universal newlines
