"""`list`, `store` and `forget`: stored items.

Commands act for the user: they also list and forget items that one agent keeps private, marked as such.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .console import USAGE_ERROR, Failure, age, confirm, counted, print_json, print_table, progress_bar, say
from .lookup import JsonOption, UrlOption, UserOption, YesOption, find_key, find_user, parse_since, run

if TYPE_CHECKING:
    from ..references import MemoryRef
    from ..store import MemoryCriteria, MemoryItem, MemoryStore
    from ..store.admin.user_stats import Tombstone

__all__ = [
    "AgentOption",
    "SessionOption",
    "SourcesOption",
    "TagsOption",
    "TypesOption",
    "criteria_of",
    "forget",
    "item_json",
    "list_items",
    "store_file",
    "text_of",
]

TypesOption = Annotated[list[str] | None, typer.Option("--type", help="Only this type; may be given several times.")]
SourcesOption = Annotated[list[str] | None, typer.Option("--source", help="Only from this source, such as a tool.")]
TagsOption = Annotated[list[str] | None, typer.Option("--tag", help="Only with this tag; several: with all of them.")]
SessionOption = Annotated[str | None, typer.Option("--session", help="Only of this session.")]
AgentOption = Annotated[str | None, typer.Option("--agent", help="Only of this agent.")]

_KEYS_AT_ONCE = 200
_NO_LIMIT = 2**31 - 1


def criteria_of(
    types: list[str] | None = None,
    sources: list[str] | None = None,
    tags: list[str] | None = None,
    session: str | None = None,
    agent: str | None = None,
    since: str | None = None,
    limit: int = 50,
) -> "MemoryCriteria":
    """Return options as criteria of items.

    Raises:
        Failure: `since` is not a time.
    """
    from ..memory import MemoryCriteria

    return MemoryCriteria(
        types=tuple(types or ()),
        sources=tuple(sources or ()),
        tags=tuple(tags or ()),
        session_id=session,
        agent_id=agent,
        created_after=parse_since(since),
        limit=limit,
    )


# --- list


def list_items(
    types: TypesOption = None,
    sources: SourcesOption = None,
    tags: TagsOption = None,
    session: SessionOption = None,
    agent: AgentOption = None,
    since: Annotated[str | None, typer.Option(help="Only stored since: 12h, 7d, or a date like 2026-01-31.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most; the newest come first.")] = 50,
    forgotten: Annotated[bool, typer.Option("--forgotten", help="What was forgotten instead, and when.")] = False,
    url: UrlOption = None,
    user: UserOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what is stored, the newest first.

    Items private to a sub-agent are listed too, marked as private.
    """
    criteria = criteria_of(types, sources, tags, session, agent, since, limit + 1)
    if forgotten and (types or sources or tags or agent or since):
        raise Failure("of forgotten items only --session and --limit choose: the rest was forgotten", USAGE_ERROR)

    async def work(store: "MemoryStore") -> "list[MemoryItem] | list[Tombstone]":
        name = await find_user(store, user)
        if forgotten:
            return await store.user_stats.forgotten(name, session_id=session, limit=limit + 1)
        return await store.select_memories(name, criteria, scope=await store.user_stats.scope(name))

    found = run(work, url)
    shown = found[:limit]
    if as_json:
        print_json([item_json(one) for one in shown])
    elif not shown:
        say("nothing was forgotten" if forgotten else "nothing is stored that meets this")
    else:
        columns = ("key", "type", "source", "tokens", "age", "description")
        print_table(columns, _rows(shown), right=("tokens", "age"), cut=("type", "source", "description"))
    if len(found) > limit:
        say(f"there are more than {limit}: --limit shows more, options such as --source and --since choose")


def _rows(items: "Iterable[MemoryItem | Tombstone]") -> Iterable[tuple[object, ...]]:
    from ..store import MemoryItem

    for one in items:
        if isinstance(one, MemoryItem):
            remarks = (
                f"private to {one.agent_id or 'its session'}" if one.is_private else "",
                one.caveat,
                f"the same as {', '.join(one.other_keys)}" if one.other_keys else "",
            )
            remark = "; ".join(filter(None, remarks))
            what = f"({remark}) {one.ref.description}" if remark else one.ref.description
            yield one.key, one.type, one.source, f"{one.ref.token_count:,}", age(one.created_at), what
        else:
            what = f"forgotten {age(one.forgotten_at)} ago"
            yield one.memory_key, one.memory_type, one.source, "-", age(one.created_at), what


def item_json(one: "MemoryItem | Tombstone") -> dict[str, Any]:
    """Return the JSON of an item or tombstone in all commands, without content."""
    from ..store import MemoryItem

    if not isinstance(one, MemoryItem):
        return {
            "key": one.memory_key,
            "type": one.memory_type,
            **{name: getattr(one, name) for name in ("source", "agent_id", "session_id", "created_at", "forgotten_at")},
        }
    return {
        "key": one.key,
        "description": one.ref.description,
        "token_count": one.ref.token_count,
        "type": one.type,
        "source": one.source,
        "origin": one.origin,
        "caveat": one.caveat or None,
        "agent_id": one.agent_id,
        "session_id": one.session_id,
        "is_private": one.is_private,
        "tags": list(one.tags),
        "related_to": list(one.related_to),
        "metadata": dict(one.metadata),
        "other_keys": list(one.other_keys),
        "created_at": one.created_at,
    }


# --- store


