"""Parts of AutoGen's messages: results, texts, thoughts, arguments, images."""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal, TypeVar, cast
from weakref import WeakKeyDictionary

from autogen_core import FunctionCall, Image
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    UserMessage,
)
from pydantic import BaseModel, TypeAdapter

from .utf8 import escape_json, json_object, sayable, sayable_json, sayable_name, unescape_json

__all__ = [
    "MEMORY_SOURCE",
    "Address",
    "Pairing",
    "PartKind",
    "calls_of",
    "copy_message",
    "heading_of",
    "image_at",
    "image_from_bytes",
    "images_of",
    "interrupted_result",
    "long_strings",
    "message_digest",
    "message_from_json",
    "message_to_json",
    "overhead_texts",
    "png_bytes",
    "replace_strings",
    "results_of",
    "sendable_message",
    "sendable_text",
    "source_of",
    "text_at",
    "texts_of",
    "with_texts",
]

PartKind = Literal["result", "text", "thought", "arguments", "image"]

MEMORY_SOURCE = "memory"
"""Source of the messages that the context itself adds."""

_Model = TypeVar("_Model", bound=BaseModel)

_ADAPTER: TypeAdapter[LLMMessage] = TypeAdapter(LLMMessage)


@dataclass(frozen=True, order=True)
class Address:
    """Kind of a part, and number of its result, block or call (from 0)."""

    kind: PartKind
    index: int = 0


def texts_of(message: LLMMessage) -> list[tuple[Address, str]]:
    """Return all texts in reading order."""
    if isinstance(message, FunctionExecutionResultMessage):
        return [(Address("result", i), result.content) for i, result in enumerate(message.content)]
    texts: list[tuple[Address, str]] = []
    if isinstance(message, AssistantMessage) and message.thought is not None:
        texts.append((Address("thought"), message.thought))
    if isinstance(message.content, str):
        texts.append((Address("text"), message.content))
        return texts
    for i, block in enumerate(message.content):
        if isinstance(block, str):
            texts.append((Address("text", i), block))
        elif isinstance(block, FunctionCall):
            texts.append((Address("arguments", i), block.arguments))
    return texts


def text_at(message: LLMMessage, address: Address) -> str:
    """Return a text."""
    if isinstance(message, FunctionExecutionResultMessage):
        return message.content[address.index].content
    if address.kind == "thought":
        return cast(AssistantMessage, message).thought or ""
    content = message.content
    if isinstance(content, str):
        return content
    block = content[address.index]
    return block.arguments if isinstance(block, FunctionCall) else cast(str, block)


def image_at(message: LLMMessage, address: Address) -> Image | None:
    """Return an image; None if there is a text in its place."""
    block = message.content[address.index]
    return block if isinstance(block, Image) else None


def overhead_texts(message: LLMMessage) -> dict[Address, tuple[str, ...]]:
    """Return names and ids beside each part."""
    if isinstance(message, FunctionExecutionResultMessage):
        return {Address("result", i): (r.name, r.call_id) for i, r in enumerate(message.content)}
    if isinstance(message, UserMessage):  # clients may send the source
        return {address: (message.source,) for address, _ in texts_of(message)[:1]}
    return {Address("arguments", i): (call.name, call.id) for i, call in enumerate(calls_of(message))}


def heading_of(message: LLMMessage, address: Address) -> str:
    """Return what a text is, such as `called run_shell with` or `result of run_shell, an error`."""
    if address.kind == "result":
        result = results_of(message)[address.index]
        return f"result of {result.name}, an error" if result.is_error else f"result of {result.name}"
    if address.kind == "arguments":
        return f"called {calls_of(message)[address.index].name} with"
    return "thought" if address.kind == "thought" else "answered" if isinstance(message, AssistantMessage) else "said"


def with_texts(message: LLMMessage, texts: Mapping[Address, str | Image]) -> LLMMessage:
    """Return a deep copy with other texts; a text may stand for an image, and an image return to its place."""
    if not texts:
        return copy_message(message)
    if isinstance(message, FunctionExecutionResultMessage):
        results = [
            _fast_copy(result, content=texts.get(Address("result", i), result.content))
            for i, result in enumerate(message.content)
        ]
        return _fast_copy(message, content=results)
    if isinstance(message.content, str):
        content = texts.get(Address("text"), message.content)
    else:
        content = [_copy_block(block, i, texts) for i, block in enumerate(message.content)]
    if isinstance(message, AssistantMessage) and message.thought is not None:
        return _fast_copy(message, content=content, thought=texts.get(Address("thought"), message.thought))
    return _fast_copy(message, content=content)


