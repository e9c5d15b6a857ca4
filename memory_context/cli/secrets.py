"""`secrets set|list|delete|rotate`: names of a user's secrets; a value goes in and is never printed."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from .command import Target, YesOption, command, group
from .console import FAILED, USAGE_ERROR, Failure, Output, age, confirm, counted, listed, say

if TYPE_CHECKING:
    from ..memory import SecretTraces

__all__ = ["secrets_app"]

secrets_app = group("Values that no model sees: their names, and how to set them.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name, such as API_TOKEN.")]


@secrets_app.command("set")
@command(has_json=False)
async def set_secret(
    target: Target,
    name: NameArgument,
    erase: Annotated[
        bool, typer.Option("--erase", help="Erase the value from what was stored before, without asking.")
    ] = False,
) -> None:
    """Keep a value under a name; it is asked for, or read from stdin.

    Then it is looked for in what was stored before: where it stands, it can be erased.
    """
    value = _value(name)
    memory = await target.memory()
    await memory.secrets.set(name, value)
    say(f"{name} is set: {{{{secret:{name}}}}} stands for it")
    found = await memory.find_traces(name)
    if not found:
        return
    say(f"the value stands in clear in {_in_words(found)}")
    if not erase:
        if not sys.stdin.isatty():
            say("erase it there with --erase")
            return
        confirm("Erase it there?", False)
    left = await memory.erase_traces(name)
    say(f"it still stands in {_in_words(left)}" if left else "it was erased there")
    if left:
        raise typer.Exit(FAILED)


@secrets_app.command("list")
@command()
async def list_secrets(target: Target) -> Output:
    """List the names of a user's secrets."""
    from ..vault import secrets_of

    return listed(
        await secrets_of(target.store, await target.user()).names(),
        ("name", "has a value", "age"),
        lambda one: (one.name, "yes" if one.has_value else "no: set it", age(one.updated_at)),
        right=("age",),
        empty="there are no secrets: memory-context secrets set NAME",
    )


@secrets_app.command("delete")
@command(has_json=False)
async def delete_secret(target: Target, name: NameArgument, yes: YesOption = False) -> None:
    """Delete a name and its value."""
    from ..vault import secrets_of

    secrets = secrets_of(target.store, await target.user())
    if name not in {one.name for one in await secrets.names()}:
        raise Failure(f"there is no secret {name!r}: memory-context secrets list shows the names")
    confirm(f"Delete {name}? Tools that use it stop working.", yes)
    await secrets.delete(name)
    say(f"{name} is deleted")


@secrets_app.command("rotate")
@command(user=Annotated[str | None, typer.Option("--user", help="Whose. [default: of all users]")], has_json=False)
async def rotate_secrets(target: Target) -> None:
    """Encrypt all values with the first key of MEMORY_CONTEXT_SECRET_KEY; agents go on meanwhile."""
    from ..vault import secrets_of

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


def _in_words(traces: "SecretTraces") -> str:
    parts = [counted(len(traces.items), "item")] if traces.items else []
    parts += [counted(len(traces.sessions), "session")] if traces.sessions else []
    parts += [counted(count, kind) for kind, count in traces.others.items()]
    return ", ".join(parts)
