"""What a browser's pages cost an agent: three runs of 40 steps on served sites, with the real connector and Chromium.

    python -m benchmarks.connectors [--steps N] [--pages N] [--rounds N] [--json FILE]

Each step is a call, its result, and a view of a real context. Compared with what the connector tells of a step (the
semantic diff, or the whole tree of another page) are the whole tree and a list of numbered elements, as agents for
browsers get it: each element that can be acted on with a number, and the texts between. Random pages change by the
generator of the tests.
"""

import argparse
import asyncio
import json
import random
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
from benchmarks.web_runs import RUNS, STEPS, Act, place_of
from memory_context import ConnectorError, MemoryContext, MemoryStore, WebConnector
from memory_context.connectors.tree import INTERACTIVE, Node, RefTable, in_order
from memory_context.connectors.web.browser import find_chromium
from memory_context.connectors.web.report import tree_change
from memory_context.foundation.messages import texts_of
from memory_context.foundation.tokens import default_token_counter
from tests.support.live_pages import a_page, change, meanings
from tests.support.sites import Sites, served_sites

__all__ = ["main", "measure_connectors"]

PAGES = 1250
CHANGES = 8
NODES = 5000
PATIENCE_SECONDS = 60.0  # the next action is sought on the page, so a slow browser is waited for
COUNTER = default_token_counter()
_SHARES = {"board": 0.15, "shop": 0.40, "guide": 1.0}
_NAMED_SHARE = 0.99
_ADDED_SECONDS = 0.05


@dataclass
class Run:
    """Sums over the steps of a run, in tokens; `named` counts steps whose element the view before named."""

    steps: int = 0
    named: int = 0
    told: int = 0
    trees: int = 0
    lists: int = 0
    views: list[int] = field(default_factory=list[int])
    seconds: list[float] = field(default_factory=list[float])
    most_share: float = 0.0


async def measure_connectors(steps: int = STEPS, pages: int = PAGES, rounds: int = 5) -> list[Measured]:
    """Play the runs, change the pages, and time steps on a page of 5,000 elements.

    Without a Chromium only the random pages are changed.
    """
    changes, strays = random_changes(pages)
    detail = "references that led to another element"
    measured = [Measured(f"{changes:,} random changes of pages", strays, "= 0", strays == 0, detail)]
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
    try:
        await context.add_message(UserMessage(content="Work on this site.", source="user"))
        for number, act in enumerate(acts):
            view = _text(await context.get_messages())
            before = web._screen.shown
            ref = before.refs[place_of(before.tree, act)]
            run.named += f"[{ref}]" in view
            run.views.append(COUNTER.count(view))
            began = time.perf_counter()
            await _step(context, web, act, ref, number)
            run.seconds.append(time.perf_counter() - began)
            after = web._screen.shown
            told = COUNTER.count(tree_change(before, after))
            tree = COUNTER.count("\n".join(after.lines()))
            run.steps += 1
            run.told += told
            run.trees += tree
            run.most_share = max(run.most_share, told / tree)
            run.lists += COUNTER.count("\n".join(numbered_elements(after.tree)))
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


def numbered_elements(tree: Node) -> Iterator[str]:
    """Yield what agents for browsers get of a page: numbered elements that can be acted on, and texts."""
    number = 0
    for node in in_order(tree):
        attributes = "".join(f" {name}" for name in node.states) + (f' value="{node.value}"' if node.value else "")
        if node.role in INTERACTIVE:
            number += 1
            yield f"[{number}]<{node.role}{attributes}>{node.name}</{node.role}>"
        elif node.name and node is not tree:
            yield node.name


def _figures(name: str, run: Run) -> Iterator[Measured]:
    share, target = run.told / run.trees, _SHARES[name]
    per_step = f"{run.told // run.steps} / {run.trees // run.steps} tokens a step, {run.steps} steps"
    yield Measured(f"{name}: diffs / whole trees", share, f"<= {target:g}", share <= target, per_step)
    yield Measured(f"{name}: the dearest step", run.most_share, "<= 1", run.most_share <= 1, "diff / whole tree")
    detail = f"{run.lists // run.steps} tokens a step"
    yield Measured(f"{name}: diffs / lists of numbered elements", run.told / run.lists, detail=detail)
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
        page = (await web._screen.tab()).page
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


def random_changes(pages: int) -> tuple[int, int]:
    """Change random pages; return the changes, and how often a reference led to another element."""
    strays = 0
    for seed in range(pages):
        chance = random.Random(seed)
        page, table = a_page(chance), RefTable()
        given: dict[str, tuple[object, object]] = {}
        for _ in range(CHANGES):
            lives, said = page.all(), meanings(page)
            refs = table.update(page.node(), "page")
            for ref, (live, meaning) in given.items():
                place = _place(table, ref)
                strays += place is not None and lives[place] is not live and said[place] != meaning
            given |= {ref: (lives[place], said[place]) for place, ref in refs.items()}
            change(page, chance)
    return pages * CHANGES, strays


def _place(table: RefTable, ref: str) -> int | None:
    try:
        return table.place(ref)
    except ConnectorError:
        return None


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.connectors", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--steps", type=int, default=STEPS, help=f"of each run (default {STEPS})")
    parser.add_argument("--pages", type=int, default=PAGES, help=f"changed {CHANGES} times each (default {PAGES})")
    parser.add_argument("--rounds", type=int, default=5, help="steps on the large page (default 5)")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    given = parser.parse_args(arguments)
    measured = asyncio.run(measure_connectors(given.steps, given.pages, given.rounds))
    print_measured(measured, "pages of a browser")
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in measured], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
