"""Items of type `user_secret`, which earlier versions stored in clear: encrypted, or left out of an import."""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from memory_context.foundation.errors import SecretError
from memory_context.foundation.utf8 import from_utf8, json_object, unescape
from memory_context.store.criteria import MemoryCriteria
from memory_context.store.items import SECRET_TYPE, MemoryItem

from .agent_memory import AgentMemory

__all__ = ["ClearSecrets", "adopt_clear_secrets", "clear_secrets_in", "keep_clear_secret", "without_clear_secrets"]

_PAGE = 200


@dataclass(frozen=True)
class ClearSecrets:
    """Items of type `user_secret`: names of encrypted ones, and keys of those left in clear."""

    encrypted: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


async def adopt_clear_secrets(memory: AgentMemory) -> ClearSecrets:
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


async def keep_clear_secret(memory: AgentMemory, key: str, value: str) -> str | None:
    """Encrypt a value that stood in clear; return its name, None if the vault refuses it."""
    name = key if key[:1].isalpha() else f"secret_{key}"[:64]
    try:
        await memory.secrets.set(name, value)
    except SecretError:
        return None
    return name


def _place_of(memory: AgentMemory, item: MemoryItem) -> AgentMemory:
    sharing = "read_only" if item.is_private else "shared"
    return type(memory)(memory.memory_store, memory.user_id, item.agent_id, item.session_id, sharing=sharing)
