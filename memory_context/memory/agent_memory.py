"""`AgentMemory`: items of one scope. Keys derive from content and place (`memory_key_for`): storing is idempotent."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timezone
from functools import cached_property
from typing import Any, cast, get_args
from weakref import WeakKeyDictionary

from memory_context.foundation.credentials.masks import masked, masked_in_place, without_padding
from memory_context.foundation.errors import ConflictError, ItemNotFoundError
from memory_context.foundation.handlers import ContextEvent
from memory_context.foundation.identifiers import Sharing, checked_identifier, checked_limit
from memory_context.foundation.references import KEY_PATTERN, MemoryRef, ToolAnswer, one_line
from memory_context.foundation.runtime.background import in_thread_if_large
from memory_context.foundation.telemetry import MemoryOperation, OperationName
from memory_context.foundation.text.statements import replaces_others, subject_of
from memory_context.foundation.tokens import TokenCounter, count_off_loop, default_token_counter
from memory_context.foundation.utf8 import to_utf8
from memory_context.store.forget import ProgressCallback
from memory_context.store.items import CallerOrigin, MemoryCriteria, Origin, Reach, ReadScope, checked_caller_origin
from memory_context.store.limits import within
from memory_context.store.memory_store import MemoryStore
from memory_context.store.search.hits import SearchHit, search_items
from memory_context.store.statements import PastUse

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
from .scope import AuditEvent, AuditTrail, MemorySnapshot, refusal
from .statements import StatementType, checked_statement, ended_by, insert_statement
from .transforms.transform import FULL, MemoryTransform, cut
from .vault.secrets import Secrets, secrets_of

__all__ = ["AgentMemory"]

_SECRETS_SECONDS = 1.0
"""A search waits so long for the values that its query must not name."""


class AgentMemory:
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
        self.user_id = checked_identifier("user_id", user_id)
        self.agent_id = agent_id or ""
        self.session_id = session_id or ""
        self.sharing: Sharing = sharing
        place = (memory_store, user_id, self.agent_id, self.session_id)
        self.trail = AuditTrail(*place, is_private=sharing != "shared", masks_credentials=mask_credentials)
        self._reach: Reach = "session" if sharing == "isolated" else reach
        self._restored: dict[str, None] | None = None  # snapshot keys, plus keys stored since
        self._counter = token_counter or default_token_counter()
        self._masks_credentials = mask_credentials
        self._secrets = secrets_of(memory_store, user_id)
        self.opened_images: WeakKeyDictionary[object, MemoryRef] = WeakKeyDictionary()

    @property
    def scope(self) -> ReadScope:
        keys = None if self._restored is None else tuple(self._restored)
        return ReadScope(self.agent_id, self.session_id, self._reach, keys)

    @property
    def secrets(self) -> Secrets:
        """The user's secrets: `await agent_memory.secrets.set("API_TOKEN", value)`; values are never read back."""
        return self._secrets

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
            ValueError: An argument is invalid, or the content exceeds 32 MB.
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
        (ref,) = await self.store_all([item], reason="asked")
        self.trail.tell(ContextEvent("stored", (ref.key,), tokens=token_count, reason="asked"))
        return ref

    async def store_all(self, items: Sequence[NewItem], *, reason: str = "offload") -> list[MemoryRef]:
        """Store several items, all or none; return their references in order. Values of secrets become names."""
        with self.operation("create_memory") as operation:
            items = await self._without_secrets(items)
            refs = await self._insert_all(items)
            key = refs[0].key if len(refs) == 1 else ""
            told = zip([ref.key for ref in refs], [item.content for item in items], strict=True)
            tokens = sum(item.token_count for item in items)
            ours = {"memory_context.tokens": tokens, "memory_context.reason": reason}
            operation.tell(len(refs), key, lambda: [self._told(*one) for one in told], ours)
            return refs

    async def _insert_all(self, items: Sequence[NewItem]) -> list[MemoryRef]:
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
        if not self._secrets.hides:
            return items
        hidden = self._secrets.filter

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
        with self.operation("search_memory") as operation:
            item = await self.memory_store.items.fetch_memory(self.user_id, key, scope=self.scope)
            operation.tell(int(item is not None and item.is_active), key)
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
        with self.operation("search_memory") as operation:
            items = await self.memory_store.items.select_memories(self.user_id, criteria, scope=self.scope)
            operation.tell(len(items))
        self.trail.note_read("listed", [item.key for item in items], reader, criteria)
        return items

    async def past_use(self) -> PastUse:
        """Return what earlier sessions of the user and this agent tell of this one."""
        return await self.memory_store.statements.select_past_use(self.user_id, self.scope)

    async def search(
        self, query: str, limit: int = 5, criteria: MemoryCriteria | None = None, *, reader: str | None = "search"
    ) -> list[SearchHit]:
        """Return the best matches for a query, each with its best passage, best first; near-duplicates once.

        Left out are said greetings and acknowledgements, questions that repeat the query, and messages that repeat a
        found item. Passages have masks in place of credentials; `retrieve` gives the stored text.
        The limit and order of `criteria` are ignored. `ValueError` if `limit` is less than 1.
        """
        checked_limit(limit)
        await self._secrets.ready(_SECRETS_SECONDS)
        query = self._secrets.filter.hide(query)
        search = self.memory_store.search
        with self.operation("search_memory", query) as operation:
            found = search_items(search, self.user_id, query, limit, criteria or MemoryCriteria(), self.scope)
            hits = await within(self.memory_store.limits.call_seconds, found)
            size = sum(len(hit.passage) for hit in hits)
            hits = await in_thread_if_large(size, self._visible_hits, hits)
            operation.tell(len(hits), contents=lambda: [self._told(hit.item.key, hit.item.content) for hit in hits])
        self.trail.note_read("searched", [hit.item.key for hit in hits], reader, repr(query))
        return hits

    def _visible_hits(self, hits: Sequence[SearchHit]) -> list[SearchHit]:
        texts = [text for hit in hits for text in (hit.item.ref.description, hit.passage)]
        together = "\n".join(texts)
        if self.visible(together) == together:  # one look instead of forty
            return list(hits)
        shown: list[SearchHit] = []
        for hit in hits:
            ref = replace(hit.item.ref, description=self.visible(hit.item.ref.description))
            shown.append(replace(hit, item=replace(hit.item, ref=ref, content=self.visible(hit.passage))))
        return shown

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
        checked_limit(limit)
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
        with self.operation("delete_memory") as operation:
            gone = await self.memory_store.items.forget_memories(
                self.user_id, **own, memory_key=key, with_statements=statements, progress=progress
            )
            operation.tell(len(gone), key or "")
        return gone

    async def audit(
        self,
        session_id: str | None = None,
        *,
        limit: int = 100,
        after: AuditEvent | None = None,
        newest_first: bool = False,
    ) -> list[AuditEvent]:
        """Return audit events of a session (None: the own one) behind `after`, the last of the previous page."""
        checked_limit(limit)
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

    # --- what is known of the user

    async def user_memory(
        self, as_of: datetime | date | None = None, *, with_superseded: bool = False, limit: int = 200
    ) -> list[MemoryItem]:
        """Return the user's preferences and facts, newest first.

        Args:
            as_of: Those that held at this time, with a timezone, or at the end of this day, in UTC; None for now.
            with_superseded: Also those that a newer one replaced.
        """
        if as_of is not None and not isinstance(as_of, datetime):
            if not isinstance(cast(object, as_of), date):
                raise ValueError(f"as_of={as_of!r} is no day: use date(2026, 3, 14), or a datetime with a timezone")
            as_of = datetime.combine(as_of, time.max, timezone.utc)
        if as_of is not None and as_of.tzinfo is None:
            raise ValueError(f"as_of={as_of!r} has no timezone: use datetime(…, tzinfo=timezone.utc)")
        checked_limit(limit)
        if self.sharing == "isolated":
            return []
        return await self.memory_store.statements.select_statements(
            self.user_id, scope=self._statement_scope, as_of=as_of, with_superseded=with_superseded, limit=limit
        )

    async def unconfirmed(self, limit: int = 200) -> list[MemoryItem]:
        """Return preferences and facts that a model, a tool or a file stored, newest first, to be confirmed.

        Show a person the text, since its description is the author's.
        """
        checked_limit(limit)
        if self.sharing == "isolated":
            return []
        return await self.memory_store.statements.select_claims(self.user_id, scope=self._statement_scope, limit=limit)

    async def remember(self, statement: str, *, type: StatementType = "user_fact") -> MemoryRef:
        """Store a statement for the application; it replaces an older one about the same subject.

        Raises:
            ValueError: It is empty or longer than 300 characters, or this memory is isolated.
            SecretError: It holds a credential.
        """
        self._refuse_isolated()
        now = datetime.now(timezone.utc)
        return await self._insert(checked_statement(statement), type, "application", now)

    async def confirm(self, key: str, *, by: str | None = None) -> MemoryRef:
        """Make an unconfirmed preference or fact the user's, for the authenticated user; never for a model.

        Args:
            by: Who confirmed, for the record; None for the user.

        Raises:
            ItemNotFoundError: No such item of a user type holds in this scope.
            ValueError: It is too long.
            SecretError: It holds a credential.
        """
        item = await self._statement(key)
        text = checked_statement(item.content)
        now, said = self._confirmed(by)
        since = item.valid_from or item.created_at if not item.caveat else now
        subject = subject_of(text)
        metadata = {**said, **({"subject": subject} if subject else {})}
        source = f"user_edit {now.isoformat()}"
        with self.operation("update_memory") as operation:
            operation.tell(1, key, lambda: [self._told(key, text)])
            is_confirmed = await self.memory_store.statements.update_statement_confirmed(
                self.user_id,
                key,
                source=source,
                valid_from=since,
                metadata=metadata,
                supersedes=await ended_by(self.memory_store, self.user_id, text),
                replaces_subject=replaces_others(text),
            )
        if not is_confirmed:
            raise ItemNotFoundError(f"{key!r} was changed or forgotten meanwhile: list the memory again")
        return item.ref

    async def edit(self, key: str, statement: str, *, by: str | None = None) -> MemoryRef:
        """Replace a preference or fact, for the authenticated user; see `confirm`. The older one stays, linked."""
        item = await self._statement(key)
        now, said = self._confirmed(by)
        text = checked_statement(statement)
        if text == item.content:
            return await self.confirm(key, by=by)
        type_: StatementType = "user_preference" if item.type == "user_preference" else "user_fact"
        return await self._insert(text, type_, "user_edit", now, said, (key,))

    async def add(self, statement: str, *, type: StatementType = "user_fact", by: str | None = None) -> MemoryRef:
        """Store what the authenticated user entered; see `remember`."""
        self._refuse_isolated()
        return await self._insert(checked_statement(statement), type, "user_edit", *self._confirmed(by))

    def _confirmed(self, by: str | None) -> tuple[datetime, dict[str, Any]]:
        """Return the time, and the record of who confirmed."""
        now = datetime.now(timezone.utc)
        return now, {"confirmed_by": by or self.user_id, "confirmed_at": now.isoformat()}

    async def _insert(
        self,
        statement: str,
        type: StatementType,
        origin: Origin,
        at: datetime,
        metadata: Mapping[str, Any] | None = None,
        supersedes: Sequence[str] = (),
    ) -> MemoryRef:
        ref, _ = await insert_statement(
            self.memory_store,
            self.user_id,
            statement,
            type=type,
            origin=origin,
            valid_from=at,
            counter=self._counter,
            metadata=metadata,
            supersedes=supersedes,
        )
        return ref

    async def _statement(self, key: str) -> MemoryItem:
        """Return an item of a user type that holds; raises `ItemNotFoundError`."""
        self._refuse_isolated()
        item = None
        if KEY_PATTERN.fullmatch(key):
            item = await self.memory_store.items.fetch_memory(self.user_id, key, scope=self._statement_scope)
        if item is None or not item.is_active:
            raise await self.not_found(key)
        if item.type not in get_args(StatementType):
            raise ItemNotFoundError(
                f"{key!r} is of type {item.type}: only preferences and facts are confirmed or edited"
            )
        if item.superseded_by:
            raise ItemNotFoundError(f"{key!r} was replaced by {item.superseded_by!r}: confirm or edit that one")
        return item

    @property
    def _statement_scope(self) -> ReadScope:
        """Statements are no agent's and no session's, so a narrow reach does not exclude them."""
        scope = self.scope
        return ReadScope(scope.agent_id, scope.session_id, "user", scope.keys)

    def _refuse_isolated(self) -> None:
        if self.sharing == "isolated":
            raise ValueError("this agent's memory is isolated: it neither reads nor changes what is known of the user")

    # --- what may be read and shown

    async def not_found(self, key: str) -> ItemNotFoundError:
        """Return the error that explains why a key is unreadable."""
        found = await self.memory_store.items.fetch_whereabouts(self.user_id, key[:64])
        if found is not None and not found.is_active:
            return ItemNotFoundError(f"{key!r} was forgotten on {found.updated_at:%Y-%m-%d}")
        if found is not None:
            return ItemNotFoundError(refusal(key, found, self.scope, self.sharing))
        nearest = await self.memory_store.items.select_keys(self.user_id, like=key[:64], limit=3, scope=self.scope)
        offer = f"; did you mean {' or '.join(repr(k) for k in nearest)}?" if nearest else ""
        return ItemNotFoundError(f"no item {one_line(self._secrets.filter.hide(key), 80)!r} in this memory{offer}")

    def operation(self, name: OperationName, query: str = "") -> MemoryOperation:
        """Return a context that traces and times an operation on this memory."""
        return MemoryOperation(name, self.memory_store.describe(), self.session_id, query)

    def _told(self, key: str, content: str) -> dict[str, str]:
        return {"id": key, "content": self.visible(content)}

    def visible(self, text: str, *, shows_credentials: bool = False) -> str:
        """Return a text as models see it when it opens: without values of the vault, and without credentials."""
        text = self._secrets.filter.hide(text)
        return masked(text) if self._masks_credentials and not shows_credentials else text

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
