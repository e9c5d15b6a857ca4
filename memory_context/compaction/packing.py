"""Turns large parts and images into items, and stored items into the record that the process keeps of a part."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from autogen_core import Image
from autogen_core.models import AssistantMessage, UserMessage

from memory_context.foundation.compactors.compactor import Compacted, Hint, Result
from memory_context.foundation.compactors.lines import without_base64
from memory_context.foundation.compactors.registry import Compactors
from memory_context.foundation.credentials.masks import masked
from memory_context.foundation.messages import calls_of, long_strings, png_bytes, replace_strings, results_of, source_of
from memory_context.foundation.patterns import regex
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.references import IMAGE_TYPE, PNG, MemoryRef, describe_image, shorten
from memory_context.foundation.tokens import TokenCounter
from memory_context.foundation.utf8 import json_object
from memory_context.memory.items import NewItem
from memory_context.sessions.transcript.entries import Entry, Part, StoredPart
from memory_context.sessions.transcript.transcript import Transcript
from memory_context.store.items import Origin

from .chooser import compacted_text

__all__ = [
    "PackedItem",
    "Packer",
    "Source",
    "find_repeated",
    "image_item",
    "image_name",
    "may_repeat",
    "pixels_of",
    "result_type",
    "runs_command",
    "sources_before",
]


_BESIDE_CHARACTERS = 120


def pixels_of(image: Image) -> int:
    """Return the size of the work that encoding it takes."""
    width, height = image.image.size
    return width * height


def image_name(transcript: Transcript, entry: Entry, image: Image) -> str:
    """Return such as `image of 1280 x 720 of web, step 12`; steps are model calls with tools, from 1."""
    width, height = image.image.size
    step = sum(asking < entry.position for asking in transcript.pairing.asking)
    return f"image of {width} x {height} of {source_of(entry.message)}{f', step {step}' if step else ''}"


def image_item(
    part: Part, image: Image, name: str, beside: str, source: str, origin: Origin, metadata: Mapping[str, Any]
) -> NewItem:
    """Return the item of an image; `beside` is the text that came with it. Encodes, so large ones need a thread."""
    data = png_bytes(image)
    width, height = image.image.size
    beside = beside.strip()[:_BESIDE_CHARACTERS]
    return NewItem(
        describe_image(data[:64], PNG, len(data)),
        f"{name}: {beside}" if beside else name,
        part.tokens,
        IMAGE_TYPE,
        source,
        metadata={**metadata, "width": width, "height": height},
        origin=origin,
        data=data,
        content_type=PNG,
    )


_ARGUMENTS_CHARACTERS = 2_000  # of a call, kept in its result's metadata
_BEGINNING_CHARACTERS = 4_000  # searched for credentials before a description is cut from it

_SHORTENED_AFTERWARDS = "(the call was made with the whole text; it was shortened here afterwards)"
"""Inside shortened arguments: models copy them and would write placeholders into files."""

_WORDS = regex(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SHELL = frozenset(("bash", "cmd", "command", "commands", "console", "exec", "powershell", "sh", "shell", "terminal"))
_WEB = frozenset(("browse", "browser", "crawl", "http", "https", "scrape", "url", "web", "webpage", "website"))
_PAGE_VERBS, _PAGES = frozenset(("fetch", "get", "open", "read", "visit")), frozenset(("link", "page", "pages", "site"))
_DATABASE = frozenset(("bigquery", "database", "db", "duckdb", "mysql", "oracle", "postgres", "sql", "sqlite"))
_COMMAND_ARGUMENTS = frozenset(("cmd", "command", "commands", "script", "shell_command"))
_URL_ARGUMENTS = frozenset(("href", "link", "uri", "url", "urls"))
_SQL = regex(r"\s*(?:select|with|insert|update|delete|explain|describe|pragma)\s+\S", re.IGNORECASE)
_READ_CHARACTERS = 20_000
REPEATED_SHARE = 0.8
"""Share of a text's word runs found in its sources from which it counts as a repeat."""
_RUN_WORDS = 8
_CONTRIBUTING_SHARE = 0.1
_MOST_SOURCES = 40
_MOST_CHARACTERS = 1_000_000  # of sources; takes 0.1 s
_WORD = regex(r"\w+|\S", re.ASCII)  # single letters of other scripts: some have no spaces


