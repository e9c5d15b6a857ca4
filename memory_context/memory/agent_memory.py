"""`AgentMemory`: items of one scope. Keys derive from content and place (`memory_key_for`): storing is idempotent."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import cached_property
from typing import Any, get_args

from ..credentials import masked
from ..errors import ConflictError, ItemNotFoundError
from ..identifiers import checked_identifier
from ..notes import LongTermNotes
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
from ..vault import secrets_of
from .audit import AuditEvent, AuditTrail
from .conversation import ConversationReader
from .items import (
    MAX_CONTENT_BYTES,
    SUFFIX_LENGTHS,
    MemoryItem,
    MemorySnapshot,
    MemoryType,
    NewItem,
    Sharing,
    as_json,
    check_item,
    is_too_large,
    placed,
    refusal,
)
from .secret_traces import MemoryWithSecrets
from .statements import UserStatements

__all__ = ["AgentMemory"]

_SECRETS_SECONDS = 1.0
"""A search waits so long for the values that its query must not name."""


class AgentMemory(ConversationReader, UserStatements, MemoryWithSecrets):
    """Items that one agent stores and reads.

    Methods raise `StoreUnavailableError` if the database is unreachable.

    Args:
        reach: Reads cover the user's items, this agent's, or this session's.
        sharing: With other agents: `shared` both ways; `read_only` only reads theirs; `isolated` neither.
        mask_credentials: Mask credentials in descriptions; contents stay unchanged.
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
        self._restored: dict[str, None] | None = None  # snapshot keys, plus keys stored since
        self._counter = token_counter or default_token_counter()
        self._masks_credentials = mask_credentials
        self._secrets = secrets_of(memory_store, user_id)

    @cached_property
    def notes(self) -> LongTermNotes:
        """The long-term notes of this agent about the user, the same in all sessions; other agents have their own."""
        return LongTermNotes(self.memory_store, self.user_id, self.agent_id)

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
        """Store a content durably and return its reference.

        Args:
            content: A str, kept byte for byte, or any JSON value.
            description: Derived from the source if None.
            source: Tool or origin; the key begins with it (with the type if None).
            related_to: Keys; links work both ways.
            origin: Author; preferences and facts count as the user's only from the application.

        Raises:
            SecretError: The type is `user_secret`.
            ValueError: An argument is invalid, or the content exceeds 256 MB.
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
        """Store several items in one transaction; return their references in order. Values of secrets become names.

        Raises:
            StoreError: Nothing was stored.
        """
        items = await self._without_secrets(items)
        if self._masks_credentials:
            items = [replace(item, description=masked(item.description)) for item in items]
        size = sum(len(item.content) for item in items) / 5  # hashing costs about a fifth of reading
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

    async def _without_secrets(self, items: Sequence[NewItem]) -> Sequence[NewItem]:
        await self._secrets.hidden(None)
        hidden = self._secrets.filter
        if not hidden.has_values:
            return items

        def hide_all() -> list[NewItem]:
            return [
                replace(
                    item,
                    content=hidden.hide(item.content),
                    description=hidden.hide(item.description),
                    source=hidden.hide(item.source),
                    tags=hidden.hide_in(item.tags),
                    metadata=hidden.hide_in(dict(item.metadata)),
                )
                for item in items
            ]

        return await in_thread_if_large(sum(len(item.content) for item in items), hide_all)

    async def retrieve(
        self,
        key: str,
        transform: MemoryTransform = FULL,
        *,
        answer_limit_tokens: int | None = None,
        reader: str | None = "retrieve",
    ) -> MemoryItem | None:
        """Return an item with its content transformed; None if this scope has no such item.

        Args:
            answer_limit_tokens: Limit of the returned content, which then ends with the call that continues.
            reader: Caller in the audit trail; None records nothing.

        Raises:
            TransformError: The pattern or range is invalid.
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
        """Return contents by key; keys outside this scope are left out."""
        contents = await self.memory_store.fetch_contents(self.user_id, list(keys), scope=self.scope)
        self.trail.note_read("retrieved", contents, reader, FULL)
        return contents

    async def query(self, criteria: MemoryCriteria | None = None, *, reader: str | None = "query") -> list[MemoryItem]:
        """Return items without content, newest first by default (no criteria: the 50 newest)."""
        criteria = criteria or MemoryCriteria()
        items = await self.memory_store.select_memories(self.user_id, criteria, scope=self.scope)
        self.trail.note_read("listed", [item.key for item in items], reader, criteria)
        return items

    async def search(
        self, query: str, limit: int = 5, criteria: MemoryCriteria | None = None, *, reader: str | None = "search"
    ) -> list[SearchHit]:
        """Return the best matches for a query, each with its best passage, best first.

        BM25 and embedding ranks are fused; near-duplicates appear once. Items not indexed yet match by key,
        description, source, tags and first lines.

        Args:
            criteria: Filters items; its limit and order are ignored.

        Raises:
            ValueError: The limit is less than 1.
        """
        if limit < 1:
            raise ValueError(f"limit={limit!r} must be at least 1")
        await self._secrets.ready(_SECRETS_SECONDS)
        query = self._secrets.filter.hide(query)
        found = search_items(self.memory_store, self.user_id, query, limit, criteria or MemoryCriteria(), self.scope)
        hits = await within(self.memory_store.limits.call_seconds, found)
        self.trail.note_read("searched", [hit.item.key for hit in hits], reader, repr(query))
        return hits

    async def share(self, key: str, agent_id: str) -> None:
        """Let another agent of the user read one own item, whatever `sharing` says.

        Raises:
            ItemNotFoundError: This agent and session did not store it.
        """
        checked_identifier("agent_id", agent_id)
        is_own = KEY_PATTERN.fullmatch(key) and await self.memory_store.share_memory(
            self.user_id, key, agent_id=self.agent_id, session_id=self.session_id, with_agent=agent_id
        )
        if not is_own:
            raise await self.not_found(key)

    async def forget(self, key: str) -> bool:
        """Erase one item of the own agent and session, or a statement of the user; return whether it existed.

        A tombstone stays. An isolated agent forgets its own items only.
        """
        return bool(KEY_PATTERN.fullmatch(key)) and bool(await self._forget(key))

    async def clear(self, progress: ProgressCallback | None = None) -> int:
        """Erase all items of the own agent and session; return their number."""
        return len(await self._forget(None, progress))

    async def _forget(self, key: str | None, progress: ProgressCallback | None = None) -> list[str]:
        own = {"agent_id": self.agent_id, "session_id": self.session_id}
        statements = key is not None and self.sharing != "isolated"
        return await self.memory_store.forget_memories(
            self.user_id, **own, memory_key=key, with_statements=statements, progress=progress
        )

    async def audit(
        self,
        session_id: str | None = None,
        *,
        limit: int = 100,
        after: AuditEvent | None = None,
        newest_first: bool = False,
    ) -> list[AuditEvent]:
        """Return audit events of a session (None: the own one), oldest first by default.

        Args:
            after: The last event of the previous page.

        Raises:
            ValueError: The limit is less than 1.
        """
        return await self.trail.events(
            session_id, scope=self.scope, limit=limit, after=after, newest_first=newest_first
        )

    async def snapshot(self) -> MemorySnapshot:
        """Return the keys of all items readable now."""
        keys = await self.memory_store.select_keys(self.user_id, scope=self.scope, limit=None)
        return MemorySnapshot(
            user_id=self.user_id,
            agent_id=self.agent_id,
            session_id=self.session_id,
            taken_at=datetime.now(timezone.utc),
            keys=tuple(keys),
        )

    async def restore(self, snapshot: MemorySnapshot) -> None:
        """Restrict reads to a snapshot and to items that this object stores afterwards.

        A snapshot also grants items outside this scope, because its taker could read them; forgotten items stay
        forgotten.

        Raises:
            ValueError: The snapshot belongs to another user.
        """
        if snapshot.user_id != self.user_id:
            raise ValueError(f"this snapshot belongs to user {snapshot.user_id!r}, not to {self.user_id!r}")
        self._restored = dict.fromkeys(snapshot.keys)

    async def not_found(self, key: str) -> ItemNotFoundError:
        """Return the error that explains why a key is unreadable."""
        found = await self.memory_store.fetch_whereabouts(self.user_id, key[:64])
        if found is not None and not found.is_active:
            return ItemNotFoundError(f"{key!r} was forgotten on {found.updated_at:%Y-%m-%d}")
        if found is not None:
            return ItemNotFoundError(refusal(key, found, self.scope, self.sharing))
        nearest = await self.memory_store.select_keys(self.user_id, like=key[:64], limit=3, scope=self.scope)
        offer = f"; did you mean {' or '.join(repr(k) for k in nearest)}?" if nearest else ""
        return ItemNotFoundError(f"no item {one_line(self._secrets.filter.hide(key), 80)!r} in this memory{offer}")

    def register_answer(self, answer: str, label: str, *, shows_content: bool = True) -> None:
        """Record a tool answer, so that the same text later collapses to `label`."""
        self.memory_store.tool_answers.add(self._answer_owners[0], answer, ToolAnswer(label, shows_content))

    def find_answer(self, text: str) -> ToolAnswer | None:
        """Return the tool answer with this text, if readable here."""
        answers = (self.memory_store.tool_answers.find(owner, text) for owner in self._answer_owners)
        return next((answer for answer in answers if answer is not None), None)

    @property
    def _answer_owners(self) -> tuple[str, ...]:
        """Owners of look-ups readable here, own first; others' private references must not leak."""
        own = "\0".join((self.user_id, self.agent_id, self.session_id))
        return {"shared": (self.user_id,), "read_only": (own, self.user_id), "isolated": (own,)}[self.sharing]

    @property
    def scope(self) -> ReadScope:
        keys = None if self._restored is None else tuple(self._restored)
        return ReadScope(self.agent_id, self.session_id, self._reach, keys)
