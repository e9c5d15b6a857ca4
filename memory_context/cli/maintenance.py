"""`status`, `stop`, `prune`, `reindex`: looking after a store."""

from collections.abc import Collection, Mapping
from dataclasses import asdict
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from .console import (
    ASKED_WRONGLY,
    Failure,
    JsonOption,
    UrlOption,
    YesOption,
    confirm,
    counted,
    print_fields,
    print_json,
    progress_bar,
    run,
    say,
)

if TYPE_CHECKING:
    from ..embeddings import Embedder
    from ..store import IndexReport, MemoryStore, PruneProgress, StoreStatus
    from ..store.embedded import KeeperState

__all__ = ["EmbedderName", "prune", "reindex", "status", "stop"]

_FAILURES_SHOWN = 5
_SHOWN = ("item", "session", "batch")  # by lines of their own
_NO_EMBEDDER = "nothing here: WordLlama is not installed, so search goes by words alone"


# --- status


def status(url: UrlOption = None, as_json: JsonOption = False) -> None:
    """Show where the data is, how much there is, and what waits.

    With the server and its schema, which is looked at as it is: nothing is migrated or written.
    """

    async def work(store: "MemoryStore") -> "tuple[StoreStatus, str | None]":
        return await store.admin.status(), None if store.embedder is None else store.embedder.name

    found, embedder = run(work, url)
    if as_json:
        print_json({**asdict(found), "embedder": embedder})
        return
    print_fields(_described(found) if embedder else [*_described(found), ("embedding", _NO_EMBEDDER)])


def _described(found: "StoreStatus") -> list[tuple[str, object]]:
    if not found.is_set_up:
        return [("store", found.where), ("server", "not set up yet: the first command that stores something does it")]
    fields: list[tuple[str, object]] = [
        ("store", found.where),
        ("server", f"Postgres {found.server_version}, pgvector {found.vector_version or 'missing'}"),
        *([("keeper", _keeper(found.keeper))] if found.keeper else []),
        *([("warning", found.vector_advice)] if found.vector_advice else []),
        ("schema", _schema(found)),
        ("size", _size(found.database_bytes or 0)),
    ]
    if found.table_bytes:
        fields.append(("largest", _largest(found.table_bytes)))
    if found.users is None:
        return [*fields, ("rows", "not counted, with this schema")]
    fields.append(("users", f"{found.users:,}"))
    if found.items is not None:
        fields.append(
            ("items", f"{found.items:,}" + (f", {found.forgotten:,} of them forgotten" * bool(found.forgotten)))
        )
    if found.passages is not None:
        fields.append(("passages", f"{found.passages:,}"))
    if found.embeddings is not None:
        models = [f"{count:,} of {model}" for model, count in sorted(found.embeddings.items())]
        fields.append(("embeddings", ", ".join(models) or "0"))
    if found.sessions is not None:
        fields.append(("sessions", f"{found.sessions:,}, archived in {found.batches or 0:,} batches"))
    if others := [counted(n, kind) for kind, n in (found.rows or {}).items() if n and kind not in _SHOWN]:
        fields.append(("others", ", ".join(others)))
    if found.jobs_pending is not None:
        waits = f"{counted(found.jobs_pending, 'item')} to do: memory-context reindex, or the next process does it"
        fields.append(("index", waits if found.jobs_pending else "up to date"))
    if found.jobs_set_aside:
        what = counted(found.jobs_set_aside, "item")
        fields.append(("failed", f"{what} could not be indexed: memory-context reindex says why"))
    return fields


def _keeper(found: "KeeperState") -> str:
    after = f"{found.keep_seconds:g} s after the last process that uses it"
    if found.held_by:
        after += f" (now {', '.join(map(str, found.held_by))})"
    elif found.stops_at:
        after += f": at {found.stops_at:%H:%M:%S} UTC unless another comes"
    return f"process {found.pid} since {found.since:%Y-%m-%d %H:%M:%S} UTC; stops the server {after}"


