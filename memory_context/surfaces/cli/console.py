"""Output, questions and errors of commands.

Results go to stdout, everything else to stderr. With `--json`, stdout holds JSON only. An error is one line with the
remedy.
"""

import json
import os
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any, TypeVar

import typer

__all__ = [
    "FAILED",
    "USAGE_ERROR",
    "Failure",
    "Output",
    "age",
    "byte_size",
    "confirm",
    "counted",
    "harmless",
    "listed",
    "present",
    "print_fields",
    "print_table",
    "progress_bar",
    "say",
    "say_error",
    "styled",
]

FAILED, USAGE_ERROR = 1, 2
_MIN_COLUMN_CELLS = 8
_GAP = "   "

_Row = TypeVar("_Row")


@dataclass(frozen=True)
class Output:
    """The result of a command.

    Attributes:
        json: The value that --json prints.
        show: Prints it for a person.
        notes: Lines for stderr, either way.
    """

    json: object
    show: Callable[[], None]
    notes: Sequence[str] = ()
    exit_code: int = 0


class Failure(Exception):
    """Ends a command without its result.

    Attributes:
        text: One line with the remedy.
        exit_code: 1 for a runtime failure, 2 for a usage error.
    """

    def __init__(self, text: str, exit_code: int = FAILED) -> None:
        super().__init__(text)
        self.text = text
        self.exit_code = exit_code

    @classmethod
    def of(cls, error: Exception) -> "Failure":
        """Convert any error to its line and exit code."""
        from memory_context.foundation.errors import MemoryContextError

        if isinstance(error, Failure):
            return error
        if isinstance(error, typer.TyperException):
            command = getattr(getattr(error, "ctx", None), "command_path", "memory-context")
            return cls(f"{error.format_message().rstrip('.')}; see {command} --help", error.exit_code)
        if isinstance(error, OSError) and error.filename is not None:
            return cls(f"{error.filename}: {error.strerror or error}")
        if isinstance(error, ValueError):  # the library's, about an argument
            return cls(str(error), USAGE_ERROR)
        if isinstance(error, (MemoryContextError, OSError, ImportError)):
            return cls(getattr(error, "strerror", None) or str(error) or type(error).__name__)
        return cls(f"{type(error).__name__}: {error} (this is a defect; memory-context --debug … shows where)")


# --- text


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, such as `1 item` and `2,000 items`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def byte_size(count: int) -> str:
    """Return a number of bytes in its largest decimal unit, such as `1.5 kB`."""
    from rich.filesize import decimal

    return decimal(count)


def age(time: datetime) -> str:
    """Return how long ago a time was, in its largest unit, such as `3 d`."""
    seconds = max((datetime.now(timezone.utc) - time).total_seconds(), 0)
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{int(seconds)} s"


def harmless(text: str) -> str:
    """Replace everything but lines, tabs and printable characters by its code, against terminal control."""
    text = text.replace("\r\n", "\n")
    codes = {char: char.encode("unicode_escape").decode() for char in set(text) if not char.isprintable()}
    return text.translate({ord(char): code for char, code in codes.items() if char not in "\n\t"})


def styled(text: str, **style: Any) -> str:
    """Return a text with its style, which a pipe, a file and NO_COLOR leave out."""
    has_style = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return typer.style(text, **style) if has_style else text


def _in_one_line(value: object) -> str:
    if value is None:
        return "-"
    text = f"{value:%Y-%m-%d %H:%M}" if hasattr(value, "strftime") else str(value)
    return "".join(char if char.isprintable() else " " for char in text)


# --- output


def present(output: Output | None, as_json: bool) -> None:
    """Print the result of a command; end with its exit code."""
    if output is None:
        return
    if as_json:  # times in ISO 8601; two lone surrogates may become a pair
        typer.echo(json.dumps(output.json, indent=2, default=lambda one: one.isoformat()))
    else:
        output.show()
    for note in output.notes:
        say(note)
    if output.exit_code:
        raise typer.Exit(output.exit_code)


def listed(
    found: Sequence[_Row],
    columns: Sequence[str],
    row: Callable[[_Row], Sequence[object]],
    *,
    right: Sequence[str] = (),
    cut: Sequence[str] = (),
    empty: str = "",
    limit: int | None = None,
    more: str = "--limit shows more",
    as_json: Callable[[Any], object] = asdict,
) -> Output:
    """Return a list as a table, or as JSON.

    Args:
        empty: Said in place of a table without rows.
        limit: Most rows to print; `more` is printed below if there are others.
    """
    shown = found[:limit]

    def show() -> None:
        if shown or not empty:
            print_table(columns, map(row, shown), right=right, cut=cut)
        else:
            say(empty)

    notes = [f"there are more than {limit}: {more}"] if len(found) > len(shown) else []
    return Output([as_json(one) for one in shown], show, notes)


def say(text: str) -> None:
    """Print a line to stderr."""
    typer.echo(text, err=True)


def say_error(text: str) -> None:
    """Print the one line of an error."""
    say(f"memory-context: {' '.join(_in_one_line(text).split())}")


def print_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Print names and values, a line each."""
    pairs = [(name, _in_one_line(value)) for name, value in fields]
    width = max((len(name) for name, _ in pairs), default=0)
    for name, value in pairs:
        typer.echo(f"{name:<{width}}  {value}")


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = (), cut: Sequence[str] = ()
) -> None:
    """Print rows under their columns, a line each. A pipe or file gets every cell whole, without colours.

    Args:
        right: Columns aligned to the right.
        cut: Columns shortened to fit a terminal. The others stay whole: a number without its last digit is another one.
    """
    from rich.cells import cell_len

    texts = [[_in_one_line(value) for value in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(columns, *texts, strict=True)]
    if not sys.stdout.isatty():  # without the tables of rich, whose import takes as long as the whole query
        for line in (columns, ["─" * (sum(widths) + len(_GAP) * (len(widths) - 1))], *texts):
            cells = (
                (text, " " * (width - cell_len(text)))[:: -1 if name in right else 1]
                for name, text, width in zip(columns, line, widths, strict=False)
            )
            typer.echo(_GAP.join(map("".join, cells)).rstrip())
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False, header_style="bold")
    least = [
        min(width, _MIN_COLUMN_CELLS) if name in cut else width for name, width in zip(columns, widths, strict=True)
    ]
    for name, width in zip(columns, least, strict=True):
        table.add_column(name, justify="right" if name in right else "left", min_width=width)
    for row in texts:  # as Text: what is stored may look like rich's markup
        table.add_row(*(Text(text, no_wrap=True, overflow="ellipsis") for text in row))
    console = Console()
    console.width = max(console.width, sum(least) + len(_GAP) * (len(least) - 1))
    console.print(table)


@contextmanager
def progress_bar(
    what: str, total: int | None = None, *, hide: bool = False
) -> Generator[Callable[..., None], None, None]:
    """Show progress on stderr, if that is a terminal; yields a function of the amount done and the total, if known."""
    if hide or not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)

        def show(done: int, total: int | None = None) -> None:
            progress.update(task, completed=done, total=total)

        yield show


def confirm(question: str, yes: bool) -> None:
    """Ask before a destructive operation; `Failure` if the answer was no, or stdin is no terminal."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Failure(f"{question} Nobody is there to answer: give --yes", USAGE_ERROR)
    try:
        is_wanted = typer.confirm(question, err=True)
    except typer.Abort:
        say("")  # ends the line of the question
        raise
    if not is_wanted:
        raise Failure("nothing was changed")
