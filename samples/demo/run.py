"""The story of the demo, from top to bottom."""

import argparse
import asyncio
import hashlib
import json
import os
import sys
import time
from pathlib import Path

from autogen_core.models import FunctionExecutionResultMessage

from memory_context import ContextPolicy, MemoryCriteria, MemoryStore, StoreError

from ..places import import_root, output_folder
from .display import Display
from .scenes import show_long_session, show_opening, show_recall, show_search
from .script import EXPLORATION, TASKS
from .stage import OWN_TOOLS, Call, DemoError, Stage, view_bytes

__all__ = ["main"]

CHART, SESSION = "demo_tokens.png", "demo_session.json"


async def _tell(display: Display, token_budget: int, folder: Path) -> None:
    started = time.monotonic()
    display.heading("memory_context: an agent explores AutoGen's own code")
    store = MemoryStore.default()
    try:
        await store.open()
    except StoreError as error:
        raise DemoError(f"The store cannot be opened: {error}.") from error
    display.say(f"Store: {store.describe()}, ready in {time.monotonic() - started:.1f} s.")
    async with Stage(EXPLORATION, display, token_budget) as on:
        display.say(
            "The model is live, named by OPENAI_API_KEY, OPENAI_BASE_URL, OPENAI_MODEL."
            if on.is_live
            else "The model's decisions are scripted (set OPENAI_API_KEY for a live one); tools and outputs are real."
        )
        display.say(str(on.light_model))
        limit = on.context.policy.offload_threshold_tokens
        display.say(f"Policy: results over {limit} tokens leave after one look; budget {token_budget:,} tokens.")
        display.say(
            "In tokens of messages: raw is what keeping everything would send, view is what the model reads, cached "
            "the share of the view that stands unchanged at its head, so that the prompt cache serves it.",
            style="grey62",
        )
        for number, task in enumerate(TASKS, 1):
            await on.turn(f"Turn {number}", task)
        await _show_placeholder(display, on)
        _show_lookup(display, on)
        await show_opening(display, on, f"Turn {len(TASKS) + 1}")
        await show_search(display, on)
        await show_long_session(display, on.steps, TASKS[0])
        continued = await _continue_elsewhere(display, on, folder / SESSION, token_budget)
        await on.context.archive()  # now rather than at its end
        await show_recall(display, token_budget, len(on.calls) + len(continued) + 1)
        await _close(display, on)
    from .chart import draw_chart  # matplotlib takes its time, which nobody waits for at the beginning

    draw_chart([*on.calls, *continued], folder / CHART)
    display.say(f"\nChart    {folder / CHART}\nSession  {folder / SESSION}")
    display.say(f"All of this took {time.monotonic() - started:.0f} s.", style="grey62")


async def _show_placeholder(display: Display, on: Stage) -> None:
    """Show the largest result of those that were read before, the way it stands in the view now."""
    display.heading("What became of a result")
    view = [one for one in await on.context.get_messages() if isinstance(one, FunctionExecutionResultMessage)]
    gone = [one for one in (await on.context.explain()).segments if one.kind == "result" and one.state == "placeholder"]
    if not gone:
        display.say("The model asked for nothing large, so everything still stands in its view.")
        return
    largest = max(gone, key=lambda segment: segment.full_tokens)
    results = [result for message in view for result in message.content]
    display.say(
        f"{largest.source} had returned {largest.full_tokens:,} tokens. After one look the model sees this of it, "
        f"{largest.tokens:,} tokens:"
    )
    display.quote(next(one.content for one in results if f"[MemoryRef: {largest.keys[0]} -" in one.content))


def _show_lookup(display: Display, on: Stage) -> None:
    display.heading("A detail again, without running the tool again")
    lookups = [one for one in on.steps if one[0].name == "retrieve_memory" and '"pattern"' in one[0].arguments]
    if not lookups:
        display.say("The model looked nothing up by a pattern.")
        return
    call, answer = lookups[0]
    arguments = ", ".join(f"{name}={value!r}" for name, value in json.loads(call.arguments).items())
    display.say("The agent called")
    display.quote(f"retrieve_memory({arguments})", style="bold")
    display.say("and was answered")
    display.quote(answer, most_lines=16)


