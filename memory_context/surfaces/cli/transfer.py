"""`export` and `import`: everything of a user or a session as a file.

Exports are plain text, readable by their owner only, and named `<name>.part` until they are complete.
"""

import gzip
import json
import os
import sys
import zlib
from collections.abc import AsyncIterator, Generator, Iterator, Mapping
from contextlib import ExitStack, aclosing, contextmanager, suppress
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, cast

import typer

from .command import Target, command, not_empty
from .console import Failure, Output, counted, progress_bar, say

if TYPE_CHECKING:
    from memory_context.store.transfer.importer import ImportReport

__all__ = ["export", "import_"]

_STREAM = "-"
_GZIP = b"\x1f\x8b"


@command(has_json=False)
async def export(
    target: Target,
    file: Annotated[
        str, typer.Argument(help="The file to write, compressed if its name ends in .gz; - for stdout.")
    ] = "-",
    session: Annotated[
        str | None, typer.Option(help="Only this session, those of its sub-agents, and the items they refer to.")
    ] = None,
) -> None:
    """Write everything of a user, or of one session, to a file.

    JSON Lines of one moment: items with their content, tombstones, sessions with their transcripts and chats, and the
    audit trail. The search index is not in it: it is made again after an import.
    """
    store, name = target.store, await target.user()
    with progress_bar("exporting", hide=file == _STREAM and sys.stdout.isatty()) as show:
        pieces = store.admin.export_lines(name, session, progress=show)
        async with aclosing(pieces):
            first = await anext(pieces, None)
            if first is None:
                of = f"session {session!r} of user {name!r}" if session else f"user {name!r}"
                raise Failure(f"nothing is stored of {of}")
            with _opened_to_write(file) as out:
                last = await _write(out, first, pieces)
    say(f"exported {_in_words(json.loads(last)['records'])} of {name!r}")
    kinds = await store.user_stats.kinds(name, session_id=session)
    if secrets := sum(kind.items for kind in kinds if kind.memory_type == "user_secret"):
        say(f"{counted(secrets, 'item')} of type user_secret stayed behind: a file would hold them in plain text")


NewUserOption = Annotated[
    str | None, typer.Option("--user", callback=not_empty, help="Whose it shall be. [default: the user in the file]")
]


@command(user=NewUserOption)
async def import_(
    target: Target,
    file: Annotated[str, typer.Argument(help="A file that export wrote; - for stdin.")],
    check: Annotated[bool, typer.Option("--check", help="Only read the file, and say what would be imported.")] = False,
) -> Output:
    """Take in what export wrote, for the same user or another.

    Rows that are there stay as they are, and what was forgotten stays forgotten, so a file can be imported again. A
    damaged line ends the import with its number; --check reads the whole file first. Do not go on with a session
    meanwhile.

    A file can be written by anybody: preferences and facts in it wait until the user confirms them.
    """
    from memory_context.store.transfer.records import TransferError

    name = "stdin" if file == _STREAM else file
    ends = "nothing was imported" if check else "what comes before is imported"
    try:
        with _lines(file) as lines:
            report = await target.store.admin.import_lines(lines, target.named_user, only_check=check)
    except TransferError as error:
        raise Failure(f"{name}: {error}; {ends}") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise Failure(f"{name} is damaged or cut off ({error}); {ends}") from error
    counts = {"stored": report.stored, "known": report.known, "kept": report.kept, "different": report.different}
    told = {"user": report.user_id, **counts, "names": report.names, "secrets": report.secrets}
    return Output(lambda: told, lambda: _say_imported(report, check))


def _say_imported(report: "ImportReport", only_check: bool) -> None:
    came = report.stored + report.known + report.kept + report.different
    say(f"{'would import' if only_check else 'imported'} {_in_words(report.stored)} for {report.user_id!r}")
    say(f"{_in_words(came)} came")
    more = ", …" if report.different.total() > len(report.names) else ""
    for counts, what in (
        (report.known, "there already"),
        (report.kept, "left as they are: forgotten or deleted on one side, or another user's"),
        (report.different, f"left out, since what is here differs: {', '.join(report.names)}{more}"),
    ):
        if counts.total():
            say(f"{_in_words(counts)} {what}")
    if report.secrets:
        say(f"left out, since it is in clear in the file: {', '.join(report.secrets)}; keep it with secrets set")
    if report.stored["item"] and not only_check:
        say("search finds the items once they are indexed: by the next process that uses the store, or by reindex")


def _in_words(counts: Mapping[str, int]) -> str:
    plurals = {"batch": "batches"}
    parts = [counted(count, kind, plurals.get(kind, "")) for kind, count in counts.items() if count]
    return ", ".join(parts) or "nothing"


@contextmanager
def _lines(file: str) -> Generator[Iterator[bytes], None, None]:
    """Yield the lines of a file or of stdin, unpacked."""
    from memory_context.store.transfer.importer import bounded_lines

    with ExitStack() as stack:
        raw = sys.stdin.buffer if file == _STREAM else stack.enter_context(Path(file).open("rb"))
        begun: IO[bytes] = BufferedReader(cast(RawIOBase, raw))  # shows its first bytes, also of a pipe
        is_packed = cast("BufferedReader[Any]", begun).peek(2)[:2] == _GZIP
        yield bounded_lines(cast(IO[bytes], gzip.GzipFile(fileobj=begun, mode="rb")) if is_packed else begun)


# --- writing


async def _write(out: IO[bytes], first: bytes, rest: AsyncIterator[bytes]) -> bytes:
    out.write(first)
    last = first
    async for last in rest:
        out.write(last)
    return last


@contextmanager
def _opened_to_write(file: str) -> Generator[IO[bytes], None, None]:
    """Yield a stream; a failed block removes the file."""
    try:
        path = Path(file)
        if file == _STREAM:
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        elif path.exists() and not path.is_file():  # a device or pipe: no place for a file beside it
            with path.open("wb") as out:
                yield out
        else:
            with _replacing(path) as out:
                yield out
    except BrokenPipeError:
        if file == _STREAM:  # the rest of its buffer would complain at the end of the process
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise Failure("the export was not read to its end") from None
    except OSError as error:
        raise Failure(f"{file} cannot be written: {error.strerror or error}") from error


@contextmanager
def _replacing(path: Path) -> Generator[IO[bytes], None, None]:
    """Yield a stream to a private `.part` file, renamed if the block ends well."""
    part = path.with_name(f"{path.name}.part")
    try:
        part.unlink(missing_ok=True)  # left by an export that was killed, or somebody else's link
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as raw:
            if path.suffix == ".gz":
                with gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6) as packed:
                    yield cast(IO[bytes], packed)
            else:
                yield raw
            raw.flush()
            os.fsync(raw.fileno())
        part.replace(path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
