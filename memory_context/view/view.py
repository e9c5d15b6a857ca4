"""Views as values: rendered messages with their segments."""

import sys
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import accumulate, islice
from operator import attrgetter
from typing import Literal, cast, get_args

from autogen_core.models import ChatCompletionClient, LLMMessage, UserMessage

from memory_context.foundation.messages import (
    MEMORY_SOURCE,
    Address,
    PartKind,
    copy_message,
    message_digest,
    sendable_message,
)
from memory_context.sessions.transcript.entries import PartId

__all__ = ["MessageList", "PartState", "Segment", "View", "ViewMessage", "needs_turns"]

_PART_KINDS = frozenset(get_args(PartKind))
_PLACE, _TOKENS = attrgetter("place"), attrgetter("tokens")

_DIGEST_DIGITS = 16

TAIL_PLACE = sys.maxsize
"""`ViewMessage.place` of sections behind the history."""

PartState = Literal["full", "excerpt", "placeholder", "shortened", "folded", "interrupted", "expanded", "section"]


@dataclass(frozen=True)
class Segment:
    """One rendered text of a view.

    Attributes:
        position: Position of its entry; of a fold, of the first entry behind it; -1 beside the history.
        source: A speaker, or a tool's name.
        kind: Kind of the part, or name of the section: fold, expansion, …
        index: Number among those of its kind in the message or section.
        state: `placeholder` is compacted, `shortened` fits the budget, `interrupted` is a missing result,
            `expanded` was brought back, `section` stands beside the history.
        tokens: Tokens in the view, names and ids included.
        full_tokens: Tokens of the whole content.
        why: Reason of each item of an expansion.
        owner: Name of the slot in its section.
    """

    position: int
    source: str
    kind: str
    index: int
    state: PartState
    tokens: int
    full_tokens: int
    keys: tuple[str, ...] = ()
    why: str = ""
    owner: str = ""

    @property
    def part(self) -> PartId | None:
        """The part; None for a slot or missing result."""
        if self.kind not in _PART_KINDS or self.state == "interrupted":
            return None
        return self.position, Address(cast(PartKind, self.kind), self.index)

    @property
    def number(self) -> str:
        """Number from 1; "-" beside the history."""
        return number_of(self.position)

    @property
    def expansion_place(self) -> tuple[int, str]:
        """Key among the active expansions."""
        return self.position, self.owner

    @property
    def place(self) -> tuple[int, str, int]:
        """Identity within a view."""
        return self.position, self.kind, self.index


@dataclass(frozen=True)
class ViewMessage:
    """One message of a view, which can be sent whatever came in. Copy `message` before handing it out.

    Attributes:
        position: Position of its entry; -1 beside the history.
        tokens: Tokens with overhead and images.
        place: Sort key: results stand at their calls, sections before 0 or at `TAIL_PLACE`.
    """

    position: int
    message: LLMMessage
    tokens: int
    segments: tuple[Segment, ...]
    place: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", sendable_message(self.message))

    @cached_property
    def digest(self) -> bytes:
        """Hash of the message as it is handed out."""
        return message_digest(self.message)


_Change = tuple[int, Sequence[ViewMessage], int]
"""Index, previous messages there, number of messages there now."""


class View:
    """A rendered view. Keep it, not its `messages`.

    Views of one renderer share one list: the newest reads it, an older one applies the reverse changes.
    """

    def __init__(self, shared: "MessageList | None" = None) -> None:
        self._shared = MessageList() if shared is None else shared
        self._newer: View | None = None
        self._changes: list[_Change] = []  # to the newer view, in order
        self.tokens = self._shared.tokens

    @property
    def messages(self) -> Sequence[ViewMessage]:
        return self._shared.messages if self._newer is None else self.messages_from(0)

    def messages_from(self, index: int) -> list[ViewMessage]:
        """Return the messages from an index on; unless it is 0, no later view may have changed earlier ones."""
        changes: list[_Change] = []
        view = self
        while view._newer is not None:
            changes += view._changes
            view = view._newer
        messages = self._shared.messages[index:]
        for at, before, after in reversed(changes):
            messages[at - index : at - index + after] = before
        return messages

    @property
    def digest(self) -> str:
        """Hash of the messages, as 16 hex digits."""
        if self._newer is None:
            return self._shared.digests()[-1]
        return _chained("", self.messages)[-1]

    def copies(self, *, joins_user_messages: bool = False) -> list[LLMMessage]:
        """Return deep copies; user messages in a row become one for strict chat templates."""
        copied = [copy_message(message.message) for message in self.messages]
        return _alternating(copied) if joins_user_messages else copied

    def index_at(self, place: int) -> int:
        return bisect_left(self.messages, place, key=_PLACE)

    def indexes_at(self, place: int) -> range:
        begin = self.index_at(place)
        return range(begin, bisect_left(self.messages, place + 1, begin, key=_PLACE))

    @property
    def history(self) -> range:
        return range(self.index_at(0), self.index_at(TAIL_PLACE))

    @property
    def beside(self) -> list[Segment]:
        """The segments of the sections beside the history."""
        history, messages = self.history, self.messages
        beside = [*messages[: history.start], *messages[history.stop :]]
        return [segment for message in beside for segment in message.segments]

    @property
    def tokens_beside(self) -> int:
        history = self.history
        return self.tokens - self.tokens_before(history.stop) + self.tokens_before(history.start)

    @property
    def has_references(self) -> bool:
        """True if a stored part is not shown whole."""
        return any(one.keys and one.state != "full" for message in self.messages for one in message.segments)

    def tokens_before(self, index: int) -> int:
        if self._newer is None:
            return self._shared.tokens_before(index)
        return sum(message.tokens for message in self.messages[:index])

    def tokens_of_head(self, digest: str) -> int:
        """Return the tokens of the leading messages that have this digest; 0 if none have."""
        digests = self._shared.digests() if self._newer is None else _chained("", self.messages)
        found = (number for number, one in enumerate(digests) if one == digest)
        return self.tokens_before(next(found, 0))

    def tokens_at(self, first: int, last: int) -> int:
        """Return the tokens of the history at the positions `[first, last)`; results stand at their calls."""
        return self.tokens_before(self.index_at(last)) - self.tokens_before(self.index_at(first))

    def is_same(self, before: "View") -> bool:
        """Return whether an earlier view has the same messages."""
        if before is self or self.tokens != before.tokens:
            return before is self
        same = self.same_head(before)
        return self.messages_from(same) == before.messages_from(same)

    def same_head(self, before: "View") -> int:
        """Return the number of leading messages unchanged since an earlier view; 0 for another renderer's."""
        same = len(self.messages) if self._newer is None else 0
        while before is not self:
            if before._newer is None:
                return 0
            same = min(same, *(index for index, _, _ in before._changes))
            before = before._newer
        return same

    def supersede(self, newer: "View", changes: list[_Change]) -> None:
        self._newer, self._changes = newer, changes


