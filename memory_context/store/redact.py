"""Removes forgotten contents from what was archived: the only rewriting of an archive.

batch ─▶ decisions that name a forgotten key lose their texts ─▶ quotations of a content are cut out ─▶ new hash
      └▶ observations of a message that held it lose theirs, and so do hints
"""

import json
import re
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from json.encoder import encode_basestring
from typing import Any, Protocol, cast
from weakref import WeakSet

from memory_context.foundation.identifiers import SessionKey
from memory_context.foundation.references import MemoryRef, one_line
from memory_context.foundation.utf8 import escape

__all__ = [
    "FORGOTTEN",
    "LEAST_QUOTED_CHARACTERS",
    "Copies",
    "Forgettings",
    "Holder",
    "PendingTraces",
    "Traces",
    "beginning_of",
]

FORGOTTEN = "[forgotten]"
LEAST_QUOTED_CHARACTERS = 8
"""Shorter contents ("yes") stand in texts that do not quote them."""

_TEXTS = ("text", "compacted", "excerpt", "headline")
_OBSERVATIONS = ("observed", "reflected", "observations_restored")
_STATEMENTS = ("user_memory", "user_memory_news")
_MADE_FROM_ONE = ("retained", "shortened", "first_view")  # kinds of decisions
_PROBE_CHARACTERS = 200
_BEGINNING_CHARACTERS = 41


