"""`list`, `search`, `store` and `forget`: stored items.

Commands act for the user: they also list and forget items that one agent keeps private, marked as such.
"""

import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .command import Target, YesOption, command, find_key, parse_since
from .console import USAGE_ERROR, Failure, Output, age, confirm, counted, harmless, listed, progress_bar, say

if TYPE_CHECKING:
    from memory_context.store.admin.user_stats import Tombstone
    from memory_context.store.items import MemoryCriteria, MemoryItem
    from memory_context.store.memory_store import MemoryStore
    from memory_context.store.search.hits import SearchHit

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
    "search",
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
    from memory_context.store.items import MemoryCriteria

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


@command()
async def list_items(
    target: Target,
    types: TypesOption = None,
    sources: SourcesOption = None,
    tags: TagsOption = None,
    session: SessionOption = None,
    agent: AgentOption = None,
    since: Annotated[str | None, typer.Option(help="Only stored since: 12h, 7d, or a date like 2026-01-31.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most; the newest come first.")] = 50,
    forgotten: Annotated[bool, typer.Option("--forgotten", help="What was forgotten instead, and when.")] = False,
) -> Output:
    """List what is stored, the newest first.

    Items private to a sub-agent are listed too, marked as private.
    """
    criteria = criteria_of(types, sources, tags, session, agent, since, limit + 1)
    if forgotten and (types or sources or tags or agent or since):
        raise Failure("of forgotten items only --session and --limit choose: the rest was forgotten", USAGE_ERROR)
    user, user_stats = await target.user(), target.store.user_stats
    found: list[MemoryItem] | list[Tombstone]
    if forgotten:
        found = await user_stats.forgotten(user, session_id=session, limit=limit + 1)
    else:
        found = await target.store.items.select_memories(user, criteria, scope=await user_stats.scope(user))
    return listed(
        found,
        ("key", "type", "source", "tokens", "age", "description"),
        _row,
        right=("tokens", "age"),
        cut=("type", "source", "description"),
        empty="nothing was forgotten" if forgotten else "nothing is stored that meets this",
        limit=limit,
        more="--limit shows more, options such as --source and --since choose",
        as_json=item_json,
    )


def _row(one: "MemoryItem | Tombstone") -> tuple[object, ...]:
    from memory_context.store.items import MemoryItem

    if not isinstance(one, MemoryItem):
        what = f"forgotten {age(one.forgotten_at)} ago"
        return one.memory_key, one.memory_type, one.source, "-", age(one.created_at), what
    remarks = (
        f"private to {one.agent_id or 'its session'}" if one.is_private else "",
        one.caveat,
        f"the same as {', '.join(one.other_keys)}" if one.other_keys else "",
    )
    remark = "; ".join(filter(None, remarks))
    what = f"({remark}) {one.ref.description}" if remark else one.ref.description
    return one.key, one.type, one.source, f"{one.ref.token_count:,}", age(one.created_at), what


def item_json(one: "MemoryItem | Tombstone") -> dict[str, Any]:
    """Return the JSON of an item or tombstone in all commands, without content."""
    from memory_context.store.items import MemoryItem

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
        **({"content_type": one.content_type} if one.content_type else {}),
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


@command()
async def store_file(
    target: Target,
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
) -> Output:
    """Store a text, from a file or piped in, and print its key.

    Any text in UTF-8 is kept byte for byte. The same text of the same source, agent and session is the same item.
    """
    name = None if str(file) == "-" else file.name
    memory = await target.memory(agent, session)
    ref = await memory.store(
        text_of(file),
        description=description or name,
        type=memory_type,  # checked there
        source=source or name,
        tags=tags or (),
        related_to=related_to or (),
    )
    stored = {"key": ref.key, "description": ref.description, "token_count": ref.token_count}
    return Output(lambda: stored, lambda: typer.echo(ref.key))


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


