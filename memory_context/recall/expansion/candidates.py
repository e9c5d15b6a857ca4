"""References and keys that a message can refer to. Tool results never open keys: their text may imitate references."""

import re
import string
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from autogen_core.models import AssistantMessage, UserMessage

from memory_context.foundation.messages import source_of
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.references import KEY_PATTERN, MemoryRef
from memory_context.sessions.transcript.entries import Entry, Part
from memory_context.sessions.transcript.transcript import Transcript
from memory_context.sessions.transcript.view_decisions import UserMemoryChanged, UserMemoryLoaded

__all__ = [
    "CandidateReference",
    "Expansion",
    "ExpansionAnswer",
    "ExpansionRequest",
    "candidate_references",
    "expansion_request",
    "head_and_tail",
    "known_to_agent",
    "named_keys",
    "unknown_keys",
    "visible_texts",
    "without_keys",
]

_UNKNOWN_KEYS_LIMIT, _LONGEST_KEY, _SEARCHED_CHARACTERS = 5, 64, 3000
_KEY_CHARACTERS = string.ascii_letters + string.digits + "_.-"
_RUN = re.compile(r"[A-Za-z0-9_.-]+")
_PLACEHOLDER = re.compile(r"\[MemoryRef: [^\]\r\n]*\]?")
_KEY_IN_PLACEHOLDER = re.compile(rf"\[MemoryRef: ({KEY_PATTERN.pattern})(?![A-Za-z0-9_.-])")
_KEY_SHAPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*_(?=[a-z]*[2-7])[a-z2-7]{6,20}")


@dataclass(frozen=True)
class CandidateReference:
    """A stored content that a request may need.

    Attributes:
        kept_text: Status, placeholder and kept lines in the view.
        is_visible: Shown in full.
    """

    ref: MemoryRef
    source: str = ""
    kept_text: str = ""
    messages_ago: int = 0
    is_visible: bool = False


@dataclass(frozen=True)
class ExpansionRequest:
    """A request and its visible context, whose texts are read when they are first needed.

    Attributes:
        opened_texts: Those of them that expansions show; None for all.
    """

    request: str
    last_answer: str = ""
    references: tuple[CandidateReference, ...] = ()
    visible_texts: Callable[[], Iterable[str]] = tuple
    opened_texts: Callable[[], Iterable[str]] | None = None


@dataclass(frozen=True)
class Expansion:
    """An item to expand; `why` is a short reason, such as "rare word 'E1234'"."""

    key: str
    reason: Literal["named", "matched", "model"]
    why: str


@dataclass(frozen=True)
class ExpansionAnswer:
    """The decision about a request.

    Attributes:
        expansions: Most certain first.
        is_ambiguous: Memories are searched.
        search_query: "" for no search.
        asks_for_said: It asks for words or conclusions of earlier conversations.
    """

    expansions: tuple[Expansion, ...] = ()
    is_ambiguous: bool = False
    search_query: str = ""
    asks_for_said: bool = False
    decided_by: Literal["rules", "model"] = "rules"
    why: str = ""


def expansion_request(transcript: Transcript, asked: Sequence[Entry], policy: ContextPolicy) -> ExpansionRequest:
    """Return the request of unanswered entries, without their own results."""
    first = min(entry.position for entry in asked)
    before = transcript.entries(end=first)
    answer = next((entry for entry in reversed(before) if isinstance(entry.message, AssistantMessage)), None)
    return ExpansionRequest(
        request="\n".join(entry.words for entry in asked),
        last_answer=answer.words if answer is not None else "",
        references=tuple(candidate_references(transcript, first, policy)),
        visible_texts=lambda: visible_texts(transcript, (entry for entry in before if entry is not answer), policy),
        opened_texts=lambda: (expanded.text for expanded in transcript.state.expanded.values()),
    )


