"""Validation and keys of items. Values that a row would not return unchanged are refused."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

from memory_context.foundation.patterns import regex
from memory_context.foundation.references import IMAGE_TYPE, KEY_PATTERN, memory_key_for, one_line
from memory_context.foundation.utf8 import to_utf8
from memory_context.store.items import (
    CONVERSATION_TYPE,
    RESERVED_METADATA,
    USER_TYPES,
    MemoryItem,
    NewItem,
    refuse_secret,
)

__all__ = [
    "KNOWN_TYPES",
    "MAX_CONTENT_BYTES",
    "SUFFIX_LENGTHS",
    "MemoryItem",
    "MemoryType",
    "NewItem",
    "as_json",
    "check_item",
    "is_too_large",
    "placed",
]


MAX_CONTENT_BYTES = 2**25
"""Limit of UTF-8 content to store; contents of up to 256 MB that earlier versions stored are still read."""

KNOWN_TYPES = (
    "action_result",
    "web_content",
    "database_result",
    "command_output",
    IMAGE_TYPE,
    "user_preference",
    "user_fact",
    "session_summary",
    "article",
    "custom",
)
"""Types with a meaning here; applications may use others."""
TYPE_LIMIT_CHARACTERS = 64
MemoryType = str
"""One of `KNOWN_TYPES`, or an application's own, kept until forgotten; up to 64 bytes."""


SUFFIX_LENGTHS = (6, 10, 20)
"""Lengths of key suffixes, tried in order on collision."""

_TYPE = regex(r"\w[\w.-]*")


def is_too_large(text: str) -> bool:
    """Return whether a content exceeds `MAX_CONTENT_BYTES`."""
    return len(text) * 4 > MAX_CONTENT_BYTES and len(to_utf8(text)) > MAX_CONTENT_BYTES


def as_json(name: str, value: Any) -> str:
    """Return a value as JSON text; `ValueError` if it has none."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"cannot store {name} of type {type(value).__name__}: JSON cannot say it ({error})") from error


def check_item(memory_type: Any, source: Any, tags: Any, related_to: Any, metadata: Any) -> None:
    """Raise `SecretError` for a secret, `ValueError` for other invalid values."""
    refuse_secret(memory_type)
    if memory_type == CONVERSATION_TYPE:
        raise ValueError(f"type={memory_type!r} is for archived messages, which the archive itself stores: use another")
    is_word = isinstance(memory_type, str) and _TYPE.fullmatch(memory_type)
    if not is_word or len(to_utf8(memory_type)) > TYPE_LIMIT_CHARACTERS:  # the column counts bytes
        raise ValueError(
            f"type={memory_type!r}: use one of {', '.join(KNOWN_TYPES)}, or a word of your own of up to "
            f"{TYPE_LIMIT_CHARACTERS} letters, digits, _, - and ."
        )
    if source is not None and not isinstance(source, str):
        raise ValueError(f"source={source!r}: use a str, such as the name of a tool")
    if isinstance(tags, str) or not all(isinstance(tag, str) for tag in tags):
        raise ValueError(f"tags={tags!r}: use a sequence of str")
    if isinstance(related_to, str) or not all(
        isinstance(key, str) and KEY_PATTERN.fullmatch(key) for key in related_to
    ):
        raise ValueError(f"related_to={related_to!r}: use a sequence of memory keys")
    if memory_type in USER_TYPES and (reserved := RESERVED_METADATA.intersection(metadata or ())):
        raise ValueError(
            f"metadata {', '.join(sorted(reserved))!r} of a {memory_type} tells what the user said or confirmed, "
            "which no caller can set: use other names"
        )
    if metadata is not None and json.loads(as_json("metadata", dict(metadata))) != dict(metadata):
        raise ValueError(f"metadata={metadata!r}: use what JSON gives back as it was, so str keys and no tuples")


def placed(
    items: Sequence[NewItem], agent_id: str, session_id: str, is_private: bool, suffix_length: int | None
) -> list[NewItem]:
    """Return items with scope and keys; a suffix length of None makes random keys."""
    salt = () if suffix_length else (uuid4().hex,)
    return [
        replace(
            item,
            key=memory_key_for(
                item.source,
                (agent_id, session_id, item.type, *salt),
                item.content if item.data is None else hashlib.sha256(item.data).hexdigest(),
                suffix_length or SUFFIX_LENGTHS[-1],
            ),
            description=one_line(item.description),
            source=one_line(item.source, 100),
            agent_id=agent_id,
            session_id=session_id,
            is_private=is_private,
        )
        for item in items
    ]
