"""User memory: what the user said, confirmed or entered, and what the application stores about the user. Items of the
same types by other authors, such as a model or a page, stay unconfirmed.
"""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timezone
from typing import Any, Literal, get_args

from memory_context.foundation.credentials.assignments import states_a_credential
from memory_context.foundation.credentials.masks import credentials_in
from memory_context.foundation.errors import ItemNotFoundError, SecretError
from memory_context.foundation.references import KEY_PATTERN, MemoryRef, memory_key_for
from memory_context.foundation.text.statements import canonical_words, has_relative_time
from memory_context.foundation.text.subjects import ends_another, indices_of_ended, replaces_others, subject_of
from memory_context.foundation.tokens import TokenCounter, count_off_loop
from memory_context.store.items import MemoryItem, NewItem, Origin, ReadScope
from memory_context.store.memory_store import MemoryStore

from .scope import MemoryScope
from .vault.secrets import secrets_of

__all__ = [
    "STATEMENT_LIMIT_CHARACTERS",
    "StatementType",
    "UserStatements",
    "checked_statement",
    "ended_by",
    "insert_statement",
]

STATEMENT_LIMIT_CHARACTERS = 300
"""Longest statement; longer texts are items of other types."""

StatementType = Literal["user_preference", "user_fact"]

_KNOWN_LIMIT = 1000  # statements among which "no longer" looks for what it ends
_SUBJECT_CHARACTERS = 120
_KEY_SUFFIX = 10  # 50 bits: a statement never gets a second key


def checked_statement(text: str) -> str:
    """Return a statement as one line; `ValueError` for its length, `SecretError` if it holds a credential."""
    line = " ".join(text.split())
    if not line:
        raise ValueError("the statement is empty: say in one line what is to be remembered")
    if len(line) > STATEMENT_LIMIT_CHARACTERS:
        raise ValueError(
            f"the statement has {len(line):,} characters, at most {STATEMENT_LIMIT_CHARACTERS} are allowed: "
            "shorten it, or store the text with store(content, type='custom')"
        )
    if credentials_in(line) or states_a_credential(line):
        raise SecretError(
            "the statement holds a credential: user memory is shown to models; keep it out of the statement"
        )
    return line


async def insert_statement(
    memory_store: MemoryStore,
    user_id: str,
    statement: str,
    *,
    type: StatementType,
    origin: Origin,
    valid_from: datetime,
    counter: TokenCounter,
    metadata: Mapping[str, Any] | None = None,
    supersedes: Sequence[str] = (),
) -> tuple[MemoryRef, bool]:
    """Store a checked statement of a user and end those it replaces; return its reference, and whether it is new.

    Args:
        supersedes: Keys of statements that it ends beside those that the rules tell.
    """
    if type not in get_args(StatementType):
        raise ValueError(f"type={type!r}: use one of {', '.join(get_args(StatementType))}")
    statement, metadata = await secrets_of(memory_store, user_id).hidden([statement, metadata])
    (tokens,) = await count_off_loop(counter, [statement])
    said_at = f"{origin} {valid_from.astimezone(timezone.utc).isoformat()}"  # the same may be said again later
    is_repeatable = has_relative_time(statement)
    subject = subject_of(statement) or (_said_again(statement) if is_repeatable else None)
    given = {**(metadata or {}), **({"subject": subject} if subject else {})}
    key = memory_key_for(type, (said_at,), statement, _KEY_SUFFIX)
    item = NewItem(statement, statement[:160], tokens, type, origin, metadata=given, origin=origin, key=key)
    ended = [*supersedes, *await ended_by(memory_store, user_id, statement)]
    is_replacing = replaces_others(statement)
    key, is_new = await memory_store.statements.insert_statement(
        user_id, item, valid_from, ended, replaces_subject=is_replacing, is_repeatable=is_repeatable
    )
    return MemoryRef(key, statement[:160], tokens), is_new


def _said_again(statement: str) -> str:
    """Return the subject of a statement with a relative time: said again, it means another day and replaces itself."""
    return " ".join(("said", *canonical_words(statement)))[:_SUBJECT_CHARACTERS]


async def ended_by(memory_store: MemoryStore, user_id: str, statement: str) -> list[str]:
    """Return the keys of the statements that "I no longer …" ends; others end by their subject, without a read."""
    if not ends_another(statement):
        return []
    known = await memory_store.statements.select_statements(user_id, scope=ReadScope(), limit=_KNOWN_LIMIT)
    return [known[index].key for index in indices_of_ended(statement, [one.content for one in known])]


class UserStatements(MemoryScope):
    """The methods of `AgentMemory` for user memory, which all agents share but isolated ones."""

    async def user_memory(
        self, as_of: datetime | date | None = None, *, with_superseded: bool = False, limit: int = 200
    ) -> list[MemoryItem]:
        """Return the user's preferences and facts, newest first.

        Args:
            as_of: Those that held at this time, with a timezone, or at the end of this day, in UTC; None for now.
            with_superseded: Also those that a newer one replaced.
        """
        if as_of is not None and not isinstance(as_of, datetime):
            as_of = datetime.combine(as_of, time.max, timezone.utc)
        if as_of is not None and as_of.tzinfo is None:
            raise ValueError(f"as_of={as_of!r} has no timezone: use datetime(…, tzinfo=timezone.utc)")
        if limit < 1:
            raise ValueError(f"limit={limit!r} must be at least 1")
        if self.sharing == "isolated":
            return []
        return await self.memory_store.statements.select_statements(
            self.user_id, scope=self._statement_scope, as_of=as_of, with_superseded=with_superseded, limit=limit
        )

    async def unconfirmed(self, limit: int = 200) -> list[MemoryItem]:
        """Return preferences and facts that a model, a tool or a file stored, newest first, to be confirmed.

        Show a person the text, since its description is the author's.
        """
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
        if not await self.memory_store.statements.update_statement_confirmed(
            self.user_id,
            key,
            source=source,
            valid_from=since,
            metadata=metadata,
            supersedes=await ended_by(self.memory_store, self.user_id, text),
            replaces_subject=replaces_others(text),
        ):
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