@dataclass(frozen=True)
class Traces:
    """Forgotten keys and contents, to be removed from JSON values and texts.

    Attributes:
        keys: Decisions that name one lose the texts made from its content.
        contents: Cut out wherever they stand verbatim, also as a string within JSON text.
    """

    keys: frozenset[str]
    contents: tuple[str, ...] = ()

    @classmethod
    def of(cls, keys: Iterable[str], contents: Iterable[str]) -> "Traces":
        quotable = {content.strip() for content in contents}
        long = sorted((one for one in quotable if len(one) >= LEAST_QUOTED_CHARACTERS), key=len, reverse=True)
        return cls(frozenset(keys), tuple(long))

    @cached_property
    def forms(self) -> tuple[str, ...]:
        """The contents as stored texts hold them: plain, and as strings of JSON."""
        plain = [escape(content) for content in self.contents]
        as_json = [write(one)[1:-1] for one in plain for write in (json.dumps, encode_basestring)]
        return tuple(sorted({*plain, *as_json}, key=lambda form: (-len(form), form)))

    @cached_property
    def beginnings(self) -> tuple[str, ...]:
        """Their first words as one line: titles, summaries and descriptions begin with them."""
        lines = (beginning_of(content) for content in self.contents)
        return tuple(dict.fromkeys(line for line in lines if len(line) >= LEAST_QUOTED_CHARACTERS))

    @cached_property
    def probes(self) -> tuple[str, ...]:
        """Beginnings of keys and forms, as the text of a JSON value has them; one without any needs no rewriting."""
        texts = (*self.forms, *self.beginnings)
        forms = (encode_basestring(escape(text))[1:-1][:_PROBE_CHARACTERS] for text in texts)
        return tuple(dict.fromkeys((*sorted(self.keys), *(form.rstrip("\\") for form in forms))))

    def cut(self, text: str) -> str:
        """Return a text without quotations."""
        for form in self.forms:
            text = text.replace(form, FORGOTTEN)
        return text

    def held_by(self, transcript: Mapping[str, Any]) -> set[int]:
        """Return the positions of messages that hold a content or whose parts became a forgotten item."""
        entries, first = transcript["entries"], transcript.get("first_position", 0)
        held = {position for position, entry in enumerate(entries, first) if self.redacted(entry) != entry}
        stored = (one for _, one in transcript["decisions"] if one.get("kind") == "offloaded")
        return held | {one["position"] for one in stored if self._has_ref(one)}

    def redacted(self, body: Any, held: Collection[int] = ()) -> Any:
        """Return a JSON value, such as a batch or a saved state, without the contents and the texts made from them.

        Args:
            held: What `held_by` found in other batches of the same transcript.
        """
        if isinstance(body, str):
            return self.cut(body)
        if isinstance(body, (list, tuple)):
            return [self.redacted(one) for one in cast(Sequence[Any], body)]
        if not isinstance(body, Mapping):
            return body
        data = cast(Mapping[str, Any], body)
        if "entries" in data and "decisions" in data:  # a transcript
            held = {*held, *self.held_by(data)}
            data = {
                **data,
                "decisions": [[at, self._decision(_unobserved(one, held))] for at, one in data["decisions"]],
            }
        return {name: self.redacted(one) for name, one in data.items()}

    def names_key(self, value: Any) -> bool:
        """Return whether a JSON value names a forgotten key."""
        return any(self._key.search(text) for text in _strings(value))

    @cached_property
    def _key(self) -> re.Pattern[str]:
        names = "|".join(map(re.escape, sorted(self.keys, key=len, reverse=True)))
        return re.compile(rf"(?<![\w.-])(?:{names})(?![\w-])" if names else r"(?!)")

    def _decision(self, data: Mapping[str, Any]) -> Any:
        """Texts made from a forgotten item go; other texts only lose what they say of it."""
        data = cast(Mapping[str, Any], _mapped(data, self._cut_lines))
        if not self.names_key(data):
            return data
        if data.get("kind") in _STATEMENTS:
            return self._without_statements(data)
        text = data.get("text") or data.get("excerpt") or data.get("headline") or ""
        if self._has_ref(data) or (data.get("kind") in _MADE_FROM_ONE and self._is_about(text)):
            return self._without_texts(data)
        return _mapped(data, self._without_descriptions)

    def _without_statements(self, data: Mapping[str, Any]) -> Any:
        """The lines of statements stand before all others, in the order of their keys."""
        lines = data["text"].split("\n")
        places = (number for number, line in enumerate(lines) if line.startswith("- "))
        gone = {place for key, place in zip(data["keys"], places, strict=False) if key in self.keys}
        text = "\n".join(line for number, line in enumerate(lines) if number not in gone)
        return {**data, "text": text, "keys": [key for key in data["keys"] if key not in self.keys]}

    def _cut_lines(self, text: str) -> str:
        return self._line.sub(FORGOTTEN, text) if self.beginnings else text

    @cached_property
    def _line(self) -> re.Pattern[str]:
        return re.compile(f"(?:{'|'.join(map(re.escape, self.beginnings))})[^\n]*")

    def _has_ref(self, value: Any) -> bool:
        if isinstance(value, Mapping):
            data = cast(Mapping[str, Any], value)
            return data.get("key") in self.keys or any(map(self._has_ref, data.values()))
        return isinstance(value, (list, tuple)) and any(map(self._has_ref, cast(Sequence[Any], value)))

    def _is_about(self, text: str) -> bool:
        return self._key.search(text.partition("\n")[0]) is not None

    def _without_descriptions(self, text: str) -> str:
        return "\n".join(self._replacement(line) if self._key.search(line) else line for line in text.split("\n"))

    def _without_texts(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [self._without_texts(one) for one in cast(Sequence[Any], value)]
        if not isinstance(value, Mapping):
            return value
        data = cast(Mapping[str, Any], value)
        gone = {name: self._replacement(text) for name in _TEXTS if isinstance(text := data.get(name), str) and text}
        if data.get("key") in self.keys:
            gone |= {name: "forgotten" for name in ("description", "why") if name in data}
        elif "description" in data and "key" not in data:
            gone["description"] = ""
        return {name: gone.get(name, self._without_texts(one)) for name, one in data.items()}

    def _replacement(self, text: str) -> str:
        """Placeholders stay, so that the model can ask and is told when the item was forgotten."""
        keys = dict.fromkeys(self._key.findall(text))
        return " ".join(str(MemoryRef(key, "forgotten", 0)) for key in keys) or FORGOTTEN


def _unobserved(decision: Mapping[str, Any], held: Collection[int]) -> Mapping[str, Any]:
    is_observation = held and decision.get("kind") in _OBSERVATIONS
    return _without_observations(decision, held) if is_observation else decision


def _without_observations(value: Any, held: Collection[int]) -> Any:
    """Erase lines that rest on these messages or on unknown ones, and the hints of their chunks."""
    if isinstance(value, (list, tuple)):
        return [_without_observations(one, held) for one in cast(Sequence[Any], value)]
    if not isinstance(value, Mapping):
        return value
    data = {name: _without_observations(one, held) for name, one in cast(Mapping[str, Any], value).items()}
    if data.get("text") and (not data.get("ranges", True) or _meets(data.get("ranges", ()), held)):
        data["text"] = FORGOTTEN
    if "current_task" in data and _meets([(data["first"], data["last"])], held):
        data |= {"current_task": "", "suggested_response": ""}
    return data


def _meets(ranges: Iterable[Sequence[int]], positions: Collection[int]) -> bool:
    return any(first <= position < last for first, last in ranges for position in positions)


def beginning_of(content: str) -> str:
    """Return the first 40 characters of a content as one line."""
    return one_line(content, _BEGINNING_CHARACTERS).removesuffix("…")


class Holder(Protocol):
    """An object that holds texts of users in memory."""

    def drop_traces(self, user_id: str, traces: Traces) -> None:
        """Drop traces before anything is shown or written; called from any thread, must not raise."""
        ...


@dataclass(eq=False)
class PendingTraces:
    """Traces that a context of this user drops at its next step."""

    user_id: str
    waiting: list[Traces] = field(default_factory=list[Traces])

    def drop_traces(self, user_id: str, traces: Traces) -> None:
        if user_id == self.user_id:
            self.waiting.append(traces)


class Copies(Protocol):
    """Copies of sessions outside of the database."""

    async def erase_traces(self, traces: Traces, sessions: Collection[SessionKey]) -> None:
        """Rewrite the copies of these sessions, or raise a StoreError."""
        ...


class Forgettings:
    """The holders and copies of one database that this process knows, weakly held."""

    def __init__(self) -> None:
        self._holders: WeakSet[Holder] = WeakSet()
        self._lock = threading.Lock()
        self.copies: WeakSet[Copies] = WeakSet()

    def watch(self, holder: Holder) -> None:
        with self._lock:
            self._holders.add(holder)

    def tell(self, user_id: str, traces: Traces) -> None:
        with self._lock:
            holders = list(self._holders)
        for holder in holders:
            holder.drop_traces(user_id, traces)


def _strings(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in cast(Mapping[str, Any], value).values():
            yield from _strings(one)
    elif isinstance(value, (list, tuple)):
        for one in cast(Sequence[Any], value):
            yield from _strings(one)


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {name: _mapped(one, change) for name, one in cast(Mapping[str, Any], value).items()}
    if isinstance(value, (list, tuple)):
        return [_mapped(one, change) for one in cast(Sequence[Any], value)]
    return value
