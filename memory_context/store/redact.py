"""Removes forgotten items from what was archived: the only rewriting of an archive. It follows recorded sources.

batch ─▶ texts of forgotten messages, arguments that became an item, and answers of look-ups go ─▶ new hash
      └▶ decisions that name a forgotten key lose their texts; so do observations of such messages, and hints
"""

import json
import re
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, cast
from weakref import WeakSet

from memory_context.foundation.identifiers import SessionKey
from memory_context.foundation.references import MemoryRef, one_line
from memory_context.foundation.utf8 import escape, map_strings, strings_in, unescape

__all__ = ["FORGOTTEN", "Copies", "Forgettings", "Holder", "Holding", "PendingTraces", "Traces"]

FORGOTTEN = "[forgotten]"

_TEXTS = ("text", "compacted", "excerpt", "headline")
_OBSERVATIONS = ("observed", "reflected", "observations_restored")
_STATEMENTS = ("user_memory", "user_memory_news")
_MADE_FROM_ONE = ("retained", "shortened", "first_view")  # kinds of decisions
_BEGINNING_CHARACTERS = 41
_LEAST_BEGINNING_CHARACTERS = 8
_LEAST_ARGUMENT_CHARACTERS = 40


@dataclass
class Holding:
    """Places in a transcript that hold a forgotten item.

    Attributes:
        said: Positions of forgotten messages.
        others: Positions of messages of which a part became an item, or which answer a look-up.
        arguments: Positions and indices of calls with an argument that became an item.
        call_ids: Look-ups of a forgotten key.
    """

    said: set[int] = field(default_factory=set[int])
    others: set[int] = field(default_factory=set[int])
    arguments: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    call_ids: set[str] = field(default_factory=set[str])


