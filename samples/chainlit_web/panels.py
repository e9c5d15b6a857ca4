"""What the side panel shows of the memory, of the user and of the view. Plain data for `public/elements/Memory.jsx`.

Everything is asked for as the user whose panel it is: another user's key is a key that does not exist.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from memory_context import (
    AgentMemory,
    ConflictError,
    ItemNotFoundError,
    MemoryContext,
    MemoryContextError,
    MemoryCriteria,
    MemoryItem,
    MemoryStore,
    MemoryTransform,
)
from memory_context.foundation.references import one_line

from .references import titled

__all__ = [
    "Scope",
    "about_panel",
    "change_statement",
    "forget",
    "item_panel",
    "notes_panel",
    "save_notes",
    "stored_panel",
    "view_panel",
]

Scope = Literal["chat", "all"]

_PAGE_LINES = 300
_PAGE_CHARACTERS = 30_000
_LISTED, _ARTICLES = 60, 20
_PASSAGE_CHARACTERS = 400
_STATEMENTS = 1000
_BASES = {
    "user_words": "you said it",
    "user_edit": "entered or confirmed by {by}",
    "application": "stored by the application",
}


async def stored_panel(
    memory_store: MemoryStore, user_id: str, thread_id: str, scope: Scope = "chat", query: str = ""
) -> dict[str, Any]:
    """Return what is stored of a chat, or of the user, newest first and articles last; with a query, its answers."""
    memory = AgentMemory(memory_store, user_id)
    criteria = MemoryCriteria(session_id=thread_id if scope == "chat" else None, limit=_LISTED + _ARTICLES)
    shown: dict[str, Any] = {"tab": "stored", "scope": scope, "query": query, "items": [], "error": ""}
    try:
        if query.strip():
            hits = await memory.search(query, 12, criteria, reader="panel")
            shown["items"] = [
                _listed(hit.item, thread_id) | {"passage": _around(hit.passage, query)}
                for hit in hits
                if hit.is_relevant
            ]
        else:
            items = sorted(await memory.query(criteria, reader=None), key=lambda item: item.type == "article")
            shown["items"] = [_listed(item, thread_id) for item in items[:_LISTED]]
    except MemoryContextError as error:
        shown["error"] = f"The memory cannot be read now: {error}"
    return shown


async def item_panel(
    memory_store: MemoryStore,
    user_id: str,
    thread_id: str,
    key: str,
    *,
    context: MemoryContext | None = None,
    start_line: int = 1,
    pattern: str = "",
) -> dict[str, Any]:
    """Return one item with a page of its lines, or the lines around what a pattern matches.

    Args:
        memory_store: Where it is.
        user_id: Whose panel it is.
        thread_id: The chat it is looked at from.
        key: The item.
        context: The live context of the chat, which also knows the steps it folded; None without one.
        start_line: First line of the page, from 1.
        pattern: A regular expression; "" for a page.
    """
    shown: dict[str, Any] = {"tab": "item", "key": key, "error": "", "pattern": pattern, "start": start_line}
    memory = AgentMemory(memory_store, user_id)
    try:
        item = await memory.retrieve(key, reader="panel")
        if item is None:
            if context is None:
                raise await memory.not_found(key)
            content = await context.retrieve(key)  # a fold; it raises if it is not
            shown |= {"title": "Folded steps", "tokens": 0, "can_forget": False}
        else:
            content = item.content
            shown |= _listed(item, thread_id) | {"can_forget": True}
        shown |= await _filtered(memory, key, pattern) if pattern and item else _page(content, start_line)
    except ItemNotFoundError as error:
        shown["error"] = f"{str(error)[:1].upper()}{str(error)[1:]}."
    except MemoryContextError as error:
        shown["error"] = str(error)
    return shown


async def forget(memory_store: MemoryStore, user_id: str, key: str) -> int:
    """Erase a content with all items of this user that hold it, and return how many; 0 if the key names none.

    Each item leaves a tombstone, whichever agent and chat it was stored by.

    Raises:
        StoreError: The store refused or cannot be reached now.
    """
    return len(await memory_store.user_stats.forget(user_id, [key]))


async def about_panel(memory_store: MemoryStore, user_id: str, *, with_earlier: bool = False) -> dict[str, Any]:
    """Return what is known of the user: statements, unconfirmed ones apart, and the names of secrets, never a value."""
    memory = AgentMemory(memory_store, user_id)
    shown: dict[str, Any] = {"tab": "about", "statements": [], "unconfirmed": [], "secrets": [], "error": ""}
    try:
        known = await memory.user_memory(with_superseded=with_earlier, limit=_STATEMENTS)
        shown["statements"] = [_statement(item, _basis(item, user_id)) for item in known]
        claims = await memory.unconfirmed()
        shown["unconfirmed"] = [
            _statement(item, " · ".join(filter(None, [item.caveat, item.agent_id]))) for item in claims
        ]
        shown["secrets"] = [{"name": one.name, "has_value": one.has_value} for one in await memory.secrets.names()]
    except MemoryContextError as error:
        shown["error"] = f"What is known of you cannot be read now: {_sentence(error)}"
    return shown | {"with_earlier": with_earlier}


async def change_statement(
    memory_store: MemoryStore, user_id: str, does: str, *, key: str = "", statement: str = "", type: str = ""
) -> str:
    """Change a statement, or delete a secret, of the logged-in user; return "" or a sentence that says why not."""
    memory = AgentMemory(memory_store, user_id)
    try:
        if does == "add":
            await memory.add(statement, type="user_preference" if type == "user_preference" else "user_fact")
        elif does == "edit":
            await memory.edit(key, statement)
        elif does == "confirm":
            await memory.confirm(key)
        elif does == "delete secret":
            await memory.secrets.delete(key)
        elif does != "forget":
            return f"Not done: {does!r} is none of add, edit, confirm, forget and delete secret."
        elif not await forget(memory_store, user_id, key):
            raise await memory.not_found(key)
    except (MemoryContextError, ValueError) as error:
        return f"Not done: {_sentence(error)}"
    return ""


async def notes_panel(memory_store: MemoryStore, user_id: str, agents: Iterable[str]) -> dict[str, Any]:
    """Return the long-term notes of these agents, and of all others that have some about the user."""
    shown: dict[str, Any] = {"tab": "notes", "notes": [], "error": ""}
    try:
        others = [one.agent_id for one in await memory_store.notes.agents(user_id)]
        for agent_id in dict.fromkeys([*agents, *others]):
            notes = await AgentMemory(memory_store, user_id, agent_id).notes.fetch()
            shown["notes"].append({"agent": agent_id, "text": notes.text, "version": notes.version})
    except MemoryContextError as error:
        shown["error"] = f"The notes cannot be read now: {error}"
    return shown


async def save_notes(memory_store: MemoryStore, user_id: str, agent_id: str, text: str, version: int) -> str:
    """Replace the notes of an agent if nobody changed them since; return "" or a sentence that says why not."""
    try:
        notes = AgentMemory(memory_store, user_id, agent_id).notes
        await notes.overwrite(text, expected_version=version)
    except ConflictError:
        return "The agent changed its notes meanwhile: copy what you wrote, open the notes again and add it."
    except (MemoryContextError, ValueError) as error:
        return f"Not saved: {error}."
    return ""


async def view_panel(contexts: Mapping[str, MemoryContext]) -> dict[str, Any]:
    """Return what the models of a chat were sent in their last call, segment by segment."""
    agents: list[dict[str, Any]] = []
    for name, context in contexts.items():
        report, stats = await context.explain(), context.stats
        agents.append(
            {
                "name": name,
                "tokens": report.tokens,
                "budget": report.token_budget,
                "stable": report.stable_tokens,
                "raw": stats.raw_tokens,
                "segments": [
                    {
                        "position": segment.position + 1,
                        "source": segment.source,
                        "kind": segment.kind,
                        "state": segment.state,
                        "tokens": segment.tokens,
                        "full": segment.full_tokens,
                        "keys": list(segment.keys),
                        "why": segment.why,
                    }
                    for segment in report.segments
                ],
                "decisions": [str(decided) for decided in report.decisions],
            }
        )
    return {"tab": "view", "agents": agents, "error": ""}


def _listed(item: MemoryItem, thread_id: str) -> dict[str, Any]:
    title, rest = titled(item.ref.description)
    return {
        "key": item.key,
        "title": title,
        "rest": rest,
        "tokens": item.ref.token_count,
        "type": f"{item.type.replace('_', ' ')} ({item.caveat})" if item.caveat else item.type.replace("_", " "),
        "source": item.source,
        "created": item.created_at.isoformat(timespec="seconds"),
        "is_here": item.session_id == thread_id,
    }


def _statement(item: MemoryItem, basis: str) -> dict[str, Any]:
    return {
        "key": item.key,
        "text": item.content,
        "type": item.type.removeprefix("user_"),
        "since": (item.valid_from or item.created_at).isoformat(timespec="seconds"),
        "until": item.valid_until.isoformat(timespec="seconds") if item.valid_until else "",
        "quote": str(item.metadata.get("quote") or "") if item.origin in _BASES else "",  # else nobody's word
        "basis": basis,
    }


def _basis(item: MemoryItem, user_id: str) -> str:
    by = str(item.metadata.get("confirmed_by") or user_id)
    return _BASES[item.origin].format(by="you" if by == user_id else by)


def _sentence(error: Exception) -> str:
    text = one_line(str(error), 300)
    return text if text.endswith(("?", ".")) else f"{text}."


def _around(passage: str, query: str) -> str:
    """Return the part of a passage that has most of the query's words."""
    words = {word for word in query.lower().split() if len(word) > 2}
    lines = passage.split("\n")
    hits = [sum(word in line.lower() for word in words) for line in lines]
    best = hits.index(max(hits))
    return "\n".join(lines[max(0, best - 2) :])[:_PASSAGE_CHARACTERS]


def _page(content: str, start_line: int) -> dict[str, Any]:
    lines = content.split("\n")
    start = min(max(1, start_line), len(lines))
    shown = list(_fitting(lines[start - 1 : start - 1 + _PAGE_LINES]))
    return {"text": "\n".join(shown), "start": start, "end": start + len(shown) - 1, "lines": len(lines)}


def _fitting(lines: Iterable[str]) -> Iterable[str]:
    left = _PAGE_CHARACTERS
    for line in lines:
        if left <= 0:
            return
        yield line if len(line) <= left else f"{line[:left]} … {len(line) - left:,} more characters"
        left -= len(line) + 1


async def _filtered(memory: AgentMemory, key: str, pattern: str) -> dict[str, Any]:
    transform = MemoryTransform.of("filtered", pattern=pattern, ignore_case=True, max_matches=50)
    found = await memory.retrieve(key, transform, reader=None)
    return {"text": found.content[:_PAGE_CHARACTERS] if found else "", "start": 0, "end": 0, "lines": 0}
