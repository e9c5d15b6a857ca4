"""What a line of an export holds, by the table its row is of; a field is named like its column.

Promise: what was found good here, the table takes.
"""

import base64
import hashlib
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter

from memory_context.identifiers import checked_identifier
from memory_context.references import KEY_PATTERN
from memory_context.utf8 import to_utf8, unescape, unescape_json

from ..codec import canonical_json
from ..items import Origin

__all__ = [
    "Batch",
    "Element",
    "Event",
    "Header",
    "Item",
    "Record",
    "SessionRow",
    "Step",
    "ThreadRow",
    "UIUserRow",
    "item_content",
    "unescape_long",
]

_SLICE_CHARACTERS = 1_000_000
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]")


def unescape_long(text: str) -> str:
    """As `unescape`, in slices: with many escapes its pieces take thirty times the memory of the text."""
    if "\x1a" not in text:
        return text
    pieces: list[str] = []
    start = 0
    while start < len(text):
        end = min(start + _SLICE_CHARACTERS, len(text))
        begun = text.rfind("\x1a", end - 4, end) if end < len(text) else -1
        if begun > start:  # an escape that the end would cut
            end = begun
        pieces.append(unescape(text[start:end]))
        start = end
    return "".join(pieces)


def item_content(escaped: str | None, in_base64: str | None) -> str:
    """Return the content of an item's line, which has it in one of two forms.

    Raises:
        ValueError: It is neither Base64 nor text in it.
    """
    if escaped is not None:
        return unescape_long(escaped)
    return base64.b64decode(in_base64 or "", validate=True).decode("utf-8", "surrogatepass")


def _at_most(octets: int) -> AfterValidator:
    def check(text: str) -> str:
        if len(text.encode()) > octets:
            raise ValueError(f"longer than {octets} bytes")
        return text

    return AfterValidator(check)


def _is_key(text: str) -> str:
    if not KEY_PATTERN.fullmatch(text):  # no reference could be made of it, and a search that finds it would fail
        raise ValueError("not a memory key: 1-64 of A-Z a-z 0-9 _ . -, beginning with a letter or digit")
    return text


def _is_chat_id(text: str) -> str:
    checked_identifier("id", unescape(text))
    return text


def _written_as_time(value: object) -> object:
    """Refuse what only pydantic reads as a time: seconds since 1970, as a number or in a string."""
    if not isinstance(value, str) or not _DAY.match(value):
        raise ValueError("not a time like 2026-01-31T12:00:00Z")
    return value


