"""`memory`, `secrets` and `notes`: what is kept of a user. Whoever runs them acts for the user.

Of a secret the name is listed; its value goes in and is never printed.
"""

import os
import sys
from datetime import date, datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from .command import USER_ENV, Target, YesOption, command, find_key, group
from .console import (
    USAGE_ERROR,
    Failure,
    Output,
    age,
    confirm,
    counted,
    harmless,
    listed,
    print_table,
    say,
)
from .items import text_of

if TYPE_CHECKING:
    from memory_context.memory.items import MemoryItem

__all__ = ["memory_app", "notes", "secrets"]

memory_app = group("What is known of a user.")

_NO_LIMIT = 100_000
_OPERATOR = "operator of the command line"


async def _known(
    target: Target, as_of: datetime | date | None = None, *, with_superseded: bool = True
) -> "tuple[list[MemoryItem], list[MemoryItem]]":
    """Return user memory, and what waits for confirmation."""
    memory = await target.memory()
    known = await memory.user_memory(as_of, with_superseded=with_superseded, limit=_NO_LIMIT)
    return known, await memory.unconfirmed(limit=_NO_LIMIT)


def _day_or_time(text: str) -> datetime | date:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise Failure(f"{text!r} is no time: use 2026-03-14 or 2026-03-14T10:30", USAGE_ERROR) from None
    if len(text) <= len("2026-03-14"):
        return at.date()  # its end
    return at if at.tzinfo is not None else at.replace(tzinfo=timezone.utc)


@memory_app.command("list")
@command()
async def list_statements(
    target: Target,
    as_of: Annotated[
        str | None, Option("--as-of", metavar="TIME", help="What held then, a time or the end of a day (UTC).")
    ] = None,
    everything: Annotated[bool, Option("--all", help="Also statements that newer ones replaced.")] = False,
) -> Output:
    """List preferences and facts, newest first, with the words they rest on, and those to be confirmed."""
    at = None if as_of is None else _day_or_time(as_of)
    known, unconfirmed = await _known(target, at, with_superseded=everything)

    def show() -> None:
        columns = ("key", "type", "state", "age", "statement", "said")
        if rows := [*map(_row, (*known, *unconfirmed))]:
            print_table(columns, rows, right=("age",), cut=("state", "statement", "said"))
        else:
            say("nothing is known of this user")

    return Output({"statements": [*map(_as_json, known)], "unconfirmed": [*map(_as_json, unconfirmed)]}, show)


@memory_app.command("add")
@command(has_json=False)
async def add_statement(
    target: Target,
    statement: Annotated[str, Argument(metavar="STATEMENT", help="One line, at most 300 characters.")],
    fact: Annotated[bool, Option("--fact/--preference", help="What sort of statement it is.")] = True,
    replaces: Annotated[str | None, Option("--replaces", metavar="KEY", help="The statement that it corrects.")] = None,
) -> None:
    """Add a preference or fact, which ends an older one about the same subject; print its key."""
    memory = await target.memory()
    if replaces is None:
        ref = await memory.add(statement, type="user_fact" if fact else "user_preference", by=_OPERATOR)
    else:
        ref = await memory.edit(await find_key(target.store, memory.user_id, replaces), statement, by=_OPERATOR)
    typer.echo(ref.key)


@memory_app.command("confirm")
@command(has_json=False)
async def confirm_statement(
    target: Target, key: Annotated[str, Argument(metavar="KEY", help="The statement's key, or its beginning.")]
) -> None:
    """Confirm what a model, tool or file stored: it counts as the user's from now on."""
    memory = await target.memory()
    ref = await memory.confirm(await find_key(target.store, memory.user_id, key), by=_OPERATOR)
    say(f"{ref.key} is confirmed")


