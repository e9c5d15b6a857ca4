"""`export` and `import`: everything of a user, or of a session, as a file, and back.

Promise: a file that is there under its name is whole; until then it is written beside it, as `<name>.part`. Only its
owner can read either, since what is in it is in plain text.
"""

import gzip
import json
import os
import sys
import tempfile
import zlib
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, aclosing, contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, cast

import typer

from .console import (
    Failure,
    JsonOption,
    UrlOption,
    UserOption,
    counted,
    not_empty,
    print_json,
    progress_bar,
    run,
    say,
    user_of,
)

if TYPE_CHECKING:
    from ..store import ImportReport, MemoryStore

__all__ = ["export", "import_"]

_STREAM = "-"
_HEADER_BYTES = 1_000_000  # what is no export may have no lines at all
_GZIP = b"\x1f\x8b"


def export(
    file: Annotated[
        str, typer.Argument(help="The file to write, compressed if its name ends in .gz; - for stdout.")
    ] = "-",
    user: UserOption = None,
    session: Annotated[
        str | None, typer.Option(help="Only this session, those of its sub-agents, and the items they refer to.")
    ] = None,
    url: UrlOption = None,
) -> None:
    """Write everything of a user, or of one session, to a file.

    JSON Lines: items with their content, what was forgotten, sessions, what was said in them, what a chat page showed,
    and the audit trail, as they are at one moment, whatever is written meanwhile. What search uses is not in it: it is
    made again after an import.
    """

    async def work(store: "MemoryStore") -> None:
        whose = await user_of(store, user)
        with progress_bar("exporting", hide=file == _STREAM and sys.stdout.isatty()) as show:
            pieces = store.admin.export_lines(whose, session, progress=show)
            async with aclosing(pieces):
                first = await anext(pieces, None)
                if first is None:
                    of = f"session {session!r} of user {whose!r}" if session else f"user {whose!r}"
                    raise Failure(f"nothing is stored of {of}")
                with _written(file) as out:
                    last = await _write(out, first, pieces)
        say(f"exported {_summed(json.loads(last)['records'])} of {whose!r}")
        kinds = await store.user_stats.kinds(whose, session_id=session)
        if secrets := sum(kind.items for kind in kinds if kind.memory_type == "user_secret"):
            say(f"{counted(secrets, 'item')} of type user_secret stayed behind: a file would hold them in plain text")

    run(work, url)


_ORIGINS = {
    "signed": "origins are kept: this installation signed the file",
    "trusted": "origins are kept: --trust-origins",
    "lowered": "origins are lowered: this installation did not sign the file for this user; see --trust-origins",
}


