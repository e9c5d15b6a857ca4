"""`memory`, `secrets` and `notes`: what is kept of a user. Whoever runs them acts for the user.

Of a secret the name is listed; its value goes in and is never printed.
"""

import sys
from datetime import date, datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .command import Target, YesOption, command, find_key, group
from .console import (
    USAGE_ERROR,
    Failure,
    Output,
    age,
    confirm,
    counted,
    harmless,
    listed,
    print_json,
    print_table,
    say,
)
from .items import text_of

if TYPE_CHECKING:
    from memory_context.memory.items import MemoryItem
    from memory_context.memory.notes import LongTermNotes
    from memory_context.store.notes import AgentNotes

__all__ = ["memory_app", "notes_app", "secrets_app"]

memory_app = group("What is known of a user.")

_NO_LIMIT = 100_000
_OPERATOR = "operator of the command line"
KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="The statement's key, or its beginning.")]
StatementArgument = Annotated[str, typer.Argument(metavar="STATEMENT", help="One line, at most 300 characters.")]


async def _known(
    target: Target, as_of: datetime | date | None = None, *, with_superseded: bool = True
) -> "tuple[list[MemoryItem], list[MemoryItem]]":
    """Return user memory, and what waits for confirmation."""
    memory = await target.memory()
    known = await memory.user_memory(as_of, with_superseded=with_superseded, limit=_NO_LIMIT)
    return known, await memory.unconfirmed(limit=_NO_LIMIT)


def _day_or_time(text: str) -> datetime | date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        pass
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise Failure(f"{text!r} is no time: use 2026-03-14 or 2026-03-14T10:30", USAGE_ERROR) from None
    return at if at.tzinfo is not None else at.replace(tzinfo=timezone.utc)


@memory_app.command("list")
@command()
async def list_statements(
    target: Target,
    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of", metavar="TIME", help="What held then: 2026-03-14 (its end) or a time, in UTC. [default: now]"
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also statements that newer ones replaced.")] = False,
) -> Output:
    """List preferences and facts, newest first, with the words they rest on, and those to be confirmed."""
    at = None if as_of is None else _day_or_time(as_of)
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


# --- secrets

secrets_app = group("Values that no model sees: their names, and how to set them.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name, such as API_TOKEN.")]


@secrets_app.command("set")
@command(has_json=False)
async def set_secret(
    target: Target,
    name: NameArgument,
) -> None:
    """Keep a value under a name; it is asked for, or read from stdin.

    What was stored before keeps it: it is masked wherever it is shown, and forgetting the item removes it.
    """
    value = _value(name)
    memory = await target.memory()
    await memory.secrets.set(name, value)
    say(f"{name} is set: {{{{secret:{name}}}}} stands for it")


@secrets_app.command("list")
@command()
async def list_secrets(target: Target) -> Output:
    """List the names of a user's secrets."""
    return listed(
        await (await target.memory()).secrets.names(),
        ("name", "has a value", "age"),
        lambda one: (one.name, "yes" if one.has_value else "no: set it", age(one.updated_at)),
        right=("age",),
        empty="there are no secrets: memory-context secrets set NAME",
    )


@secrets_app.command("delete")
@command(has_json=False)
async def delete_secret(target: Target, name: NameArgument, yes: YesOption = False) -> None:
    """Delete a name and its value."""
    secrets = (await target.memory()).secrets
    if name not in {one.name for one in await secrets.names()}:
        raise Failure(f"there is no secret {name!r}: memory-context secrets list shows the names")
    confirm(f"Delete {name}? Tools that use it stop working.", yes)
    await secrets.delete(name)
    say(f"{name} is deleted")


@secrets_app.command("rotate")
@command(user=Annotated[str | None, typer.Option("--user", help="Whose. [default: of all users]")], has_json=False)
async def rotate_secrets(target: Target) -> None:
    """Encrypt all values with the first key of MEMORY_CONTEXT_SECRET_KEY; agents go on meanwhile."""
    from memory_context.memory.vault.secrets import secrets_of

    named = target.named_user
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

notes_app = group("The long-term notes of agents about a user.")

AgentOption = Annotated[str | None, typer.Option("--agent", help="Whose notes. [default: the only agent with some]")]
TextArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A Markdown file; - for what is piped in.")]
VersionOption = Annotated[int | None, typer.Option("--version", min=0, help="Refuse if another version is in force.")]


