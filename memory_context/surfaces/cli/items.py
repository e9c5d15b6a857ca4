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
from typer import Argument, Option

from memory_context.foundation.patterns import regex

from .command import Target, YesOption, command, find_key, parse_since
from .console import USAGE_ERROR, Failure, Output, age, confirm, counted, harmless, listed, progress_bar, say, styled

if TYPE_CHECKING:
    from memory_context.store.items import MemoryCriteria, MemoryItem
    from memory_context.store.memory_store import MemoryStore
    from memory_context.store.search.hits import SearchHit

__all__ = ["forget", "item_json", "list_items", "search", "store_file", "text_of"]

TypesOption = Annotated[list[str] | None, Option("--type", help="Only this type; may be given several times.")]
SourcesOption = Annotated[list[str] | None, Option("--source", help="Only from this source, such as a tool.")]
TagsOption = Annotated[list[str] | None, Option("--tag", help="Only with this tag; several: with all of them.")]
SessionOption = Annotated[str | None, Option("--session", help="Only of this session.")]
AgentOption = Annotated[str | None, Option("--agent", help="Only of this agent.")]

_KEYS_AT_ONCE = 200
_PASSAGE_LINES = 6
_NO_LIMIT = 2**31 - 1


def _criteria(
    types: list[str] | None = None,
    sources: list[str] | None = None,
    tags: list[str] | None = None,
    since: str | None = None,
    **others: Any,
) -> "MemoryCriteria":
    """Return options as criteria of items; `Failure` if `since` is not a time."""
    from memory_context.store.items import MemoryCriteria

    chosen = {"types": tuple(types or ()), "sources": tuple(sources or ()), "tags": tuple(tags or ())}
    return MemoryCriteria(**chosen, **others, created_after=parse_since(since))


# --- list


@command()
async def list_items(
    target: Target,
    types: TypesOption = None,
    sources: SourcesOption = None,
    tags: TagsOption = None,
    session: SessionOption = None,
    agent: AgentOption = None,
    since: Annotated[str | None, Option(help="Only stored since: 12h, 7d, or a date like 2026-01-31.")] = None,
    limit: Annotated[int, Option(min=1, help="How many at most; the newest come first.")] = 50,
) -> Output:
    """List what is stored, the newest first.

    Items private to a sub-agent are listed too, marked as private.
    """
    criteria = _criteria(types, sources, tags, since, session_id=session, agent_id=agent, limit=limit + 1)
    user = await target.user()
    return listed(
        await target.store.items.select_memories(user, criteria, scope=await target.store.user_stats.scope(user)),
        ("key", "type", "source", "tokens", "age", "description"),
        _row,
        right=("tokens", "age"),
        cut=("type", "source", "description"),
        empty="nothing is stored that meets this",
        limit=limit,
        more="--limit shows more, options such as --source and --since choose",
        as_json=item_json,
    )


def _row(one: "MemoryItem") -> tuple[object, ...]:
    remarks = (
        f"private to {one.agent_id or 'its session'}" if one.is_private else "",
        one.caveat,
        f"the same as {', '.join(one.other_keys)}" if one.other_keys else "",
    )
    remark = "; ".join(filter(None, remarks))
    what = f"({remark}) {one.ref.description}" if remark else one.ref.description
    return one.key, one.type, one.source, f"{one.ref.token_count:,}", age(one.created_at), what


def item_json(one: "MemoryItem") -> dict[str, Any]:
    """Return the JSON of an item in all commands, without content."""
    names = ("source", "origin", "agent_id", "session_id", "is_private", "created_at")
    return {
        "key": one.key,
        "description": one.ref.description,
        "token_count": one.ref.token_count,
        "type": one.type,
        **({"content_type": one.content_type} if one.content_type else {}),
        "caveat": one.caveat or None,
        **{name: list(getattr(one, name)) for name in ("tags", "related_to", "other_keys")},
        "metadata": dict(one.metadata),
        **{name: getattr(one, name) for name in names},
    }


# --- store


@command()
async def store_file(
    target: Target,
    file: Annotated[Path, Argument(metavar="FILE", help="The file; - for what is piped in.")] = Path("-"),
    description: Annotated[
        str | None, Option("--description", "-d", help="One line on it. [default: the file's name]")
    ] = None,
    memory_type: Annotated[str, Option("--type", help="What sort of memory it is.")] = "custom",
    source: Annotated[str | None, Option("--source", help="Where it came from. [default: the file's name]")] = None,
    tags: Annotated[list[str] | None, Option("--tag", help="A word to find it by; repeatable.")] = None,
    agent: Annotated[str, Option("--agent", help="The agent that stores it. [default: none]")] = "",
    session: Annotated[str, Option("--session", help="The session it is stored in. [default: none]")] = "",
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
    )
    stored = {"key": ref.key, "description": ref.description, "token_count": ref.token_count}
    return Output(stored, lambda: typer.echo(ref.key))


