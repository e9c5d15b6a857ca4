"""Values of secrets in what was stored before they were secrets: found by reading everything, and erased."""

import asyncio
import base64
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from memory_context.foundation.errors import SecretError
from memory_context.foundation.runtime.background import in_thread_if_large
from memory_context.foundation.utf8 import from_utf8, json_object, strings_in, unescape, unescape_json
from memory_context.store.criteria import MemoryCriteria
from memory_context.store.items import SECRET_TYPE, USER_TYPES, MemoryItem, NewItem
from memory_context.store.redact import Traces

from .scope import MemoryScope
from .vault.forms import SecretFilter
from .vault.secrets import Secrets

if TYPE_CHECKING:
    from .agent_memory import AgentMemory

__all__ = [
    "ClearSecrets",
    "MemoryWithSecrets",
    "SecretTraces",
    "adopt_clear_secrets",
    "clear_secrets_in",
    "keep_clear_secret",
    "without_clear_secrets",
]

_PAGE = 200


@dataclass(frozen=True)
class SecretTraces:
    """Where a value stands in clear; false if nowhere.

    Attributes:
        items: Keys, also of archived messages.
        sessions: Archived ones.
        others: Numbers of other rows by kind.
    """

    items: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    others: Mapping[str, int] = field(default_factory=dict[str, int])

    def __bool__(self) -> bool:
        return bool(self.items or self.sessions or self.others)


@dataclass(frozen=True)
class ClearSecrets:
    """Items of type `user_secret`: names of encrypted ones, and keys of those left in clear."""

    encrypted: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


class MemoryWithSecrets(MemoryScope):
    """The methods of `AgentMemory` for the user's secrets."""

    @property
    def secrets(self) -> Secrets:
        """The user's secrets: `await agent_memory.secrets.set("API_TOKEN", value)`; values are never read back."""
        return self._secrets

    async def find_traces(self, name: str) -> SecretTraces:
        """Return where a secret's value is stored in clear; reads everything of the user.

        Raises:
            SecretError: There is no such secret, or no key for it.
        """
        return (await _found(cast("AgentMemory", self), await self._filter_of(name)))[0]

    async def erase_traces(self, name: str) -> SecretTraces:
        """Erase a secret's value wherever it is stored in clear; return what is left of it.

        Archives, chats and running contexts are rewritten. Items are stored again without it, under new keys;
        statements of the user are forgotten.

        Raises:
            SecretError: There is no such secret, or no key for it.
        """
        memory, values = cast("AgentMemory", self), await self._filter_of(name)
        found, spelled = await _found(memory, values)
        for key in found.items:
            await _replace(memory, key)
        if spelled:
            await self.memory_store.redact(self.user_id, Traces.of((), spelled))
        return (await _found(memory, values))[0]

    async def _filter_of(self, name: str) -> SecretFilter:
        return await asyncio.to_thread(SecretFilter, {name: await self._secrets.value_of(name)})


async def _found(memory: "AgentMemory", values: SecretFilter) -> tuple[SecretTraces, set[str]]:
    """Return the places of values, and the texts that spell them there."""
    spelled: set[str] = set()
    sessions: dict[str, None] = {}
    items: dict[str, None] = {}
    others: Counter[str] = Counter()
    async for line in _lines(memory):
        record, found = await in_thread_if_large(len(line), _spelled_in, line, values)
        spelled |= found
        if not found:
            continue
        if record["record"] == "item":
            items[record["memory_key"]] = None
        elif record["record"] in ("batch", "session"):
            sessions[record["session_id"]] = None
        else:
            others[record["record"]] += 1
    async for item in _said(memory):
        if found := set(values.spellings(f"{item.ref.description}\n{item.content}")):
            items[item.key] = None
            spelled |= found
    return SecretTraces(tuple(items), tuple(sessions), dict(others)), spelled


async def adopt_clear_secrets(memory: "AgentMemory") -> ClearSecrets:
    """Encrypt items of type `user_secret`, which earlier versions stored in clear, and forget them."""
    store, user_id = memory.memory_store, memory.user_id
    scope = await store.user_stats.scope(user_id)
    criteria = MemoryCriteria(types=(SECRET_TYPE,), limit=_PAGE)
    encrypted: list[str] = []
    left: list[str] = []
    for listed in await store.items.select_memories(user_id, criteria, scope=scope):
        item = await store.items.fetch_memory(user_id, listed.key, scope=scope)
        name = item and await keep_clear_secret(memory, listed.key, item.content)
        if name is None:
            left.append(listed.key)
            continue
        await _place_of(memory, listed).forget(listed.key)
        encrypted.append(name)
    return ClearSecrets(tuple(encrypted), tuple(left))


