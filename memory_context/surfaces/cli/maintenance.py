"""`migrate`, `stop`, `prune`, `consolidate` and `reindex`: maintenance of a store."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Option

from .command import Target, YesOption, command, parse_duration
from .console import (
    FAILED,
    USAGE_ERROR,
    Failure,
    Output,
    byte_size,
    confirm,
    counted,
    print_fields,
    print_table,
    progress_bar,
    say,
)
from .status import NO_EMBEDDER

if TYPE_CHECKING:
    from memory_context.foundation.embeddings.embedder import Embedder
    from memory_context.store.admin.consolidate import ConsolidationReport
    from memory_context.store.memory_store import MemoryStore
    from memory_context.store.schema import MigrationState

__all__ = ["EmbedderName", "consolidate", "migrate", "prune", "reindex", "stop"]

_MAX_FAILURES_PRINTED = 5
_MIGRATION_STATES = {
    "applied": "applied",
    "pending": "pending",
    "changed": "applied, with another file",
    "unknown": "applied by a newer version",
    "ahead": "applied by a newer version, beside which this one works",
}


# --- migrate


@command(user=None)
async def migrate(
    target: Target,
    check: Annotated[bool, Option("--check", help="List them; exit code 1 unless up to date.")] = False,
) -> Output:
    """Bring the schema of the database up to this version.

    The first use of a store does so too, if its login may. Where agents have an ordinary login, name the owner's
    address in MEMORY_CONTEXT_OWNER_URL and run this when you install a new version.

    The version before works with it, so an upgrade needs no pause: run this, then deploy.
    """
    admin = target.store.admin
    if check:
        states = await admin.migrations()
        is_done = all(one.state in ("applied", "ahead") for one in states)

        def show() -> None:
            rows = [(one.name, _MIGRATION_STATES[one.state], one.applied_at) for one in states]
            print_table(("migration", "state", "applied at (UTC)"), rows)
            say(_verdict(states))

        return Output([asdict(one) for one in states], show, exit_code=0 if is_done else FAILED)
    applied = await admin.migrate()
    await _adopt_clear_secrets(target.store)
    if advice := await admin.vector_advice():
        say(f"warning: {advice}")
    told = "\n".join(f"applied {name}" for name in applied) or "up to date"
    return Output({"applied": applied}, lambda: typer.echo(told))


async def _adopt_clear_secrets(store: "MemoryStore") -> None:
    """Encrypt what earlier versions stored in clear under the type `user_secret`; say what is left."""
    from memory_context.foundation.errors import StoreError
    from memory_context.memory.agent_memory import AgentMemory
    from memory_context.memory.clear_secrets import adopt_clear_secrets

    try:
        async for user in store.every_user():
            done = await adopt_clear_secrets(AgentMemory(store, user))
            if done.encrypted:
                names = ", ".join(done.encrypted)
                say(f"{counted(len(done.encrypted), 'secret')} of {user!r} stood in clear, now encrypted: {names}")
            if done.left:
                say(
                    f"warning: {counted(len(done.left), 'item')} of {user!r} of type user_secret in clear: set "
                    "MEMORY_CONTEXT_SECRET_KEY and run this again, or forget them: memory-context forget "
                    f"{' '.join(done.left)} --user {user}"
                )
    except StoreError as error:
        say(f"warning: secrets in clear were not looked for: {error}")


def _verdict(states: "Sequence[MigrationState]") -> str:
    """Return one line on the schema, with the remedy unless it fits."""
    found = [one.state for one in states]
    if changed := found.count("changed"):
        return f"{counted(changed, 'migration')} ran with another file: install the version that made it"
    if "unknown" in found:
        return "the schema is newer than this memory-context: upgrade it with pip install -U memory-context"
    if pending := found.count("pending"):
        return f"{counted(pending, 'migration')} to come: memory-context migrate"
    return "the schema is up to date"


# --- stop


@command(user=None, has_json=False)
async def stop(target: Target) -> None:
    """Stop the embedded server now, and wait until it has ended.

    It stops by itself with the last process that uses it; a killed process leaves it behind. A server that other
    processes use goes on.
    """
    where, pid = target.store.describe(), await target.store.admin.stop()
    say(f"{where}: " + ("no server runs" if pid is None else f"the server (process {pid}) has stopped"))


# --- prune


@command(user=None)
async def prune(
    target: Target,
    older_than: Annotated[str, Option(help="How long not stored, used or archived in: such as 90d or 12w.")],
    types: Annotated[
        list[str] | None, Option("--type", help="Only this type; repeatable. [default: all but people's own words]")
    ] = None,
    conversations: Annotated[
        bool, Option("--conversations/--keep-conversations", help="Conversations go, too.")
    ] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Count what would go; change nothing.")] = False,
    yes: YesOption = False,
) -> Output:
    """Forget what nobody used for a while, of all users.

    Preferences, facts and secrets of people stay, as do items of sessions that are still active. A forgotten item
    leaves a tombstone with the day; its content is gone. Conversations go only with --conversations.
    """
    age, store = parse_duration(older_than), target.store
    what = f"items of type {', '.join(types)}" if types else "items"
    said = " and conversations" if conversations else ""
    if not dry_run:
        confirm(f"Forget {what}{said} of all users in {store.describe()} not used for {older_than}?", yes)
    with progress_bar("pruning users") as show:
        report = await store.prune(
            age, types=types or None, conversations=conversations, dry_run=dry_run, progress=show
        )
    counts = asdict(report)
    others: dict[str, int] = counts.pop("others")
    forgotten, deleted = ("to forget", "to delete") if dry_run else ("forgotten", "deleted")
    kept = ", kept without --conversations" if dry_run and report.sessions and not conversations else ""
    fields = [
        (f"items {forgotten}", f"{report.items:,} ({byte_size(report.content_bytes)})"),
        (f"events {deleted}", f"{report.events:,}"),
        (f"sessions {deleted}", f"{report.sessions:,}{kept}"),
        *((f"{kind}s {deleted}", f"{count:,}") for kind, count in others.items()),
    ]
    return Output({**counts, **others}, lambda: print_fields(fields))


# --- reindex


EmbedderName = Literal["wordllama", "openai", "fastembed"]


@command(user=None)
async def reindex(
    target: Target,
    embedder: Annotated[EmbedderName | None, Option(help="What your agents embed with. [default: wordllama]")] = None,
    model: Annotated[str | None, Option(help="The model of openai or fastembed. [default: its own]")] = None,
    dimensions: Annotated[int | None, Option(min=1, help="Of its embeddings. [default: the model's]")] = None,
) -> Output:
    """Index what waits, and embed what is not embedded yet.

    Items that could not be indexed before are tried again. The store can be used meanwhile, and this can be stopped and
    started again. To change the model run it with the new one, then start your agents with it.
    """
    from memory_context.store.search.indexer import model_of

    chosen = target.embedder = _embedder(embedder, model, dimensions)
    store = target.store
    await store.admin.migrate()  # `open` would start the background indexer, which counts nothing here
    before = await store.admin.status()
    models = before.embeddings or ()
    if embedder is None and models and chosen is not None and model_of(chosen) not in models:
        found = ", ".join(sorted(models))  # with which agents embed
        raise Failure(f"the passages are embedded with {found}: say with --embedder what to use", USAGE_ERROR)
    retried = await store.jobs.retry_failed()
    indexed = 0
    with progress_bar("indexing items", (before.jobs_pending or 0) + retried) as show_done:

        def add(items: int) -> None:
            nonlocal indexed
            indexed += items
            show_done(indexed)

        index = await store.flush_index(progress=add)
    with progress_bar("embedding passages") as show_done:
        embedded = 0 if chosen is None else await store.reindex(chosen, progress=show_done)
    failures = await _failures(store) if index.failed else []

    def show() -> None:
        left: list[str] = []
        if index.pending:
            left.append(f"{counted(index.pending, 'item')} not embedded yet, to be tried again later")
        if index.failed:
            left.append(f"{counted(index.failed, 'item')} cannot be indexed")
        fields = [
            ("indexed", counted(indexed, "item") + f", {retried:,} of them again" * bool(retried)),
            ("embedded", NO_EMBEDDER if chosen is None else f"{embedded:,} passages more"),
            ("index", "; ".join(left) or "up to date"),
        ]
        print_fields(fields)

    notes = ["{memory_key!r} of {user!r}: {error!r}".format(**one) for one in failures]
    counts = {"retried": retried, "indexed": indexed, "embedded": embedded, **asdict(index), "failures": failures}
    return Output(counts, show, notes, exit_code=FAILED if index.pending or index.failed else 0)


async def _failures(store: "MemoryStore") -> list[dict[str, str]]:
    failures: list[dict[str, str]] = []
    async for user in store.every_user():
        found = await store.index_failures(user, _MAX_FAILURES_PRINTED - len(failures))
        failures += [{"user": user, "memory_key": key, "error": error} for key, error in found]
        if len(failures) >= _MAX_FAILURES_PRINTED:
            break
    return failures


def _embedder(name: EmbedderName | None, model: str | None, dimensions: int | None) -> "Embedder | None":
    from memory_context.foundation.embeddings.fastembed import FastEmbedEmbedder
    from memory_context.foundation.embeddings.openai import OpenAIEmbedder
    from memory_context.foundation.embeddings.wordllama import WordLlamaEmbedder, default_embedder

    if name in (None, "wordllama"):
        if model is not None:
            raise Failure("--model goes with --embedder openai or fastembed", USAGE_ERROR)
        return WordLlamaEmbedder() if name else default_embedder()
    kind = OpenAIEmbedder if name == "openai" else FastEmbedEmbedder
    return kind(model, dimensions) if model is not None else kind(dimensions=dimensions)


# --- consolidate


@command()
async def consolidate(
    target: Target,
    everybody: Annotated[bool, Option("--all", help="All users.")] = False,
    model: Annotated[
        str | None, Option(help="A model at OPENAI_BASE_URL that writes articles, too. [default: rules]")
    ] = None,
    budget_tokens: Annotated[int, Option(min=0, help="What the model may read and write, a user.")] = 20_000,
) -> Output:
    """Merge equal statements; with a model, write articles.

    Statements are merged only if all their words but fillers are equal. Articles rest on different sentences
    of two or more conversations, each with its source. `serve` does this once a day, without a model.
    """
    if everybody and target.named_user is not None:
        raise Failure("--all goes without --user", USAGE_ERROR)
    options: dict[str, Any] = {"budget_tokens": budget_tokens}
    if model is not None:
        from memory_context.context.builder import openai_client

        options["model_client"] = openai_client(model)
    store = target.store
    users = [one async for one in store.every_user()] if everybody else [await target.user()]
    reports: dict[str, ConsolidationReport | None] = {}
    with progress_bar("consolidating users", len(users), hide=not everybody) as show_done:
        for done, name in enumerate(users, 1):
            reports[name] = await store.consolidate(name, **options)
            show_done(done)

    def show() -> None:
        for name, report in reports.items():
            text = "another process consolidates this user's memory just now" if report is None else str(report)
            typer.echo(f"{name}: {text}" if everybody else text)
            if report is not None and report.is_cut:
                say(f"the budget of {budget_tokens:,} tokens ended before the work: give more with --budget-tokens")

    return Output({name: None if one is None else asdict(one) for name, one in reports.items()}, show)
