"""What a browser's pages cost an agent: three runs of 40 steps on served sites, with the real connector and Chromium.

    python -m benchmarks.connectors [--steps N] [--rounds N] [--json FILE]

Each step is a call, its result, and a view of a real context. Compared with what the connector tells of a step are the
whole page as its state shows it, and Playwright's own snapshot, as tools for browsers return it.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from autogen_core import CancellationToken, FunctionCall
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    UserMessage,
)

from benchmarks.comparing import Measured, print_measured
from benchmarks.constants import constants
from benchmarks.scratch import scratch_store
from benchmarks.web_runs import RUNS, STEPS, Act, ref_of
from memory_context import ConnectorError, MemoryContext, MemoryStore, WebConnector
from memory_context.connectors.protocols import TextObservation
from memory_context.connectors.web.browser import find_chromium
from memory_context.foundation.messages import texts_of
from memory_context.foundation.tokens import default_token_counter
from tests.support.sites import Sites, served_sites

__all__ = ["main", "measure_connectors"]

NODES = 5000
PATIENCE_SECONDS = 60.0  # the next action is sought on the page, so a slow browser is waited for
COUNTER = default_token_counter()
_SHARES = {"board": 0.15, "shop": 0.40, "guide": 0.25}
_NAMED_SHARE = 0.9  # the board does not fit the room of a state
_ADDED_SECONDS = 1.5  # Playwright reads 5,000 elements in about 1 s


@dataclass
class Run:
    """Sums over the steps of a run, in tokens; `named` counts steps whose element the view before named."""

    steps: int = 0
    named: int = 0
    told: int = 0
    pages: int = 0
    snapshots: int = 0
    views: list[int] = field(default_factory=list[int])
    seconds: list[float] = field(default_factory=list[float])


async def measure_connectors(steps: int = STEPS, rounds: int = 5) -> list[Measured]:
    """Play the runs, and time steps on a page of 5,000 elements; empty without a Chromium."""
    measured: list[Measured] = []
    try:
        find_chromium(None)
    except ConnectorError as error:
        print(f"No pages of a browser: {error}")
        return measured
    async with served_sites() as sites, scratch_store() as (store, _):
        for name, (path, acts) in RUNS.items():
            with constants({"memory_context.connectors.host._ANSWER_SECONDS": PATIENCE_SECONDS}):
                measured += _figures(name, await play(sites.url + path, acts[:steps], store))
        measured += await _times(sites, rounds)
    return measured


async def play(url: str, acts: Sequence[Act], store: MemoryStore) -> Run:
    """Let an agent's context see a run of actions."""
    web = WebConnector(url, allow_private=True)
    context = MemoryContext("benchmark", memory_store=store, connectors=[web])
    run = Run()
    told: list[TextObservation] = []
    look = web.get_observations

    async def listen() -> list[TextObservation]:
        observations = await look()
        told.extend(observations)
        return observations

    web.get_observations = listen
    try:
        await context.add_message(UserMessage(content="Work on this site.", source="user"))
        told.clear()
        for number, act in enumerate(acts):
            view = _text(await context.get_messages())
            before = web._browser.shown
            ref = ref_of(before.lines, act)
            run.named += f"[{ref}]" in view
            run.views.append(COUNTER.count(view))
            began = time.perf_counter()
            await _step(context, web, act, ref, number)
            run.seconds.append(time.perf_counter() - began)
            after = web._browser.shown
            run.steps += 1
            run.told += sum(COUNTER.count(one.text) for one in told)
            run.pages += COUNTER.count("\n".join(map(str, after.lines)))
            run.snapshots += COUNTER.count(await (await web._browser.tab()).page.aria_snapshot(mode="ai"))
            told.clear()
    finally:
        await context.close()
        await web.on_stop()
    return run


async def _step(context: MemoryContext, web: WebConnector, act: Act, ref: str, number: int) -> None:
    arguments: dict[str, Any] = {"ref": ref}
    if act.tool == "type":
        arguments["text"] = act.text
    if act.tool == "select":
        arguments["options"] = [act.text]
    name, call_id = f"web_{act.tool}", f"call_{number}"
    call = FunctionCall(id=call_id, name=name, arguments=json.dumps(arguments))
    await context.add_message(AssistantMessage(content=[call], source="agent"))
    tool = next(one for one in web.tools() if one.name == name)
    answer = tool.return_value_as_string(await tool.run_json(arguments, CancellationToken()))
    result = FunctionExecutionResult(content=answer, name=name, call_id=call_id, is_error=False)
    await context.add_message(FunctionExecutionResultMessage(content=[result]))


def _text(view: Sequence[LLMMessage]) -> str:
    return "\n".join(text for message in view for _, text in texts_of(message))


def _figures(name: str, run: Run) -> Iterator[Measured]:
    share, target = run.told / run.pages, _SHARES[name]
    per_step = f"{run.told // run.steps} / {run.pages // run.steps} tokens a step, {run.steps} steps"
    yield Measured(f"{name}: told / whole pages", share, f"<= {target:g}", share <= target, per_step)
    detail = f"{run.snapshots // run.steps} tokens a step"
    yield Measured(f"{name}: whole pages / Playwright's snapshots", run.pages / run.snapshots, detail=detail)
    named = run.named / run.steps
    detail = "elements that the next action uses, in the view"
    yield Measured(f"{name}: named", named, f">= {_NAMED_SHARE:g}", named >= _NAMED_SHARE, detail)
    most = max(run.views)
    yield Measured(f"{name}: largest view", most, "< 8000", most < 8000, f"median {median(run.views):.0f} tokens")
    yield Measured(
        f"{name}: seconds a step", median(run.seconds), detail="with the action and the wait for a quiet page"
    )


async def _times(sites: Sites, rounds: int) -> list[Measured]:
    """Measure what observing adds to a step on a large page that is quiet."""
    url = f"{sites.url}/huge?nodes={NODES}"
    web = WebConnector(url, allow_private=True, has_pictures=False)
    loads: list[float] = []
    added: list[float] = []
    processor: list[float] = []
    try:
        await web.on_start()
        await web.get_observations()
        page = (await web._browser.tab()).page
        for number in range(rounds):
            began = time.perf_counter()
            await page.goto(url)
            loads.append(time.perf_counter() - began)
            await web.get_observations()
            await page.evaluate("n => document.getElementById('last').textContent = `Last ${n}`", number)
            await asyncio.sleep(0.2)  # it is quiet now: waiting for that is not counted
            began, used = time.perf_counter(), time.process_time()
            await web.get_observations()
            await web.render_current_state()
            added.append(time.perf_counter() - began)
            processor.append(time.process_time() - used)
    finally:
        await web.on_stop()
    seconds = median(added)
    detail = f"the page loads in {1000 * median(loads):.0f} ms; {1000 * median(processor):.0f} ms of processor time"
    is_met = seconds <= _ADDED_SECONDS
    name = f"seconds added to a step, {NODES:,} elements"
    return [Measured(name, seconds, f"<= {_ADDED_SECONDS:g}", is_met, detail)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.connectors", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--steps", type=int, default=STEPS, help=f"of each run (default {STEPS})")
    parser.add_argument("--rounds", type=int, default=5, help="steps on the large page (default 5)")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    given = parser.parse_args(arguments)
    measured = asyncio.run(measure_connectors(given.steps, given.rounds))
    print_measured(measured, "pages of a browser")
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in measured], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
