"""The story of the demo, from top to bottom."""

import argparse
import asyncio
import hashlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from memory_context import LightModelBill, MemoryStore, StoreError, choose_light_model
from memory_context.store.items import ReadScope

from ..places import import_root, output_folder
from .display import Display
from .recorder import LEAST_CACHED_TOKENS, Call, ModelError, Recorder, as_bytes, cost_share, results_in
from .scenes import show_long_session, show_opening, show_recall, show_search
from .script import TASKS, exploration_script
from .stage import USER_ID, Stage, choose_model, demo_policy, stage

__all__ = ["main"]

CHART, SESSION = "demo_tokens.png", "demo_session.json"


class DemoError(Exception):
    """The demo cannot go on; the text says why."""


async def _tell(display: Display, token_budget: int | None, out: Path | None) -> None:
    started = time.monotonic()
    policy = demo_policy(token_budget)
    display.heading("memory_context: an agent explores AutoGen's own code")
    await _open_store(display)
    model, is_live = choose_model(exploration_script, display.is_watched)
    display.say(
        "The model is live, named by OPENAI_API_KEY, OPENAI_BASE_URL, OPENAI_MODEL."
        if is_live
        else "The model's decisions are scripted (set OPENAI_API_KEY for a live one); tools and outputs are real."
    )
    light_model = choose_light_model(model if is_live else None)
    display.say(str(light_model))
    budget = "no limit" if policy.token_budget is None else f"{policy.token_budget:,} tokens"
    display.say(f"Policy: results over {policy.offload_threshold_tokens} tokens leave after one look; budget {budget}.")
    display.say(
        "In tokens of messages: raw is what keeping everything would send, view is what the model reads, cached the "
        "share of the view that stands unchanged at its head.",
        style="grey62",
    )
    folder = _writable(out or output_folder())
    async with stage(model, display, policy, light_model=light_model.client) as on:
        for number, task in enumerate(TASKS, 1):
            display.begin_turn(f"Turn {number}", task)
            display.quote(await on.turn(number, task), style="green")
        _show_placeholder(display, on.recorder)
        _show_lookup(display, on.recorder)
        await show_opening(display, on, len(TASKS) + 1)
        await show_search(display, on)
        await show_long_session(display, on.steps, TASKS[0])
        result = await _continue_elsewhere(display, on, folder / SESSION, token_budget)
        calls = [*on.recorder.calls, *(Call(**call) for call in result["calls"])]
        await on.context.archive()  # now rather than at its end
        await show_recall(display, policy, calls[-1].number + 1)
        _close(
            display, on.recorder.calls, await _read_back(on, result["write_transactions"]), on.context.stats.light_model
        )
    from .chart import draw_chart  # matplotlib takes its time, which nobody waits for at the beginning

    draw_chart(calls, len(TASKS) + 1, folder / CHART)
    display.say(f"\nChart    {folder / CHART}\nSession  {folder / SESSION}")
    display.say(f"All of this took {time.monotonic() - started:.0f} s.", style="grey62")


async def _open_store(display: Display) -> None:
    display.working("Starting Postgres…")
    started = time.monotonic()
    store = MemoryStore.default()
    try:
        await store.open()
    except StoreError as error:
        raise DemoError(f"The store cannot be opened: {error}.") from error
    display.say(f"Store: {store.describe()}, ready in {time.monotonic() - started:.1f} s.")


def _show_placeholder(display: Display, recorder: Recorder) -> None:
    """Show a result the way it stands in the last view: the largest of those that were read before."""
    display.heading("What became of a result")
    gone = [s for s in recorder.segments if s.kind == "result" and s.state == "placeholder" and s.keys]
    if not gone:
        display.say("The model asked for nothing large, so everything still stands in its view.")
        return
    largest = max(gone, key=lambda segment: segment.full_tokens)
    text = next(r.content for r in results_in(recorder.views[-1]) if f"[MemoryRef: {largest.keys[0]} -" in r.content)
    display.say(
        f"{largest.source} had returned {largest.full_tokens:,} tokens. After one look the model sees this of it, "
        f"{largest.tokens:,} tokens; exactly as in call {recorder.calls[-1].number}:"
    )
    display.quote(text)


def _show_lookup(display: Display, recorder: Recorder) -> None:
    display.heading("A detail again, without running the tool again")
    regex = [(asked, answer) for asked, answer in recorder.lookups if asked.get("pattern")]
    if not regex:
        display.say("The model looked nothing up by a pattern.")
        return
    asked, answer = regex[0]
    arguments = ", ".join(f"{name}={value!r}" for name, value in asked.items())
    display.say("The agent called")
    display.quote(f"retrieve_memory({arguments})", style="bold")
    display.say("and was answered")
    display.quote_lines(answer, most_lines=16)


