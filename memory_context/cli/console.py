"""What all commands share: options, how results and errors are printed, and how a command gets at the store.

Promises: results go to stdout, everything else to stderr; with `--json` stdout holds JSON and nothing but; an error is
one line that says what to do; the store is closed however a command ends.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

if TYPE_CHECKING:
    from ..store import MemoryStore

__all__ = [
    "ASKED_WRONGLY",
    "Failure",
    "JsonOption",
    "UrlOption",
    "UserOption",
    "YesOption",
    "confirm",
    "print_fields",
    "print_json",
    "print_table",
    "progress_bar",
    "run",
    "say",
    "say_error",
    "user_of",
    "with_store",
]

FAILED, ASKED_WRONGLY = 1, 2

UrlOption = Annotated[
    str | None,
    typer.Option("--url", help="The database. [default: MEMORY_CONTEXT_URL, else the embedded one]"),
]
UserOption = Annotated[
    str | None,
    typer.Option("--user", envvar="MEMORY_CONTEXT_USER", help="Whose. [default: the only user there is]"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

_Result = TypeVar("_Result")


class Failure(Exception):
    """Why a command ends without its result, in one line that says what to do.

    Attributes:
        text: The line.
        exit_code: 1 for what failed, 2 for what was asked wrongly.
    """

    def __init__(self, text: str, exit_code: int = FAILED) -> None:
        super().__init__(text)
        self.text = text
        self.exit_code = exit_code

    @classmethod
    def of(cls, error: Exception) -> "Failure":
        """Return an error as what a person is told of it."""
        from ..errors import MemoryContextError

        if isinstance(error, Failure):
            return error
        if isinstance(error, typer.TyperException):
            asked = getattr(getattr(error, "ctx", None), "command_path", "memory-context")
            return cls(f"{error.format_message().rstrip('.')}; see {asked} --help", error.exit_code)
        if isinstance(error, OSError) and error.filename is not None:
            return cls(f"{error.filename}: {error.strerror or error}")
        if isinstance(error, ValueError):  # of the library, about an argument: the text has the remedy
            return cls(str(error), ASKED_WRONGLY)
        if isinstance(error, (MemoryContextError, OSError, ImportError)):
            return cls(str(error) or type(error).__name__)
        return cls(f"{type(error).__name__}: {error} (this is a defect; memory-context --debug … shows where)")


# --- the store


def run(work: Callable[["MemoryStore"], Awaitable[_Result]], url: str | None) -> _Result:
    """Return what some work with the store gives; the store is opened by its first operation, and closed after it."""
    return asyncio.run(with_store(work, url))


async def with_store(work: Callable[["MemoryStore"], Awaitable[_Result]], url: str | None) -> _Result:
    """As `run`, inside an event loop."""
    from ..store import MemoryStore

    store = MemoryStore(url) if url else MemoryStore.default()
    try:
        return await work(store)
    finally:
        await store.close()


async def user_of(store: "MemoryStore", user: str | None) -> str:
    """Return the user a command is about: the one that was named, or the only one there is.

    Raises:
        Failure: Nobody was named, and there is no user, or there are several.
    """
    if user:
        return user
    users: list[str] = []
    async for name in store.every_user():
        users.append(name)
        if len(users) > 10:
            break
    if len(users) == 1:
        return users[0]
    if not users:
        raise Failure(f"nothing is stored yet in {store.describe()}; give --user NAME for somebody else's view of it")
    shown = ", ".join(repr(name) for name in users[:10]) + (", …" if len(users) > 10 else "")
    raise Failure(f"there are several users, give --user: {shown}", ASKED_WRONGLY)


# --- what is printed


def say(text: str) -> None:
    """Print a line for people, beside the results."""
    typer.echo(text, err=True)


def say_error(text: str) -> None:
    """Print the one line of an error."""
    typer.echo(f"memory-context: {' '.join(text.split())}", err=True)


def print_json(value: object) -> None:
    """Print a value as JSON; any str survives, times are ISO 8601."""
    typer.echo(json.dumps(value, indent=2, default=_as_json))


def _as_json(value: Any) -> object:
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "_asdict"):
        return value._asdict()
    return str(value)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = ()) -> None:
    """Print rows under their columns, those named in `right` aligned there.

    In a terminal as wide as that is; elsewhere nothing is cut, so that it can be searched.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", no_wrap=not sys.stdout.isatty())
    for row in rows:
        table.add_row(*(Text(_printable(value)) for value in row))
    Console(width=None if sys.stdout.isatty() else 10_000).print(table, crop=False)


def print_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Print names and values, a line each."""
    pairs = [(name, _printable(value)) for name, value in fields]
    width = max((len(name) for name, _ in pairs), default=0)
    for name, value in pairs:
        typer.echo(f"{name:<{width}}  {value}")


def _printable(value: object) -> str:
    """Return a value as one line that does nothing to a terminal."""
    if value is None:
        return "-"
    text = f"{value:%Y-%m-%d %H:%M}" if hasattr(value, "strftime") else str(value)
    return "".join(sign if sign.isprintable() else " " for sign in text)


# --- long work, and work that destroys


@contextmanager
def progress_bar(what: str, total: int | None = None) -> Generator[Callable[[int], None], None, None]:
    """Show how far some work is, on stderr; yields a function that takes the count done so far.

    Where stderr is no terminal nothing is shown.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)


def confirm(question: str, yes: bool) -> None:
    """Ask before something is destroyed.

    Raises:
        Failure: The answer was no, or nobody is there to answer.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise Failure(f"{question} Nobody is there to answer: give --yes", ASKED_WRONGLY)
    if not typer.confirm(question, err=True):
        raise Failure("nothing was changed")