@memory_app.command("forget")
@command(has_json=False)
async def forget_statement(
    target: Target,
    keys: Annotated[list[str] | None, Argument(metavar="KEY", help="The statements' keys.")] = None,
    everything: Annotated[bool, Option("--all", help="All that is known of the user.")] = False,
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


def _row(item: "MemoryItem") -> tuple[object, ...]:
    origin = {"user_words": "said", "application": "by the application"}.get(item.origin, "confirmed")
    state = f"replaced by {item.superseded_by}" if item.superseded_by else item.caveat or origin
    quote = item.metadata.get("quote") if not item.caveat else None  # a claim of whoever stored it
    said = f'"{quote}" in {item.metadata.get("quoted_session")}' if quote else ""
    since = age(item.valid_from or item.created_at)
    return item.key, item.type.removeprefix("user_"), state, since, item.content, said


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


# --- secrets


@command()
async def secrets(
    target: Target,
    set_name: Annotated[str | None, Option("--set", metavar="NAME", help="Keep a value under a name.")] = None,
    delete: Annotated[str | None, Option("--delete", metavar="NAME", help="Delete a name and its value.")] = None,
    rotate: Annotated[bool, Option("--rotate", help="Encrypt all users' values with the first key.")] = False,
    yes: YesOption = False,
) -> Output | None:
    """List the names of a user's secrets, or set one.

    A value is asked for, or read from stdin, and never printed. What was stored before keeps it: it is masked wherever
    it is shown, and forgetting the item removes it. Agents go on while --rotate works.
    """
    if (set_name is not None) + (delete is not None) + rotate > 1:
        raise Failure("give one of --set, --delete, --rotate", USAGE_ERROR)
    if rotate:
        return await _rotate(target)
    vault = (await target.memory()).secrets
    if set_name is not None:
        await vault.set(set_name, _value(set_name))
        return say(f"{set_name} is set: {{{{secret:{set_name}}}}} stands for it")
    names = await vault.names()
    if delete is None:
        return listed(
            names,
            ("name", "has a value", "age"),
            lambda one: (one.name, "yes" if one.has_value else "no: set it", age(one.updated_at)),
            right=("age",),
            empty="there are no secrets: memory-context secrets --set NAME",
        )
    if delete not in {one.name for one in names}:
        raise Failure(f"there is no secret {delete!r}: memory-context secrets shows the names")
    confirm(f"Delete {delete}? Tools that use it stop working.", yes)
    await vault.delete(delete)
    return say(f"{delete} is deleted")


async def _rotate(target: Target) -> None:
    from memory_context.memory.vault.secrets import secrets_of

    named = target.named_user
    if named == os.environ.get(USER_ENV):  # that says whose memory is read: others would lose theirs with the old key
        named = None
    users = [named] if named is not None else [one async for one in target.store.every_user()]
    done = {user: await secrets_of(target.store, user).rotate() for user in users}
    say(f"{counted(sum(one.rotated for one in done.values()), 'value')} encrypted anew")
    if lost := [f"{name} of {user}" for user, rotation in done.items() for name in rotation.unreadable]:
        raise Failure(f"no key for {', '.join(lost)}: add it to MEMORY_CONTEXT_SECRET_KEY, or set them again")


def _value(name: str) -> str:
    """Read a value without showing it, never from an argument: a list of processes shows those."""
    if sys.stdin.isatty():
        value: str = typer.prompt(f"Value of {name}", hide_input=True, confirmation_prompt=True, err=True)
        return value
    value = sys.stdin.read()
    if not value.strip():
        raise Failure(f"stdin is empty: pipe the value of {name} in, or run this in a terminal", USAGE_ERROR)
    return value


# --- notes


@command()
async def notes(
    target: Target,
    agent: Annotated[str | None, Option("--agent", help="Whose notes. [default: the only agent's]")] = None,
    version: Annotated[
        int | None, Option("--version", min=0, help="A former version; --set: refuse unless in force.")
    ] = None,
    history: Annotated[bool, Option("--history", help="List the last versions, the newest first.")] = False,
    set_file: Annotated[
        Path | None, Option("--set", metavar="FILE", help="Replace them by this file; - for stdin.")
    ] = None,
    undo: Annotated[bool, Option("--undo", help="Restore the version before, or that of --version.")] = False,
    erase: Annotated[bool, Option("--erase", help="Erase them with all versions. It asks first.")] = False,
    yes: YesOption = False,
) -> Output | None:
    """Print an agent's notes about a user, or change them.

    Where several agents have notes, the error names them. Changes print the new version; --undo takes them back.
    """
    from memory_context.memory.notes import LongTermNotes

    if (set_file is not None) + undo + erase + history > 1 or (version is not None and (erase or history)):
        raise Failure("give one of --history, --set, --undo, --erase", USAGE_ERROR)
    user_id = await target.user()
    if agent is None:
        agents = [one.agent_id for one in await target.store.notes.agents(user_id)]
        if len(agents) != 1:
            shown = f"several agents have notes: {', '.join(map(repr, agents))}" if agents else "no agent has notes"
            raise Failure(f"{shown}; give --agent NAME", USAGE_ERROR)
        agent = agents[0]
    found = LongTermNotes(target.store, user_id, agent)
    if erase:
        confirm("Erase the notes for good, with all versions?", yes)
        await found.erase()
        return say("erased")
    if undo or set_file is not None:
        if set_file is not None:
            await found.read()
            now = await found.overwrite(text_of(set_file), expected_version=version)
        else:
            now = await found.undo(version)
        return say(f"version {now.version}, {counted(len(now.text), 'character')}")
    if history:
        return listed(
            await found.versions(),
            ("version", "written by", "characters", "age"),
            lambda one: (one.version, one.operation or "-", len(one.text), age(one.written_at)),
            right=("version", "characters", "age"),
        )
    shown = await found.fetch() if version is None else None
    if shown is None:
        shown = next((one for one in await found.versions() if one.version == version), None)
    if shown is None:
        raise Failure(f"version {version} is not kept; memory-context notes --history lists those that are")
    text = shown.text
    return Output(
        {"notes": text, "version": shown.version},
        lambda: typer.echo(harmless(text)) if text else say("the notes are empty"),
    )
