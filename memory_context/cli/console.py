"""What all commands share: options, how results and errors are printed, and how a command gets at the store.

Promises: results go to stdout, everything else to stderr; with `--json` stdout holds JSON and nothing but; an error is
one line that says what to do; the store is closed however a command ends.
"""

import asyncio
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

if TYPE_CHECKING:
    from ..embeddings import Embedder
    from ..store import MemoryStore

__all__ = [
    "ASKED_WRONGLY",
    "Failure",
    "JsonOption",
    "UrlOption",
    "UserOption",
    "YesOption",
    "confirm",
    "counted",
    "harmless",
    "not_empty",
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
_KEEP_SECONDS = 300


def not_empty(name: str | None) -> str | None:
    """Refuse an empty name: a script's variable that is not set must not choose another database or user."""
    if name == "":
        raise typer.BadParameter("it is empty")
    return name


UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url", callback=not_empty, help="The database. [default: MEMORY_CONTEXT_URL, else the embedded one]"
    ),
]
UserOption = Annotated[
    str | None,
    typer.Option(
        "--user",
        callback=not_empty,
        envvar="MEMORY_CONTEXT_USER",
        help="Whose memory. [default: that of the only user]",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

_LEAST_CELLS = 8  # of a column that gives way

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
            return cls(getattr(error, "strerror", None) or str(error) or type(error).__name__)
        return cls(f"{type(error).__name__}: {error} (this is a defect; memory-context --debug … shows where)")


# --- the store


def run(
    work: Callable[["MemoryStore"], Awaitable[_Result]], url: str | None, embedder: "Embedder | None" = None
) -> _Result:
    """Return what some work with the store gives; the store is opened by its first operation, and closed after it."""
    _keep_server_warm()
    with _stopping_at_once():
        return asyncio.run(with_store(work, url, embedder))


def _keep_server_warm() -> None:
    """Let the embedded server outlive this command, unless the environment says something else: the next finds it warm.

    Not in CI, and not where the command is process 1 or was started by it: such a container or service ends with the
    command, and would kill what is left.
    """
    from ..store.location import KEEP_ENV

    ends_with_us = os.environ.get("CI", "").lower() not in ("", "0", "false") or 1 in (os.getpid(), os.getppid())
    os.environ.setdefault(KEEP_ENV, "0" if ends_with_us else str(_KEEP_SECONDS))


@contextmanager
def _stopping_at_once() -> Generator[None, None, None]:
    """Let Ctrl-C end what is waited for now, be it a question, a pipe that nobody reads or the database.

    asyncio's own handler only asks the work to end when it next waits for the database; a second Ctrl-C ends it.
    """

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # not ours to change
        yield
        return
    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


async def with_store(
    work: Callable[["MemoryStore"], Awaitable[_Result]], url: str | None, embedder: "Embedder | None" = None
) -> _Result:
    """As `run`, inside an event loop."""
    from ..store import MemoryStore

    logger = logging.getLogger("memory_context")
    if not logger.handlers:  # what goes wrong is told once, as the one line of the error
        logger.addHandler(logging.NullHandler())
    store = MemoryStore(url, embedder) if url or embedder else MemoryStore.default()
    try:
        return await work(store)
    finally:
        await store.close()


async def user_of(store: "MemoryStore", user: str | None) -> str:
    """Return the user a command is about: the one that was named, or the only one there is.

    Raises:
        Failure: Nobody was named, and there is no user, or there are several.
    """
    if user is not None:
        return user
    found, name = await store.user_stats.only_user()
    if name is not None:
        return name
    if not found:
        raise Failure(f"nothing is stored yet in {store.describe()}; give --user NAME for somebody else's view of it")
    raise Failure(f"there are several users, give --user{await _some_users(store)}", ASKED_WRONGLY)


async def _some_users(store: "MemoryStore") -> str:
    """Return the first users, to choose from; nothing where the login may not list them."""
    from ..errors import StoreError

    users: list[str] = []
    with suppress(StoreError):
        async for name in store.every_user():
            users.append(name)
            if len(users) > 10:
                break
    shown = ", ".join(repr(name) for name in users[:10]) + (", …" if len(users) > 10 else "")
    return f": {shown}" if users else ""


# --- what is printed


def say(text: str) -> None:
    """Print a line for people, beside the results."""
    typer.echo(text, err=True)


def say_error(text: str) -> None:
    """Print the one line of an error."""
    typer.echo(f"memory-context: {' '.join(_printable(text).split())}", err=True)


def print_json(value: object) -> None:
    """Print a value as JSON; times are ISO 8601.

    Any str survives, but for halves of a surrogate pair side by side: JSON has no form in which they stay two.
    """
    typer.echo(json.dumps(value, indent=2, default=_as_json))


def _as_json(value: Any) -> object:
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "_asdict"):
        return value._asdict()
    return str(value)


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Sequence[str] = (),
    cut: Sequence[str] = (),
) -> None:
    """Print rows under their columns, those named in `right` aligned there.

    In a terminal as wide as that is: columns named in `cut` give way, each row in its one line; without such columns
    all wrap. Numbers and keys stay whole: where there is no room for them, lines are longer. Elsewhere nothing is cut,
    so that it can be searched.
    """
    from rich.cells import cell_len

    texts = [[_printable(value) for value in row] for row in rows]
    widths = [max(map(cell_len, cells)) for cells in zip(columns, *texts, strict=True)]
    if sys.stdout.isatty():
        _print_fitted(columns, texts, widths, right, cut)
    else:
        _print_whole(columns, texts, widths, right)