_STRICT_FAMILIES = ("r1", "mistral", "ministral", "codestral", "open-codestral", "pixtral", "gemma", "llama-2")
"""Model families whose chat templates refuse two user messages in a row."""


def needs_turns(client: ChatCompletionClient) -> bool:
    """Return whether the template of this client's model refuses two user messages in a row."""
    return str(client.model_info.get("family", "")).lower().startswith(_STRICT_FAMILIES)


def _alternating(messages: Sequence[LLMMessage]) -> list[LLMMessage]:
    """Join user messages in a row. Fences of memory texts stay; a join costs less than the overhead of a message."""
    joined: list[LLMMessage] = []
    for message in messages:
        before = joined[-1] if joined else None
        if isinstance(before, UserMessage) and isinstance(message, UserMessage):
            joined[-1] = _joined(before, message)
        else:
            joined.append(message)
    return joined


def _joined(first: UserMessage, second: UserMessage) -> UserMessage:
    speakers = {one.source for one in (first, second) if one.source != MEMORY_SOURCE}
    source = second.source if second.source in speakers else first.source
    if len(speakers) > 1:  # else the words of one would seem the other's
        first, second = (_named(one) for one in (first, second))
    if isinstance(first.content, str) and isinstance(second.content, str):
        return UserMessage(content=f"{first.content}\n\n{second.content}", source=source)
    blocks = [
        block for one in (first, second) for block in ([one.content] if isinstance(one.content, str) else one.content)
    ]
    return UserMessage(content=blocks, source=source)


def _named(message: UserMessage) -> UserMessage:
    name = f"{message.source}: "
    if isinstance(message.content, str):
        return UserMessage(content=name + message.content, source=message.source)
    return UserMessage(content=[name, *message.content], source=message.source)


class MessageList:
    """A renderer's newest messages; change them with `replace` only."""

    def __init__(self) -> None:
        self.messages: list[ViewMessage] = []
        self.tokens = 0
        self._changes: list[_Change] = []
        self._sums = [0]  # lazy prefix sums of tokens
        self._digests = [""]  # as lazy: each of a message and the digest before
        self.view = View(self)

    def replace(self, begin: int, end: int, after: Sequence[ViewMessage]) -> None:
        """Replace a range of messages; an equal head stays."""
        before = self.messages[begin:end]
        same = _same_head(before, after)
        before, after = before[same:], after[same:]
        if before or after:
            begin += same
            self.messages[begin:end] = after
            self.tokens += sum(map(_TOKENS, after)) - sum(map(_TOKENS, before))
            self._changes.append((begin, before, len(after)))
            del self._sums[begin + 1 :], self._digests[begin + 1 :]

    def places(self, place: int) -> tuple[int, int]:
        begin = bisect_left(self.messages, place, key=_PLACE)
        return begin, bisect_left(self.messages, place + 1, begin, key=_PLACE)

    def tokens_before(self, index: int) -> int:
        if index >= len(self._sums):
            new = self.messages[len(self._sums) - 1 :]
            self._sums += islice(accumulate(map(_TOKENS, new), initial=self._sums[-1]), 1, None)
        return self._sums[index]

    def digests(self) -> Sequence[str]:
        """Return the hashes of the first 0, 1, 2, … messages; only those behind the last change are read."""
        self._digests += _chained(self._digests[-1], self.messages[len(self._digests) - 1 :])[1:]
        return self._digests

    def newest(self) -> View:
        """Return the current view: the same object until messages change."""
        if self._changes:
            view = View(self)
            self.view.supersede(view, self._changes)
            self.view, self._changes = view, []
        return self.view


def _chained(digest: str, messages: Sequence[ViewMessage]) -> list[str]:
    def chained(before: str, message: ViewMessage) -> str:
        return sha256(before.encode() + message.digest).hexdigest()[:_DIGEST_DIGITS]

    return [*accumulate(messages, chained, initial=digest)]


def number_of(position: int) -> str:
    """Return the number of a message, from 1; "-" beside the history."""
    return str(position + 1) if position >= 0 else "-"


def _same_head(before: Sequence[ViewMessage], after: Sequence[ViewMessage]) -> int:
    same = 0
    for old, new in zip(before, after, strict=False):
        if old is not new and old != new:
            break
        same += 1
    return same