def import_(
    file: Annotated[str, typer.Argument(help="A file that export wrote; - for stdin.")],
    user: Annotated[
        str | None,
        typer.Option("--user", callback=not_empty, help="Whose it shall be. [default: the user in the file]"),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Only say what would be imported; store nothing.")] = False,
    trust_origins: Annotated[
        bool,
        typer.Option(
            "--trust-origins",
            help="Believe what the file says of whose words each item holds, even if it is not signed.",
        ),
    ] = False,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take in what export wrote, for the same user or another.

    The whole file is checked first: one that is damaged, or at odds with what is there, changes nothing. What is there
    stays as it is, so the same file can be imported again, after a break for instance. Do not go on with a session
    while it is being imported.

    A file can be written by anybody. Its preferences and facts are taken for the user's own if this installation
    exported it for the same user and no byte has changed since, or with --trust-origins. Otherwise they are labelled as
    imported and pruned like anything else.
    """

    async def work(store: "MemoryStore") -> "ImportReport":
        with _readable(file) as path:
            passes = 2 if check else 3
            with progress_bar("importing", passes * path.stat().st_size, in_bytes=True) as show:
                read = _Reading(path, show)
                return await store.admin.import_lines(read.lines, user, only_check=check, trust_origins=trust_origins)

    from ..errors import SecretError
    from ..store import TransferError

    name = "stdin" if file == _STREAM else file
    try:
        report = run(work, url)
    except (TransferError, SecretError) as error:
        raise Failure(f"{name}: {error}; nothing was imported") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise Failure(f"{name} is damaged or cut off ({error}); nothing was imported") from error
    if as_json:
        counts = {"stored": report.stored, "known": report.known, "kept": report.kept}
        print_json({"user": report.user_id, **counts, "origins": report.origins})
        return
    say(f"{'would import' if check else 'imported'} {_summed(report.stored)} for {report.user_id!r}")
    for counts, what in (
        (report.known, "there already"),
        (report.kept, "left as they are: forgotten or deleted on one side, or another user's"),
    ):
        if any(counts.values()):
            say(f"{_summed(counts)} {what}")
    if report.stored.get("item"):
        say(_ORIGINS[report.origins])
    if report.stored.get("item") and not check:
        say(
            "search finds the items as soon as they are indexed: by the next process that uses the store, or by reindex"
        )


# --- writing


async def _write(out: IO[bytes], first: bytes, rest: AsyncIterator[bytes]) -> bytes:
    """Write the pieces of a file and return the last."""
    out.write(first)
    last = first
    async for last in rest:
        out.write(last)
    return last


@contextmanager
def _written(file: str) -> Generator[IO[bytes], None, None]:
    """Yield what a file is written to; it has its name once the block has ended well, and is gone if not."""
    try:
        if file == _STREAM:
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
            return
        path = Path(file)
        if path.exists() and not path.is_file():  # a device or a pipe has no place beside it
            with path.open("wb") as out:
                yield out
            return
        part = path.with_name(f"{path.name}.part")
        try:
            was_open_to_others = path.exists() and path.stat().st_mode & 0o077 != 0
            with _private(part) as raw:
                if path.suffix == ".gz":
                    with gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6) as packed:
                        yield cast(IO[bytes], packed)
                else:
                    yield raw
                raw.flush()
                os.fsync(raw.fileno())
            part.replace(path)
            if was_open_to_others:
                say(f"{file} could be read by others; now only its owner can")
        except BaseException:
            with suppress(OSError):
                part.unlink()
            raise
    except BrokenPipeError:
        if file == _STREAM:  # what is left in its buffer would complain at the end of the process
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise Failure("the export was not read to its end") from None
    except OSError as error:
        raise Failure(f"{file} cannot be written: {error.strerror or error}") from error


def _private(path: Path) -> IO[bytes]:
    """Open a new file that nobody but its owner reads, whatever the umask and whatever lay there before.

    Raises:
        OSError: It cannot be made.
    """
    with suppress(FileNotFoundError):
        path.unlink()  # what an export that was killed left, or somebody else's link
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _summed(counts: Mapping[str, int]) -> str:
    """Return counts by kind in words."""
    plurals = {"batch": "batches"}
    parts = [counted(count, kind, plurals.get(kind, "")) for kind, count in counts.items() if count]
    return ", ".join(parts) or "nothing"


# --- reading


@contextmanager
def _readable(file: str) -> Generator[Path, None, None]:
    """Yield a file that can be read twice: what comes from a pipe is put aside first."""
    if file != _STREAM and (Path(file).is_file() or not Path(file).exists()):
        yield Path(file)
        return
    with ExitStack() as stack:
        pipe = sys.stdin.buffer if file == _STREAM else stack.enter_context(Path(file).open("rb"))
        aside = stack.enter_context(tempfile.NamedTemporaryFile(prefix="memory-context-"))
        piece = pipe.readline(_HEADER_BYTES)
        if not piece.startswith((b"{", _GZIP)):
            raise Failure(f"{file}: this is no export; nothing was imported")
        while piece:
            try:
                aside.write(piece)
                aside.flush()
            except OSError as error:
                raise Failure(
                    f"what is read cannot be put aside in {tempfile.gettempdir()}: {error.strerror}; "
                    "name another folder in TMPDIR"
                ) from error
            piece = pipe.read(1_000_000)
        yield Path(aside.name)


class _Reading:
    """Reads a file any number of times, and shows how far it has come in all."""

    def __init__(self, path: Path, show: Callable[[int], None]) -> None:
        self._path = path
        self._show = show
        self._done = 0

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of the file from its beginning."""
        from ..store.transfer import bounded_lines

        with self._path.open("rb") as raw:
            is_packed = raw.read(2) == _GZIP
            raw.seek(0)
            text = cast(IO[bytes], gzip.GzipFile(fileobj=raw, mode="rb")) if is_packed else raw
            yield text.readline(_HEADER_BYTES)
            for line in bounded_lines(text, 2):
                self._show(self._done + raw.tell())
                yield line
            self._done += raw.tell()