def sendable_text(kind: PartKind, text: str) -> str:
    """Return a text as clients of models can send it: half surrogates are spelled, and arguments stay JSON."""
    return sayable_json(text) if kind == "arguments" else sayable(text)


def sendable_message(message: LLMMessage) -> LLMMessage:
    """Return a message that encodes as UTF-8 JSON; the same object if this one does."""
    texts = {
        address: spelled
        for address, text in texts_of(message)
        if (spelled := sendable_text(address.kind, text)) is not text
    }
    message = with_texts(message, texts) if texts else message
    if all(sayable(name) is name for name in _names_of(message)):
        return message
    if isinstance(message, FunctionExecutionResultMessage):
        results = [
            _fast_copy(one, name=sayable_name(one.name), call_id=sayable_name(one.call_id)) for one in message.content
        ]
        return _fast_copy(message, content=results)
    if calls := calls_of(message):
        named = [FunctionCall(sayable_name(call.id), call.arguments, sayable_name(call.name)) for call in calls]
        message = _fast_copy(message, content=named)
    return _fast_copy(message, source=sayable_name(source_of(message) or ""))


def _names_of(message: LLMMessage) -> Iterator[str]:
    if isinstance(message, FunctionExecutionResultMessage):
        yield from (name for one in message.content for name in (one.name, one.call_id))
    yield from (name for call in calls_of(message) for name in (call.name, call.id))
    yield source_of(message) or ""


def copy_message(message: LLMMessage) -> LLMMessage:
    """Return a deep copy that shares only images."""
    content = message.content
    if isinstance(content, str):
        return _fast_copy(message)
    if isinstance(message, FunctionExecutionResultMessage):
        return _fast_copy(message, content=[_fast_copy(result) for result in message.content])
    blocks = [
        FunctionCall(one.id, one.arguments, one.name) if isinstance(one, FunctionCall) else one for one in content
    ]
    return _fast_copy(message, content=blocks)


def _copy_block(block: str | Image | FunctionCall, index: int, texts: Mapping[Address, str | Image]) -> Any:
    if isinstance(block, FunctionCall):
        return FunctionCall(block.id, cast(str, texts.get(Address("arguments", index), block.arguments)), block.name)
    image = texts.get(Address("image", index))
    return texts.get(Address("text", index), block) if image is None else image


_new, _set = object.__new__, object.__setattr__  # pydantic models refuse setting their internals


def _fast_copy(model: _Model, **changes: Any) -> _Model:
    """As `model_copy(update=changes)` in a third of the time."""
    copy = _new(model.__class__)
    fields, names = model.__dict__.copy(), model.__pydantic_fields_set__.copy()
    if changes:
        fields.update(changes)
        names.update(changes)
    _set(copy, "__dict__", fields)
    _set(copy, "__pydantic_fields_set__", names)
    _set(copy, "__pydantic_extra__", None)
    _set(copy, "__pydantic_private__", None)
    return copy


def calls_of(message: LLMMessage) -> Sequence[FunctionCall]:
    """Return calls."""
    if isinstance(message, AssistantMessage) and not isinstance(message.content, str):
        return message.content
    return ()


def results_of(message: LLMMessage) -> Sequence[FunctionExecutionResult]:
    """Return tool results."""
    return message.content if isinstance(message, FunctionExecutionResultMessage) else ()


def source_of(message: LLMMessage) -> str | None:
    """Return the source."""
    return message.source if isinstance(message, (UserMessage, AssistantMessage)) else None


def images_of(message: LLMMessage) -> list[Address]:
    """Return addresses of images."""
    if not isinstance(message, UserMessage) or isinstance(message.content, str):
        return []
    return [Address("image", i) for i, block in enumerate(message.content) if isinstance(block, Image)]


_encoded: WeakKeyDictionary[Image, bytes] = WeakKeyDictionary()


def png_bytes(image: Image) -> bytes:
    """Return an image as the PNG that clients of models send; the first time this takes some 0.2 s a megapixel."""
    if (data := _encoded.get(image)) is None:
        data = _encoded[image] = base64.b64decode(image.to_base64())
    return data


def image_from_bytes(data: bytes) -> Image:
    """Reverse `png_bytes`."""
    image = Image.from_base64(base64.b64encode(data).decode())
    _encoded[image] = data
    return image


def interrupted_result(call: FunctionCall) -> FunctionExecutionResult:
    """Return a synthetic error result."""
    return FunctionExecutionResult(
        content="No result: the run was interrupted before this call returned.",
        name=call.name,
        call_id=call.id,
        is_error=True,
    )


def long_strings(arguments: str, least_characters: int) -> list[tuple[str, str]]:
    """Return JSON pointers (RFC 6901) and values of long strings in arguments."""
    strings = _strings_in(json_object(arguments) or {})
    return [(pointer, value) for pointer, value in strings if len(value) >= least_characters]


