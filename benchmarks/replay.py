"""Recorded agent runs through a MemoryContext and through its peers, in the same run, compared with keeping everything.

    python -m benchmarks.replay --traces DIR [--sets a,b] [--limit N] [--token-budget N] [--policy JSON] [--no-peers]
                                [--json FILE] [--chart FILE]

Costs follow the formula of `benchmarks.prompts`, each summed over all calls of a set and divided by the same sum for
keeping everything, which has neither the tools nor the instructions of a memory; "workbench" and "tools" count these
(see `report.FOOTNOTE`); "charged" adds a look-up for each string that a call used and did not see, "per run" is the
mean over the runs, "bare" leaves out the system prompt, which a context does not see but the model does.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.chart import draw_chart
from benchmarks.figures import Played, SetFigures, pooled
from benchmarks.peers import EVERYTHING, Peer, installed_peers
from benchmarks.playing import Player, RunFigures
from benchmarks.remembering import MEMORY, MemoryPlayer
from benchmarks.report import ALL, print_sets
from benchmarks.scratch import scratch_store
from benchmarks.traces import Needle, Run, read_needles, read_runs, set_names
from memory_context import ContextPolicy, MemoryStore
from memory_context.foundation.tokens import default_token_counter

__all__ = ["add_arguments", "figures_of", "main", "peers_asked_for", "policy_of", "replay", "replay_set"]


async def replay_set(
    folder: Path,
    name: str,
    store: MemoryStore,
    policy: ContextPolicy,
    peers: Sequence[Peer],
    limit: int | None = None,
) -> SetFigures:
    """Play the runs of a set one after another, each through all contexts; the first peer keeps everything."""
    needles = [read_needles(folder, kind, name) for kind in ("needles", "needles_now")]
    played: dict[str, list[RunFigures]] = {context: [] for context in (EVERYTHING, MEMORY, *(p.name for p in peers))}
    began = time.perf_counter()
    for run in read_runs(folder, name, limit):
        of_run = [needle for kind in needles for needle in kind.get(run.id, ())]
        for context, figures in (await _play(run, store, policy, peers, of_run)).items():
            played[context].append(figures)
    sets = {context: Played(context, tuple(runs)) for context, runs in played.items()}
    return SetFigures(name, sets, time.perf_counter() - began)


async def _play(
    run: Run, store: MemoryStore, policy: ContextPolicy, peers: Sequence[Peer], needles: Sequence[Needle]
) -> dict[str, RunFigures]:
    # shared, so that peers that count at each call are timed without counting a text twice
    count = cache(default_token_counter().count)
    players = {peer.name: Player(run, peer.start(count), count, policy.first_view_limit_tokens) for peer in peers}
    return {
        context: await player.play(needles)
        for context, player in {MEMORY: MemoryPlayer(run, store, policy, count), **players}.items()
    }


async def replay(
    folder: Path, names: Sequence[str], policy: ContextPolicy, peers: Sequence[Peer], limit: int | None = None
) -> list[SetFigures]:
    """Play sets in a scratch database; tell of each on the terminal as it is done."""
    sets: list[SetFigures] = []
    async with scratch_store() as (store, _):
        for name in names:
            sets.append(await replay_set(folder, name, store, policy, peers, limit))
            one = sets[-1]
            print(f"{name}: {one.runs} runs, {len(one.played)} contexts, {one.seconds:.0f} s", flush=True)
    return sets


def figures_of(sets: Sequence[SetFigures], policy: ContextPolicy) -> dict[str, Any]:
    """Return everything that was measured, JSON-native."""
    return {
        "policy": policy.model_dump(mode="json"),
        "sets": [one.as_json() for one in sets],
        "pooled": pooled(sets, ALL).as_json(with_runs=False),
    }


def add_arguments(parser: argparse.ArgumentParser, is_required: bool) -> None:
    """Add the arguments that say what to replay."""
    parser.add_argument("--traces", type=Path, required=is_required, help="folder with <set>.jsonl files")
    parser.add_argument("--sets", help="names, with commas between; default all")
    parser.add_argument("--limit", type=int, help="runs of each set at most")
    parser.add_argument("--no-peers", action="store_true", help="only keeping everything beside the memory context")
    parser.add_argument("--json", type=Path, help="file to write all figures to")
    parser.add_argument("--chart", type=Path, help="file to draw charged costs and needles to: .png or .svg")


def peers_asked_for(given: argparse.Namespace) -> list[Peer]:
    """Return the peers to play beside; tell on the terminal which ones cannot be."""
    peers, missing = installed_peers()
    if given.no_peers:
        return peers[:1]
    for line in missing:
        print(line)
    return peers


def policy_of(token_budget: int | None = None, policy: str = "{}") -> ContextPolicy:
    """Return the policy that arguments ask for: the default one, changed by a JSON object, then by the budget."""
    changes = json.loads(policy)
    return ContextPolicy.model_validate(changes if token_budget is None else {**changes, "token_budget": token_budget})


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replay", description=(__doc__ or "").split("\n")[0])
    add_arguments(parser, is_required=True)
    parser.add_argument("--token-budget", type=int, help="of the policy; default the policy's own")
    parser.add_argument("--policy", default="{}", help="further changes to the default policy, as a JSON object")
    given = parser.parse_args(arguments)
    policy = policy_of(given.token_budget, given.policy)
    names = given.sets.split(",") if given.sets else set_names(given.traces)
    sets = asyncio.run(replay(given.traces, names, policy, peers_asked_for(given), given.limit))
    print_sets(sets, policy)
    if given.json:
        given.json.write_text(json.dumps(figures_of(sets, policy), indent=1), encoding="utf-8")
    if given.chart:
        draw_chart(sets, given.chart)


if __name__ == "__main__":
    main()
