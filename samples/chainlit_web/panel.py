"""What the side panel shows and changes: plain data for `public/elements/Memory.jsx`.

Everything is asked for as the user whose panel it is: another user's key is a key that does not exist.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from memory_context import (
    AgentMemory,
    ConflictError,
    ItemNotFoundError,
    MemoryContext,
    MemoryContextError,
    MemoryCriteria,
    MemoryItem,
    MemoryStore,
    SessionKey,
)

from .references import title_of

__all__ = ["about_panel", "change_memory", "item_panel", "shown_panel", "stored_panel", "view_panel"]

_LEARNING_SECONDS = 2.0  # the panel waits at most so long for what the user said a moment ago
_PAGE_LINES, _PAGE_CHARACTERS = 300, 30_000
_PASSAGE_CHARACTERS = 400
_LISTED, _FOUND = 60, 12
_TEXT_CHARACTERS = 100_000  # the library refuses longer ones with a reason
_BASES = {"user_words": "you said it", "user_edit": "entered or confirmed by you", "application": "by the application"}


async def shown_panel(
    store: MemoryStore, key: SessionKey, asked: Mapping[str, Any], contexts: Mapping[str, MemoryContext]
) -> dict[str, Any]:
    """Return what a page asks for: `show` names the tab. A store that does not answer is an `error` to show."""
    user_id, tab = key.user_id, asked.get("show")
    try:
        if tab == "view":
            return await view_panel(contexts)
        if tab == "item":
            context, start = next(iter(contexts.values()), None), asked.get("start")
            start_line = start if isinstance(start, int) else 1
            return await item_panel(store, user_id, str(asked.get("key"))[:64], start_line=start_line, context=context)
        for context in contexts.values():
            await context.archive()
        await store.jobs.catch_up(user_id, ("learn",), _LEARNING_SECONDS)
        if tab == "stored":
            session_id = None if asked.get("scope") == "all" else key.session_id
            return await stored_panel(store, user_id, session_id, str(asked.get("query") or "")[:500])
        return await about_panel(store, user_id, [context.agent_id for context in contexts.values()])
    except MemoryContextError as error:
        return {"tab": tab, "error": f"The memory cannot be read now: {error}"}


async def about_panel(store: MemoryStore, user_id: str, agents: Iterable[str] = ()) -> dict[str, Any]:
    """Return what is known of the user: statements, unconfirmed ones apart, agents' notes, names of secrets."""
    memory = AgentMemory(store, user_id)
    notes = []
    for agent_id in dict.fromkeys([*agents, *[one.agent_id for one in await store.notes.agents(user_id)]]):
        kept = await AgentMemory(store, user_id, agent_id).notes.fetch()
        notes.append({"agent": agent_id, "text": kept.text, "version": kept.version})
    return {
        "tab": "about",
        "statements": [_statement(item, _BASES.get(item.origin, "")) for item in await memory.user_memory(limit=1000)],
        "unconfirmed": [
            _statement(item, " · ".join(filter(None, [item.caveat, item.agent_id])))
            for item in await memory.unconfirmed()
        ],
        "notes": notes,
        "secrets": [{"name": one.name, "has_value": one.has_value} for one in await memory.secrets.names()],
    }


async def stored_panel(
    store: MemoryStore, user_id: str, session_id: str | None = None, query: str = ""
) -> dict[str, Any]:
    """Return what is stored of a chat (None: of all), newest first; with a query, what answers it."""
    memory = AgentMemory(store, user_id)
    items: list[dict[str, Any]]
    if query.strip():
        hits = await memory.search(query, _FOUND, MemoryCriteria(session_id=session_id), reader="panel")
        items = [_listed(hit.item) | {"passage": _around(hit.passage, query)} for hit in hits if hit.is_relevant]
    else:
        kept = await memory.query(MemoryCriteria(session_id=session_id, limit=_LISTED), reader=None)
        items = [_listed(item) for item in kept]
    return {"tab": "stored", "scope": "chat" if session_id else "all", "query": query, "items": items}


