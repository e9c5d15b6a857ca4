"""Price against strings: the memory context under several policies beside its peers, all in one run.

    python -m benchmarks.frontier --traces DIR [--sets a,b] [--limit N] [--no-peers] [--json FILE] [--chart FILE]

Prices are charged: messages, system prompts, own tools and instructions, and a look-up for each string that a call used
and did not see. No light model is attached, so its calls cost nothing here.
"""

import argparse
import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.chart import draw_frontier
from benchmarks.figures import LATER, NEXT, SetFigures, pooled
from benchmarks.peers import Peer
from benchmarks.remembering import MEMORY
from benchmarks.replay import add_arguments, peers_asked_for, replay_set
from benchmarks.report import ALL
from benchmarks.scratch import scratch_store
from benchmarks.tables import print_table
from benchmarks.traces import set_names
from memory_context import ContextPolicy

__all__ = ["POLICIES", "measure_frontier", "print_frontier"]

POLICIES: Mapping[str, Mapping[str, Any]] = {
    "first views 1k": {"first_view_limit_tokens": 1_000},
    "first views 2k": {"first_view_limit_tokens": 2_000},
    "first views 6.4k": {"first_view_limit_tokens": 6_400},
    "target 8k": {"view_target_tokens": 8_000},
    "target 32k": {"view_target_tokens": 32_000},
    "no target": {"view_target_tokens": None},
}
"""Changes to the default policy, by name; the default one is played besides."""


async def measure_frontier(
    folder: Path,
    names: Sequence[str],
    peers: Sequence[Peer],
    limit: int | None = None,
    policies: Mapping[str, Mapping[str, Any]] = POLICIES,
) -> list[SetFigures]:
    """Play each set through the peers and the default policy, then through each changed one, as one context more."""
    sets: list[SetFigures] = []
    async with scratch_store() as (store, _):
        for name in names:
            one = await replay_set(folder, name, store, ContextPolicy(), peers, limit)
            contexts = dict(one.played)
            for label, changes in policies.items():
                policy = ContextPolicy.model_validate(changes)
                changed = await replay_set(folder, name, store, policy, peers[:1], limit)
                context = f"{MEMORY}, {label}"
                contexts[context] = replace(changed.played[MEMORY], context=context)
            sets.append(replace(one, played=contexts))
    return sets


def print_frontier(sets: Sequence[SetFigures]) -> None:
    """Print what each context costs and shows, cheapest first, for each set and for all."""
    for one in [*sets, pooled(sets, ALL)] if len(sets) > 1 else sets:
        counts = [one.everything.needles(distances).total for distances in (NEXT, LATER)]
        print_table(
            f"{one.name}, {one.runs} runs: price against strings",
            ["context", "charged", "worst run", "> 1.05", f"next ({counts[0]})", f"later ({counts[1]})", "reachable"],
            [_row(one, context) for context in sorted(one.played, key=one.charged_cost)],
        )


def _row(one: SetFigures, context: str) -> list[str]:
    ratios, played = one.charged_runs(context), one.played[context]
    later = played.needles(LATER)
    return [
        context,
        f"{one.charged_cost(context):.3f}",
        f"{max(ratios):.2f}",
        f"{sum(ratio > 1.05 for ratio in ratios)}",
        *(f"{part}" for part in (played.needles(NEXT).visible, later.visible, later.in_two_retrieves)),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.frontier", description=(__doc__ or "").split("\n")[0])
    add_arguments(parser, is_required=True)
    given = parser.parse_args(arguments)
    names = given.sets.split(",") if given.sets else set_names(given.traces)
    sets = asyncio.run(measure_frontier(given.traces, names, peers_asked_for(given), given.limit))
    print_frontier(sets)
    if given.json:
        given.json.write_text(json.dumps([one.as_json(with_runs=False) for one in sets], indent=1), encoding="utf-8")
    if given.chart:
        draw_frontier(pooled(sets, ALL), given.chart)


if __name__ == "__main__":
    main()