def clear_secrets_in(lines: Iterable[bytes]) -> dict[str, str]:
    """Return the contents of an export's items of type `user_secret`, by key."""
    return {str(one["memory_key"]): _content_of(one) for line in lines if (one := _clear_secret(line)) is not None}


def without_clear_secrets(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of an export without these items, unsigned."""
    left_out = 0
    for line in lines:
        if _clear_secret(line) is not None:
            left_out += 1
        elif b'"end"' in line and (end := json_object(line) or {}).get("record") == "end":
            counts = end["records"] | {"item": end["records"].get("item", 0) - left_out}
            yield json.dumps({"record": "end", "records": counts}).encode() + b"\n"
        else:
            yield line


def _clear_secret(line: bytes) -> dict[str, Any] | None:
    if SECRET_TYPE.encode() not in line:
        return None
    record = json_object(line) or {}  # the import says what is wrong with any other line
    is_one = record.get("memory_type") == SECRET_TYPE and record.get("is_active")
    return record if is_one and record.get("record") == "item" else None


def _content_of(record: Mapping[str, Any]) -> str:
    if (encoded := record.get("content_base64")) is not None:
        return from_utf8(base64.b64decode(encoded))
    return unescape(record.get("content") or "")


async def keep_clear_secret(memory: "AgentMemory", key: str, value: str) -> str | None:
    """Encrypt a value that stood in clear; return its name, None if the vault refuses it."""
    name = key if key[:1].isalpha() else f"secret_{key}"[:64]
    try:
        await memory.secrets.set(name, value)
    except SecretError:
        return None
    return name


async def _replace(memory: "AgentMemory", key: str) -> None:
    """Forget an item; store it again without values, unless it is a message or a statement."""
    store = memory.memory_store
    item = await store.items.fetch_memory(memory.user_id, key, scope=await store.user_stats.scope(memory.user_id))
    if item is None or not item.is_active:
        return
    place = _place_of(memory, item)
    if item.type not in (*USER_TYPES, "conversation"):
        kept = ("type", "source", "tags", "related_to", "metadata", "origin", "data", "content_type")
        again = NewItem(
            item.content,
            item.ref.description,
            item.ref.token_count,
            **{name: getattr(item, name) for name in kept},
        )
        await place.store_all([again])
    await place.forget(key)


def _place_of(memory: "AgentMemory", item: MemoryItem) -> "AgentMemory":
    sharing = "read_only" if item.is_private else "shared"
    return type(memory)(memory.memory_store, memory.user_id, item.agent_id, item.session_id, sharing=sharing)


async def _lines(memory: "AgentMemory") -> AsyncIterator[bytes]:
    """Yield the lines of an export, which has every row but derived ones."""
    waiting: list[bytes] = []
    async for piece in memory.memory_store.admin.export_lines(memory.user_id):
        first, *others = piece.split(b"\n")
        waiting.append(first)
        for other in others:
            yield b"".join(waiting)
            waiting = [other]


async def _said(memory: "AgentMemory") -> AsyncIterator[MemoryItem]:
    """Yield archived messages, which are derived from batches and not exported."""
    store, scope = memory.memory_store, await memory.memory_store.user_stats.scope(memory.user_id)
    offset = 0
    while True:
        criteria = MemoryCriteria(conversation=True, limit=_PAGE, offset=offset)
        page = await store.items.select_memories(memory.user_id, criteria, scope=scope)
        for one in page:
            if (item := await store.items.fetch_memory(memory.user_id, one.key, scope=scope)) is not None:
                yield item
        if len(page) < _PAGE:
            return
        offset += _PAGE


def _spelled_in(line: bytes, values: SecretFilter) -> tuple[dict[str, Any], set[str]]:
    text = line.decode("utf-8", "surrogatepass")
    if not values.finds(text):
        return {}, set()
    record = cast(dict[str, Any], json.loads(text))
    texts = list(strings_in(unescape_json(record)))
    if isinstance(encoded := record.get("content_base64"), str) and not record.get("content_type"):
        texts.append(from_utf8(base64.b64decode(encoded)))
    return record, {spelled for text in texts for spelled in values.spellings(text)}
