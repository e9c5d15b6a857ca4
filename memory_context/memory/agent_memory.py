"""`AgentMemory`: items of one scope. Keys derive from content and place (`memory_key_for`): storing is idempotent."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import cached_property
from typing import Any

from memory_context.foundation.credentials.masks import masked, masked_in_place, without_padding
from memory_context.foundation.errors import ConflictError
from memory_context.foundation.identifiers import checked_identifier
from memory_context.foundation.references import KEY_PATTERN, MemoryRef
from memory_context.foundation.runtime.background import in_thread_if_large
from memory_context.foundation.text.novelty import adds_nothing, is_question, says_nothing
from memory_context.foundation.tokens import count_off_loop
from memory_context.foundation.utf8 import to_utf8
from memory_context.store.criteria import MemoryCriteria
from memory_context.store.forget import ProgressCallback
from memory_context.store.items import CallerOrigin, checked_caller_origin
from memory_context.store.limits import within
from memory_context.store.search.hits import SearchHit, search_items

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
from .notes import LongTermNotes
from .scope import AuditEvent, MemorySnapshot
from .secret_traces import MemoryWithSecrets
from .statements import UserStatements
from .transforms.transform import FULL, MemoryTransform, cut

__all__ = ["AgentMemory"]

_SPARE_HITS = 10  # of which some add nothing
_SECRETS_SECONDS = 1.0
"""A search waits so long for the values that its query must not name."""


class AgentMemory(UserStatements, MemoryWithSecrets):
    """Items that one agent stores and reads.

    Methods raise `StoreUnavailableError` if the database is unreachable.

    Args:
        reach: Reads cover the user's items, this agent's, or this session's.
        sharing: With other agents: `shared` both ways; `read_only` only reads theirs; `isolated` neither.
        mask_credentials: Mask credentials in descriptions; contents stay unchanged.
    """

    @cached_property
    def notes(self) -> LongTermNotes:
        """The long-term notes of this agent about the user, the same in all sessions."""
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
            source: The key begins with it, or with the type if None.
            related_to: Keys; links work both ways.
            origin: Preferences and facts count as the user's only from the application.

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
        """Store several items, all or none; return their references in order. Values of secrets become names."""
        items = await self._without_secrets(items)
        if self._masks_credentials:
            items = [replace(item, description=masked(item.description)) for item in items]
        size = sum(len(item.content) for item in items) / 5  # hashing costs about a fifth of reading
        for suffix_length in (*SUFFIX_LENGTHS, None):
            named = await in_thread_if_large(
                size, placed, items, self.agent_id, self.session_id, self.sharing != "shared", suffix_length
            )
            try:
                keys = await self.memory_store.items.insert_memories(self.user_id, named)
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
        for_model: bool = False,
        shows_credentials: bool = False,
        reader: str | None = "retrieve",
    ) -> MemoryItem | None:
        """Return an item with its content transformed; None if this scope has no such item. An image is always whole.

        Args:
            for_model: Mask values of the vault and credentials, before anything is cut or looked for.
            shows_credentials: Then mask values of the vault alone.
            answer_limit_tokens: A content cut there ends with the call that continues.
            reader: Caller in the audit trail; None records nothing.

        Raises:
            TransformError: The pattern or range is invalid.
        """
        if not KEY_PATTERN.fullmatch(key):
            return None
        item = await self.memory_store.items.fetch_memory(self.user_id, key, scope=self.scope)
        if item is None or not item.is_active:
            return None
        if for_model:
            await self._secrets.ready(_SECRETS_SECONDS)
            item = await in_thread_if_large(len(item.content), self._opened, item, shows_credentials)
        is_cut = transform != FULL or answer_limit_tokens is not None
        if is_cut and not item.content_type:  # an image has no passages
            summary = None
            if transform.name == "summary":
                summary = await self.memory_store.items.fetch_model_summary(self.user_id, key, scope=self.scope)
                summary = (
                    self.visible(summary, shows_credentials=shows_credentials) if summary and for_model else summary
                )
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
        if for_model:
            item = replace(item, content=without_padding(item.content))
        self.trail.note_read("retrieved", [key], reader, transform)
        return item

    def _opened(self, item: MemoryItem, shows_credentials: bool) -> MemoryItem:
        """Return an item as a model reads it; masks keep lines and places until it is cut."""
        text = self._secrets.filter.hide(item.content)
        if self._masks_credentials and not shows_credentials:
            text = masked_in_place(text)
        ref = replace(item.ref, description=self.visible(item.ref.description))
        return replace(item, content=text, ref=ref)

    async def retrieve_contents(self, keys: Iterable[str], *, reader: str | None = "retrieve") -> dict[str, str]:
        """Return contents by key; keys outside this scope are left out."""
        contents = await self.memory_store.items.fetch_contents(self.user_id, list(keys), scope=self.scope)
        self.trail.note_read("retrieved", contents, reader, FULL)
        return contents

    async def retrieve_images(self, keys: Iterable[str], *, reader: str | None = "retrieve") -> dict[str, bytes]:
        """Return the bytes of images by key; keys outside this scope are left out."""
        images = await self.memory_store.items.fetch_images(self.user_id, list(keys), scope=self.scope)
        self.trail.note_read("retrieved", images, reader, FULL)
        return images

    async def query(self, criteria: MemoryCriteria | None = None, *, reader: str | None = "query") -> list[MemoryItem]:
        """Return items without content; by default the 50 newest."""
        criteria = criteria or MemoryCriteria()
        items = await self.memory_store.items.select_memories(self.user_id, criteria, scope=self.scope)
        self.trail.note_read("listed", [item.key for item in items], reader, criteria)
        return items

    async def search(
        self, query: str, limit: int = 5, criteria: MemoryCriteria | None = None, *, reader: str | None = "search"
    ) -> list[SearchHit]:
        """Return the best matches for a query, each with its best passages, best first; near-duplicates once.

        Left out are said greetings and acknowledgements, questions that repeat the query, and messages that repeat a
        found item. Passages have masks in place of credentials; `retrieve` gives the stored text.
        The limit and order of `criteria` are ignored. `ValueError` if `limit` is less than 1.
        """
        if limit < 1:
            raise ValueError(f"limit={limit!r} must be at least 1")
        await self._secrets.ready(_SECRETS_SECONDS)
        query = self._secrets.filter.hide(query)
        found = search_items(
            self.memory_store.search, self.user_id, query, limit + _SPARE_HITS, criteria or MemoryCriteria(), self.scope
        )
        hits = await within(self.memory_store.limits.call_seconds, found)
        hits = _telling(hits, query)[:limit]
        hits = await in_thread_if_large(sum(len(hit.passage) for hit in hits), lambda: [*map(self._visible_hit, hits)])
        self.trail.note_read("searched", [hit.item.key for hit in hits], reader, repr(query))
        return hits

    def _visible_hit(self, hit: SearchHit) -> SearchHit:
        passages = tuple(replace(one, text=self.visible(one.text)) for one in hit.passages)
        ref = replace(hit.item.ref, description=self.visible(hit.item.ref.description))
        return replace(hit, item=replace(hit.item, ref=ref, content=passages[0].text), passages=passages)

    async def read_conversation(
        self,
        memory_key: str | None = None,
        *,
        session_id: str | None = None,
        first_message: int = 1,
        before: int = 3,
        limit: int = 20,
        reader: str | None = "read_conversation",
    ) -> list[MemoryItem]:
        """Return archived messages in order, as far as this scope may read them.

        Args:
            memory_key: A message; its session is read from `before` messages ahead of it.
            session_id: Read from `first_message` (from 1) on, without a key; None for the own session.
        """
        if memory_key is not None and not KEY_PATTERN.fullmatch(memory_key):
            return []
        said = await self.memory_store.conversations.messages(
            self.user_id,
            memory_key=memory_key,
            session_id=self.session_id if session_id is None else session_id,
            first=first_message,
            before=before,
            limit=limit,
            scope=self.scope,
        )
        self.trail.note_read("retrieved", [item.key for item in said], reader, FULL)
        return said

    async def share(self, key: str, agent_id: str) -> None:
        """Let another agent read one own item, whatever `sharing` says; `ItemNotFoundError` for another's."""
        checked_identifier("agent_id", agent_id)
        is_own = KEY_PATTERN.fullmatch(key) and await self.memory_store.items.share_memory(
            self.user_id, key, agent_id=self.agent_id, session_id=self.session_id, with_agent=agent_id
        )
        if not is_own:
            raise await self.not_found(key)

    async def forget(self, key: str) -> bool:
        """Erase one own item, or, unless isolated, a statement of the user; a tombstone stays."""
        return bool(KEY_PATTERN.fullmatch(key)) and bool(await self._forget(key))

    async def clear(self, progress: ProgressCallback | None = None) -> int:
        """Erase all items of the own agent and session; return their number."""
        return len(await self._forget(None, progress))

    async def _forget(self, key: str | None, progress: ProgressCallback | None = None) -> list[str]:
        own = {"agent_id": self.agent_id, "session_id": self.session_id}
        statements = key is not None and self.sharing != "isolated"
        return await self.memory_store.items.forget_memories(
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
        """Return audit events of a session (None: the own one) behind `after`, the last of the previous page."""
        if limit < 1:
            raise ValueError(f"limit={limit!r} must be at least 1")
        events = self.memory_store.events
        await events.flush(self.user_id)
        return await events.select(
            self.user_id,
            self.session_id if session_id is None else session_id,
            scope=self.scope,
            limit=limit,
            after=None if after is None else (after.at, after.id),
            newest_first=newest_first,
        )

    async def snapshot(self) -> MemorySnapshot:
        """Return the keys of all items readable now."""
        keys = await self.memory_store.items.select_keys(self.user_id, scope=self.scope, limit=None)
        return MemorySnapshot(
            user_id=self.user_id,
            agent_id=self.agent_id,
            session_id=self.session_id,
            taken_at=datetime.now(timezone.utc),
            keys=tuple(keys),
        )

    async def restore(self, snapshot: MemorySnapshot) -> None:
        """Restrict reads to a snapshot, also of another agent of the user, and to items stored later."""
        if snapshot.user_id != self.user_id:
            raise ValueError(f"this snapshot belongs to user {snapshot.user_id!r}, not to {self.user_id!r}")
        self._restored = dict.fromkeys(snapshot.keys)


def _telling(hits: Sequence[SearchHit], query: str) -> list[SearchHit]:
    """Leave out messages that add nothing to the query and to the items found."""
    items = [hit.passage for hit in hits if not hit.is_conversation]
    return [
        hit
        for hit in hits
        if not hit.is_conversation
        or not (
            says_nothing(hit.passage)
            or (hit.item.origin == "user_words" and is_question(hit.passage) and adds_nothing(hit.passage, [query]))
            or adds_nothing(hit.passage, items)
        )
    ]
