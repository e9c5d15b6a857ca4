"""`notes list|show|set|append|delete|undo|history|erase`: the long-term notes of a user's agents."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .console import USAGE_ERROR, Failure, age, confirm, counted, harmless, print_json, print_table, say
from .items import text_of
from .lookup import JsonOption, UrlOption, UserOption, YesOption, find_user, run

if TYPE_CHECKING:
    from ..notes import LongTermNotes
    from ..store import AgentNotes, MemoryStore, NotesExtent, NotesVersion

__all__ = ["notes_app"]

notes_app = typer.Typer(help="The long-term notes of agents about a user.", no_args_is_help=True, rich_markup_mode=None)

AgentOption = Annotated[str | None, typer.Option("--agent", help="Whose notes. [default: the only agent with some]")]
TextArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A Markdown file; - for what is piped in.")]
VersionOption = Annotated[int | None, typer.Option("--version", min=0, help="Refuse if another version is in force.")]


async def _notes(store: "MemoryStore", user: str | None, agent: str | None) -> "LongTermNotes":
    from ..notes import LongTermNotes

    user_id = await find_user(store, user)
    if agent is None:
        agents = [one.agent_id for one in await store.notes.agents(user_id)]
        if len(agents) != 1:
            shown = f"several agents have notes: {', '.join(map(repr, agents))}" if agents else "no agent has notes"
            raise Failure(f"{shown}; give --agent NAME", USAGE_ERROR)
        agent = agents[0]
    return LongTermNotes(store, user_id, agent)


@notes_app.command("list")
def list_notes(url: UrlOption = None, user: UserOption = None, as_json: JsonOption = False) -> None:
    """List the agents that have notes about a user."""

    async def work(store: "MemoryStore") -> "list[NotesExtent]":
        return await store.notes.agents(await find_user(store, user))

    found = run(work, url)
    if as_json:
        print_json([asdict(one) for one in found])
    elif not found:
        say("no agent has notes")
    else:
        rows = [(one.agent_id, one.characters, one.version, age(one.updated_at)) for one in found]
        print_table(("agent", "characters", "version", "age"), rows, right=("characters", "version", "age"))


@notes_app.command("show")
def show_notes(
    section: Annotated[str | None, typer.Option("--section", help="Only the section with this header.")] = None,
    version: Annotated[int | None, typer.Option("--version", min=0, help="A former version.")] = None,
    agent: AgentOption = None,
    url: UrlOption = None,
    user: UserOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print an agent's notes, or one section or former version."""

    async def work(store: "MemoryStore") -> tuple[str, int]:
        notes = await _notes(store, user, agent)
        if version is None:
            now = await notes.fetch()
            return now.text, now.version
        for one in await notes.versions():
            if one.version == version:
                return one.text, one.version
        raise Failure(f"version {version} is not kept; memory-context notes history lists those that are")

    text, number = run(work, url)
    if section is not None:
        from ..notes import find_section

        found = find_section(text, section)
        text = text[found.start : found.end].rstrip("\n")
    if as_json:
        print_json({"notes": text, "version": number})
    elif text:
        typer.echo(harmless(text))
    else:
        say("the notes are empty")


@notes_app.command("set")
def set_notes(
    file: TextArgument = Path("-"),
    version: VersionOption = None,
    agent: AgentOption = None,
    url: UrlOption = None,
    user: UserOption = None,
) -> None:
    """Replace an agent's notes by a text."""

    async def work(store: "MemoryStore") -> "AgentNotes":
        notes = await _notes(store, user, agent)
        await notes.read()
        return await notes.overwrite(text_of(file), expected_version=version)

    _tell(run(work, url))


@notes_app.command("append")
def append_notes(
    file: TextArgument = Path("-"), agent: AgentOption = None, url: UrlOption = None, user: UserOption = None
) -> None:
    """Add a text behind an agent's notes."""

    async def work(store: "MemoryStore") -> "AgentNotes":
        return await (await _notes(store, user, agent)).append(text_of(file))

    _tell(run(work, url))


@notes_app.command("delete")
def delete_section(
    header: Annotated[str, typer.Argument(metavar="HEADER", help="Such as 'Work', '## Work' or 'Work > Tools'.")],
    agent: AgentOption = None,
    url: UrlOption = None,
    user: UserOption = None,
) -> None:
    """Delete a section of an agent's notes; undo restores it."""

    async def work(store: "MemoryStore") -> "AgentNotes":
        notes = await _notes(store, user, agent)
        await notes.read()
        return await notes.delete_section(header)

    _tell(run(work, url))


@notes_app.command("undo")
def undo_notes(
    to: Annotated[int | None, typer.Option("--to", min=0, help="The version. [default: the one before]")] = None,
    agent: AgentOption = None,
    url: UrlOption = None,
    user: UserOption = None,
) -> None:
    """Restore the version before, or a kept one."""

    async def work(store: "MemoryStore") -> "AgentNotes":
        return await (await _notes(store, user, agent)).undo(to)

    _tell(run(work, url))


@notes_app.command("history")
def list_versions(
    agent: AgentOption = None, url: UrlOption = None, user: UserOption = None, as_json: JsonOption = False
) -> None:
    """List the last versions of an agent's notes, the newest first."""

    async def work(store: "MemoryStore") -> "list[NotesVersion]":
        return await (await _notes(store, user, agent)).versions()

    found = run(work, url)
    if as_json:
        print_json([asdict(one) for one in found])
    else:
        rows = [(one.version, one.operation or "-", len(one.text), age(one.written_at)) for one in found]
        print_table(("version", "written by", "characters", "age"), rows, right=("version", "characters", "age"))


@notes_app.command("erase")
def erase_notes(
    agent: AgentOption = None, url: UrlOption = None, user: UserOption = None, yes: YesOption = False
) -> None:
    """Erase an agent's notes with all their versions."""
    confirm("Erase the notes for good, with all versions?", yes)

    async def work(store: "MemoryStore") -> None:
        await (await _notes(store, user, agent)).erase()

    run(work, url)
    say("erased")


def _tell(notes: "AgentNotes") -> None:
    say(f"version {notes.version}, {counted(len(notes.text), 'character')}")
