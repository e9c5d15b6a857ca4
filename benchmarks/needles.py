"""Whether search brings back what an agent needs again: recorded runs, and the agent's own words as the query.

    python -m benchmarks.needles --traces DIR [--sets a,b] [--limit N] [--json FILE]

A needle is a string that stood in one large tool output only and that a call at least four messages later used. The run
is played through a MemoryContext up to that call; what is due is indexed; then the memory is searched with the words of
the call itself: the tool's name and the values of its arguments, without the needle. Found is what stands in a hit's
passage; a hit's item may be the right one although its passage is another.
"""

import argparse
import asyncio
import json
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from autogen_core import FunctionCall
from autogen_core.models import AssistantMessage

from benchmarks.scratch import scratch_store
from benchmarks.tables import print_table
from benchmarks.traces import Needle, Run, read_needles, read_runs, set_names
from memory_context import MemoryContext, MemoryStore
from memory_context.foundation.messages import Address
from memory_context.foundation.text.tokenize import query_terms, terms_of
from memory_context.store.search.postings import chunks_of

__all__ = ["TOP", "Search", "main", "measure_needles", "print_searches", "query_of", "search_for", "search_run"]

TOP = 3
GOAL = 0.6
DEPTH = 10


@dataclass(frozen=True)
class Search:
    """One search for a needle.

    Attributes:
        run: The run's name; `needed_at` and `output` are indexes into it.
        passage_rank: Rank of the first hit that shows the needle, from 1; None if none of the first ten does.
        item_rank: Rank of the output's item; None if it is not among the first ten.
        kind: "found" within the first three, else why not.
        set: The name of the set.
    """

    run: str
    output: int
    needed_at: int
    passage_rank: int | None
    item_rank: int | None
    kind: str
    set: str = ""


def query_of(message: AssistantMessage, needle: str) -> str:
    """Return the words of the calls that used a needle: the tools' names and the values of their arguments, without it.

    Where the needle is no value or part of one (it was spelled otherwise), all calls of the message speak.
    """
    calls = [call for call in message.content if isinstance(call, FunctionCall)]
    used = [call for call in calls if needle in _words_of(call)]
    return "\n".join(_words_of(call) for call in used or calls).replace(needle, " ")


def _words_of(call: FunctionCall) -> str:
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        return f"{call.name}\n{call.arguments}"
    return "\n".join([call.name, *_values(arguments)])


def _values(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _values(one)
    elif value is not None:
        yield str(value)


async def search_run(run: Run, needles: Sequence[Needle], store: MemoryStore) -> list[Search]:
    """Play a run as a fresh user and search for each needle when it is needed."""
    context = MemoryContext(user_id=f"needles-{uuid.uuid4().hex}", agent_id="assistant", memory_store=store)
    positions: dict[int, tuple[int, int]] = {}  # trace index -> position in the transcript, index in the message
    searches: list[Search] = []
    last = max(needle.needed_index for needle in needles)
    for recorded in run.messages:
        if isinstance(recorded.message, AssistantMessage):
            await context.get_messages()
            for needle in needles:
                if needle.needed_index in recorded.indexes:
                    await store.flush_index()
                    position, place = positions[needle.output_index]
                    stored = context.transcript[position].part(Address("result", place)).stored
                    keys = {ref.key for ref in stored.refs} if stored else set[str]()
                    query = query_of(recorded.message, needle.text)
                    searches.append(await search_for(context, run.id, needle, keys, query))
        if last <= recorded.indexes[-1]:
            break
        position = context.transcript.end
        await context.add_message(recorded.message)
        positions |= {index: (position, place) for place, index in enumerate(recorded.indexes)}
    await context.close()
    return searches


async def search_for(context: MemoryContext, run: str, needle: Needle, keys: set[str], query: str) -> Search:
    """Search for a needle once.

    Args:
        context: The context the run was played through; all it stored is indexed.
        run: The run's name.
        needle: What is searched for.
        keys: The items of the output it stood in.
        query: What is asked.
    """
    hits = await context.search(query, limit=DEPTH)
    shown = [rank for rank, hit in enumerate(hits, 1) if needle.text in hit.passage]
    passage = shown[0] if shown else None
    item = next((rank for rank, hit in enumerate(hits, 1) if hit.item.key in keys), None)
    contents = await context.agent_memory.retrieve_contents(keys)
    kind = "found" if passage is not None and passage <= TOP else _why_missed(needle.text, query, item, contents)
    return Search(run, needle.output_index, needle.needed_index, passage, item, kind)


def _why_missed(needle: str, query: str, item_rank: int | None, contents: dict[str, str]) -> str:
    if not contents:
        return "output was not stored"
    passages = [chunk.text for content in contents.values() for chunk in chunks_of(content) if needle in chunk.text]
    if not passages:
        return "cut in two by a passage's end"
    if not any(set(query_terms(query)) & set(terms_of(text)) for text in passages):
        return "no term in common with the query"
    return "other passage of the right item" if item_rank is not None and item_rank <= TOP else "other items first"


async def measure_needles(folder: Path, names: Sequence[str] = (), limit: int | None = None) -> list[Search]:
    """Search for the needles of the sets that have any, in a scratch database."""
    searches: list[Search] = []
    async with scratch_store() as (store, _):
        for name in names or set_names(folder):
            needles = read_needles(folder, "needles", name)
            for run in read_runs(folder, name, limit):
                if run.id in needles:
                    found = await search_run(run, needles[run.id], store)
                    searches += [replace(search, set=name) for search in found]
    return searches


# --- the terminal ------------------------------------------------------------------------------------------------


def print_searches(searches: Sequence[Search]) -> None:
    """Print how many needles each set gave back, and why others were missed."""
    names = list(dict.fromkeys(search.set for search in searches))
    sets = {name: [search for search in searches if search.set == name] for name in names}
    if len(names) > 1:
        sets["all"] = list(searches)
    print_table(
        "needles: searched with the words of the call that needs them",
        ["set", "needles", "goal", "passage in 3", "in 1", "in 5", "in 10", "item in 1", "in 3", "in 5", "in 10"],
        [
            [
                name,
                f"{len(of)}",
                f"> {GOAL:.0%}" if name == "all" else "-",
                *(f"{_share([search.passage_rank for search in of], top):.0%}" for top in (TOP, 1, 5, DEPTH)),
                *(f"{_share([search.item_rank for search in of], top):.0%}" for top in (1, TOP, 5, DEPTH)),
            ]
            for name, of in sets.items()
        ],
    )
    kinds = Counter(search.kind for search in searches)
    print_table(
        "needles: what became of them",
        ["kind", *sets],
        [
            [kind, *(f"{sum(search.kind == kind for search in of)}" for of in sets.values())]
            for kind, _ in kinds.most_common()
        ],
    )


def _share(ranks: Sequence[int | None], top: int) -> float:
    return sum(rank is not None and rank <= top for rank in ranks) / len(ranks)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.needles", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--traces", type=Path, required=True, help="folder with <set>.jsonl files and needles/")
    parser.add_argument("--sets", default="", help="names, with commas between; default all")
    parser.add_argument("--limit", type=int, help="runs of each set at most")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    given = parser.parse_args(arguments)
    searches = asyncio.run(measure_needles(given.traces, [name for name in given.sets.split(",") if name], given.limit))
    print_searches(searches)
    if given.json:
        given.json.write_text(json.dumps([asdict(search) for search in searches], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
