"""What an observer reads: each message as a first view shows it, whole or as an excerpt, never as its placeholder."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from autogen_core.models import AssistantMessage, SystemMessage

from memory_context.foundation.credentials.masks import masked
from memory_context.foundation.errors import MemoryContextError
from memory_context.foundation.messages import MEMORY_SOURCE, heading_of, results_of, source_of
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.runtime.background import in_thread_if_large
from memory_context.foundation.tokens import TokenCounter, count_off_loop
from memory_context.memory.agent_memory import AgentMemory
from memory_context.sessions.transcript.entries import MESSAGE_OVERHEAD_TOKENS, Entry, Part, PartId
from memory_context.sessions.transcript.state import RunningSums
from memory_context.sessions.transcript.transcript import Transcript

from ..chooser import TextChooser

__all__ = ["MessageOrigin", "ObservedMessage", "UnobservedTokens", "observed_messages"]

_logger = logging.getLogger("memory_context")

MessageOrigin = Literal["user", "agent", "tool", "other"]
"""Whose words a message holds; `other` are those of other agents."""


@dataclass(frozen=True)
class ObservedMessage:
    """One message as an observer reads it.

    Attributes:
        position: In the transcript, from 0; shown as `position + 1`.
        source: Sender, or the tools of results.
        text: With credentials masked; results, calls and thoughts have a heading.
        keys: Of its stored parts.
    """

    position: int
    source: str
    origin: MessageOrigin
    at: datetime
    text: str
    tokens: int
    keys: tuple[str, ...] = ()


class UnobservedTokens:
    """Tokens of messages as `observed_messages` shows them, estimated from their measured parts, incrementally."""

    def __init__(self, transcript: Transcript, policy: ContextPolicy) -> None:
        self._transcript = transcript
        self._policy = policy
        self._sums = RunningSums()
        self._read = 0

    def between(self, first: int, last: int) -> int:
        """Return the tokens of messages `[first, last)`; the work depends on new and changed messages only."""
        transcript = self._transcript
        for position in dict.fromkeys(transcript.touched[self._read :]):
            self._sums.put(position - transcript.first, self._tokens(transcript[position]))
        self._read = len(transcript.touched)
        return self._sums.before(last - transcript.first) - self._sums.before(max(first - transcript.first, 0))

    def _tokens(self, entry: Entry) -> int:
        if _is_injected(entry):
            return 0
        parts = (min(_tokens_read(part, self._policy), part.tokens) + part.overhead_tokens for part in entry.measured)
        return MESSAGE_OVERHEAD_TOKENS + sum(parts)


async def observed_messages(
    transcript: Transcript,
    first: int,
    last: int,
    *,
    memory: AgentMemory,
    policy: ContextPolicy,
    counter: TokenCounter,
    chooser: TextChooser,
) -> list[ObservedMessage]:
    """Return the measured messages `[first, last)` as an observer reads them.

    Contents that the process has dropped are read from the store, in one query; without the store their compacted
    texts stand for them. Left out is what the context itself put into the transcript; answers of memory tools are only
    named.
    """
    entries = [
        entry
        for entry in transcript.entries(first, last)
        if not _is_injected(entry) and entry.position not in transcript.state.redelivered
    ]
    texts = await _whole_texts(entries, memory, set(transcript.state.offered.memory_tools))
    long = {
        (entry.position, part.address): text
        for entry, part in _parts(entries)
        if _is_long(entry, part, policy) and (text := texts.get((entry.position, part.address))) is not None
    }
    excerpts = await chooser.excerpts(long)

    def read_all() -> list[str]:
        return [_text(entry, texts, excerpts, policy) for entry in entries]

    read = await in_thread_if_large(sum(map(len, texts.values())) - sum(map(len, long.values())), read_all)
    tokens = await count_off_loop(counter, read)
    return [_observed(*one, policy) for one in zip(entries, read, tokens, strict=True)]


def _is_injected(entry: Entry) -> bool:
    return isinstance(entry.message, SystemMessage) or source_of(entry.message) == MEMORY_SOURCE


def _parts(entries: list[Entry]) -> Iterator[tuple[Entry, Part]]:
    for entry in entries:
        for part in entry.measured:
            yield entry, part


def _limit_tokens(policy: ContextPolicy) -> int:
    return min(policy.first_view_limit_tokens, policy.result_limit_tokens)


def _tokens_read(part: Part, policy: ContextPolicy) -> int:
    if part.stored is not None and not part.stored.refs:
        return part.stored.compacted_tokens
    return part.tokens if part.tokens <= _limit_tokens(policy) else policy.excerpt_limit_tokens


def _is_long(entry: Entry, part: Part, policy: ContextPolicy) -> bool:
    is_excerpt = part.is_result and policy.first_view_of(entry.tool_of(part.address)) == "excerpt"
    return part.tokens > (policy.offload_threshold_tokens if is_excerpt else _limit_tokens(policy))


async def _whole_texts(entries: list[Entry], memory: AgentMemory, memory_tools: set[str]) -> dict[PartId, str]:
    """Return the texts of all parts but answers of memory tools and those that nobody has."""
    texts: dict[PartId, str] = {}
    missing: dict[PartId, str] = {}
    for entry, part in _parts(entries):
        part_id, text = (entry.position, part.address), entry.text(part.address)
        if part.address.kind == "image":
            continue
        if _is_memory_answer(entry, part, text, memory, memory_tools):
            continue
        if text is not None:
            texts[part_id] = text
        elif part.stored is not None:
            missing[part_id] = part.stored.refs[0].key
    try:
        contents = await memory.retrieve_contents(set(missing.values()), reader=None) if missing else {}
    except MemoryContextError as error:
        _logger.warning("%d contents are observed as they are shown: %s", len(missing), error)
        contents = {}
    return texts | {part_id: contents[key] for part_id, key in missing.items() if key in contents}


def _is_memory_answer(entry: Entry, part: Part, text: str | None, memory: AgentMemory, memory_tools: set[str]) -> bool:
    if not part.is_result:
        return False
    if part.stored is not None and not part.stored.refs:
        return True
    return entry.tool_of(part.address) in memory_tools or (text is not None and memory.find_answer(text) is not None)


def _text(entry: Entry, texts: dict[PartId, str], excerpts: dict[PartId, str], policy: ContextPolicy) -> str:
    lines: list[str] = []
    for part in entry.measured:
        part_id, stored = (entry.position, part.address), part.stored
        if part.address.kind == "image":
            lines.append(stored.compacted if stored else "[image]")
            continue
        if part.address.kind != "text":
            lines.append(f"{heading_of(entry.message, part.address)}:")
        if part_id in excerpts:
            lines.append(excerpts[part_id])
        elif part_id in texts:
            lines += [ref.render() for ref in (stored.refs if stored and part.address.kind != "arguments" else ())]
            lines.append(masked(texts[part_id]))
        else:
            lines.append(stored.excerpt or stored.compacted if stored else "(what the memory holds)")
    return "\n".join(lines)


def _observed(entry: Entry, text: str, tokens: int, policy: ContextPolicy) -> ObservedMessage:
    results = results_of(entry.message)
    source = ", ".join(dict.fromkeys(result.name for result in results)) if results else source_of(entry.message)
    keys = tuple(ref.key for part in entry.measured if part.stored for ref in part.stored.refs)
    return ObservedMessage(
        entry.position, source or "system", _origin(entry, policy), entry.added_at, text, tokens, keys
    )


def _origin(entry: Entry, policy: ContextPolicy) -> MessageOrigin:
    if isinstance(entry.message, AssistantMessage):
        return "agent"
    if entry.carries_result or results_of(entry.message):
        return "tool"
    return "user" if source_of(entry.message) in policy.user_sources else "other"