def candidate_references(transcript: Transcript, end: int, policy: ContextPolicy) -> Iterator[CandidateReference]:
    """Yield each reference before a position once, newest first; the fold's last."""
    seen: set[str] = set()
    for entry in reversed(transcript.entries(end=end)):
        if entry.position in transcript.state.redelivered:
            continue
        for part in entry.measured:
            for ref in part.stored.refs if part.stored else ():
                if ref.key not in seen:
                    seen.add(ref.key)
                    yield CandidateReference(
                        ref,
                        source=source_of(entry.message) or "",
                        kept_text=part.stored.compacted if part.stored else "",
                        messages_ago=end - entry.position,
                        is_visible=_is_visible(transcript, entry, part, policy),
                    )
    if fold := transcript.state.fold:
        yield CandidateReference(fold.ref, source="memory", kept_text=fold.text, messages_ago=end - fold.upto + 1)


def visible_texts(transcript: Transcript, entries: Iterable[Entry], policy: ContextPolicy) -> Iterator[str]:
    """Yield the texts shown in full, all expansions and the user's memory."""
    for entry in entries:
        for part in entry.measured:
            if part.address.kind != "image" and _is_visible(transcript, entry, part, policy):
                yield entry.text(part.address) or ""
    for expanded in transcript.state.expanded.values():
        yield expanded.text
    for known in (transcript.state.newest(UserMemoryLoaded), transcript.state.newest(UserMemoryChanged)):
        if known is not None:
            yield known.text


def _is_visible(transcript: Transcript, entry: Entry, part: Part, policy: ContextPolicy) -> bool:
    state, part_id = transcript.state, (entry.position, part.address)
    if part_id in state.compacted or part_id in state.shortened or part.address in entry.dropped:
        return False
    if state.is_hidden(entry.position) or (part.stored is not None and part.stored.excerpt is not None):
        return False
    is_first_shown = part.stored is None or not part.is_result
    return is_first_shown or policy.first_view_of(entry.tool_of(part.address)) != "placeholder"


def named_keys(text: str, known: Collection[str]) -> list[str]:
    """Return the known keys in a text in order: `log_k3f7x2` is in `"log_k3f7x2".` but not in `my_log_k3f7x2`."""
    wanted = frozenset(known)
    runs = _RUN.finditer(text) if wanted else ()
    found = (next((key for key in _keys_in(run[0]) if key in wanted), None) for run in runs)
    return list(dict.fromkeys(key for key in found if key))


def unknown_keys(text: str, known: Collection[str] = ()) -> list[str]:
    """Return up to five unknown words in the shape of a key; look them up before use.

    Shape: the key of `[MemoryRef: key …`, or a stem, `_` and 6 to 20 of a-z and 2-7 with a digit.
    """
    known = frozenset(known)
    found = {match[1]: None for match in _KEY_IN_PLACEHOLDER.finditer(text) if match[1] not in known}
    for run in _RUN.finditer(text):
        found.update((key, None) for key in _keys_in(run[0]) if key not in known and _KEY_SHAPE.fullmatch(key))
        if len(found) >= _UNKNOWN_KEYS_LIMIT:
            break
    return list(found)[:_UNKNOWN_KEYS_LIMIT]


def known_to_agent(transcript: Transcript, keys: Collection[str], end: int) -> set[str]:
    """Return the keys given to the agent by an expansion, a fold, a user or a hand-off."""
    given = {key for _, decision in transcript.log for key in decision.keys_shown()}
    for entry in transcript.entries(end=end):
        if isinstance(entry.message, UserMessage) and not entry.carries_result:
            given.update(named_keys(entry.words, keys))
    return given.intersection(keys)


def head_and_tail(text: str, characters: int = _SEARCHED_CHARACTERS) -> str:
    """Return a text or both its ends, without cut words, which may look like keys."""
    if len(text) <= 2 * characters:
        return text
    return f"{text[:characters].rstrip(_KEY_CHARACTERS)}\n{text[-characters:].lstrip(_KEY_CHARACTERS)}"


def without_keys(text: str, keys: Iterable[str]) -> str:
    """Remove placeholders and keys, whose parts would count as words."""
    words = _PLACEHOLDER.sub(" ", text)
    for key in keys:
        words = words.replace(key, " ")
    return words


def _keys_in(run: str) -> list[str]:
    """Return the keys in a run, longest first."""
    run = run.lstrip("._-")
    core = len(run.rstrip("._-"))
    ends = range(min(len(run), _LONGEST_KEY), core - 1, -1) if core <= _LONGEST_KEY else ()
    return [run[:end] for end in ends if end]