def _print_fitted(
    columns: Sequence[str],
    texts: Iterable[Sequence[str]],
    widths: Sequence[int],
    right: Sequence[str],
    cut: Sequence[str],
) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    least = 3 * (len(columns) - 1)
    for column, width in zip(columns, widths, strict=True):
        stays = column in right or (bool(cut) and column not in cut)
        least += width if stays else min(width, _LEAST_CELLS)
        table.add_column(column, justify="right" if column in right else "left", no_wrap=stays, overflow="fold")
    for row in texts:
        cells = [Text(text) for text in row]
        for column, cell in zip(columns, cells, strict=True):
            if column in cut:  # the text's own rules go before the column's, by which its width is found
                cell.no_wrap, cell.overflow = True, "ellipsis"
        table.add_row(*cells)
    Console(width=max(Console().width, least)).print(table, crop=False)


def _print_whole(
    columns: Sequence[str], texts: Iterable[Sequence[str]], widths: Sequence[int], right: Sequence[str]
) -> None:
    """Print a table as wide as it is. Not by rich: it takes ten times as long, and cuts at any width it is given."""
    from rich.cells import cell_len

    def line(row: Sequence[str]) -> str:
        gaps = [" " * (width - cell_len(text)) for width, text in zip(widths, row, strict=True)]
        padded = zip(columns, row, gaps, strict=True)
        return "   ".join(gap + text if column in right else text + gap for column, text, gap in padded).rstrip()

    lines = [line(columns), "─" * (sum(widths) + 3 * (len(widths) - 1)), *map(line, texts)]
    typer.echo("\n".join(lines))


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


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with what is counted, such as `1 item` and `2,000 items`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def harmless(text: str) -> str:
    """Return a text of several lines in which nothing commands a terminal: what cannot be printed shows as its code."""
    text = text.replace("\r\n", "\n")
    commands = {sign for sign in set(text) if not sign.isprintable() and sign not in "\n\t"}
    return text.translate({ord(sign): sign.encode("unicode_escape").decode() for sign in commands})


# --- long work, and work that destroys


@contextmanager
def progress_bar(
    what: str, total: int | None = None, *, in_bytes: bool = False, hide: bool = False
) -> Generator[Callable[..., None], None, None]:
    """Show how far some work is, on stderr; yields a function that takes what is done so far, and what there is in all.

    Where stderr is no terminal nothing is shown, nor where the results go to the same terminal meanwhile (`hide`).
    """
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    count = DownloadColumn() if in_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), count, TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=hide or not console.is_terminal) as progress:
        task = progress.add_task(what, total=total)

        def show(done: int, total: int | None = None) -> None:
            progress.update(task, completed=done, total=total)

        yield show


def confirm(question: str, yes: bool) -> None:
    """Ask before something is destroyed.

    Raises:
        Failure: The answer was no, or nobody is there to answer.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise Failure(f"{question} Nobody is there to answer: give --yes", ASKED_WRONGLY)
    try:
        is_wanted = typer.confirm(question, err=True)
    except typer.Abort:
        say("")  # ends the line of the question
        raise
    if not is_wanted:
        raise Failure("nothing was changed")
