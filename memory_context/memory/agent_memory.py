"""Items of one scope: stored with a readable key, read whole or cut.

The scope is a user, and optionally an agent and a session. Keys are unique per user and derived from the content and
its place (see `memory_key_for`), so storing the same again gives the same reference.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args
from uuid import uuid4

from ..errors import ConflictError, ItemNotFoundError
from ..escaping import to_utf8
from ..references import KEY_PATTERN, MemoryRef, memory_key_for, one_line
from ..store import MemoryCriteria, MemoryStore, NewMemory, StoredMemory
from ..tokens import TokenCounter, count_off_loop, default_token_counter
from .items import MAX_CONTENT_BYTES, Draft, MemoryItem, MemoryType, item_of
from .searching import SearchHit, search_items
from .transforms import FULL, MemoryTransform, cut

__all__ = ["AgentMemory", "Reach"]

Reach = Literal["user", "agent", "session"]

EVERYTHING = MemoryCriteria()

_SUFFIX_LENGTHS = (6, 10, 20)  # of keys; when all are taken, such as by what was forgotten, a random one follows
_OFF_LOOP_CHARACTERS = 100_000


class AgentMemory:
    """The items one agent stores and reads.

    Args:
        memory_store: Where they are.
        user_id: Whose they are; no other user's items are ever seen.
        agent_id: The agent that stores; None for none.
        session_id: The session it stores in; None for none.
        reach: How far reading goes: all items of the user, those of this agent, or those of this session.
        token_counter: Counts tokens; None for the default.
    """

    def __init__(
        self,
        memory_store: MemoryStore,
        user_id: str,
        agent_id: str | None = None,
        session_id: str | None = None,
        *,
        reach: Reach = "user",
        token_counter: TokenCounter | None = None,
    ) -> None:
        self.memory_store = memory_store
        self.user_id = user_id
        self.agent_id = agent_id or ""
        self.session_id = session_id or ""
        self._reach = reach
        self._counter = token_counter or default_token_counter()

    async def store(
        self,
        content: Any,
        *,
        description: str | None = None,
        type: MemoryType = "custom",
        source: str | None = None,
        tags: Sequence[str] = (),
        related_to: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
    ) -> MemoryRef:
        """Store a content and return the reference to it, once it is durable.

        Args:
            content: A str, kept byte for byte, or anything JSON can say.
            description: One line that says what it is; made from the source if None.
            type: What sort of memory it is.
            source: Where it came from; the key is made from it (from the type if None).
            tags: Words to find it by.
            related_to: Keys of items it belongs together with; the link is found from both sides.
            metadata: JSON-native data that stays with it.

        Raises:
            ValueError: The content is neither a str nor JSON-able, or larger than 256 MB; the type is unknown, a tag
                is no str, or the metadata is not JSON-native.
            StoreUnavailableError: The store cannot be reached now.
        """
        text = content if isinstance(content, str) else _as_json("content", content)
        _check(type, source, tags, related_to, metadata)
        if is_too_large(text):
            raise ValueError(
                f"a content of {len(to_utf8(text)):,} bytes is too large: an item takes {MAX_CONTENT_BYTES:,}"
            )
        (token_count,) = await count_off_loop(self._counter, [text])
        draft = Draft(
            text,
            description or f"{source or type}, {len(text):,} characters",
            token_count,
            type,
            source or type,
            tuple(tags),
            tuple(related_to),
            metadata or {},
        )
        return (await self.store_all([draft]))[0]

    async def store_all(self, drafts: Sequence[Draft]) -> list[MemoryRef]:
        """Store several items in one transaction, all or none; return their references in order.

        Raises:
            StoreError: The store failed; nothing was stored.
        """
        characters = sum(len(draft.content) for draft in drafts)
        for suffix_length in (*_SUFFIX_LENGTHS, None):
            if characters > _OFF_LOOP_CHARACTERS:
                memories = await asyncio.to_thread(self._new_memories, drafts, suffix_length)
            else:
                memories = self._new_memories(drafts, suffix_length)
            try:
                keys = await self.memory_store.insert_memories(self.user_id, memories)
            except ConflictError:
                if suffix_length is None:
                    raise
                continue
            return [
                MemoryRef(key, draft.description, draft.token_count) for key, draft in zip(keys, drafts, strict=True)
            ]
        raise AssertionError("the last suffix length returns or raises")

    async def retrieve(
        self, key: str, transform: MemoryTransform = FULL, *, answer_limit_tokens: int | None = None
    ) -> MemoryItem | None:
        """Return the item behind a reference, cut as asked; None if this scope has none.

        The stored content is never changed, and `FULL` returns exactly what came in.

        Args:
            key: The `memory_key` of a placeholder, such as `run_shell_k3f7x2`.
            transform: How to cut. Line numbers and characters count from 1.
            answer_limit_tokens: The most the returned content may take; it then ends with how to go on. None is
                unlimited.

        Raises:
            TransformError: The pattern or range is unusable; says what to send instead.
            StoreUnavailableError: The store cannot be reached now.
        """
        stored = await self._fetch(key)
        if stored is None:
            return None
        if transform == FULL and answer_limit_tokens is None:
            return item_of(stored, stored.content, True, "all of")
        shown = await asyncio.to_thread(
            cut,
            stored.content,
            transform,
            key=key,
            counter=self._counter,
            answer_limit_tokens=answer_limit_tokens,
            token_count=stored.token_count,
        )
        return item_of(stored, shown.text, shown.is_whole, shown.label)

    async def retrieve_contents(self, keys: Iterable[str]) -> dict[str, str]:
        """Return the whole contents of several items in one read; keys out of this scope are left out."""
        return await self.memory_store.fetch_contents(self.user_id, list(keys), **self._scope)

    async def query(self, criteria: MemoryCriteria = EVERYTHING) -> list[MemoryItem]:
        """Return the items that meet criteria, without their content, the newest first unless asked otherwise.

        Raises:
            StoreUnavailableError: The store cannot be reached now.
        """
        within = self._within(criteria)
        stored = [] if within is None else await self.memory_store.select_memories(self.user_id, within)
        return [item_of(one, "", False, "") for one in stored]

    async def search(self, query: str, *, limit: int = 5, criteria: MemoryCriteria = EVERYTHING) -> list[SearchHit]:
        """Return the items that answer a query best, each with its best passage; the best first.

        Ranked by terms (BM25 with the frequencies of the user's own memory) and by meaning (embeddings), fused; what is
        not indexed yet is found by its key, description, source, tags and first lines. Near-duplicates come once.

        Args:
            query: Any text: words, a question, an identifier, a line of a log.
            limit: How many items at most.
            criteria: Which items count; its own limit and order do not.

        Raises:
            ValueError: The limit is less than 1.
            StoreUnavailableError: The store cannot be reached now.
        """
        if limit < 1:
            raise ValueError(f"limit={limit!r} must be at least 1")
        within = self._within(criteria)
        return [] if within is None else await search_items(self.memory_store, self.user_id, query, limit, within)

    async def forget(self, key: str) -> bool:
        """Erase one item of the own scope (this agent and session); whether there was one.

        A tombstone stays: opening the key says when it was forgotten.

        Raises:
            StoreUnavailableError: The store cannot be reached now.
        """
        return bool(KEY_PATTERN.fullmatch(key)) and bool(await self._forget(key))

    async def clear(self) -> int:
        """Erase all items of the own scope (this agent and session); return how many there were.

        Raises:
            StoreUnavailableError: The store cannot be reached now.
        """
        return len(await self._forget(None))

    async def _forget(self, key: str | None) -> list[str]:
        return await self.memory_store.forget_memories(
            self.user_id, agent_id=self.agent_id, session_id=self.session_id, memory_key=key
        )

    async def not_found(self, key: str) -> ItemNotFoundError:
        """Return the error for a key this scope does not have: forgotten, or unknown with the nearest that it has."""
        stored = await self.memory_store.fetch_memory(self.user_id, key[:64], **self._scope)
        if stored is not None and not stored.is_active:
            return ItemNotFoundError(f"{key!r} was forgotten on {stored.updated_at:%Y-%m-%d}")
        nearest = await self.memory_store.select_keys(self.user_id, like=key[:64], limit=3, **self._scope)
        offer = f"; did you mean {' or '.join(repr(k) for k in nearest)}?" if nearest else ""
        return ItemNotFoundError(f"no item {one_line(key, 80)!r} in this memory{offer}")

    @property
    def _scope(self) -> dict[str, str | None]:
        """How far reading goes, as the store takes it."""
        return {
            "agent_id": self.agent_id if self._reach != "user" else None,
            "session_id": self.session_id if self._reach == "session" else None,
        }

    def _within(self, criteria: MemoryCriteria) -> MemoryCriteria | None:
        """Return the criteria limited to how far reading goes; None if nothing can meet both."""
        scope = {name: value for name, value in self._scope.items() if value is not None}
        if any(getattr(criteria, name) not in (None, value) for name, value in scope.items()):
            return None
        return replace(criteria, **scope)

    async def _fetch(self, key: str) -> StoredMemory | None:
        if not KEY_PATTERN.fullmatch(key):
            return None
        stored = await self.memory_store.fetch_memory(self.user_id, key, **self._scope)
        return stored if stored is not None and stored.is_active else None

    def _new_memories(self, drafts: Sequence[Draft], suffix_length: int | None) -> list[NewMemory]:
        salt = () if suffix_length else (uuid4().hex,)
        return [
            NewMemory(
                memory_key=memory_key_for(
                    draft.source,
                    (self.agent_id, self.session_id, draft.type, *salt),
                    draft.content,
                    suffix_length or _SUFFIX_LENGTHS[-1],
                ),
                content=draft.content,
                summary=one_line(draft.description),
                token_count=draft.token_count,
                memory_type=draft.type,
                source=one_line(draft.source, 100),
                agent_id=self.agent_id,
                session_id=self.session_id,
                tags=draft.tags,
                related_to=draft.related_to,
                metadata=draft.metadata,
            )
            for draft in drafts
        ]


def is_too_large(text: str) -> bool:
    """Whether a content is larger than an item takes."""
    return len(text) * 4 > MAX_CONTENT_BYTES and len(to_utf8(text)) > MAX_CONTENT_BYTES


def _as_json(name: str, value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"cannot store {name} of type {type(value).__name__}: JSON cannot say it ({error})") from error


def _check(memory_type: str, source: Any, tags: Any, related_to: Any, metadata: Any) -> None:
    """Refuse what a row would not give back as it was.

    Raises:
        ValueError: Says what is wrong and what to send.
    """
    if memory_type not in get_args(MemoryType):
        raise ValueError(f"type={memory_type!r}: use one of {', '.join(get_args(MemoryType))}")
    if source is not None and not isinstance(source, str):
        raise ValueError(f"source={source!r}: use a str, such as the name of a tool")
    if isinstance(tags, str) or not all(isinstance(tag, str) for tag in tags):
        raise ValueError(f"tags={tags!r}: use a sequence of str")
    if isinstance(related_to, str) or not all(
        isinstance(key, str) and KEY_PATTERN.fullmatch(key) for key in related_to
    ):
        raise ValueError(f"related_to={related_to!r}: use a sequence of memory keys")
    if metadata is not None and json.loads(_as_json("metadata", dict(metadata))) != dict(metadata):
        raise ValueError(f"metadata={metadata!r}: use what JSON gives back as it was, so str keys and no tuples")
