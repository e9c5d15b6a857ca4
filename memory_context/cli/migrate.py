"""`migrate`: bringing the schema up to date."""

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from .console import JsonOption, UrlOption, counted, print_json, print_table, run, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..store import MemoryStore, MigrationState

__all__ = ["migrate"]


def migrate(
    only_status: Annotated[bool, typer.Option("--status", help="List the migrations; change nothing.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="As --status, with exit code 1 unless the schema is up to date.")
    ] = False,
    pre: Annotated[
        bool | None,
        typer.Option(
            "--pre/--post",
            help="Only what the version before works with, too; or the rest, once this one runs everywhere.",
            show_default="all of it",
        ),
    ] = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bring the schema of the database up to this version.

    The first use of a store does so too, if its login may. Where agents have an ordinary login, name the owner's
    address in MEMORY_CONTEXT_OWNER_URL and run this when you install a new version.

    To go over to a new version without a pause, run it with --pre, deploy the new version beside the old one, and run
    it with --post when the old one is gone. On a server of your own the first use of a store only does what --pre does.
    """
    from ..store.sql import part_of

    part = None if pre is None else "pre" if pre else "post"

    async def look(store: "MemoryStore") -> "list[MigrationState]":
        return await store.admin.migrations()

    async def apply(store: "MemoryStore") -> list[str]:
        applied = await store.admin.migrate(part)
        if advice := await store.admin.vector_advice():
            say(f"warning: {advice}")
        return applied

    if only_status or check:
        states = [one for one in run(look, url) if part in (None, part_of(one.name) or "pre")]
        if as_json:
            print_json([asdict(one) for one in states])
        else:
            rows = [(one.name, _STATES[one.state], one.applied_at) for one in states]
            print_table(("migration", "state", "applied at (UTC)"), rows)
            say(_verdict(states))
        if check and any(one.state not in ("applied", "ahead") for one in states):
            raise typer.Exit(1)
        return
    applied = run(apply, url)
    if as_json:
        print_json({"applied": applied})
        return
    for name in applied:
        typer.echo(f"applied {name}")
    if not applied:
        typer.echo("up to date")


_STATES = {
    "applied": "applied",
    "pending": "pending",
    "changed": "applied, with another file",
    "unknown": "applied by a newer version",
    "ahead": "applied by a newer version, beside which this one works",
    "superseded": "applied by a development version",
}


def _verdict(states: "Sequence[MigrationState]") -> str:
    """Return in one line whether the schema fits, and else what to do."""
    from ..store.schema import SUPERSEDED

    count = Counter(one.state for one in states)
    if count["superseded"]:
        return SUPERSEDED
    if count["unknown"]:
        return "the schema is newer than this memory-context: upgrade it with pip install -U memory-context"
    if count["changed"]:
        return f"{counted(count['changed'], 'migration')} ran with another file: install the version that made it"
    if count["pending"]:
        return f"{counted(count['pending'], 'migration')} to come: memory-context migrate"
    return "the schema is up to date"