def text_of(file: Path) -> str:
    """Return the text of a file or of stdin; `Failure` if it cannot be read, or is not UTF-8."""
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
        list[str] | None, Argument(metavar="KEY", help="Their keys; without --yes also beginnings.")
    ] = None,
    session: SessionOption = None,
    agent: AgentOption = None,
    types: TypesOption = None,
    everything: Annotated[bool, Option("--all", help="All items of the user.")] = False,
    erase_user: Annotated[bool, Option("--erase-user", help="The user with all there is.")] = False,
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
        kinds, extent = await store.user_stats.kinds(user), await store.user_stats.extent(user)
        items, sessions = counted(sum(kind.items for kind in kinds), "item"), counted(extent.sessions, "session")
        confirm(f"Erase user {user!r} with {items} and {sessions}, {extent.messages:,} messages? Nothing stays.", yes)
        with progress_bar("erasing rows") as show:
            erased = await store.erase_user(user, progress=show)
        say(f"user {user!r} is erased, with {counted(erased, 'item')}")
        return
    if not keys:
        criteria = _criteria(types, session_id=session, agent_id=agent, limit=_NO_LIMIT)
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


# --- search

_WORDS = regex(r"\w+")


@command()
async def search(
    target: Target,
    query: Annotated[str, Argument(metavar="QUERY", help="Words, a question, an identifier, a line of a log.")],
    limit: Annotated[int, Option(min=1, help="How many items at most.")] = 5,
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

    criteria = _criteria(types, sources, tags, session_id=session, agent_id=agent)
    store, user = target.store, await target.user()
    hits = await search_items(store.search, user, query, limit, criteria, await store.user_stats.scope(user))

    def show() -> None:
        _print_hits(query, hits)
        if not hits:
            say("nothing is found; memory-context list shows what there is")
        elif not any(hit.is_relevant for hit in hits):
            say("nothing here has much to do with the query: these are only the nearest")

    told = [
        {
            **item_json(hit.item),
            "session_title": hit.session_title,
            "is_relevant": hit.is_relevant,
            "score": asdict(hit.score),
            "passage": hit.passage,
            **{name: getattr(hit, name) for name in ("start_line", "end_line", "start_char", "end_char")},
        }
        for hit in hits
    ]
    return Output(told, show)


def _print_hits(query: str, hits: "Sequence[SearchHit]") -> None:
    words = {word for word in _WORDS.findall(query.lower()) if len(word) > 2}
    found = re.compile("|".join(map(re.escape, sorted(words, key=len, reverse=True))) or "(?!)", re.IGNORECASE)
    for number, hit in enumerate(hits, 1):
        score, item = hit.score, hit.item
        place = f"{number}. {item.key}, lines {hit.start_line}-{hit.end_line}"
        origin = f"from {item.source}" + (f", private to {item.agent_id}" if item.is_private else "")
        origin += f", {item.created_at:%Y-%m-%d %H:%M} UTC, {item.place}" if item.place else ""
        origin += f", {item.caveat}" if item.caveat else ""
        parts = f"words {score.lexical:.2f}, meaning {score.semantic:.2f}, neighbours {score.neighbours:.2f}"
        typer.echo(f"{styled(place, bold=True)}{harmless(f': {hit.ref.description}')}")
        typer.echo(harmless(f"   score {score.total:.2f} ({parts}) {origin}"))
        shown, first = _window(harmless(hit.passage).split("\n"), words)
        for line_number, line in enumerate(shown, hit.start_line + first):
            marked = found.sub(lambda word: styled(word[0], fg="yellow", bold=True), line.expandtabs(4))
            typer.echo(f"{styled(f'{line_number:>6} ', dim=True)}{marked}")
        typer.echo()


def _window(lines: Sequence[str], words: set[str]) -> tuple[Sequence[str], int]:
    """Return the lines with most words of the query, and the number before them."""
    found = [sum(word in line.lower() for word in words) for line in lines]
    starts = range(max(len(lines) - _PASSAGE_LINES, 0) + 1)
    first = max(starts, key=lambda start: (sum(found[start : start + _PASSAGE_LINES]), -start))
    return lines[first : first + _PASSAGE_LINES], first
