"""Long parameters travel in pieces: no call of the driver is long, and what is stored is what was given."""

import threading
from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest
from psycopg.adapt import PyFormat, Transformer

from memory_context import MemoryStore
from memory_context.store import pipeline
from memory_context.store.items import NewItem
from memory_context.store.pipeline import PIECE_LENGTH, split
from memory_context.store.search import indexer, postings
from memory_context.store.sql import Statement

pytestmark = pytest.mark.thorough

CHINESE = "".join(map(chr, range(0x4E00, 0x4E00 + 997)))
TEXTS = {"Chinese": CHINESE * 500, "JSON": '{"id": 7},' * 30_000, "surrogates": "\ud83d \x00" * 80_000}


def _memory(key: str, content: str) -> NewItem:
    return NewItem(content, "a text", 1, key=key)


@pytest.mark.parametrize("kind", TEXTS)
async def test_no_call_of_the_driver_carries_more_than_a_piece(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, kind: str
):
    """Storing a long text, and writing its passages and terms."""
    longest: list[int] = [0]

    class Watched(Transformer):
        def dump_sequence(self, params: Sequence[Any], formats: Sequence[PyFormat]) -> Sequence[Any]:
            longest.append(max((len(value) for value in params if isinstance(value, (str, bytes))), default=0))
            return super().dump_sequence(params, formats)  # pyright: ignore[reportAbstractUsage]

    monkeypatch.setattr(pipeline, "Transformer", Watched)
    await store.items.insert_memories("alice", [_memory("k", TEXTS[kind])])
    assert max(longest) == PIECE_LENGTH, "nothing was sent in pieces"
    if kind == "JSON":
        await store.flush_index()
        assert max(longest) == PIECE_LENGTH
    found = await store.items.fetch_memory("alice", "k")
    assert found is not None
    assert found.content == TEXTS[kind]


async def test_pieces_are_joined_in_order_and_gone_after_the_transaction(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
):
    """More pieces than one call of a function takes arguments, of two contents in one transaction."""
    monkeypatch.setattr(pipeline, "PIECE_LENGTH", 300)
    texts = {"plain": "".join(map(str, range(6000))), "odd": "\x00" + "".join(map(chr, range(0x100, 0x1100)))}
    await store.items.insert_memories("alice", [_memory(key, text) for key, text in texts.items()])
    for key, text in texts.items():
        found = await store.items.fetch_memory("alice", key)
        assert found is not None
        assert found.content == text
    left = Statement(b"SELECT coalesce(current_setting('memory_context.piece_0', true), '') AS piece")
    assert await store._database.read("alice", left) == [[{"piece": ""}]]  # pyright: ignore[reportPrivateUsage]


def test_short_statements_are_sent_as_they_are():
    statement = Statement(b"SELECT %(text)s, %(number)s", {"text": "x" * PIECE_LENGTH, "number": 1})
    assert list(split(statement, count())) == [statement]
    assert next(split(statement, count())) is statement


async def test_passages_are_masked_and_vectors_spelled_off_the_event_loop(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
):
    on_loop: set[tuple[str, bool]] = set()

    def watched(name: str, function: Any) -> Any:
        def call(*given: Any) -> Any:
            on_loop.add((name, threading.current_thread() is threading.main_thread()))
            return function(*given)

        return call

    for module, name in ((postings, "masked_in_place"), (indexer, "HalfVector")):
        monkeypatch.setattr(module, name, watched(name, getattr(module, name)))
    await store.items.insert_memories("alice", [_memory("k", "the ship is called Ida")])
    await store.flush_index()
    assert on_loop == {("masked_in_place", False), ("HalfVector", False)}
