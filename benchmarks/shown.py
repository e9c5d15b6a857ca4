"""How much of what a search finds stands in what an agent is shown, and what that costs.

    python -m benchmarks.shown --retrieval DIR [--sets a,b] [--limit N] [--json FILE]

The sets are those of `benchmarks.retrieval`. Of the relevant items among the first ten hits it counts those whose best
passage stands whole in the text that a new session recalls, or in the answer of `search_memory`, and those of which
anything stands there.
"""

import argparse
import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean

from benchmarks.conversations import recalled_text
from benchmarks.retrieval import DEPTH, Scope, read_scopes, store_scope
from benchmarks.scratch import scratch_store
from benchmarks.tables import print_table
from benchmarks.traces import set_names
from memory_context import AgentMemory, MemoryContext, MemoryStore
from memory_context.store.search.hits import SearchHit

__all__ = ["Shown", "main", "measure_shown"]

_RECALLS = {
    "recall": (2000, 10),
    "recall, five in 800": (800, 5),
    "recall, ten in 1,200": (1200, 10),
}
_ANSWERS = {"search_memory": None, "search_memory, ten": DEPTH}


@dataclass(frozen=True)
class Shown:
    """What one way to show did on a set.

    Attributes:
        whole: Share of the relevant items among the first ten whose best passage is shown whole.
        part: The same for items of which anything is shown.
        tokens: Mean tokens of the text, of texts that show anything.
    """

    set: str
    way: str
    whole: float
    part: float
    tokens: float
    found: int


async def _texts(store: MemoryStore, user_id: str, query: str) -> dict[str, str]:
    context = MemoryContext(user_id, "agent", None, store)
    (tool,) = [one for one in context.tools() if one.name == "search_memory"]
    texts = {way: await recalled_text(store, user_id, query, *recall) for way, recall in _RECALLS.items()}
    for way, limit in _ANSWERS.items():
        arguments = {"query": query} if limit is None else {"query": query, "limit": limit}
        texts[way] = tool.return_value_as_string(await tool.run_json(arguments, None))
    return texts


async def measure_shown(name: str, scopes: Sequence[Scope]) -> list[Shown]:
    """Return what each way shows of a set."""
    found: list[tuple[SearchHit, dict[str, str]]] = []
    asked: list[dict[str, str]] = []
    async with scratch_store() as (store, _):
        ids = {scope.name: await store_scope(store, scope.name or "nobody", scope) for scope in scopes}
        await store.flush_index()
        for scope in scopes:
            user = scope.name or "nobody"
            for query in scope.queries:
                hits = await AgentMemory(store, user).search(query.text, limit=DEPTH)
                relevant = [hit for hit in hits if not query.gains.keys().isdisjoint(ids[scope.name][hit.item.key])]
                if relevant:
                    asked.append(await _texts(store, user, query.text))
                    found += [(hit, asked[-1]) for hit in relevant]
        counter = MemoryContext("nobody", "agent", None, store).token_counter
    return [
        Shown(
            name,
            way,
            fmean(hit.passage.strip() in texts[way] for hit, texts in found),
            fmean(hit.item.key in texts[way] for hit, texts in found),
            fmean([counter.count(texts[way]) for texts in asked if texts[way]] or [0]),
            len(found),
        )
        for way in (*_RECALLS, *_ANSWERS)
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shown", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--retrieval", type=Path, required=True, help="folder with <set>.jsonl files")
    parser.add_argument("--sets", default="", help="names, with commas between; default all")
    parser.add_argument("--limit", type=int, help="queries of each scope at most")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    given = parser.parse_args(arguments)
    shown: list[Shown] = []
    for name in given.sets.split(",") if given.sets else set_names(given.retrieval):
        scopes = [
            replace(scope, queries=scope.queries[: given.limit])
            for scope in read_scopes(given.retrieval / f"{name}.jsonl")
        ]
        shown += asyncio.run(measure_shown(name, [scope for scope in scopes if scope.queries]))
    rows = [
        [one.set, one.way, f"{one.whole:.3f}", f"{one.part:.3f}", f"{one.tokens:.0f}", f"{one.found}"] for one in shown
    ]
    print_table("of what is found in ten, shown", ["set", "by", "whole", "at all", "tokens", "found"], rows)
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in shown], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