_Name = Annotated[str, _at_most(512)]
_Word = Annotated[str, _at_most(64)]
_Session = Annotated[str, Field(min_length=1), _at_most(512)]
_Time = Annotated[AwareDatetime, Field(strict=False), BeforeValidator(_written_as_time)]
_Uuid = Annotated[str, Field(pattern="^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
_Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_Count = Annotated[int, Field(ge=0, lt=2**63)]
_Small = Annotated[int, Field(ge=0, lt=2**31)]


class Record(BaseModel):
    """What every line after the first has: the kind of record it is."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    record: str

    def check(self) -> None:
        """Raise `ValueError` if its parts contradict each other."""


class Header(BaseModel):
    """The first line of a file.

    Attributes:
        format: Always "memory-context".
        version: Of the format.
        library: The version of memory_context that wrote it.
        schema_version: The last migration of the database it is from.
        user: Whose data; escaped, as everything is.
        session: The session it was limited to; None for all.
        exported_at: The moment that it shows.
    """

    model_config = ConfigDict(strict=True, frozen=True)

    format: Literal["memory-context"]
    version: int
    library: str
    schema_version: int
    user: _Session
    session: str | None
    exported_at: _Time


class Item(Record):
    """An item, with its content; of a tombstone what is left. Files of version 1 do not say its origin."""

    memory_key: Annotated[str, AfterValidator(_is_key)]
    agent_id: _Name
    session_id: _Name
    memory_type: _Word
    source: _Name
    origin: Origin | None = None
    summary: str
    model_summary: str | None
    tags: list[str]
    related_to: list[str]
    content_metadata: dict[str, Any]
    token_count: _Count
    is_private: bool
    shared_with: list[_Name] = Field(default_factory=list[str])
    is_active: bool
    created_at: _Time
    updated_at: _Time
    last_used_at: _Time
    content_sha256: _Sha256 | None
    content: str | None
    content_base64: str | None = None

    def check(self) -> None:
        """Raise `ValueError` if content and hash do not belong together."""
        if not self.is_active:
            if (self.content, self.content_base64, self.content_sha256) != (None, None, None):
                raise ValueError("a forgotten item has no content")
        elif (self.content is None) == (self.content_base64 is None) or self.content_sha256 is None:
            raise ValueError("the content or its hash is missing, or it is there twice")
        elif (
            hashlib.sha256(to_utf8(item_content(self.content, self.content_base64))).hexdigest() != self.content_sha256
        ):
            raise ValueError("the content has not the hash beside it: the file was changed or damaged")


class SessionRow(Record):
    """A session; its messages are counted as its batches come."""

    session_id: _Session
    agent_id: _Name
    title: str
    summary: str
    created_at: _Time
    last_activity_at: _Time
    deleted_at: _Time | None


class ChatLine(BaseModel):
    """A chat message in a batch of them."""

    model_config = ConfigDict(strict=True, frozen=True)

    id: Annotated[str, AfterValidator(_is_chat_id)]
    text: str
    sender: Literal["user", "ai"]
    timestamp: _Time
    is_unverified: bool = False


_CHAT = TypeAdapter(list[ChatLine])


class Batch(Record):
    """What was said in a session: a stretch of a transcript, or chat messages."""

    session_id: _Session
    kind: Literal["transcript", "client"]
    agent_id: _Name
    branch: _Name
    sequence: _Small
    begins_anew: bool
    message_count: _Small
    memory_keys: list[str]
    message_ids: list[str]
    start_timestamp: _Time
    end_timestamp: _Time
    archived_at: _Time
    batch_sha256: _Sha256 | None
    message_batch: dict[str, Any] | list[dict[str, Any]]

    def check(self) -> None:
        """Raise `ValueError` if its parts contradict each other, or it holds something else than its kind does."""
        if self.kind == "client":
            if self.agent_id or self.branch or self.begins_anew or self.batch_sha256 is not None:
                raise ValueError("chat messages have no agent, branch or hash")
            messages = _CHAT.validate_python(self.message_batch)
            if [message.id for message in messages] != self.message_ids or self.message_count != len(messages):
                raise ValueError("message_ids and message_count are not those of the messages")
        elif not isinstance(self.message_batch, dict):
            raise ValueError("a stretch of a transcript is an object")
        else:
            body = canonical_json(unescape_json(self.message_batch))
            if hashlib.sha256(body.encode()).hexdigest() != self.batch_sha256:
                raise ValueError("the batch has not the hash beside it: the file was changed or damaged")


class Event(Record):
    """What happened to items."""

    id: _Uuid
    agent_id: _Name
    session_id: _Name
    is_private: bool
    kind: _Word
    memory_keys: list[str]
    detail: str
    created_at: _Time


class UIUserRow(Record):
    """What a user interface keeps of the user."""

    metadata: dict[str, Any]
    created_at: _Time


class ThreadRow(Record):
    """A conversation as a user interface showed it."""

    thread_id: _Session
    name: str | None
    tags: list[str] | None
    metadata: dict[str, Any]
    created_at: _Time
    last_activity_at: _Time
    deleted_at: _Time | None


class Step(Record):
    """What was shown in a thread."""

    step_id: _Name
    thread_id: _Session
    created_at: _Time
    is_updated: bool
    feedback_id: _Name | None
    feedback_value: Annotated[int, Field(ge=-(2**15), lt=2**15)] | None
    feedback_comment: str | None
    fields: dict[str, Any]
    input: str | None
    output: str | None

    def check(self) -> None:
        """Raise `ValueError` if a rating is incomplete."""
        if (self.feedback_id is None) != (self.feedback_value is None):
            raise ValueError("feedback_id and feedback_value go together")


class Element(Record):
    """What was shown beside a step; its content in Base64."""

    element_id: _Name
    thread_id: _Session
    step_id: _Name
    fields: dict[str, Any]
    content: str | None

    def check(self) -> None:
        """Raise `ValueError` if the content is not Base64."""
        if self.content is not None:
            base64.b64decode("".join(self.content.split()), validate=True)
