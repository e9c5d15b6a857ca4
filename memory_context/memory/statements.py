"""User memory: what the user said, confirmed or entered, and what the application stores about the user. Items of the
same types by other authors, such as a model or a page, stay unconfirmed.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, Literal, get_args

from memory_context.foundation.credentials.assignments import states_a_credential
from memory_context.foundation.credentials.masks import credentials_in
from memory_context.foundation.errors import SecretError
from memory_context.foundation.references import MemoryRef, memory_key_for
from memory_context.foundation.telemetry import MemoryOperation
from memory_context.foundation.text.statements import (
    canonical_words,
    ends_another,
    has_relative_time,
    indices_of_ended,
    replaces_others,
    subject_of,
)
from memory_context.foundation.tokens import TokenCounter, count_off_loop
from memory_context.store.items import NewItem, Origin, ReadScope
from memory_context.store.memory_store import MemoryStore

from .vault.secrets import secrets_of

__all__ = [
    "STATEMENT_LIMIT_CHARACTERS",
    "StatementType",
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
    subject = subject_of(statement)
    if not subject and is_repeatable:  # said again, it means another day and replaces itself
        subject = " ".join(("said", *canonical_words(statement)))[:_SUBJECT_CHARACTERS]
    given = {**(metadata or {}), **({"subject": subject} if subject else {})}
    key = memory_key_for(type, (said_at,), statement, _KEY_SUFFIX)
    item = NewItem(statement, statement[:160], tokens, type, origin, metadata=given, origin=origin, key=key)
    ended = [*supersedes, *await ended_by(memory_store, user_id, statement)]
    is_replacing = replaces_others(statement)
    with MemoryOperation("upsert_memory", memory_store.describe()) as operation:
        key, is_new = await memory_store.statements.insert_statement(
            user_id, item, valid_from, ended, replaces_subject=is_replacing, is_repeatable=is_repeatable
        )
        operation.tell(1, key, lambda: [{"id": key, "content": statement}])
    return MemoryRef(key, statement[:160], tokens), is_new


async def ended_by(memory_store: MemoryStore, user_id: str, statement: str) -> list[str]:
    """Return the keys of the statements that "I no longer …" ends; others end by their subject, without a read."""
    if not ends_another(statement):
        return []
    known = await memory_store.statements.select_statements(user_id, scope=ReadScope(), limit=_KNOWN_LIMIT)
    return [known[index].key for index in indices_of_ended(statement, [one.content for one in known])]
