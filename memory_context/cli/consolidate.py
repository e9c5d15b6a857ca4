"""`consolidate`: merging and summarising memories."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .command import Target, command
from .console import USAGE_ERROR, Failure, Output, progress_bar, say
from .lookup import parse_duration

if TYPE_CHECKING:
    from ..store.admin import ConsolidationReport

__all__ = ["consolidate"]

_BUSY = "another process consolidates this user's memory just now"


@command()
async def consolidate(
    target: Target,
    everybody: Annotated[bool, typer.Option("--all", help="All users.")] = False,
    model: Annotated[
        str | None,
        typer.Option(help="A model at OPENAI_BASE_URL judges near-duplicates and summarises. [default: rules]"),
    ] = None,
    budget_tokens: Annotated[
        int, typer.Option(min=0, help="The most that the model reads and writes, a user.")
    ] = 20_000,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TYPE=AGE",
            help="How long unused items of a type stay: web_content=90d; repeatable.",
        ),
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Undo the last run that was not undone.")] = False,
    run_id: Annotated[int | None, typer.Option("--run", min=1, help="Undo this run instead.")] = None,
) -> Output:
    """Merge equal statements and write articles of what recurs.

    Statements are merged only if no number, name, date, path or negation differs. Articles quote three or more
    conversations, each line with its source. A run can be undone until it is pruned. `serve` does this once a day.
    """
    is_undo = undo or run_id is not None
    if everybody and (target.named_user is not None or is_undo):
        raise Failure("--all goes with neither --user nor --undo", USAGE_ERROR)
    options: dict[str, Any] = {"budget_tokens": budget_tokens, "retention": _retention(keep or ())}
    if model is not None:
        from ..context import openai_client

        options["model_client"] = openai_client(model)
    if is_undo:
        return await _undo(target, run_id)
    reports = await _reports(target, everybody, options)

    def show() -> None:
        for name, report in reports.items():
            text = _BUSY if report is None else str(report)
            typer.echo(f"{name}: {text}" if everybody else text)
            if report is not None and report.is_cut:
                say(f"the budget of {budget_tokens:,} tokens ended before the work: give more with --budget-tokens")

    return Output(lambda: {name: None if one is None else asdict(one) for name, one in reports.items()}, show)


async def _reports(target: Target, everybody: bool, options: dict[str, Any]) -> "dict[str, ConsolidationReport | None]":
    store = target.store
    users = [one async for one in store.every_user()] if everybody else [await target.user()]
    reports: dict[str, ConsolidationReport | None] = {}
    with progress_bar("consolidating users", len(users), hide=not everybody) as show:
        for done, name in enumerate(users, 1):
            reports[name] = await store.consolidate(name, **options)
            show(done)
    return reports


def _retention(keep: Sequence[str]) -> dict[str, timedelta]:
    retention: dict[str, timedelta] = {}
    for one in keep:
        memory_type, equals, age = one.partition("=")
        if not equals or not memory_type:
            raise Failure(f"--keep {one!r}: give TYPE=AGE, such as web_content=90d", USAGE_ERROR)
        retention[memory_type] = parse_duration(age)
    return retention


async def _undo(target: Target, run_id: int | None) -> Output:
    user = await target.user()
    undone = await target.store.undo_consolidation(user, run_id)
    if undone is None:
        which = "no run" if run_id is None else f"no run {run_id}"
        raise Failure(f"{which} of {user!r} can be undone: it was undone or pruned already, or there was none")
    return Output(lambda: {"undone": undone}, lambda: typer.echo(f"run {undone} is undone"))
