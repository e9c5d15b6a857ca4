"""Items of one scope: stored under a readable key, read whole or cut.

The scope is a user, and optionally an agent and a session. Keys are unique per user and derived from content and place
(`memory_key_for`), so storing the same again gives the same reference. Every read uses the one `ReadScope` made here;
`sharing` says who reads what.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any, get_args

from ..credentials import masked
from ..errors import ConflictError, ItemNotFoundError
from ..identifiers import checked_identifier
from ..references import KEY_PATTERN, MemoryRef, ToolAnswer, one_line
from ..runtime import in_thread_if_large
from ..store import (
    CallerOrigin,
    MemoryCriteria,
    MemoryStore,
    ProgressCallback,
    Reach,
    ReadScope,
    SearchHit,
    checked_caller_origin,
    search_items,
    within,
)
from ..tokens import TokenCounter, count_off_loop, default_token_counter
from ..transforms import FULL, MemoryTransform, cut
from ..utf8 import to_utf8
from .audit import AuditEvent, AuditTrail
from .items import (
    MAX_CONTENT_BYTES,
    SUFFIX_LENGTHS,
    MemoryItem,
    MemoryType,
    NewItem,
    as_json,
    check_item,
    is_too_large,
    placed,
)
from .sharing import MemorySnapshot, Sharing, refusal

__all__ = ["AgentMemory"]


class AgentMemory:
    """The items one agent stores and reads.

    Args:
        memory_store: Where they are.
        user_id: No other user's items are ever seen.
        agent_id: The agent that stores; None for none.
        session_id: The session it stores in; None for none.
        reach: How far reading goes: all items of the user, those of this agent, or those of this session.
        sharing: With the user's other agents: "shared", everything; "read_only", it reads theirs but they not its own;
            "isolated", nothing.
        token_counter: None for the default.
        mask_credentials: Whether credentials are masked in descriptions; contents are kept as they are.

    Attributes:
        trail: Notes what happens to items of this agent and session.
    """

    def __init__(
        self,
        memory_store: MemoryStore,
        user_id: str,
        agent_id: str | None = None,
        session_id: str | None = None,
        *,
        reach: Reach = "user",
        sharing: Sharing = "shared",
        token_counter: TokenCounter | None = None,
        mask_credentials: bool = True,
    ) -> None:
        for name, value, choices in (("reach", reach, get_args(Reach)), ("sharing", sharing, get_args(Sharing))):
            if value not in choices:
                raise ValueError(f"{name}={value!r}: use one of {', '.join(choices)}")
        self.memory_store = memory_store
        self.user_id = user_id
        self.agent_id = agent_id or ""
        self.session_id = session_id or ""
        self.trail = AuditTrail(
            memory_store,
            user_id,
            self.agent_id,
            self.session_id,
            is_private=sharing != "shared",
            masks_credentials=mask_credentials,
        )
        self.sharing: Sharing = sharing
        self._reach: Reach = "session" if sharing == "isolated" else reach
        self._restored: dict[str, None] | None = None  # the keys of a snapshot, and what was stored since
        self._counter = token_counter or default_token_counter()
        self._masks_credentials = mask_credentials

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
        origin: CallerOrigin = "application",
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
            origin: Whose words it holds, if not the application's own. A preference or fact of another origin is not
                taken for the user's.

        Raises:
            SecretError: The type is `user_secret`.
            ValueError: The content is neither a str nor JSON-able, or larger than 256 MB; the type or the origin is
                unknown, a tag is no str, or the metadata is not JSON-native.
            StoreUnavailableError: The store cannot be reached now.
        """
        text = content if isinstance(content, str) else as_json("content", content)
        check_item(type, source, tags, related_to, metadata)
        if is_too_large(text):
            raise ValueError(
                f"a content of {len(to_utf8(text)):,} bytes is too large: an item takes {MAX_CONTENT_BYTES:,}"
            )
        (token_count,) = await count_off_loop(self._counter, [text])
        item = NewItem(
            text,
            description or f"{source or type}, {len(text):,} characters",
            token_count,
            type,
            source or type,
            tuple(tags),
            tuple(related_to),
            metadata or {},
            checked_caller_origin(origin),
        )
        return (await self.store_all([item]))[0]

    async def store_all(self, items: Sequence[NewItem]) -> list[MemoryRef]:
        """Store several items in one transaction, all or none; return their references in order.

        Raises:
            StoreError: The store failed; nothing was stored.
        """
        if self._masks_credentials:
            items = [replace(item, description=masked(item.description)) for item in items]
        size = sum(len(item.content) for item in items) / 5  # hashing takes less than reading
        for suffix_length in (*SUFFIX_LENGTHS, None):
            named = await in_thread_if_large(
                size, placed, items, self.agent_id, self.session_id, self.sharing != "shared", suffix_length
            )
            try:
                keys = await self.memory_store.insert_memories(self.user_id, named)
            except ConflictError:
                if suffix_length is None:
                    raise
                continue
            if self._restored is not None:
                self._restored.update(dict.fromkeys(keys))
            return [MemoryRef(key, item.description, item.token_count) for key, item in zip(keys, items, strict=True)]
        raise AssertionError("the last suffix length returns or raises")

    async def retrieve(
        self,
        key: str,
        transform: MemoryTransform = FULL,
        *,
        answer_limit_tokens: int | None = None,
        reader: str | None = "retrieve",
    ) -> MemoryItem | None:
        """Return the item behind a reference, cut as asked; None if this scope has none.

        The stored content is never changed, and `FULL` returns exactly what came in. The audit trail notes the read,
        as it does those of `search`, `query` and `retrieve_contents`.

        Args:
            key: The `memory_key` of a placeholder, such as `run_shell_k3f7x2`.
            transform: How to cut. Line numbers and characters count from 1.
            answer_limit_tokens: The most the returned content may take; it then ends with how to go on. None is
                unlimited.
            reader: Name of the caller in the audit trail; None if the caller notes the read itself or shows nothing.

        Raises:
            TransformError: The pattern or range is unusable; says what to send instead.
            StoreUnavailableError: The store cannot be reached now.
        """
        if not KEY_PATTERN.fullmatch(key):
            return None
        item = await self.memory_store.fetch_memory(self.user_id, key, scope=self.scope)
        if item is None or not item.is_active:
            return None
        if transform != FULL or answer_limit_tokens is not None:
            summary = None
            if transform.name == "summary":
                summary = await self.memory_store.fetch_model_summary(self.user_id, key, scope=self.scope)
            shown = await asyncio.to_thread(
                cut,
                item.content,
                transform,
                key=key,
                counter=self._counter,
                answer_limit_tokens=answer_limit_tokens,
                token_count=item.ref.token_count,
                model_summary=summary,
            )
            item = replace(item, content=shown.text, is_whole=shown.is_whole, label=shown.label)
        self.trail.note_read("retrieved", [key], reader, transform)
        return item

    async def retrieve_contents(self, keys: Iterable[str], *, reader: str | None = "retrieve") -> dict[str, str]:
        """Return the whole contents of several items in one read; keys out of this scope are left out."""
        contents = await self.memory_store.fetch_contents(self.user_id, list(keys), scope=self.scope)
        self.trail.note_read("retrieved", contents, reader, FULL)
        return contents

    async def query(self, criteria: MemoryCriteria | None = None, *, reader: str | None = "query") -> list[MemoryItem]:
        """Return the items that meet criteria, without their content, the newest first unless asked otherwise.

        Args:
            criteria: Which items; None for the 50 newest.
            reader: Name of the caller in the audit trail; None if the caller notes the read itself or shows nothing.

        Raises:
            StoreUnavailableError: The store cannot be reached now.
        """
        criteria = criteria or MemoryCriteria()
        items = await self.memory_store.select_memories(self.user_id, criteria, scope=self.scope)
        self.trail.note_read("listed", [item.key for item in items], reader, criteria)
        return items

    async def search(
        self, query: str, limit: int = 5, criteria: MemoryCriteria | None = None, *, reader: str | None = "search"
    ) -> list[SearchHit]:
        """Return the items that answer a query best, each with its best passage; the best first.

        Ranked by terms (BM25 with the frequencies of the user's own memory) and by meaning (embeddings), fused; what is
        not indexed yet is found by its key, description, source, tags and first lines. Near-duplicates come once.

        Args:
            query: Any text: words, a question, an identifier, a line of a log.
            limit: How many items at most.
            criteria: Which items count; its own limit and order do not.
            reader: Name of the caller in the audit trail; None if the caller notes the read itself or shows nothing.

        Raises:
            ValueError: The limit is less than 1.
            StoreUnavailableError: The store cannot be reached now.
        """
        if limit < 1:
            raise ValueError(f"limit={limit!r} must be at least 1")
        found = search_items(self.memory_store, self.user_id, query, limit, criteria or MemoryCriteria(), self.scope)
        hits = await within(self.memory_store.limits.call_seconds, found)
        self.trail.note_read("searched", [hit.item.key for hit in hits], reader, repr(query))
        return hits

    async def share(self, key: str, agent_id: str) -> None:
        """Let another of the user's agents read one item of the own scope, however isolated it is.

        Raises:
            ItemNotFoundError: This agent and session stored no such item.
        """
        checked_identifier("agent_id", agent_id)
        is_own = KEY_PATTERN.fullmatch(key) and await self.memory_store.share_memory(
            self.user_id, key, agent_id=self.agent_id, session_id=self.session_id, with_agent=agent_id
        )
        if not is_own:
            raise await self.not_found(key)

    async def forget(self, key: str) -> bool:
        """Erase one item of the own scope (this agent and session); whether there was one.

        A tombstone stays: opening the key says when it was forgotten.

        Raises:
            StoreUnavailableError: The store cannot be reached now.
        """
        return bool(KEY_PATTERN.fullmatch(key)) and bool(await self._forget(key))

    async def clear(self, progress: ProgressCallback | None = None) -> int:
        """Erase all items of the own scope (this agent and session) in batches; return how many there were.

        Raises:
            StoreUnavailableError: The store cannot be reached now.
        """
        return len(await self._forget(None, progress))

    async def _forget(self, key: str | None, progress: ProgressCallback | None = None) -> list[str]:
        own = {"agent_id": self.agent_id, "session_id": self.session_id}
        return await self.memory_store.forget_memories(self.user_id, **own, memory_key=key, progress=progress)

    async def audit(
        self,
        session_id: str | None = None,
        *,
        limit: int = 100,
        after: AuditEvent | None = None,
        newest_first: bool = False,
    ) -> list[AuditEvent]:
        """Return what happened to the items of a session, the oldest first unless asked otherwise.

        Stored, looked up, expanded, recalled, compacted, folded: by whom, why, when. Within the reach of this memory.

        Args:
            session_id: The session; None for this memory's own.
            limit: How many at most.
            after: The last event of the page before; None for the first page.
            newest_first: Whether the newest come first.

        Raises:
            ValueError: The limit is less than 1.
            StoreUnavailableError: The store cannot be reached now.
        """
        return await self.trail.events(
            session_id, scope=self.scope, limit=limit, after=after, newest_first=newest_first
        )

    async def snapshot(self) -> MemorySnapshot:
        """Return which items can be read now: their keys, not their content.

        Raises:
            StoreUnavailableError: The store cannot be reached now.
        """
        keys = await self.memory_store.select_keys(self.user_id, scope=self.scope, limit=None)
        return MemorySnapshot(
            user_id=self.user_id,
            agent_id=self.agent_id,
            session_id=self.session_id,
            taken_at=datetime.now(timezone.utc),
            keys=tuple(keys),
        )

    async def restore(self, snapshot: MemorySnapshot) -> None:
        """From now on read exactly the items of a snapshot, and beside them what this object stores itself.

        Also items private to another scope or beyond the reach: the taker could read them, and the application hands
        the
        snapshot on. Forgotten items stay so. Nothing in the database changes; each read passes the keys along.

        Raises:
            ValueError: It is another user's.
        """
        if snapshot.user_id != self.user_id:
            raise ValueError(f"this snapshot belongs to user {snapshot.user_id!r}, not to {self.user_id!r}")
        self._restored = dict.fromkeys(snapshot.keys)

    async def not_found(self, key: str) -> ItemNotFoundError:
        """Return the error for a key that cannot be read: forgotten, not shared, or unknown with the nearest there are.

        Raises:
            StoreUnavailableError: The store cannot be reached now.
        """
        found = await self.memory_store.fetch_whereabouts(self.user_id, key[:64])
        if found is not None and not found.is_active:
            return ItemNotFoundError(f"{key!r} was forgotten on {found.updated_at:%Y-%m-%d}")
        if found is not None:
            return ItemNotFoundError(refusal(key, found, self.scope, self.sharing))
        nearest = await self.memory_store.select_keys(self.user_id, like=key[:64], limit=3, scope=self.scope)
        offer = f"; did you mean {' or '.join(repr(k) for k in nearest)}?" if nearest else ""
        return ItemNotFoundError(f"no item {one_line(key, 80)!r} in this memory{offer}")

    def register_answer(self, answer: str, label: str, *, shows_content: bool = True) -> None:
        """Remember that a text is what a memory tool answered here, so that it collapses to `label` later."""
        self.memory_store.tool_answers.add(self._answer_owners[0], answer, ToolAnswer(label, shows_content))

    def find_answer(self, text: str) -> ToolAnswer | None:
        """Return the tool answer with exactly this text, if what it showed can be read here; else None."""
        answers = (self.memory_store.tool_answers.find(owner, text) for owner in self._answer_owners)
        return next((answer for answer in answers if answer is not None), None)

    @property
    def _answer_owners(self) -> tuple[str, ...]:
        """Whose look-ups can be opened here, beginning with the own: a reference to something private tells others
        nothing, and what an agent saw must not collapse to what it cannot open."""
        own = "\0".join((self.user_id, self.agent_id, self.session_id))
        return {"shared": (self.user_id,), "read_only": (own, self.user_id), "isolated": (own,)}[self.sharing]

    @property
    def scope(self) -> ReadScope:
        """Who reads here, and how far."""
        keys = None if self._restored is None else tuple(self._restored)
        return ReadScope(self.agent_id, self.session_id, self._reach, keys)
