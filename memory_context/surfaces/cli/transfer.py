"""`export` and `import`: everything of a user or a session as a file.

Exports are plain text, readable by their owner only, and named `<name>.part` until they are complete.
"""

import gzip
import json
import os
import sys
import zlib
from collections.abc import Generator, Mapping
from contextlib import ExitStack, aclosing, contextmanager
from io import BufferedReader
from pathlib import Path
from typing import IO, Annotated, Any, cast

from typer import Argument, Option

from .command import Target, command, not_empty
from .console import Failure, Output, counted, progress_bar, say

__all__ = ["export", "import_"]

_STREAM = "-"
_GZIP = b"\x1f\x8b"
_NAMED = 20


@command(has_json=False)
async def export(
    target: Target,
    file: Annotated[str, Argument(help="The file, compressed if it ends in .gz; - for stdout.")] = "-",
    session: Annotated[str | None, Option(help="Only this session, with sub-agents' and its items.")] = None,
) -> None:
    """Write everything of a user, or of one session, to a file.

    JSON Lines of one moment: items with their content, tombstones, sessions with their transcripts and chats, and the
    audit trail. The search index is not in it: it is made again after an import.
    """
    store, name = target.store, await target.user()
    with progress_bar("exporting", hide=file == _STREAM and sys.stdout.isatty()) as show:
        pieces = store.admin.export_lines(name, session, progress=show)
        async with aclosing(pieces):
            last = await anext(pieces, None)
            if last is None:
                of = f"session {session!r} of user {name!r}" if session else f"user {name!r}"
                raise Failure(f"nothing is stored of {of}")
            with _opened_to_write(file) as out:
                out.write(last)
                async for last in pieces:
                    out.write(last)
    say(f"exported {_in_words(json.loads(last)['records'])} of {name!r}")
    kinds = await store.user_stats.kinds(name, session_id=session)
    if secrets := sum(kind.items for kind in kinds if kind.memory_type == "user_secret"):
        say(f"{counted(secrets, 'item')} of type user_secret stayed behind: a file would hold them in plain text")


NewUserOption = Annotated[
    str | None, Option("--user", callback=not_empty, help="Whose it shall be. [default: the file's user]")
]


@command(user=NewUserOption)
async def import_(
    target: Target, file: Annotated[str, Argument(help="A file that export wrote; - for stdin.")]
) -> Output:
    """Take in what export wrote, for the same user or another.

    Rows that are there stay as they are, and what was forgotten stays forgotten, so a file can be imported again, also
    one that a damaged line ended. Do not go on with a session meanwhile.

    A file can be written by anybody: preferences and facts in it wait until the user confirms them.
    """
    from memory_context.store.transfer.importer import TransferError, bounded_lines

    name = "stdin" if file == _STREAM else file
    ends = "pages before it are imported"
    try:
        with ExitStack() as stack:
            begun = sys.stdin.buffer if file == _STREAM else stack.enter_context(Path(file).open("rb"))  # noqa: ASYNC230
            begun = BufferedReader(cast(Any, begun))  # shows its first bytes, also of a pipe
            is_packed = begun.peek(2)[:2] == _GZIP
            lines = bounded_lines(cast(IO[bytes], gzip.GzipFile(fileobj=begun) if is_packed else begun))
            report = await target.store.admin.import_lines(lines, target.named_user)
    except TransferError as error:
        raise Failure(f"{name}: {error}; {ends}") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise Failure(f"{name} is damaged or cut off ({error}); {ends}") from error

    def show() -> None:
        say(f"imported {_in_words(report.stored)} for {report.user_id!r}")
        if report.known.total():
            say(f"{_in_words(report.known)} there already, or forgotten or deleted here")
        for left_out, why, remedy in (
            (report.different, "what is here differs", ""),
            (report.secrets, "it is in clear in the file", "; keep it with memory-context secrets --set"),
        ):
            if left_out:
                more = ", …" if len(left_out) > _NAMED else ""
                say(f"left out, since {why}: {', '.join(left_out[:_NAMED])}{more}{remedy}")
        if report.stored["item"]:
            say("search finds the items once they are indexed: by the next process that uses the store, or by reindex")

    told = {name: getattr(report, name) for name in ("stored", "known", "different", "secrets")}
    return Output({"user": report.user_id, **told}, show)


def _in_words(counts: Mapping[str, int]) -> str:
    plurals = {"batch": "batches"}
    parts = [counted(count, kind, plurals.get(kind, "")) for kind, count in counts.items() if count]
    return ", ".join(parts) or "nothing"


@contextmanager
def _opened_to_write(file: str) -> Generator[IO[bytes], None, None]:
    """Yield a stream to stdout, a device or pipe, or a private `.part` file, renamed if the block ends well."""
    path, part = Path(file), Path(f"{file}.part")
    try:
        if file == _STREAM:
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
            return
        if path.exists() and not path.is_file():
            with path.open("wb") as out:
                yield out
            return
        part.unlink(missing_ok=True)  # left by an export that was killed, or somebody else's link
        try:
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as raw:
                if path.suffix == ".gz":
                    with gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6) as packed:
                        yield cast(IO[bytes], packed)
                else:
                    yield raw
                raw.flush()
                os.fsync(raw.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except BrokenPipeError:
        if file == _STREAM:  # the rest of its buffer would complain at the end of the process
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise Failure("the export was not read to its end") from None
    except OSError as error:
        raise Failure(f"{file} cannot be written: {error.strerror or error}") from error
