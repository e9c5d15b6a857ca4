"""How well search finds what answers a question: sets with known answers through the real system, beside BM25.

    python -m benchmarks.retrieval --retrieval DIR [--sets a,b] [--limit N] [--json FILE]

A set is a file `<set>.jsonl` of `doc`, `query` and `gold` rows, scored per scope (one scope is one user). Every
document is stored as an item, in order, in a transaction of its own (ids, and with them the order of a session, follow
the order of storing); a `session` in its `meta` is its session. When all is indexed, `AgentMemory.search` is asked.

Recall@k is the mean share of a query's relevant documents among its first k; nDCG@k takes `rel` as linear gain. A row
with `rel` 0 says "judged, not relevant": it neither counts as something to find nor gains anything. Queries without a
relevant document are left out.

The variants switch parts of the search off, all on the same index: what each part is worth.
"""

import argparse
import asyncio
import json
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any
from unittest.mock import patch

from benchmarks.bm25 import Bm25, windows
from benchmarks.scratch import scratch_store
from benchmarks.tables import print_table
from benchmarks.traces import set_names
from memory_context import AgentMemory, MemoryStore
from memory_context.foundation.embeddings.embedder import Purpose
from memory_context.foundation.embeddings.wordllama import WordLlamaEmbedder
from memory_context.store.search import hits, rank

__all__ = [
    "Answer",
    "Document",
    "Query",
    "Scope",
    "main",
    "measure_sets",
    "ndcg_at",
    "print_answers",
    "read_scopes",
    "recall_at",
]

DEPTH = 10


@dataclass(frozen=True)
class Document:
    """Something to find; `session` is "" where it belongs to none."""

    id: str
    text: str
    session: str


@dataclass(frozen=True)
class Query:
    """A question and the gain of each document that answers it; all gains are positive."""

    text: str
    gains: Mapping[str, int]


@dataclass(frozen=True)
class Scope:
    """The documents and queries of one user."""

    name: str
    documents: tuple[Document, ...]
    queries: tuple[Query, ...]

    @property
    def has_sessions(self) -> bool:
        """Whether the documents have an order."""
        return any(document.session for document in self.documents)


@dataclass(frozen=True)
class Answer:
    """How one way to search did on a set.

    Attributes:
        set: The set's name.
        variant: What was searched with.
        recall_5: Mean share of the relevant documents among the first five; `recall_10` among the first ten.
        ndcg_10: nDCG of the first ten.
        queries: How many were asked.
        ms: Milliseconds a query, for what went through the system; None for a floor.
    """

    set: str
    variant: str
    recall_5: float
    recall_10: float
    ndcg_10: float
    queries: int
    ms: float | None = None


def read_scopes(path: Path) -> list[Scope]:
    """Return what a set holds, scope by scope."""
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            rows[row["type"]].append(row)
    gains: dict[str, dict[str, int]] = defaultdict(dict)
    for row in rows["gold"]:
        if row["rel"] > 0:
            gains[row["query_id"]][row["doc_id"]] = row["rel"]
    return [
        Scope(
            name,
            tuple(
                Document(row["id"], row["text"], str(row.get("meta", {}).get("session", "")))
                for row in rows["doc"]
                if row.get("scope", "") == name
            ),
            tuple(
                Query(row["text"], gains[row["id"]])
                for row in rows["query"]
                if row.get("scope", "") == name and gains.get(row["id"])
            ),
        )
        for name in dict.fromkeys(row.get("scope", "") for row in rows["doc"])
    ]


def recall_at(depth: int, ranked: Sequence[str], gains: Mapping[str, int]) -> float:
    """Return the share of what is relevant that is among the first so many."""
    return len(set(ranked[:depth]) & set(gains)) / len(gains)


def ndcg_at(depth: int, ranked: Sequence[str], gains: Mapping[str, int]) -> float:
    """Return the gain, discounted by rank, as a share of what the best order would have."""

    def discounted(values: Sequence[int]) -> float:
        return sum(gain / math.log2(rank + 2) for rank, gain in enumerate(values[:depth]))

    return discounted([gains.get(one, 0) for one in ranked]) / discounted(sorted(gains.values(), reverse=True))


# --- the floors --------------------------------------------------------------------------------------------------


def floors(name: str, scopes: Sequence[Scope]) -> list[Answer]:
    """Return what plain BM25 finds, on single documents and, where these have sessions, on windows of three."""
    answers = [_floor(name, "floor: BM25", scopes, lambda texts, _: list(texts))]
    if any(scope.has_sessions for scope in scopes):
        answers.append(_floor(name, "floor: BM25 on ± 1 neighbour", scopes, windows))
    return answers


def _floor(
    name: str, variant: str, scopes: Sequence[Scope], texts_of: Callable[[Sequence[str], Sequence[str]], list[str]]
) -> Answer:
    scored: list[tuple[Query, list[str]]] = []
    for scope in scopes:
        documents = scope.documents
        index = Bm25(texts_of([one.text for one in documents], [one.session for one in documents]))
        for query in scope.queries:
            scored.append((query, [documents[place].id for place in index.rank(query.text, DEPTH)]))
    return _answer(name, variant, scored)


def _answer(name: str, variant: str, scored: Sequence[tuple[Query, Sequence[str]]], ms: float | None = None) -> Answer:
    def mean(measure: Callable[[Sequence[str], Mapping[str, int]], float]) -> float:
        return fmean(measure(ranked, query.gains) for query, ranked in scored)

    return Answer(
        name,
        variant,
        mean(lambda ranked, gains: recall_at(5, ranked, gains)),
        mean(lambda ranked, gains: recall_at(10, ranked, gains)),
        mean(lambda ranked, gains: ndcg_at(10, ranked, gains)),
        len(scored),
        ms,
    )


