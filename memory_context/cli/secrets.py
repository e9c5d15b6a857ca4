"""`secrets set|list|delete|rotate`: names of a user's secrets; a value goes in and is never printed."""

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from .console import USAGE_ERROR, Failure, age, confirm, counted, print_json, print_table, say
from .lookup import JsonOption, UrlOption, UserOption, YesOption, find_user, run

if TYPE_CHECKING:
    from ..memory import SecretTraces
    from ..store import MemoryStore, SecretName
    from ..vault import Rotation

__all__ = ["delete_secret", "list_secrets", "rotate_secrets", "secrets_app", "set_secret"]

secrets_app = typer.Typer(
    help="Values that no model sees: their names, and how to set them.", no_args_is_help=True, rich_markup_mode=None
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name, such as API_TOKEN.")]


@secrets_app.command("set")
def set_secret(
    name: NameArgument,
    erase: Annotated[
        bool, typer.Option("--erase", help="Erase the value from what was stored before, without asking.")
    ] = False,
    url: UrlOption = None,
    user: UserOption = None,
) -> None:
    """Keep a value under a name; it is asked for, or read from stdin.

    Then it is looked for in what was stored before: where it stands, it can be erased.
    """
    value = _value(name)

    async def work(store: "MemoryStore") -> "tuple[SecretTraces, SecretTraces | None]":
        from ..memory import AgentMemory

        memory = AgentMemory(store, await find_user(store, user))
        await memory.secrets.set(name, value)
        say(f"{name} is set: {{{{secret:{name}}}}} stands for it")
        found = await memory.find_traces(name)
        if not found:
            return found, None
        say(f"the value stands in clear in {_in_words(found)}")
        if not erase:
            if not sys.stdin.isatty():
                say("erase it there with --erase")
                return found, None
            confirm("Erase it there?", False)
        return found, await memory.erase_traces(name)

    _, left = run(work, url)
    if left is not None:
        say(f"it still stands in {_in_words(left)}" if left else "it was erased there")
        if left:
            raise typer.Exit(1)


@secrets_app.command("list")
def list_secrets(url: UrlOption = None, user: UserOption = None, as_json: JsonOption = False) -> None:
    """List the names of a user's secrets."""

    async def work(store: "MemoryStore") -> "list[SecretName]":
        from ..vault import secrets_of

        return await secrets_of(store, await find_user(store, user)).names()

    found = run(work, url)
    if as_json:
        print_json([asdict(one) for one in found])
    elif not found:
        say("there are no secrets: memory-context secrets set NAME")
    else:
        rows = [(one.name, "yes" if one.has_value else "no: set it", age(one.updated_at)) for one in found]
        print_table(("name", "has a value", "age"), rows, right=("age",))


@secrets_app.command("delete")
def delete_secret(name: NameArgument, url: UrlOption = None, user: UserOption = None, yes: YesOption = False) -> None:
    """Delete a name and its value."""

    async def work(store: "MemoryStore") -> bool:
        from ..vault import secrets_of

        secrets = secrets_of(store, await find_user(store, user))
        if name not in {one.name for one in await secrets.names()}:
            raise Failure(f"there is no secret {name!r}: memory-context secrets list shows the names")
        confirm(f"Delete {name}? Tools that use it stop working.", yes)
        return await secrets.delete(name)

    run(work, url)
    say(f"{name} is deleted")


@secrets_app.command("rotate")
def rotate_secrets(
    url: UrlOption = None,
    user: Annotated[str | None, typer.Option("--user", help="Whose. [default: of all users]")] = None,
) -> None:
    """Encrypt all values with the first key of MEMORY_CONTEXT_SECRET_KEY; agents go on meanwhile."""

    async def work(store: "MemoryStore") -> "dict[str, Rotation]":
        from ..vault import secrets_of

        users = [user] if user is not None else [one async for one in store.every_user()]
        return {one: await secrets_of(store, one).rotate() for one in users}

    done = run(work, url)
    say(f"{counted(sum(one.rotated for one in done.values()), 'value')} encrypted anew")
    lost = [f"{name} of {one}" for one, rotation in done.items() for name in rotation.unreadable]
    if lost:
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