async def _continue_elsewhere(
    display: Display, on: Stage, session_file: Path, token_budget: int | None
) -> dict[str, Any]:
    """Save the session, let a second process go on with it, and return what that one did."""
    display.heading("The same session in a second process")
    view = as_bytes(await on.context.get_messages())
    session = {
        "process": os.getpid(),
        "turn": len(TASKS) + 1,
        "calls": len(on.recorder.calls),
        "token_budget": token_budget,
        "view_sha256": hashlib.sha256(view).hexdigest(),
        "agent": await on.agent.save_state(),
    }
    saved = json.dumps(session)
    await asyncio.to_thread(session_file.write_text, saved, encoding="utf-8")
    display.say(
        f"Process {os.getpid()} has saved the session: {len(saved.encode()):,} bytes for a history of "
        f"{on.recorder.calls[-1].raw_tokens:,} tokens."
    )
    with tempfile.TemporaryDirectory(prefix="memory_context_demo_") as scratch:
        result_file = Path(scratch) / "result.json"
        arguments = ["-m", f"{__package__}.continued", str(session_file), str(result_file)]
        paths = os.pathsep.join(filter(None, [str(import_root()), os.environ.get("PYTHONPATH")]))
        sys.stdout.flush()
        process = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, env={**os.environ, "PYTHONPATH": paths}
        )
        try:
            status = await process.wait()
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()
        if status != 0:
            raise DemoError(f"The second process ended with status {status}.")
        return json.loads(result_file.read_text(encoding="utf-8"))


async def _read_back(on: Stage, other_transactions: int) -> list[tuple[str, str, str]]:
    """Read everything back from the store, compare it with what the tools had returned, and return rows of figures."""
    store, context = on.context.memory_store, on.context
    scope = ReadScope(context.agent_id, context.session_id, "session")
    keys = await store.items.select_keys(USER_ID, scope=scope, limit=None)
    stored = {await context.retrieve(key) for key in keys}
    limit = context.policy.offload_threshold_tokens
    large = [text for _, text in on.steps if context.token_counter.is_over(text, limit)]
    exact = sum(text in stored for text in large)
    return [
        ("items stored", "-", f"{len(keys):,}"),
        ("write transactions", "-", f"{store.items.write_transactions + other_transactions:,}"),
        ("large results, exact when read back", "-", f"{exact:,} of {len(large):,}"),
    ]


def _writable(folder: Path) -> Path:
    """Return where chart and session file go: a temporary folder if this one is read-only."""
    try:
        folder.mkdir(exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return Path(tempfile.mkdtemp(prefix="memory_context_demo_"))


def _close(display: Display, calls: list[Call], kept: list[tuple[str, str, str]], light_model: LightModelBill) -> None:
    raw, view = sum(call.raw_tokens for call in calls), sum(call.view_tokens for call in calls)
    display.heading("What it came to")
    display.table(
        ("", "everything kept", "memory_context"),
        [
            (f"tokens sent in {len(calls)} calls", f"{raw:,}", f"{view:,}"),
            ("largest view, tokens", f"{max(c.raw_tokens for c in calls):,}", f"{max(c.view_tokens for c in calls):,}"),
            ("relative cost of input", "1.00", f"{cost_share(calls):.2f}"),
            ("folds", "-", f"{max(call.folds for call in calls)}"),
            ("light model: calls, tokens", "-", f"{light_model.total.calls:,}, {light_model.total.tokens:,}"),
            *kept,
        ],
    )
    display.say(
        "Tokens of messages (o200k_base) in the first process, without system prompt and tool schemas. The "
        "memory's own six tools are not in it: they take 775 tokens of each call more. Cost: a "
        "token in the head that stands unchanged since the call before counts 0.1, any other "
        f"1.25; a head under {LEAST_CACHED_TOKENS:,} tokens counts as new. Light model: {light_model}, in none of the "
        "other figures.",
        style="grey62",
    )


def main(argv: list[str] | None = None) -> int:
    """Tell the story and return the exit status."""
    parser = argparse.ArgumentParser(prog=__package__, description=__doc__)
    budget = "tokens a view may take (default 100000); try 6000 to see folding"
    parser.add_argument("--token-budget", type=int, help=budget)
    parser.add_argument("--out", type=Path, help="the folder for chart and session (default: out/ here)")
    arguments = parser.parse_args(argv)
    with Display() as display:
        try:
            asyncio.run(_tell(display, arguments.token_budget, arguments.out))
        except KeyboardInterrupt:
            display.problem("Stopped. What was stored stays stored.")
            return 130
        except (DemoError, ModelError, ValueError) as error:
            display.problem(str(error))
            return 1
    return 0