async def item_panel(
    store: MemoryStore, user_id: str, key: str, *, start_line: int = 1, context: MemoryContext | None = None
) -> dict[str, Any]:
    """Return one item with a page of its lines, or why not, as `error`; a live context also opens what it folded."""
    memory = AgentMemory(store, user_id)
    try:
        item = await memory.retrieve(key, reader="panel")
        if item is not None:
            return {"tab": "item", **_listed(item), **_page(item.content, start_line)}
        if context is None:
            raise await memory.not_found(key)
        return {"tab": "item", "key": key, "title": "Folded steps", **_page(await context.retrieve(key), start_line)}
    except ItemNotFoundError as error:
        return {"tab": "item", "key": key, "error": f"{str(error)[:1].upper()}{str(error)[1:]}."}
    except MemoryContextError as error:
        return {"tab": "item", "key": key, "error": str(error)}


async def view_panel(contexts: Mapping[str, MemoryContext]) -> dict[str, Any]:
    """Return what the models of a chat were sent in their last call, segment by segment."""
    agents: list[dict[str, Any]] = []
    for name, context in contexts.items():
        report = await context.explain()
        agents.append(
            {
                "name": name,
                "inspect": f"/inspector/#/session/{quote(context.session_id, '')}/{quote(context.agent_id, '')}",
                "tokens": report.tokens,
                "budget": report.token_budget,
                "stable": report.stable_tokens,
                "raw": context.stats.raw_tokens,
                "segments": [asdict(segment) for segment in report.segments],
            }
        )
    return {"tab": "view", "agents": agents}


async def change_memory(store: MemoryStore, user_id: str, asked: Mapping[str, Any]) -> str:
    """Do what `does` says, with `key`, `text`, `agent` or `version`; return "" or a sentence that says why not."""
    memory, does = AgentMemory(store, user_id), asked.get("does")
    key, text = str(asked.get("key"))[:64], str(asked.get("text") or "")[:_TEXT_CHARACTERS]
    try:
        if does == "add":
            await memory.add(text)
        elif does == "edit":
            await memory.edit(key, text)
        elif does == "confirm":
            await memory.confirm(key)
        elif does == "delete secret":
            await memory.secrets.delete(key)
        elif does == "save notes":
            version = asked.get("version")
            notes = AgentMemory(store, user_id, str(asked.get("agent"))[:128]).notes
            await notes.overwrite(text, expected_version=version if isinstance(version, int) else -1)
        elif does == "forget" and not await store.user_stats.forget(user_id, [key]):  # all items of the same content
            raise await memory.not_found(key)
    except ConflictError:
        return "The agent changed its notes meanwhile: copy what you wrote, open the notes again and add it."
    except (MemoryContextError, ValueError) as error:
        return f"Not done: {error}"
    return ""


def _around(passage: str, query: str) -> str:
    """Return the part of a passage that begins before its line with the most words of the query."""
    lines, words = passage.split("\n"), query.lower().split()
    best = max(range(len(lines)), key=lambda place: sum(word in lines[place].lower() for word in words))
    return "\n".join(lines[max(0, best - 2) :])[:_PASSAGE_CHARACTERS]


def _listed(item: MemoryItem) -> dict[str, Any]:
    kind = item.type.replace("_", " ")
    return {
        "key": item.key,
        "title": title_of(item.ref.description),
        "type": f"{kind} ({item.caveat})" if item.caveat else kind,
        "tokens": item.ref.token_count,
        "source": item.source,
        "created": item.created_at.isoformat(timespec="seconds"),
    }


def _statement(item: MemoryItem, basis: str) -> dict[str, Any]:
    return {
        "key": item.key,
        "text": item.content,
        "type": item.type.removeprefix("user_"),
        "since": (item.valid_from or item.created_at).isoformat(timespec="seconds"),
        "quote": str(item.metadata.get("quote") or "") if item.origin in _BASES else "",  # else not the user's words
        "basis": basis,
    }


def _page(content: str, start_line: int) -> dict[str, Any]:
    lines = content.split("\n")
    start = min(max(1, start_line), len(lines))
    page = lines[start - 1 : start - 1 + _PAGE_LINES]
    text = "\n".join(page)[:_PAGE_CHARACTERS]
    return {"text": text, "start": start, "end": start + len(page) - 1, "lines": len(lines)}
