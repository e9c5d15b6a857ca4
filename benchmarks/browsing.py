"""What an agent pays whose browser tool returns the whole page after each action, as tools for browsers do.

    python -m benchmarks.browsing [--steps N] [--json FILE]

The runs of `benchmarks.web_runs` are played in a real Chromium; each action's result is the page as it is then.
Sites have more around their content than these, so each run is played with 0, 60 and 250 lines of links beside it.
Charged as by `benchmarks.replay`; the line of the element that the next action uses has to stand in the view.
"""

import argparse
import asyncio
import json
import random
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from autogen_core import CancellationToken, FunctionCall
from autogen_core.models import AssistantMessage, FunctionExecutionResult, FunctionExecutionResultMessage, UserMessage

from benchmarks.comparing import Measured, print_measured
from benchmarks.constants import constants
from benchmarks.peers import installed_peers
from benchmarks.playing import Player, RunFigures
from benchmarks.remembering import MemoryPlayer
from benchmarks.scratch import scratch_store
from benchmarks.traces import AGENT, Needle, Recorded, Run
from benchmarks.web_runs import RUNS, STEPS, Act, ref_of
from memory_context import ConnectorError, ContextPolicy, MemoryStore, WebConnector
from memory_context.connectors.web.browser import find_chromium
from memory_context.foundation.tokens import default_token_counter
from tests.support.sites import served_sites

__all__ = ["main", "measure_browsing"]

AROUND = (0, 60, 250)
"""Lines of links beside the content of a page."""

_WORDS = """
account orders returns shipping privacy careers press invest help contact store news events gallery support terms blog
partners gifts offers brands guides sizes forum reviews status security cookies legal sitemap
"""
_WITHOUT = {"memory_context.compaction.differences._LEAST_SHARE": 2.0}
"""With it no result is like enough to an earlier one."""

_Step = tuple[Act, dict[str, Any], str, str]
"""An action, its arguments, the line of its element before it, and the page after it."""


async def measure_browsing(steps: int = STEPS) -> list[Measured]:
    """Play each run with and without differences; empty without a Chromium."""
    try:
        find_chromium(None)
    except ConnectorError as error:
        print(f"No pages as results: {error}")
        return []
    measured: list[Measured] = []
    async with served_sites() as sites, scratch_store() as (store, _):
        for name, (path, acts) in RUNS.items():
            first, recorded = await _recorded(sites.url + path, acts[:steps])
            for around in AROUND:
                run, needles = _run(name, around, first, recorded)
                measured.append(await _priced(run, needles, store, around))
    return measured


async def _recorded(url: str, acts: Sequence[Act]) -> tuple[str, list[_Step]]:
    web = WebConnector(url, allow_private=True, has_pictures=False)
    steps: list[_Step] = []
    try:
        await web.on_start()
        await web.get_observations()
        first = "\n".join(map(str, web._browser.shown.lines))
        for act in acts:
            before = web._browser.shown
            ref = ref_of(before.lines, act)
            line = next(line for line in map(str, before.lines) if f"[{ref}]" in line)
            arguments: dict[str, Any] = {"ref": ref, "element": f"{act.role} {act.name}"}
            arguments |= {"type": {"text": act.text}, "select": {"options": [act.text]}}.get(act.tool, {})
            tool = next(one for one in web.tools() if one.name == f"web_{act.tool}")
            await tool.run_json({name: arguments[name] for name in arguments if name != "element"}, CancellationToken())
            await web.get_observations()
            steps.append((act, arguments, line.strip(), "\n".join(map(str, web._browser.shown.lines))))
    finally:
        await web.on_stop()
    return first, steps


def _run(name: str, around: int, first: str, steps: Sequence[_Step]) -> tuple[Run, list[Needle]]:
    """Return the run as messages, and the line that each action needs."""
    menu, footer = _links(name, "menu", around * 2 // 3), _links(name, "footer", around // 3)
    messages = [Recorded(UserMessage(content="Work on this site.", source="user"), (0,))]
    needles: list[Needle] = []
    calls = [("browser_navigate", {"url": "http://site.example/"}, first)]
    calls += [(f"browser_{act.tool}", arguments, page) for act, arguments, _, page in steps]
    for number, (tool, arguments, page) in enumerate(calls):
        index = len(messages)
        if number:
            needles.append(Needle(steps[number - 1][2], index - 1, index))
        call = FunctionCall(id=f"call_{number}", name=tool, arguments=json.dumps(arguments))
        content = "\n".join(filter(None, (f"Page after {tool}:", menu, page, footer)))
        result = FunctionExecutionResult(content=content, name=tool, call_id=call.id, is_error=False)
        messages.append(Recorded(AssistantMessage(content=[call], source=AGENT), (index,)))
        messages.append(Recorded(FunctionExecutionResultMessage(content=[result]), (index + 1,)))
    messages.append(Recorded(AssistantMessage(content="Done.", source=AGENT), (len(messages),)))
    return Run(f"{name}-{around}", None, tuple(messages)), needles


def _links(site: str, part: str, count: int) -> str:
    chance = random.Random(f"{site} {part}")
    names = [" ".join(chance.sample(_WORDS.split(), 2)) for _ in range(count)]
    return "\n".join(f'- link "{name}" [{part[0]}{number}]' for number, name in enumerate(names))


async def _priced(run: Run, needles: Sequence[Needle], store: MemoryStore, around: int) -> Measured:
    count = cache(default_token_counter().count)
    everything = installed_peers()[0][0]
    policy = ContextPolicy()
    players: list[Player] = [
        Player(run, everything.start(count), count, policy.first_view_limit_tokens),
        MemoryPlayer(run, store, policy, count),
    ]
    whole, told = [await player.play(needles) for player in players]
    with constants(_WITHOUT):
        untold = await MemoryPlayer(run, store, policy, count).play(needles)
    share, before = (one.charged_price / whole.charged_price for one in (told, untold))
    detail = f"without differences {before:.3f}; lines of the next action in view {_seen(told)}, {_seen(untold)}"
    return Measured(f"{run.id.partition('-')[0]}, {around} lines around: of keeping everything", share, detail=detail)


def _seen(figures: RunFigures) -> str:
    return f"{sum(one.is_visible for one in figures.sought)} of {len(figures.sought)}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.browsing", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--steps", type=int, default=STEPS, help=f"of each run (default {STEPS})")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    given = parser.parse_args(arguments)
    measured = asyncio.run(measure_browsing(given.steps))
    print_measured(measured, "pages as results of tools")
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in measured], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