def replace_strings(arguments: str, replacements: Mapping[str, str]) -> str:
    """Replace the values at these JSON pointers."""
    parsed = json.loads(arguments)
    for pointer, text in replacements.items():
        *path, last = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
        target: Any = parsed
        for step in path:
            target = target[_index(target, step)]
        target[_index(target, last)] = text
    return sayable_json(json.dumps(parsed, ensure_ascii=arguments.isascii()))  # counted and shown as it is


def _index(container: Any, step: str) -> Any:
    return int(step) if isinstance(container, list) else step


def _strings_in(value: Any) -> Iterator[tuple[str, str]]:
    """Not recursive, since models choose the depth."""
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting:
        pointer, value = waiting.pop()
        if isinstance(value, str):
            yield pointer, value
        elif isinstance(value, dict):
            fields = cast(dict[str, Any], value).items()
            waiting += [(f"{pointer}/{_escaped_step(name)}", item) for name, item in reversed(fields)]
        elif isinstance(value, list):
            items = list(enumerate(cast(list[Any], value)))
            waiting += [(f"{pointer}/{i}", item) for i, item in reversed(items)]


def _escaped_step(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


@dataclass
class Pairing:
    """Calls and their results, by positions of messages.

    Call ids may be empty or reused: a result answers the newest open call with its id, preferring its name.

    Attributes:
        answers: (position, index) of each call's result, or None.
        callers: Place of each result's call.
        orphans: Indexes of results without a call.
    """

    answers: dict[int, list[tuple[int, int] | None]] = field(default_factory=dict[int, list[tuple[int, int] | None]])
    callers: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict[tuple[int, int], tuple[int, int]])
    orphans: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    asking: list[int] = field(default_factory=list[int])
    _open: list[tuple[int, int, FunctionCall]] = field(default_factory=list[tuple[int, int, FunctionCall]])

    def add(self, position: int, message: LLMMessage) -> None:
        calls = calls_of(message)
        if calls:
            self.answers[position] = [None] * len(calls)
            self.asking.append(position)
            self._open.extend((position, i, call) for i, call in enumerate(calls))
        for index, result in enumerate(results_of(message)):
            slot = self._take_open_call(result)
            if slot is None:
                self.orphans.setdefault(position, []).append(index)
            else:
                self.answers[slot[0]][slot[1]] = (position, index)
                self.callers[position, index] = slot

    def forget_open_calls(self, before: int) -> None:
        """Let no later result answer earlier calls."""
        self._open = [slot for slot in self._open if slot[0] >= before]

    def _take_open_call(self, result: FunctionExecutionResult) -> tuple[int, int] | None:
        matching = [slot for slot in self._open if slot[2].id == result.call_id]
        if not matching:
            return None
        slot = max(matching, key=lambda slot: (slot[0], slot[2].name == result.name, -slot[1]))
        self._open.remove(slot)
        return slot[0], slot[1]

    def last_answer(self, position: int) -> int:
        return max((answer[0] for answer in self.answers.get(position, ()) if answer), default=position)

    def step_ends(self, start: int, end: int) -> list[int]:
        """Return the positions in `(start, end]` at which no call waits for a result behind them."""
        ends: list[int] = []
        open_until = start
        for position in range(start, end):
            open_until = max(open_until, self.last_answer(position) + 1)
            if position + 1 >= open_until:
                ends.append(position + 1)
        return ends

    def first_open(self, end: int) -> int:
        """Return the first position whose calls may still be answered, else `end`."""
        return min((position for position, _, _ in self._open), default=end)


def message_to_json(message: LLMMessage) -> dict[str, Any]:
    """Return JSON-native data."""
    images = images_of(message)
    data = with_texts(message, dict.fromkeys(images, "")).model_dump() if images else message.model_dump()
    for address in images:
        image = cast(Image, image_at(message, address))
        data["content"][address.index] = {"data": base64.b64encode(png_bytes(image)).decode()}
    return escape_json(data)


def message_digest(message: LLMMessage) -> bytes:
    """Return the SHA-256 of a sendable message; images count by their pixels, since to encode them takes long."""
    images = images_of(message)
    digest = sha256((with_texts(message, dict.fromkeys(images, "")) if images else message).model_dump_json().encode())
    for address in images:
        pixels = cast(Image, image_at(message, address)).image
        digest.update(f"{address.index} {pixels.size}".encode() + pixels.tobytes())
    return digest.digest()


def message_from_json(data: Mapping[str, Any]) -> LLMMessage:
    """Reverse `message_to_json`."""
    return _ADAPTER.validate_python(unescape_json(data))
