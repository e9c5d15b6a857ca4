"""`notes list|show|set|append|delete|undo|history|erase`: the long-term notes of a user's agents."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .command import Target, YesOption, command, group
from .console import USAGE_ERROR, Failure, Output, age, confirm, counted, harmless, listed, say
from .items import text_of

if TYPE_CHECKING:
    from ..notes import LongTermNotes
    from ..store import AgentNotes

__all__ = ["notes_app"]

notes_app = group("The long-term notes of agents about a user.")

AgentOption = Annotated[str | None, typer.Option("--agent", help="Whose notes. [default: the only agent with some]")]
TextArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A Markdown file; - for what is piped in.")]
VersionOption = Annotated[int | None, typer.Option("--version", min=0, help="Refuse if another version is in force.")]


async def _notes(target: Target, agent: str | None) -> "LongTermNotes":
    from ..notes import LongTermNotes

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
    from ..notes import find_section

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