@command(has_json=False)
async def forget(
    target: Target,
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
    store, user = target.store, await target.user()
    if erase_user:
        await _erase(store, user, yes)
        return
    if not keys:
        criteria = criteria_of(types, session=session, agent=agent, limit=_NO_LIMIT)
        items = await store.items.select_memories(user, criteria, scope=await store.user_stats.scope(user))
        tokens = sum(item.ref.token_count for item in items)
        if items:
            await _forget(store, user, [item.key for item in items], f", {tokens:,} tokens", yes)
        else:
            say("nothing is stored that meets this")
        return
    if not yes:  # scripts have to give whole keys
        keys = [await find_key(store, user, key) for key in keys]
    for key in keys:  # all are checked before any is forgotten
        found = await store.items.fetch_whereabouts(user, key)
        if found is None or not found.is_active:
            raise await (await target.memory()).not_found(key)
    await _forget(store, user, list(dict.fromkeys(keys)), "", yes)


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


async def _erase(store: "MemoryStore", user: str, yes: bool) -> None:
    kinds, extent = await store.user_stats.kinds(user), await store.user_stats.extent(user)
    items = counted(sum(kind.items for kind in kinds), "item")
    sessions = counted(extent.sessions, "session")
    confirm(f"Erase user {user!r} with {items} and {sessions}, {extent.messages:,} messages? Nothing stays.", yes)
    with progress_bar("erasing rows") as show:
        erased = await store.erase_user(user, progress=show)
    say(f"user {user!r} is erased, with {counted(erased, 'item')}")


# --- search

_WORDS = re.compile(r"\w+")


@command()
async def search(
    target: Target,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Words, a question, an identifier, a line of a log.")],
    limit: Annotated[int, typer.Option(min=1, help="How many items at most.")] = 5,
    lines: Annotated[int, typer.Option(min=1, help="How many lines of each passage at most.")] = 6,
    types: TypesOption = None,
    sources: SourcesOption = None,
    tags: TagsOption = None,
    session: SessionOption = None,
    agent: AgentOption = None,
) -> Output:
    """Search everything stored, by words and by meaning.

    Items private to a sub-agent are searched too. A search here does not count as a use of the items.
    """
    from memory_context.store.search.hits import search_items

    criteria = criteria_of(types, sources, tags, session, agent)
    store, user = target.store, await target.user()
    hits = await search_items(store.search, user, query, limit, criteria, await store.user_stats.scope(user))

    def show() -> None:
        _print_hits(query, hits, lines)
        if not hits:
            say("nothing is found; memory-context list shows what there is")
        elif not any(hit.is_relevant for hit in hits):
            say("nothing here has much to do with the query: these are only the nearest")

    return Output(lambda: [_as_dict(hit) for hit in hits], show)


def _as_dict(hit: "SearchHit") -> dict[str, Any]:
    return {
        **item_json(hit.item),
        "session_title": hit.session_title,
        "is_relevant": hit.is_relevant,
        "score": asdict(hit.score),
        "passages": [asdict(passage) for passage in hit.passages],
    }


def _print_hits(query: str, hits: "Sequence[SearchHit]", max_lines: int) -> None:
    from rich.console import Console
    from rich.text import Text

    words = {word for word in _WORDS.findall(query.lower()) if len(word) > 2}
    console = Console(highlight=False, soft_wrap=True)
    for number, hit in enumerate(hits, 1):
        score, item, passage = hit.score, hit.item, hit.passages[0]
        place = f"{number}. {item.key}, lines {hit.start_line}-{hit.end_line}"
        origin = f"from {item.source}" + (f", private to {item.agent_id}" if item.is_private else "")
        origin += f", {item.created_at:%Y-%m-%d %H:%M} UTC, {item.place}" if item.place else ""
        origin += f", {item.caveat}" if item.caveat else ""
        parts = f"words {score.lexical:.2f}, meaning {score.semantic:.2f}, neighbours {score.neighbours:.2f}"
        # as Text throughout: a query, source or line may look like rich's markup
        console.print(Text.assemble((place, "bold"), harmless(f": {hit.ref.description}")))
        console.print(Text(harmless(f"   score {score.total:.2f} ({parts}) {origin}")))
        shown, first = _window(harmless(passage.text).split("\n"), words, max_lines)
        for line_number, line in enumerate(shown, passage.start_line + first):
            text = Text.assemble((f"{line_number:>6} ", "dim"), line.expandtabs(4))
            text.highlight_words(words, "bold yellow", case_sensitive=False)
            if console.is_terminal:
                text.truncate(console.width, overflow="ellipsis")
            console.print(text)
        console.print()


def _window(lines: Sequence[str], words: set[str], count: int) -> tuple[Sequence[str], int]:
    """Return the lines with most words of the query, and the number before them."""
    found = [sum(word in line.lower() for word in words) for line in lines]
    first = max(range(max(len(lines) - count, 0) + 1), key=lambda start: (sum(found[start : start + count]), -start))
    return lines[first : first + count], first