# --- the system --------------------------------------------------------------------------------------------------


class SilentForQueries(WordLlamaEmbedder):
    """The default embedder, but with nothing to say about queries: the search goes by terms alone."""

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[list[float]]:
        """Return vectors for documents and zeros for queries."""
        if purpose == "query":
            return [[0.0] * self.dimensions for _ in texts]
        return await super().embed(texts, purpose)


@dataclass(frozen=True)
class Variant:
    """A search with a part switched off, or set to one end of its scale.

    Attributes:
        name: What is different.
        has_meaning: Whether the query has an embedding.
        changes: Constants and functions in their place: module, name, value.
    """

    name: str
    has_meaning: bool = True
    changes: tuple[tuple[Any, str, Any], ...] = ()

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Search in this way."""
        with ExitStack() as stack:
            for module, name, value in self.changes:
                stack.enter_context(patch.object(module, name, value))
            yield


AS_IT_IS = Variant("search")
OWN_ALONE = ((rank, "SESSION_SHARE", 0.0), (rank, "SESSION_GAIN", 0.0))
VARIANTS = (
    AS_IT_IS,
    Variant("  without meaning", has_meaning=False),
    Variant("  without terms", changes=((hits, "query_terms", lambda text: []),)),
    Variant("  without neighbours", changes=((rank, "SESSION_SHARE", 0.0),)),
    Variant("  without session scores", changes=((rank, "SESSION_GAIN", 0.0),)),
    Variant("  without emphasis on names and numbers", changes=((rank, "EMPHASIS", 1.0),)),
    Variant("  without the penalty of size", changes=((rank, "SIZE_PENALTY", 0.0),)),
    Variant("  by own terms alone", has_meaning=False, changes=OWN_ALONE),
    Variant("  by own meaning alone", changes=((hits, "query_terms", lambda text: []), *OWN_ALONE)),
    Variant("  without the check for near-duplicates", changes=((hits, "_ALIKE", 2.0),)),
)


async def store_scope(store: MemoryStore, user_id: str, scope: Scope) -> dict[str, list[str]]:
    """Store the documents of a scope, in order; return the documents behind each key.

    One key stands for several documents where these say the same in the same session.
    """
    ids: dict[str, list[str]] = defaultdict(list)
    for document in scope.documents:
        memory = AgentMemory(store, user_id, session_id=document.session)
        ids[(await memory.store(document.text)).key].append(document.id)
    return ids


async def measure_set(name: str, scopes: Sequence[Scope], variants: Sequence[Variant] = VARIANTS) -> list[Answer]:
    """Return the floors of a set and what the system finds, in a scratch database."""
    answers = floors(name, scopes)
    async with scratch_store() as (store, url), MemoryStore(url, SilentForQueries()) as by_terms:
        users = {scope.name: f"{name} {scope.name}" for scope in scopes}
        ids = {scope.name: await store_scope(store, users[scope.name], scope) for scope in scopes}
        await store.flush_index()
        for variant in variants:
            with variant.applied():
                scored: list[tuple[Query, list[str]]] = []
                began = time.perf_counter()
                for scope in scopes:
                    memory = AgentMemory(store if variant.has_meaning else by_terms, users[scope.name])
                    for query in scope.queries:
                        hits = await memory.search(query.text, limit=DEPTH)
                        scored.append((query, [one for hit in hits for one in ids[scope.name][hit.item.key]]))
                ms = 1000 * (time.perf_counter() - began) / max(len(scored), 1)
            answers.append(_answer(name, variant.name, scored, ms))
    return answers


async def measure_sets(folder: Path, names: Sequence[str] = (), limit: int | None = None) -> list[Answer]:
    """Measure the sets of a folder, with at most so many queries of each scope."""
    answers: list[Answer] = []
    for name in names or set_names(folder):
        scopes = [replace(scope, queries=scope.queries[:limit]) for scope in read_scopes(folder / f"{name}.jsonl")]
        answers += await measure_set(name, [scope for scope in scopes if scope.queries])
        print(f"{name}: done", flush=True)
    return answers


# --- the terminal ------------------------------------------------------------------------------------------------


def print_answers(answers: Sequence[Answer]) -> None:
    """Print a table for each set."""
    for name in dict.fromkeys(answer.set for answer in answers):
        print_table(
            f"{name}: what search finds",
            ["searched by", "recall@5", "recall@10", "nDCG@10", "queries", "ms a query"],
            [
                [
                    answer.variant,
                    *(f"{value:.3f}" for value in (answer.recall_5, answer.recall_10, answer.ndcg_10)),
                    f"{answer.queries}",
                    "-" if answer.ms is None else f"{answer.ms:.1f}",
                ]
                for answer in answers
                if answer.set == name
            ],
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.retrieval", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--retrieval", type=Path, required=True, help="folder with <set>.jsonl files")
    parser.add_argument("--sets", default="", help="names, with commas between; default all")
    parser.add_argument("--limit", type=int, help="queries of each scope at most")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    given = parser.parse_args(arguments)
    answers = asyncio.run(measure_sets(given.retrieval, [name for name in given.sets.split(",") if name], given.limit))
    print_answers(answers)
    if given.json:
        given.json.write_text(json.dumps([asdict(answer) for answer in answers], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