def _schema(found: "StoreStatus") -> str:
    from ..store.sql import part_of

    here, known = found.schema_version, found.known_schema_version
    if found.is_superseded:
        from ..store.schema import SUPERSEDED

        return SUPERSEDED
    if here > known:
        return f"{here}, this memory-context knows {known}: upgrade it with pip install -U memory-context"
    if found.pending_migrations:
        names = ", ".join(found.pending_migrations)
        how = "memory-context migrate, or the next use of the store"
        if all(part_of(name) == "post" for name in found.pending_migrations):
            how = "memory-context migrate --post, once this version runs everywhere"
        return f"{here or 'none yet'}, {names} to come: {how}"
    return f"{here}, up to date"


def _size(octets: int) -> str:
    from rich.filesize import decimal

    return decimal(octets)


def _largest(table_bytes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {_size(octets)}" for name, octets in list(table_bytes.items())[:2])


# --- stop


def stop(url: UrlOption = None) -> None:
    """Stop the embedded server now, and wait until it has ended.

    It is stopped by itself some time after the last command (see MEMORY_CONTEXT_KEEP_SECONDS). A server that other
    processes use goes on.
    """

    async def work(store: "MemoryStore") -> tuple[str, int | None]:
        return store.describe(), await store.admin.stop()

    where, pid = run(work, url)
    say(f"{where}: " + ("no server runs" if pid is None else f"the server (process {pid}) has stopped"))


# --- prune


def prune(
    older_than: Annotated[str, typer.Option(help="How long not stored, used or archived in: such as 90d or 12w.")],
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            help="Only this type; may be given several times. [default: all but what people said of themselves]",
        ),
    ] = None,
    conversations: Annotated[
        bool,
        typer.Option(
            "--conversations/--keep-conversations", help="Whether conversations go, too, with what was said in them."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count what would go, items and conversations; change nothing.")
    ] = False,
    yes: YesOption = False,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Forget what nobody used for a while, of all users.

    Preferences, facts and secrets of people stay, as do items of sessions that are still active. A forgotten item
    leaves a tombstone that tells when it was forgotten; its content is gone. Conversations go only with
    --conversations.
    """
    from .durations import duration_of

    age = duration_of(older_than)

    async def work(store: "MemoryStore") -> None:
        what = f"items of type {', '.join(types)}" if types else "items"
        said = " and conversations" if conversations else ""
        if not dry_run:
            confirm(f"Forget {what}{said} of all users in {store.describe()} not used for {older_than}?", yes)
        with progress_bar("pruning users") as show:

            def tell(progress: "PruneProgress") -> None:
                show(progress.users_done, progress.users)

            report = await store.prune(
                age, types=types or None, conversations=conversations, dry_run=dry_run, progress=tell
            )
        counts = asdict(report)
        others = counts.pop("others")
        if as_json:
            print_json({**counts, **others})
            return
        done = ("to forget", "to delete") if dry_run else ("forgotten", "deleted")
        kept = ", kept without --conversations" if dry_run and report.sessions and not conversations else ""
        print_fields(
            [
                (f"items {done[0]}", f"{report.items:,} ({_size(report.content_bytes)})"),
                (f"events {done[1]}", f"{report.events:,}"),
                (f"sessions {done[1]}", f"{report.sessions:,}{kept}"),
                *((f"{kind}s {done[1]}", f"{count:,}") for kind, count in others.items()),
            ]
        )

    run(work, url)


# --- reindex


class EmbedderName(str, Enum):
    """The embedders there are."""

    WORDLLAMA = "wordllama"
    OPENAI = "openai"
    FASTEMBED = "fastembed"


def reindex(
    embedder: Annotated[
        EmbedderName | None,
        typer.Option(help="What your agents embed with; all passages get its embeddings. [default: wordllama]"),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="The model of openai (at OPENAI_BASE_URL) or fastembed. [default: the embedder's]"),
    ] = None,
    dimensions: Annotated[int | None, typer.Option(min=1, help="Of its embeddings. [default: the model's]")] = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Index what waits, and embed what is not embedded yet.

    What could not be indexed before is tried again. The store can be used meanwhile, and this can be broken off and
    begun again. To go over to another model run it with that model, then start your agents with it.
    """
    chosen = _embedder(embedder, model, dimensions)

    async def work(store: "MemoryStore") -> None:
        await store.admin.migrate("pre")  # not `open`, whose background would index some of it uncounted
        before = await store.admin.status()
        if embedder is None:
            _refuse_another_model(store, before.embeddings or ())
        retried = await store.admin.retry_set_aside()
        indexed, report = await _index_all(store, (before.jobs_pending or 0) + retried)
        with progress_bar("embedding passages") as show:
            embedded = 0 if chosen is None else await store.reindex(chosen, progress=show)
        failures = await _failures(store, report)
        if as_json:
            print_json(
                {
                    "retried": retried,
                    "indexed": indexed,
                    "embedded": embedded,
                    "pending": report.pending,
                    "set_aside": report.set_aside,
                    "failures": [{"user": user, "memory_key": key, "error": error} for user, key, error in failures],
                }
            )
        else:
            print_fields(
                [
                    ("indexed", counted(indexed, "item") + f", {retried:,} of them again" * bool(retried)),
                    ("embedded", _NO_EMBEDDER if chosen is None else f"{embedded:,} passages more"),
                    ("index", _after(report)),
                ]
            )
            for user, key, error in failures:
                say(f"{key!r} of {user!r}: {error!r}")
        if report.pending or report.set_aside:
            raise typer.Exit(1)

    run(work, url, chosen)


def _embedder(name: EmbedderName | None, model: str | None, dimensions: int | None) -> "Embedder | None":
    from ..embeddings import FastEmbedEmbedder, OpenAIEmbedder, WordLlamaEmbedder, default_embedder

    if name in (None, EmbedderName.WORDLLAMA):
        if model is not None:
            raise Failure("--model goes with --embedder openai or fastembed", ASKED_WRONGLY)
        return WordLlamaEmbedder() if name else default_embedder()
    kind = OpenAIEmbedder if name is EmbedderName.OPENAI else FastEmbedEmbedder
    return kind(model, dimensions) if model is not None else kind(dimensions=dimensions)


def _refuse_another_model(store: "MemoryStore", models: Collection[str]) -> None:
    """Raise `Failure` if passages are embedded, and none with the default: what agents embed with has to be said."""
    from ..store.search.indexer import model_of

    if models and store.embedder is not None and model_of(store.embedder) not in models:
        found = ", ".join(sorted(models))
        raise Failure(f"the passages are embedded with {found}: say with --embedder what to use", ASKED_WRONGLY)


async def _index_all(store: "MemoryStore", waiting: int) -> "tuple[int, IndexReport]":
    """Return how many items were gone through, and what is still missing."""
    done = 0
    with progress_bar("indexing items", waiting) as show:

        def add(items: int) -> None:
            nonlocal done
            done += items
            show(done)

        report = await store.flush_index(progress=add)
    return done, report


async def _failures(store: "MemoryStore", report: "IndexReport") -> list[tuple[str, str, str]]:
    """Return user, key and reason of the first items that were set aside."""
    failures: list[tuple[str, str, str]] = []
    if report.set_aside:
        async for user in store.every_user():
            missing = _FAILURES_SHOWN - len(failures)
            failures += [(user, key, why) for key, why in await store.index_failures(user, missing)]
            if len(failures) >= _FAILURES_SHOWN:
                break
    return failures


def _after(report: "IndexReport") -> str:
    said: list[str] = []
    if report.pending:
        said.append(f"{counted(report.pending, 'item')} not embedded yet, to be tried again later")
    if report.set_aside:
        said.append(f"{counted(report.set_aside, 'item')} cannot be indexed")
    return "; ".join(said) or "up to date"