@dataclass(frozen=True)
class PackedItem:
    """An item to store for a part; a call's arguments give one for each long string.

    Attributes:
        pointer: JSON pointer of a string in a call's arguments; empty otherwise.
    """

    item: NewItem
    compacted: Compacted
    pointer: str = ""


class Packer:
    """Packs parts as items, and stored items as records of parts."""

    def __init__(self, policy: ContextPolicy, counter: TokenCounter, compactors: Compactors) -> None:
        self._policy = policy
        self._counter = counter
        self._compactors = compactors

    def pack(self, entry: Entry, part: Part, text: str, given: tuple[Result, Hint] | None) -> list[PackedItem]:
        """Return the items of a part: none for arguments without a long string."""
        if part.address.kind == "arguments":
            return self._pack_arguments(entry, part, text)
        if given is not None:
            return [self._pack_result(entry, part, *given)]
        source = source_of(entry.message) or "system"
        is_thought = part.address.kind == "thought"
        what = f"{'thought' if is_thought else 'message'} of {source}"
        if is_thought and isinstance(entry.message, AssistantMessage):
            source = f"{source}_thought"
        return [self._pack_text(entry, part, text, what, source, part.tokens)]

    def pack_image(self, entry: Entry, part: Part, image: Image, name: str) -> PackedItem:
        """Return the item of an image, which the text of its message describes."""
        texts = (entry.text(one.address) or "" for one in entry.measured if one.address.kind == "text")
        beside = self._beginning(" ".join(text[:_BEGINNING_CHARACTERS] for text in texts))
        source, origin = source_of(entry.message) or "user", "tool" if entry.carries_result else self._origin(entry)
        item = image_item(part, image, name, beside, source, origin, _audit(entry, part))
        return PackedItem(item, Compacted("", name, ""))

    def keep(self, entry: Entry, part: Part, packed: Sequence[PackedItem], refs: Sequence[MemoryRef]) -> StoredPart:
        """Return the record of a part whose items are committed, without a first view."""
        if part.address.kind == "arguments":
            short = {
                one.pointer: f"{ref.render()} {_SHORTENED_AFTERWARDS}" for one, ref in zip(packed, refs, strict=True)
            }
            return self.stored(refs, replace_strings(entry.text(part.address) or "{}", short))
        if part.address.kind == "image":
            refs = [replace(refs[0], description=packed[0].compacted.description)]
        return self.stored(refs, compacted_text(packed[0].compacted, refs[0]))

    def stored(self, refs: Sequence[MemoryRef], compacted: str) -> StoredPart:
        return StoredPart(tuple(refs), compacted, self._counter.count(compacted))

    def _pack_arguments(self, entry: Entry, part: Part, text: str) -> list[PackedItem]:
        name = calls_of(entry.message)[part.address.index].name
        threshold = self._policy.offload_threshold_tokens
        packed: list[PackedItem] = []
        for pointer, value in long_strings(text, least_characters=threshold):
            if (tokens := self._counter.count(value)) > threshold:
                what, source = f"argument {pointer[1:]} of a {name} call", f"{name}_{pointer.rpartition('/')[2]}"
                packed.append(self._pack_text(entry, part, value, what, source, tokens, pointer))
        return packed

    def _pack_text(
        self, entry: Entry, part: Part, text: str, what: str, source: str, tokens: int, pointer: str = ""
    ) -> PackedItem:
        lines = text.count("\n") + 1
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        description = f"{what}, {size}, begins: {without_base64(self._beginning(text))[:80].strip()}"
        metadata = _audit(entry, part) | ({"pointer": pointer} if pointer else {})
        item = NewItem(text, description, tokens, "custom", source, metadata=metadata, origin=self._origin(entry))
        return PackedItem(item, Compacted("", description, ""), pointer)

    def _pack_result(self, entry: Entry, part: Part, result: Result, hint: Hint) -> PackedItem:
        kept = self._compactors.compact(result, hint)
        type_ = "command_output" if entry.carries_result else result_type(result.source, result.arguments)
        metadata = _audit(entry, part, result.is_error)
        if result.duration_seconds is not None:
            arguments = shorten(self._beginning(result.arguments), _ARGUMENTS_CHARACTERS)
            metadata |= {"tool": result.source, "arguments": arguments}
            metadata |= {"duration_seconds": round(result.duration_seconds, 3)}
        source, tokens = result.source, part.tokens
        item = NewItem(result.content, kept.description, tokens, type_, source, metadata=metadata, origin="tool")
        return PackedItem(item, kept)

    def _beginning(self, text: str) -> str:
        beginning = text[:_BEGINNING_CHARACTERS]
        return masked(beginning)

    def _origin(self, entry: Entry) -> Origin:
        """Return the origin; a system message may hold text from an AutoGen memory."""
        message = entry.message
        if isinstance(message, UserMessage):
            return "user_words" if message.source in self._policy.user_sources else "agent"
        return "agent" if isinstance(message, AssistantMessage) else "tool"


