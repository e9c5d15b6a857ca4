"""`memory list|add|edit|confirm|forget|export`: what is known of a user. Whoever runs it acts for the user."""

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .command import Target, YesOption, command, group
from .console import USAGE_ERROR, Failure, Output, age, confirm, counted, print_json, print_table, say
from .lookup import find_key

if TYPE_CHECKING:
    from ..memory import MemoryItem

__all__ = ["memory_app"]

memory_app = group("What is known of a user.")

_NO_LIMIT = 100_000
_OPERATOR = "operator of the command line"
KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="The statement's key, or its beginning.")]
StatementArgument = Annotated[str, typer.Argument(metavar="STATEMENT", help="One line, at most 300 characters.")]


async def _known(
    target: Target, as_of: datetime | None = None, *, with_superseded: bool = True
) -> "tuple[list[MemoryItem], list[MemoryItem]]":
    """Return user memory, and what waits for confirmation."""
    memory = await target.memory()
    known = await memory.user_memory(as_of, with_superseded=with_superseded, limit=_NO_LIMIT)
    return known, await memory.unconfirmed(limit=_NO_LIMIT)


@memory_app.command("list")
@command()
async def list_statements(
    target: Target,
    as_of: Annotated[
        datetime | None, typer.Option("--as-of", help="What held at this time, in UTC. [default: now]")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also statements that newer ones replaced.")] = False,
) -> Output:
    """List preferences and facts, newest first, with the words they rest on, and those to be confirmed."""
    at = None if as_of is None else as_of.replace(tzinfo=timezone.utc)
    known, unconfirmed = await _known(target, at, with_superseded=everything)

    def lists() -> dict[str, Any]:
        return {"statements": [*map(_as_json, known)], "unconfirmed": [*map(_as_json, unconfirmed)]}

    def show() -> None:
        rows = [(*_start(one, _state(one)), _basis(one)) for one in known]
        rows += [(*_start(one, one.caveat), "") for one in unconfirmed]
        columns = ("key", "type", "state", "age", "statement", "said")
        if rows:
            print_table(columns, rows, right=("age",), cut=("state", "statement", "said"))
        else:
            say("nothing is known of this user")

    return Output(lists, show)


@memory_app.command("add")
@command(has_json=False)
async def add_statement(
    target: Target,
    statement: StatementArgument,
    fact: Annotated[bool, typer.Option("--fact/--preference", help="What sort of statement it is.")] = True,
) -> None:
    """Add a preference or fact, which replaces an older one about the same subject; print its key."""
    memory = await target.memory()
    ref = await memory.add(statement, type="user_fact" if fact else "user_preference", by=_OPERATOR)
    typer.echo(ref.key)


@memory_app.command("edit")
@command(has_json=False)
async def edit_statement(target: Target, key: KeyArgument, statement: StatementArgument) -> None:
    """Replace a preference or fact; the older one stays, linked. Print the new key."""
    memory = await target.memory()
    ref = await memory.edit(await find_key(target.store, memory.user_id, key), statement, by=_OPERATOR)
    typer.echo(ref.key)


@memory_app.command("confirm")
@command(has_json=False)
async def confirm_statement(target: Target, key: KeyArgument) -> None:
    """Confirm what a model, tool or file stored: it counts as the user's from now on."""
    memory = await target.memory()
    ref = await memory.confirm(await find_key(target.store, memory.user_id, key), by=_OPERATOR)
    say(f"{ref.key} is confirmed")


@memory_app.command("forget")
@command(has_json=False)
async def forget_statement(
    target: Target,
    keys: Annotated[list[str] | None, typer.Argument(metavar="KEY", help="The statements' keys.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that is known of the user.")] = False,
    yes: YesOption = False,
) -> None:
    """Forget preferences and facts for good. It asks first."""
    if bool(keys) == everything:
        raise Failure("say what to forget: keys, or --all", USAGE_ERROR)
    user, (known, unconfirmed) = await target.user(), await _known(target)
    items = {item.key: item for item in (*known, *unconfirmed)}
    if unknown := set(keys or ()) - items.keys():
        raise Failure(f"{', '.join(sorted(unknown))}: no such preference or fact; memory-context memory list --all")
    chosen = list(keys or items)
    confirm(f"Forget {counted(len(chosen), 'statement')} about user {user!r}?", yes)
    gone = len(await target.store.user_stats.forget(user, chosen)) if chosen else 0
    say(f"{counted(gone, 'statement')} forgotten")


@memory_app.command("export")
@command(has_json=False)
async def export_statements(target: Target) -> None:
    """Print all that is known of a user as JSON, superseded statements included. `export` makes a file for import."""
    known, unconfirmed = await _known(target)
    print_json([_as_json(item) for item in (*known, *unconfirmed)])


def _start(item: "MemoryItem", state: str) -> tuple[object, ...]:
    return item.key, item.type.removeprefix("user_"), state, age(item.valid_from or item.created_at), item.content


def _state(item: "MemoryItem") -> str:
    if item.superseded_by:
        return f"replaced by {item.superseded_by}"
    return {"user_words": "said", "application": "by the application"}.get(item.origin, "confirmed")


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
