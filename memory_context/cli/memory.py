"""`memory list|add|edit|confirm|forget|export`: what is known of a user. Whoever runs it acts for the user."""

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .console import USAGE_ERROR, Failure, age, confirm, counted, print_json, print_table, say
from .lookup import JsonOption, UrlOption, UserOption, YesOption, find_key, find_user, run

if TYPE_CHECKING:
    from ..memory import AgentMemory, MemoryItem
    from ..references import MemoryRef
    from ..store import MemoryStore

__all__ = [
    "add_statement",
    "confirm_statement",
    "edit_statement",
    "export_statements",
    "forget_statement",
    "list_statements",
    "memory_app",
]

memory_app = typer.Typer(help="What is known of a user.", no_args_is_help=True, rich_markup_mode=None)

_NO_LIMIT = 100_000
KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="The statement's key, or its beginning.")]
StatementArgument = Annotated[str, typer.Argument(metavar="STATEMENT", help="One line, at most 300 characters.")]
FactOption = Annotated[bool, typer.Option("--fact/--preference", help="What sort of statement it is.")]


@dataclass(frozen=True)
class _Known:
    statements: "list[MemoryItem]"
    unconfirmed: "list[MemoryItem]"


async def _memory(store: "MemoryStore", user: str | None) -> "AgentMemory":
    from ..memory import AgentMemory

    return AgentMemory(store, await find_user(store, user))


async def _known(store: "MemoryStore", user: str | None, as_of: datetime | None, everything: bool) -> _Known:
    memory = await _memory(store, user)
    known = await memory.user_memory(as_of, with_superseded=everything, limit=_NO_LIMIT)
    return _Known(known, await memory.unconfirmed(limit=_NO_LIMIT))


@memory_app.command("list")
def list_statements(
    as_of: Annotated[
        datetime | None, typer.Option("--as-of", help="What held at this time, in UTC. [default: now]")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also statements that newer ones replaced.")] = False,
    url: UrlOption = None,
    user: UserOption = None,
    as_json: JsonOption = False,
) -> None:
    """List preferences and facts, newest first, with the words they rest on, and those to be confirmed."""
    at = None if as_of is None else as_of.replace(tzinfo=timezone.utc)
    known = run(lambda store: _known(store, user, at, everything), url)
    if as_json:
        lists = {"statements": known.statements, "unconfirmed": known.unconfirmed}
        print_json({name: [_as_json(item) for item in items] for name, items in lists.items()})
        return
    rows = [
        (one.key, one.type.removeprefix("user_"), _state(one), _age(one), one.content, _basis(one))
        for one in known.statements
    ]
    rows += [
        (one.key, one.type.removeprefix("user_"), one.caveat, _age(one), one.content, "") for one in known.unconfirmed
    ]
    if rows:
        columns = ("key", "type", "state", "age", "statement", "said")
        print_table(columns, rows, right=("age",), cut=("state", "statement", "said"))
    else:
        say("nothing is known of this user")


@memory_app.command("add")
def add_statement(
    statement: StatementArgument, fact: FactOption = True, url: UrlOption = None, user: UserOption = None
) -> None:
    """Add a preference or fact, which replaces an older one about the same subject; print its key."""

    async def work(store: "MemoryStore") -> "MemoryRef":
        memory = await _memory(store, user)
        return await memory.add(statement, type="user_fact" if fact else "user_preference", by=_OPERATOR)

    typer.echo(run(work, url).key)


@memory_app.command("edit")
def edit_statement(
    key: KeyArgument, statement: StatementArgument, url: UrlOption = None, user: UserOption = None
) -> None:
    """Replace a preference or fact; the older one stays, linked. Print the new key."""

    async def work(store: "MemoryStore") -> "MemoryRef":
        memory = await _memory(store, user)
        return await memory.edit(await find_key(store, memory.user_id, key), statement, by=_OPERATOR)

    typer.echo(run(work, url).key)


@memory_app.command("confirm")
def confirm_statement(key: KeyArgument, url: UrlOption = None, user: UserOption = None) -> None:
    """Confirm what a model, tool or file stored: it counts as the user's from now on."""

    async def work(store: "MemoryStore") -> "MemoryRef":
        memory = await _memory(store, user)
        return await memory.confirm(await find_key(store, memory.user_id, key), by=_OPERATOR)

    say(f"{run(work, url).key} is confirmed")


@memory_app.command("forget")
def forget_statement(
    keys: Annotated[list[str] | None, typer.Argument(metavar="KEY", help="The statements' keys.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that is known of the user.")] = False,
    url: UrlOption = None,
    user: UserOption = None,
    yes: YesOption = False,
) -> None:
    """Forget preferences and facts for good. It asks first."""
    if bool(keys) == everything:
        raise Failure("say what to forget: keys, or --all", USAGE_ERROR)

    async def work(store: "MemoryStore") -> int:
        memory, known = await _memory(store, user), await _known(store, user, None, True)
        items = {item.key: item for item in (*known.statements, *known.unconfirmed)}
        if unknown := set(keys or ()) - items.keys():
            raise Failure(f"{', '.join(sorted(unknown))}: no such preference or fact; memory-context memory list --all")
        chosen = list(keys or items)
        confirm(f"Forget {counted(len(chosen), 'statement')} about user {memory.user_id!r}?", yes)
        return len(await store.user_stats.forget(memory.user_id, chosen)) if chosen else 0

    say(f"{counted(run(work, url), 'statement')} forgotten")


@memory_app.command("export")
def export_statements(url: UrlOption = None, user: UserOption = None) -> None:
    """Print all that is known of a user as JSON, superseded statements included. `export` makes a file for import."""
    known = run(lambda store: _known(store, user, None, True), url)
    print_json([_as_json(item) for item in (*known.statements, *known.unconfirmed)])


_OPERATOR = "operator of the command line"


def _state(item: "MemoryItem") -> str:
    if item.superseded_by:
        return f"replaced by {item.superseded_by}"
    return {"user_words": "said", "application": "by the application"}.get(item.origin, "confirmed")


def _age(item: "MemoryItem") -> str:
    return age(item.valid_from or item.created_at)


def _basis(item: "MemoryItem") -> str:
    quote, session = item.metadata.get("quote"), item.metadata.get("quoted_session")
    return f'"{quote}" in {session}' if quote else ""


def _as_json(item: "MemoryItem") -> dict[str, Any]:
    return {
        "key": item.key,
        "type": item.type,
        "statement": item.content,
        "origin": item.origin,
        "caveat": item.caveat,
        "valid_from": item.valid_from or item.created_at,
        "valid_until": item.valid_until,
        "superseded_by": item.superseded_by,
        "recorded_at": item.created_at,
        "metadata": dict(item.metadata),
    }