@dataclass(frozen=True)
class Traces:
    """Forgotten items, to be removed from the JSON values of batches and saved states.

    Attributes:
        keys: Decisions that name one lose the texts made from its content.
        said: By session, the texts of its forgotten messages; statements about the user under "".
    """

    keys: frozenset[str]
    said: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])

    @classmethod
    def of(cls, keys: Iterable[str], said: Iterable[tuple[str, str]] = ()) -> "Traces":
        """Return the traces of keys, and of messages by session and text."""
        texts: dict[str, set[str]] = {}
        for session_id, text in said:
            texts.setdefault(session_id, set()).update([text] if text else [])
        return cls(frozenset(keys), {session_id: frozenset(some) for session_id, some in texts.items()})

    def beginnings(self, session_id: str | None = None) -> list[str]:
        """Return the first words of messages, of one session or all, as one line: titles and folds begin with them."""
        said = [self.said.get(session_id, ())] if session_id is not None else self.said.values()
        lines = {one_line(text, _BEGINNING_CHARACTERS).removesuffix("…") for some in said for text in some}
        return sorted(line for line in lines if len(line) >= _LEAST_BEGINNING_CHARACTERS)

    @property
    def probes(self) -> list[str]:
        """Parts of the JSON text of each batch that holds something, but for the messages themselves."""
        return [*sorted(self.keys), *(json.dumps(escape(one), ensure_ascii=False)[1:-1] for one in self.beginnings())]

    def holding(self, transcript: Mapping[str, Any], session_id: str, known: Holding | None = None) -> Holding:
        """Return the places of a transcript, added to those of its earlier batches."""
        holding, said = known or Holding(), self.said.get(session_id, ())
        for position, entry in enumerate(transcript["entries"], transcript.get("first_position", 0)):
            for block in _blocks(entry):
                if isinstance(block, str):
                    holding.said |= {position} if unescape(block) in said else set()
                elif "arguments" in block:
                    is_look_up = '"memory_key"' in block["arguments"] and self._key.search(block["arguments"])
                    holding.call_ids |= {block["id"]} if is_look_up else set()
                elif block.get("call_id") in holding.call_ids or self._shows_item(block):
                    holding.others.add(position)
        for _, one in transcript["decisions"]:
            if one.get("kind") == "offloaded" and self._has_ref(one):
                holding.others.add(one["position"])
                if one["address"]["kind"] == "arguments":
                    holding.arguments.add((one["position"], one["address"]["index"]))
                elif one["address"]["kind"] == "text":
                    holding.said.add(one["position"])
        return holding

    def redacted(self, body: Any, session_id: str, holding: Holding | None = None) -> Any:
        """Return a JSON value, such as a batch or a saved state, without the items and the texts made from them.

        Args:
            holding: The places in all batches of the same transcript.
        """
        if isinstance(body, (list, tuple)):
            return [self.redacted(one, session_id) for one in cast(Sequence[Any], body)]
        if not isinstance(body, Mapping):
            return body
        data = cast(Mapping[str, Any], body)
        if "entries" in data and "decisions" in data:  # a transcript
            places = self.holding(data, session_id, holding)
            first = data.get("first_position", 0)
            entries = [self._entry(entry, at, places) for at, entry in enumerate(data["entries"], first)]
            decisions = [[at, self._decision(one, places, session_id)] for at, one in data["decisions"]]
            return {**data, "entries": entries, "decisions": decisions}
        if "sender" in data and "text" in data:  # a chat message
            is_gone = unescape(data["text"]) in self.said.get(session_id, ())
            return {**data, "text": FORGOTTEN} if is_gone else data
        return {name: self.redacted(one, session_id) for name, one in data.items()}

    @cached_property
    def _key(self) -> re.Pattern[str]:
        names = "|".join(map(re.escape, sorted(self.keys, key=len, reverse=True)))
        return re.compile(rf"(?<![\w.-])(?:{names})(?![\w-])" if names else r"(?!)")

    def _shows_item(self, result: Mapping[str, Any]) -> bool:
        """Searches and listings show items below their references."""
        text = str(result.get("content", ""))
        return any(text.endswith("[MemoryRef: ", 0, found.start()) for found in self._key.finditer(text))

    def _entry(self, entry: Mapping[str, Any], position: int, places: Holding) -> Mapping[str, Any]:
        if position not in places.said | places.others and not any(position == at for at, _ in places.arguments):
            return entry
        message: Mapping[str, Any] = entry["message"]
        blocks = [self._block(one, (position, at), places) for at, one in enumerate(_blocks(entry))]
        content = blocks if isinstance(message["content"], list) else blocks[0]
        return {**entry, "message": {**message, "content": content}}

    def _block(self, block: Any, place: tuple[int, int], places: Holding) -> Any:
        if isinstance(block, str):
            return FORGOTTEN if block and place[0] in places.said else block
        if place in places.arguments and "arguments" in block:
            arguments = map_strings(
                json.loads(unescape(block["arguments"])),
                lambda text: FORGOTTEN if len(text) >= _LEAST_ARGUMENT_CHARACTERS else text,
            )
            return {**block, "arguments": escape(json.dumps(arguments, ensure_ascii=block["arguments"].isascii()))}
        if block.get("call_id") in places.call_ids or self._shows_item(block):
            return {**block, "content": self._replacement(block["content"])}
        return block

    def _decision(self, data: Mapping[str, Any], places: Holding, session_id: str) -> Any:
        """Texts made from a forgotten item or message go; other texts only lose what they say of it."""
        held = places.said | places.others
        if held and data.get("kind") in _OBSERVATIONS:
            data = _mapped(data, lambda one: _without_observation(one, held))
        if places.said:
            data = _mapped(data, lambda one: _unsaid(one, places.said))
        # what is known of the user shows titles of other sessions
        if beginnings := self.beginnings(None if data.get("kind") in _STATEMENTS else session_id):
            line = re.compile(f"(?:{'|'.join(map(re.escape, beginnings))})[^\n]*")
            data = cast(Mapping[str, Any], map_strings(data, lambda text: line.sub(FORGOTTEN, text)))
        if not any(map(self._key.search, strings_in(data))):
            return data
        if data.get("kind") in _STATEMENTS:
            return self._without_statements(data)
        text = data.get("text") or data.get("excerpt") or data.get("headline") or ""
        if self._has_ref(data) or (data.get("kind") in _MADE_FROM_ONE and self._key.search(text.partition("\n")[0])):
            return _mapped(data, self._without_texts)
        return map_strings(data, self._without_descriptions)

    def _without_statements(self, data: Mapping[str, Any]) -> Any:
        """The lines of statements stand before all others, in the order of their keys."""
        lines = data["text"].split("\n")
        places = (number for number, line in enumerate(lines) if line.startswith("- "))
        gone = {place for key, place in zip(data["keys"], places, strict=False) if key in self.keys}
        text = "\n".join(line for number, line in enumerate(lines) if number not in gone)
        return {**data, "text": text, "keys": [key for key in data["keys"] if key not in self.keys]}

    def _has_ref(self, value: Any) -> bool:
        if isinstance(value, Mapping):
            data = cast(Mapping[str, Any], value)
            return data.get("key") in self.keys or any(map(self._has_ref, data.values()))
        return isinstance(value, (list, tuple)) and any(map(self._has_ref, cast(Sequence[Any], value)))

    def _without_descriptions(self, text: str) -> str:
        return "\n".join(self._replacement(line) if self._key.search(line) else line for line in text.split("\n"))

    def _without_texts(self, data: dict[str, Any]) -> dict[str, Any]:
        gone = {name: self._replacement(text) for name in _TEXTS if isinstance(text := data.get(name), str) and text}
        if data.get("key") in self.keys:
            gone |= {name: "forgotten" for name in ("description", "why") if name in data}
        elif "description" in data and "key" not in data:
            gone["description"] = ""
        return data | gone

    def _replacement(self, text: str) -> str:
        """Placeholders stay, so that the model can ask and is told when the item was forgotten."""
        keys = dict.fromkeys(self._key.findall(text))
        return " ".join(str(MemoryRef(key, "forgotten", 0)) for key in keys) or FORGOTTEN


def _blocks(entry: Mapping[str, Any]) -> Sequence[Any]:
    content: Any = entry["message"]["content"]
    return cast(Sequence[Any], content) if isinstance(content, list) else [content]


def _mapped(value: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Return a JSON value with each of its objects changed, inner ones first."""
    if isinstance(value, (list, tuple)):
        return [_mapped(one, change) for one in cast(Sequence[Any], value)]
    if not isinstance(value, Mapping):
        return value
    return change({name: _mapped(one, change) for name, one in cast(Mapping[str, Any], value).items()})


def _unsaid(data: dict[str, Any], said: Collection[int]) -> dict[str, Any]:
    """Erase texts that a decision took from a message, such as an order."""
    return data | ({name: FORGOTTEN for name in _TEXTS if data.get(name)} if data.get("position") in said else {})


def _without_observation(data: dict[str, Any], held: Collection[int]) -> dict[str, Any]:
    """Erase a line that rests on these messages or on unknown ones, and the hints of a chunk of them."""
    if data.get("text") and (not data.get("ranges", True) or _meets(data.get("ranges", ()), held)):
        data["text"] = FORGOTTEN
    if "current_task" in data and _meets([(data["first"], data["last"])], held):
        data |= {"current_task": "", "suggested_response": ""}
    return data


def _meets(ranges: Iterable[Sequence[int]], positions: Collection[int]) -> bool:
    return any(first <= position < last for first, last in ranges for position in positions)


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