def store_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file; - for what is piped in.")] = Path("-"),
    description: Annotated[
        str | None,
        typer.Option("--description", "-d", help="One line that says what it is. [default: the file's name]"),
    ] = None,
    memory_type: Annotated[str, typer.Option("--type", help="What sort of memory it is.")] = "custom",
    source: Annotated[
        str | None, typer.Option("--source", help="Where it came from. [default: the file's name]")
    ] = None,
    tags: Annotated[list[str] | None, typer.Option("--tag", help="A word to find it by; repeatable.")] = None,
    related_to: Annotated[
        list[str] | None, typer.Option("--related-to", help="The key of an item it belongs to; repeatable.")
    ] = None,
    agent: Annotated[str, typer.Option("--agent", help="The agent that stores it. [default: none]")] = "",
    session: Annotated[str, typer.Option("--session", help="The session it is stored in. [default: none]")] = "",
    url: UrlOption = None,
    user: UserOption = None,
    as_json: JsonOption = False,
) -> None:
    """Store a text, from a file or piped in, and print its key.

    Any text in UTF-8 is kept byte for byte. The same text of the same source, agent and session is the same item.
    """
    name = None if str(file) == "-" else file.name

    async def work(store: "MemoryStore") -> "MemoryRef":
        from ..memory import AgentMemory

        memory = AgentMemory(store, await find_user(store, user), agent, session)
        return await memory.store(
            text_of(file),
            description=description or name,
            type=memory_type,  # checked there
            source=source or name,
            tags=tags or (),
            related_to=related_to or (),
        )

    ref = run(work, url)
    if as_json:
        print_json({"key": ref.key, "description": ref.description, "token_count": ref.token_count})
    else:
        typer.echo(ref.key)


def text_of(file: Path) -> str:
    """Return the text of a file or of stdin.

    Raises:
        Failure: It cannot be read, or is not UTF-8.
    """
    if str(file) == "-" and sys.stdin.isatty():
        raise Failure("there is nothing to store: name a FILE, or pipe a text in", USAGE_ERROR)
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        return data.decode("utf-8", "surrogatepass")  # as `show` writes lone surrogates
    except UnicodeDecodeError as error:
        raise Failure(f"{file} is not text in UTF-8 (at byte {error.start:,})") from error
    except OSError as error:
        raise Failure(f"{file} cannot be read: {error.strerror or error}") from error


# --- forget


def forget(
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="KEY", help="The items' keys; without --yes also their beginnings.")
    ] = None,
    session: SessionOption = None,
    agent: AgentOption = None,
    types: TypesOption = None,
    everything: Annotated[bool, typer.Option("--all", help="All items of the user.")] = False,
    erase_user: Annotated[
        bool, typer.Option("--erase-user", help="The user with all there is: items, sessions, notes of what happened.")
    ] = False,
    url: UrlOption = None,
    user: UserOption = None,
    yes: YesOption = False,
) -> None:
    """Forget contents with all their items; the keys say when.

    Items are named by their keys, or chosen by options, which all have to be met. It asks first.
    """
    by_options = bool(session is not None or agent is not None or types)
    if sum((bool(keys), by_options, everything, erase_user)) != 1:
        raise Failure(
            "say what to forget, in one way: keys; options such as --session; --all; or --erase-user", USAGE_ERROR
        )
    if erase_user:
        run(lambda store: _erase(store, user, yes), url)
    elif keys:
        run(lambda store: _forget_keys(store, user, keys, yes), url)
    else:
        criteria = criteria_of(types, session=session, agent=agent, limit=_NO_LIMIT)
        run(lambda store: _forget_matching(store, user, criteria, yes), url)


async def _forget_keys(store: "MemoryStore", user: str | None, keys: list[str], yes: bool) -> None:
    from ..memory import AgentMemory

    name = await find_user(store, user)
    if not yes:  # scripts have to give whole keys
        keys = [await find_key(store, name, key) for key in keys]
    for key in keys:  # all are checked before any is forgotten
        found = await store.fetch_whereabouts(name, key)
        if found is None or not found.is_active:
            raise await AgentMemory(store, name).not_found(key)
    await _forget(store, name, list(dict.fromkeys(keys)), "", yes)


async def _forget_matching(store: "MemoryStore", user: str | None, criteria: "MemoryCriteria", yes: bool) -> None:
    name = await find_user(store, user)
    items = await store.select_memories(name, criteria, scope=await store.user_stats.scope(name))
    if not items:
        say("nothing is stored that meets this")
        return
    tokens = sum(item.ref.token_count for item in items)
    await _forget(store, name, [item.key for item in items], f", {tokens:,} tokens", yes)


async def _forget(store: "MemoryStore", user: str, keys: list[str], extent: str, yes: bool) -> None:
    """Forget contents after asking; the question counts other items that share them."""
    batches = [keys[start : start + _KEYS_AT_ONCE] for start in range(0, len(keys), _KEYS_AT_ONCE)]
    if not yes:
        going = {key for batch in batches for key in await store.user_stats.keys_of_contents(user, batch)}
        more = len(going.difference(keys))
        twins = f", and {more:,} more with the same content" if more else ""
        confirm(f"Forget {counted(len(keys), 'item')} of user {user!r}{extent}{twins}?", yes)
    gone = 0
    with progress_bar("forgetting", len(keys)) as show:
        for batch in batches:
            gone += len(await store.user_stats.forget(user, batch))
            show(min(gone, len(keys)))
    say(f"{counted(gone, 'item')} forgotten")


async def _erase(store: "MemoryStore", user: str | None, yes: bool) -> None:
    name = await find_user(store, user)
    kinds, extent = await store.user_stats.kinds(name), await store.user_stats.extent(name)
    items = counted(sum(kind.items for kind in kinds), "item")
    sessions = counted(extent.sessions, "session")
    confirm(f"Erase user {name!r} with {items} and {sessions}, {extent.messages:,} messages? Nothing stays.", yes)
    with progress_bar("erasing rows") as show:
        erased = await store.erase_user(name, progress=show)
    say(f"user {name!r} is erased, with {counted(erased, 'item')}")
