"""Items of type `user_secret`, which earlier versions stored in clear: they are encrypted."""

from dataclasses import dataclass

from memory_context.foundation.errors import SecretError
from memory_context.store.items import SECRET_TYPE, MemoryCriteria

from .agent_memory import AgentMemory

__all__ = ["ClearSecrets", "adopt_clear_secrets", "keep_clear_secret"]

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
        sharing = "read_only" if listed.is_private else "shared"
        place = AgentMemory(store, user_id, listed.agent_id, listed.session_id, sharing=sharing)
        await place.forget(listed.key)
        encrypted.append(name)
    return ClearSecrets(tuple(encrypted), tuple(left))


async def keep_clear_secret(memory: AgentMemory, key: str, value: str) -> str | None:
    """Encrypt a value that stood in clear; return its name, None if the vault refuses it."""
    name = key if key[:1].isalpha() else f"secret_{key}"[:64]
    try:
        await memory.secrets.set(name, value)
    except SecretError:
        return None
    return name