async def _continue_elsewhere(display: Display, on: Stage, session_file: Path, token_budget: int) -> list[Call]:
    """Save the session, let a second process go on with it, and return the calls that it made."""
    display.heading("The same session in a second process")
    session = {
        "process": os.getpid(),
        "first_call": len(on.calls) + 1,
        "token_budget": token_budget,
        "view_sha256": hashlib.sha256(await view_bytes(on.context)).hexdigest(),
        "agent": await on.agent.save_state(),
    }
    saved = json.dumps(session)
    await asyncio.to_thread(session_file.write_text, saved, encoding="utf-8")
    display.say(
        f"Process {os.getpid()} has saved the session: {len(saved.encode()):,} bytes for a history of "
        f"{on.calls[-1].raw_tokens:,} tokens."
    )
    sys.stdout.flush()
    paths = os.pathsep.join(filter(None, [str(import_root()), os.environ.get("PYTHONPATH")]))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", f"{__package__}.continued", str(session_file)),
        env={**os.environ, "PYTHONPATH": paths},
    )
    if status := await process.wait():
        raise DemoError(f"The second process ended with status {status}.")
    saved = await asyncio.to_thread(session_file.read_text, encoding="utf-8")
    return [Call(**call) for call in json.loads(saved)["calls"]]


async def _close(display: Display, on: Stage) -> None:
    """Read everything back from the store, compare it with what the tools had returned, and print the figures."""
    context, calls = on.context, on.calls
    raw, view = [call.raw_tokens for call in calls], [call.view_tokens for call in calls]
    cost = sum(call.view_cost for call in calls) / sum(call.raw_cost for call in calls)
    items = await context.agent_memory.query(MemoryCriteria(session_id=context.session_id, limit=1000))
    stored = {await context.retrieve(item.key) for item in items}
    limit = context.policy.offload_threshold_tokens
    large = [text for call, text in on.steps if call.name in OWN_TOOLS and context.token_counter.is_over(text, limit)]
    stats, light, prices = context.stats, context.stats.light_model, context.policy.cache
    display.heading("What it came to")
    display.table(
        ("", "everything kept", "memory_context"),
        [
            (f"tokens sent in {len(calls)} calls", f"{sum(raw):,}", f"{sum(view):,}"),
            ("largest view, tokens", f"{max(raw):,}", f"{max(view):,}"),
            ("relative cost of input", "1.00", f"{cost:.2f}"),
            ("folds", "-", f"{stats.folds}"),
            (
                "light model: calls, tokens",
                "-",
                f"{light.total.calls:,}, {light.total.tokens:,}",
            ),
            ("items stored", "-", f"{len(items):,}"),
            ("write transactions", "-", f"{stats.write_transactions:,}"),
            ("large results, exact when read back", "-", f"{sum(one in stored for one in large):,} of {len(large):,}"),
        ],
    )
    display.say(
        "Tokens of messages (o200k_base) in the first process, without system prompt and tool schemas. The memory's "
        f"own tools and instructions are not in it: {stats.head_tokens_total:,} tokens in all calls. Cost: a token "
        f"that the prompt cache serves counts {prices.cached_price_ratio:g}, any other {prices.write_price_ratio:g}. "
        f"Light model: {light}, in none of the other figures.",
        style="grey62",
    )


def main(argv: list[str] | None = None) -> int:
    """Tell the story and return the exit status."""
    parser = argparse.ArgumentParser(prog=__package__, description=__doc__)
    budget = "tokens a view may take (default %(default)s); try 6000 to see folding"
    parser.add_argument("--token-budget", type=int, default=ContextPolicy().token_budget, help=budget)
    parser.add_argument("--out", type=Path, default=output_folder(), help="the folder for chart and session")
    arguments = parser.parse_args(argv)
    display = Display()
    try:
        arguments.out.mkdir(exist_ok=True)
        asyncio.run(_tell(display, arguments.token_budget, arguments.out))
    except KeyboardInterrupt:
        display.problem("Stopped. What was stored stays stored.")
        return 130
    except (DemoError, OSError, ValueError) as error:
        display.problem(str(error))
        return 1
    return 0