def _audit(entry: Entry, part: Part, is_error: bool | None = None) -> dict[str, object]:
    where: dict[str, object] = {"message": entry.position + 1, "part": part.address.kind}
    if part.address.kind == "result":
        where |= {"call_id": results_of(entry.message)[part.address.index].call_id, "is_error": is_error}
    elif part.address.kind == "arguments":
        where |= {"call_id": calls_of(entry.message)[part.address.index].id}
    return where


def result_type(tool: str, arguments: str) -> str:
    """Return `command_output` for shells, `database_result` for rows, `web_content` for pages, else `action_result`."""
    words = _words_of(tool)
    given = _strings_of(arguments)
    if words & _SHELL or _COMMAND_ARGUMENTS & given.keys():
        return "command_output"
    if words & _DATABASE or any(_SQL.match(value) for value in given.values()):
        return "database_result"
    if words & _WEB or _URL_ARGUMENTS & given.keys() or (words & _PAGE_VERBS and words & _PAGES):
        return "web_content"
    return "action_result"


def runs_command(tool: str, argument: str = "") -> bool:
    """Return whether a tool is a shell by its name, or this argument of any tool is a command."""
    return argument.lower() in _COMMAND_ARGUMENTS or not _SHELL.isdisjoint(_words_of(tool))


def _words_of(tool: str) -> set[str]:
    return {word.lower() for word in _WORDS.findall(tool)}


def _strings_of(arguments: str) -> dict[str, str]:
    given = json_object(arguments) if len(arguments) <= _READ_CHARACTERS else None
    return {name.lower(): value for name, value in (given or {}).items() if isinstance(value, str)}


@dataclass(frozen=True)
class Source:
    """A stored text that the agent was shown.

    Attributes:
        keys: Keys of its items; empty if unknown, as for a look-up.
    """

    text: str = field(repr=False)
    keys: tuple[str, ...] = ()


def may_repeat(entry: Entry, part: Part, policy: ContextPolicy) -> bool:
    """Return whether a part is an agent's words; the user's words are always stored."""
    if part.is_result or part.address.kind not in ("text", "thought"):
        return False
    message = entry.message
    is_agents = isinstance(message, UserMessage) and source_of(message) not in policy.user_sources
    return isinstance(message, AssistantMessage) or (is_agents and not entry.carries_result)


def sources_before(transcript: Transcript, position: int) -> list[Source]:
    """Return the known stored and recalled texts before a message, newest first."""
    sources: list[Source] = []
    room = _MOST_CHARACTERS
    for source in _stored_before(transcript, position):
        room -= len(source.text)
        if room < 0 or len(sources) == _MOST_SOURCES:
            break
        sources.append(source)
    return sources


def find_repeated(text: str, sources: Sequence[Source]) -> list[str] | None:
    """Return the known keys of the sources that a text repeats; None if it says enough of its own."""
    runs = set(_runs(text))
    left, keys = set(runs), dict[str, None]()
    for source in sources if runs else ():
        shared = left.intersection(_runs(source.text))
        left -= shared
        if len(shared) >= _CONTRIBUTING_SHARE * len(runs):
            keys.update(dict.fromkeys(source.keys))
        if len(left) <= (1 - REPEATED_SHARE) * len(runs):
            return list(keys)
    return None


def _stored_before(transcript: Transcript, position: int) -> Iterator[Source]:
    for expanded in transcript.state.expanded.values():
        if expanded.position < position:
            yield Source(expanded.text, tuple(opened.key for opened in expanded.opened))
    for entry in reversed(transcript.entries(end=position)):
        for part in entry.measured:
            text = entry.text(part.address) if part.stored is not None else None
            if part.stored is not None and text is not None and part.address not in entry.dropped:
                yield Source(text, tuple(ref.key for ref in part.stored.refs))


def _runs(text: str) -> Iterator[tuple[str, ...]]:
    words = _WORD.findall(text)
    return zip(*(words[start:] for start in range(_RUN_WORDS)), strict=False)
