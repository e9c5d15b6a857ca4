"""What an item can take, checked before anything is stored: whatever is refused here a row would not give back."""

import json
import re
from typing import Any

from ..escaping import to_utf8
from ..references import KEY_PATTERN
from ..store import refuse_secret
from .items import KNOWN_TYPES, MAX_CONTENT_BYTES, TYPE_LIMIT_CHARACTERS

__all__ = ["as_json", "check_draft", "is_too_large"]


_TYPE = re.compile(r"\w[\w.-]*")


def _is_type(memory_type: Any) -> bool:
    if not isinstance(memory_type, str) or not _TYPE.fullmatch(memory_type):
        return False
    return len(to_utf8(memory_type)) <= TYPE_LIMIT_CHARACTERS  # of a row, in bytes


def is_too_large(text: str) -> bool:
    """Whether a content is larger than an item takes."""
    return len(text) * 4 > MAX_CONTENT_BYTES and len(to_utf8(text)) > MAX_CONTENT_BYTES


def as_json(name: str, value: Any) -> str:
    """Return a value as JSON says it.

    Raises:
        ValueError: It cannot; the text names what was given.
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"cannot store {name} of type {type(value).__name__}: JSON cannot say it ({error})") from error


def check_draft(memory_type: str, source: Any, tags: Any, related_to: Any, metadata: Any) -> None:
    """Refuse what a row would not give back as it was.

    Raises:
        SecretError: The type is that of secrets.
        ValueError: Says what is wrong and what to send.
    """
    refuse_secret(memory_type)
    if memory_type not in KNOWN_TYPES and not _is_type(memory_type):
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
    if metadata is not None and json.loads(as_json("metadata", dict(metadata))) != dict(metadata):
        raise ValueError(f"metadata={metadata!r}: use what JSON gives back as it was, so str keys and no tuples")
