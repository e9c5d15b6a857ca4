"""`export` and `import`: everything of a user or a session as a file.

Exports are plain text, readable by their owner only, and named `<name>.part` until they are complete.
"""

import asyncio
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

from .command import Target, command, not_empty
from .console import Failure, Output, counted, progress_bar, say

if TYPE_CHECKING:
    from memory_context.memory.agent_memory import AgentMemory
    from memory_context.store.transfer.importer import ImportReport

__all__ = ["export", "import_"]

_STREAM = "-"
_HEADER_BYTES = 1_000_000  # a file that is not an export may be one long line
_PIECE_BYTES = 1_000_000
_GZIP = b"\x1f\x8b"
_ORIGINS = {
    "signed": "origins are kept: this installation signed the file",
    "trusted": "origins are kept: --trust-origins",
    "lowered": "origins are lowered: this installation did not sign the file for this user; see --trust-origins",
}


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
    check: Annotated[bool, typer.Option("--check", help="Only say what would be imported; store nothing.")] = False,
    trust_origins: Annotated[
        bool,
        typer.Option(
            "--trust-origins",
            help="Believe what the file says of whose words each item holds, even if it is not signed.",
        ),
    ] = False,
    erase_secrets: Annotated[
        bool, typer.Option("--erase-secrets", help="Leave out items of type user_secret, which the file has in clear.")
    ] = False,
) -> Output:
    """Take in what export wrote, for the same user or another.

    The whole file is checked first: one that is damaged, or at odds with the store, changes nothing. Rows that are
    there stay as they are, so a file can be imported again, after an interruption for instance. Do not go on with a
    session while it is being imported.

    A file can be written by anybody. Its preferences and facts are taken for the user's own if this installation
    exported it for the same user and no byte has changed since, or with --trust-origins. Otherwise they are labelled as
    imported and pruned like anything else.

    Items of type user_secret are encrypted as secrets if there is a key, and left out with --erase-secrets; else the
    file is refused.
    """
    from memory_context.foundation.errors import SecretError
    from memory_context.store.transfer.records import TransferError

    name = "stdin" if file == _STREAM else file
    try:
        report = await _import(target, file, check, trust_origins, erase_secrets)
    except (TransferError, SecretError) as error:
        raise Failure(f"{name}: {error}; nothing was imported") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise Failure(f"{name} is damaged or cut off ({error}); nothing was imported") from error
    counts = {"stored": report.stored, "known": report.known, "kept": report.kept}
    told = {"user": report.user_id, **counts, "origins": report.origins}
    return Output(lambda: told, lambda: _say_imported(report, check))


async def _import(
    target: Target, file: str, only_check: bool, trust_origins: bool, erase_secrets: bool
) -> "ImportReport":
    from memory_context.memory.agent_memory import AgentMemory
    from memory_context.memory.clear_secrets import clear_secrets_in, without_clear_secrets
    from memory_context.memory.vault.secrets import secrets_of

    store, user = target.store, target.named_user
    with _rereadable(file) as path:
        passes = 3 if only_check else 4
        with progress_bar("importing", passes * path.stat().st_size, in_bytes=True) as show:
            lines = _Reader(path, show).lines
            clear = await asyncio.to_thread(lambda: clear_secrets_in(lines()))
            read = lines
            if clear and (erase_secrets or secrets_of(store, user or "").has_keys):
                read = lambda: without_clear_secrets(lines())  # noqa: E731
            report = await store.admin.import_lines(read, user, only_check=only_check, trust_origins=trust_origins)
            if clear and not only_check:
                await _keep_secrets(AgentMemory(store, report.user_id), {} if erase_secrets else clear, len(clear))
            return report


async def _keep_secrets(memory: "AgentMemory", clear: Mapping[str, str], count: int) -> None:
    """Encrypt the secrets of a file, and say what became of them."""
    from memory_context.memory.clear_secrets import keep_clear_secret

    names = [await keep_clear_secret(memory, key, value) for key, value in clear.items()]
    kept = [name for name in names if name is not None]
    if kept:
        say(f"{counted(len(kept), 'secret')} stood in clear in the file, now encrypted: {', '.join(kept)}")
    if count > len(kept):
        say(f"{counted(count - len(kept), 'item')} of type user_secret left out")


def _say_imported(report: "ImportReport", only_check: bool) -> None:
    say(f"{'would import' if only_check else 'imported'} {_in_words(report.stored)} for {report.user_id!r}")
    for counts, what in (
        (report.known, "there already"),
        (report.kept, "left as they are: forgotten or deleted on one side, or another user's"),
    ):
        if any(counts.values()):
            say(f"{_in_words(counts)} {what}")
    if report.stored.get("item"):
        say(_ORIGINS[report.origins])
        if not only_check:
            say("search finds the items once they are indexed: by the next process that uses the store, or by reindex")


def _in_words(counts: Mapping[str, int]) -> str:
    plurals = {"batch": "batches"}
    parts = [counted(count, kind, plurals.get(kind, "")) for kind, count in counts.items() if count]
    return ", ".join(parts) or "nothing"


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
        was_open_to_others = path.exists() and path.stat().st_mode & 0o077 != 0
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
    if was_open_to_others:
        say(f"{path} could be read by others; now only its owner can")


# --- reading


@contextmanager
def _rereadable(file: str) -> Generator[Path, None, None]:
    """Yield a path to read repeatedly: a pipe is copied first."""
    if file != _STREAM and (Path(file).is_file() or not Path(file).exists()):
        yield Path(file)
        return
    with ExitStack() as stack:
        pipe = sys.stdin.buffer if file == _STREAM else stack.enter_context(Path(file).open("rb"))
        copy = stack.enter_context(tempfile.NamedTemporaryFile(prefix="memory-context-"))
        piece = pipe.readline(_HEADER_BYTES)
        if not piece.startswith((b"{", _GZIP)):
            raise Failure(f"{file}: this is no export; nothing was imported")
        while piece:
            try:
                copy.write(piece)
                copy.flush()
            except OSError as error:
                place = tempfile.gettempdir()
                raise Failure(
                    f"the input cannot be copied to {place}: {error.strerror}; name another folder in TMPDIR"
                ) from error
            piece = pipe.read(_PIECE_BYTES)
        yield Path(copy.name)


class _Reader:
    """Reads a file repeatedly, and reports all bytes read."""

    def __init__(self, path: Path, report: Callable[[int], None]) -> None:
        self._path = path
        self._report = report
        self._done = 0

    def lines(self) -> Iterator[bytes]:
        from memory_context.store.transfer.importer import bounded_lines

        with self._path.open("rb") as raw:
            is_packed = raw.read(2) == _GZIP
            raw.seek(0)
            text = cast(IO[bytes], gzip.GzipFile(fileobj=raw, mode="rb")) if is_packed else raw
            yield text.readline(_HEADER_BYTES)
            for line in bounded_lines(text, 2):
                self._report(self._done + raw.tell())
                yield line
            self._done += raw.tell()