async def _notes(target: Target, agent: str | None) -> "LongTermNotes":
    from memory_context.memory.notes import LongTermNotes

    user_id = await target.user()
    if agent is None:
        agents = [one.agent_id for one in await target.store.notes.agents(user_id)]
        if len(agents) != 1:
            shown = f"several agents have notes: {', '.join(map(repr, agents))}" if agents else "no agent has notes"
            raise Failure(f"{shown}; give --agent NAME", USAGE_ERROR)
        agent = agents[0]
    return LongTermNotes(target.store, user_id, agent)


@notes_app.command("list")
@command()
async def list_notes(target: Target) -> Output:
    """List the agents that have notes about a user."""
    return listed(
        await target.store.notes.agents(await target.user()),
        ("agent", "characters", "version", "age"),
        lambda one: (one.agent_id, one.characters, one.version, age(one.updated_at)),
        right=("characters", "version", "age"),
        empty="no agent has notes",
    )


@notes_app.command("show")
@command()
async def show_notes(
    target: Target,
    section: Annotated[str | None, typer.Option("--section", help="Only the section with this header.")] = None,
    version: Annotated[int | None, typer.Option("--version", min=0, help="A former version.")] = None,
    agent: AgentOption = None,
) -> Output:
    """Print an agent's notes, or one section or former version."""
    from memory_context.memory.notes import find_section

    text, number = await _text(await _notes(target, agent), version)
    if section is not None:
        found = find_section(text, section)
        text = text[found.start : found.end].rstrip("\n")

    def show() -> None:
        typer.echo(harmless(text)) if text else say("the notes are empty")

    return Output(lambda: {"notes": text, "version": number}, show)


async def _text(notes: "LongTermNotes", version: int | None) -> tuple[str, int]:
    if version is None:
        now = await notes.fetch()
        return now.text, now.version
    for one in await notes.versions():
        if one.version == version:
            return one.text, one.version
    raise Failure(f"version {version} is not kept; memory-context notes history lists those that are")


@notes_app.command("set")
@command(has_json=False)
async def set_notes(
    target: Target, file: TextArgument = Path("-"), version: VersionOption = None, agent: AgentOption = None
) -> None:
    """Replace an agent's notes by a text."""
    notes = await _notes(target, agent)
    await notes.read()
    _tell(await notes.overwrite(text_of(file), expected_version=version))


@notes_app.command("append")
@command(has_json=False)
async def append_notes(target: Target, file: TextArgument = Path("-"), agent: AgentOption = None) -> None:
    """Add a text behind an agent's notes."""
    _tell(await (await _notes(target, agent)).append(text_of(file)))


@notes_app.command("delete")
@command(has_json=False)
async def delete_section(
    target: Target,
    header: Annotated[str, typer.Argument(metavar="HEADER", help="Such as 'Work', '## Work' or 'Work > Tools'.")],
    agent: AgentOption = None,
) -> None:
    """Delete a section of an agent's notes; undo restores it."""
    notes = await _notes(target, agent)
    await notes.read()
    _tell(await notes.edit("delete_section_by_header", None, header))


@notes_app.command("undo")
@command(has_json=False)
async def undo_notes(
    target: Target,
    to: Annotated[int | None, typer.Option("--to", min=0, help="The version. [default: the one before]")] = None,
    agent: AgentOption = None,
) -> None:
    """Restore the version before, or a kept one."""
    _tell(await (await _notes(target, agent)).undo(to))


@notes_app.command("history")
@command()
async def list_versions(target: Target, agent: AgentOption = None) -> Output:
    """List the last versions of an agent's notes, the newest first."""
    return listed(
        await (await _notes(target, agent)).versions(),
        ("version", "written by", "characters", "age"),
        lambda one: (one.version, one.operation or "-", len(one.text), age(one.written_at)),
        right=("version", "characters", "age"),
    )


@notes_app.command("erase")
@command(has_json=False)
async def erase_notes(target: Target, agent: AgentOption = None, yes: YesOption = False) -> None:
    """Erase an agent's notes with all their versions."""
    confirm("Erase the notes for good, with all versions?", yes)
    await (await _notes(target, agent)).erase()
    say("erased")


def _tell(notes: "AgentNotes") -> None:
    say(f"version {notes.version}, {counted(len(notes.text), 'character')}")
