"""What was said is found: conversations archived through contexts, beside the same turns stored by hand.

    python -m benchmarks.conversations --set FILE [--limit N] [--json FILE]

The set is a file of `doc`, `query` and `gold` rows as for `benchmarks.retrieval`; `meta` of a `doc` names `speaker`,
`session` and `date_time`. Each session is archived through a `MemoryContext` of its own, with both persons' messages at
their times; nothing is stored by hand. Recall@k is that of `benchmarks.retrieval`. "In recall" is the share of the
relevant passages among the first ten that stand in the text that a context would recall: with ten passages within 2,000
tokens, and with the default settings.

Facts that change three times, said in sessions of their own, need no set: how often the newest comes first.
"""

import argparse
import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from unittest.mock import patch

from autogen_core.models import UserMessage

from benchmarks.constants import constants
from benchmarks.retrieval import DEPTH, Answer, Query, Scope, ndcg_at, read_scopes, recall_at, store_scope
from benchmarks.scratch import scratch_store
from benchmarks.tables import print_table
from memory_context import AgentMemory, ContextPolicy, MemoryContext, MemoryCriteria, MemoryStore
from memory_context.foundation.policy import ExpansionPolicy, LearningPolicy
from memory_context.recall.expansion.render import render_retrieved
from memory_context.sessions.transcript import transcript as transcripts

__all__ = ["Conversations", "main", "measure_conversations", "newest_first"]

_LISTED = MemoryCriteria(conversation=True, limit=100_000, oldest_first=True)
_RECALLS = {"2,000 tokens, ten passages": (2000, 10), "1,200 tokens, ten passages": (1200, 10)}
_DATES = "%I:%M %p on %d %B, %Y"
_BEGIN = datetime(2024, 1, 1, tzinfo=timezone.utc)

_VALUES = {
    "deployment region": ("eu-west-1", "us-east-2", "ap-south-1"),
    "database": ("Orders at db1", "Parts at db2", "Billing at db7"),
    "favourite editor": ("vim", "helix", "zed"),
    "phone number": ("555-0100", "555-0142", "555-0199"),
    "team lead": ("Maria", "Tom", "Aisha"),
    "office": ("room 12", "room 40", "room 7"),
    "home airport": ("Vienna", "Munich", "Zurich"),
    "test command": ("make check", "tox -e py", "nox -s tests"),
    "lunch order": ("ramen", "falafel", "pizza"),
    "sprint length": ("two weeks", "three weeks", "ten days"),
    "default branch": ("master", "main", "trunk"),
    "meeting day": ("Monday", "Thursday", "Friday"),
}
_SAYINGS = (
    ("My {0} is {1}.", "Change of plan: my {0} is {1} now.", "From today on my {0} is {1}."),
    ("For the record, my {0} is {1}.", "I changed my {0} to {1}.", "Please note that my {0} is {1} from now on."),
)
_ASKED = ("What is my {0}?", "Which {0} do I use at the moment?")


@dataclass(frozen=True)
class Conversations:
    """How well what was said is found.

    Attributes:
        by_hand: The turns stored as items; `archived` is the same through contexts.
        in_recall: Share of the relevant passages among the first ten that stand in the recalled text, by settings.
        newest_first: Share of the questions on facts that changed whose newest statement came first.
    """

    by_hand: Answer
    archived: Answer
    in_recall: Mapping[str, float]
    newest_first: float


class _Clock(datetime):
    """The transcript's clock, set to the time at which a message was said."""

    at = _BEGIN

    @classmethod
    def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
        """Return the set time."""
        return cls.at


async def say(context: MemoryContext, text: str, source: str, at: datetime) -> None:
    """Let a person say something at a time."""
    _Clock.at = at
    with patch.object(transcripts, "datetime", _Clock):
        await context.add_message(UserMessage(content=text, source=source))


def context_of(store: MemoryStore, user_id: str, session_id: str, sources: Sequence[str] = ("user",)) -> MemoryContext:
    """Return a context that only listens, and learns nothing: what is found was said."""
    policy = ContextPolicy(
        user_sources=tuple(sources),
        expansion=ExpansionPolicy(enabled=False),
        learning=LearningPolicy(enabled=False),
    )
    return MemoryContext(user_id, "agent", session_id, store, policy=policy)


async def archive_scope(
    store: MemoryStore, user_id: str, scope: Scope, meta: Mapping[str, Mapping[str, str]]
) -> dict[str, list[str]]:
    """Archive the sessions of a scope; return the documents behind each message's key."""
    sessions: dict[str, list[str]] = defaultdict(list)
    texts = {document.id: document.text for document in scope.documents}
    for document in scope.documents:
        sessions[document.session].append(document.id)
    speakers = sorted({meta[one]["speaker"] for one in texts})
    for session, documents in sessions.items():
        context = context_of(store, user_id, session, speakers)
        began = datetime.strptime(meta[documents[0]]["date_time"], _DATES).replace(tzinfo=timezone.utc)
        for number, one in enumerate(documents):
            await say(context, texts[one], meta[one]["speaker"], began + timedelta(seconds=20 * number))
        await context.close()
    await store.flush_index()
    same: dict[tuple[str, str], list[str]] = defaultdict(list)
    for session, documents in sessions.items():
        for one in documents:
            same[session, texts[one]].append(one)
    items = await AgentMemory(store, user_id).query(_LISTED)
    return {
        item.key: same[item.session_id, texts[sessions[item.session_id][int(item.metadata["position"]) - 1]]]
        for item in items
    }


async def recalled_text(store: MemoryStore, user_id: str, query: str, limit_tokens: int, passages: int) -> str:
    """Return what a new session of the user recalls within so many tokens and passages."""
    context = MemoryContext(user_id, "agent", None, store)
    fetcher = context._session.expander._fetcher
    fetcher.deadline = time.monotonic() + 60
    with constants({"memory_context.recall.expansion.fetch._PASSAGES": passages}):
        found = await fetcher.recall(query, set(), [])
    text, _ = render_retrieved([one.retrieved for one in found], query, limit_tokens, context.token_counter)
    return text


async def newest_first(store: MemoryStore) -> float:
    """Return the share of the questions on facts that changed three times whose newest statement comes first."""
    first = asked = 0
    for number, (fact, values) in enumerate(_VALUES.items()):
        for way, sayings in enumerate(_SAYINGS):
            user = f"changing {number} {way}"
            for step, (saying, value) in enumerate(zip(sayings, values, strict=True)):
                context = context_of(store, user, f"session {step}")
                at = _BEGIN + timedelta(days=step)
                for order, text in enumerate(("Good morning.", saying.format(fact, value), "Now to the report.")):
                    await say(context, text, "user", at + timedelta(minutes=order))
                await context.close()
            await store.flush_index()
            for question in _ASKED:
                hits = await AgentMemory(store, user).search(question.format(fact), limit=5)
                asked += 1
                first += bool(hits) and hits[0].passage == sayings[-1].format(fact, values[-1])
    return first / asked


async def measure_conversations(path: Path, limit: int | None = None) -> Conversations:
    """Measure a set, with at most so many queries of each scope."""
    scopes = [replace(scope, queries=scope.queries[:limit]) for scope in read_scopes(path)]
    with path.open(encoding="utf-8") as lines:
        rows = [row for row in map(json.loads, lines) if row["type"] == "doc"]
    meta = {row["id"]: row["meta"] for row in rows}
    texts = {row["id"]: row["text"] for row in rows}
    answers: dict[str, list[tuple[Query, list[str]]]] = {"stored by hand": [], "archived": []}
    seconds = dict.fromkeys(answers, 0.0)
    shown = dict.fromkeys(_RECALLS, 0)
    relevant = 0
    async with scratch_store() as (store, _):
        for scope in scopes:
            ids = {
                "stored by hand": await store_scope(store, f"by hand {scope.name}", scope),
                "archived": await archive_scope(store, f"archived {scope.name}", scope, meta),
            }
            await store.flush_index()
            for way, scored in answers.items():
                user = f"{'by hand' if way == 'stored by hand' else way} {scope.name}"
                memory = AgentMemory(store, user)
                began = time.perf_counter()
                for query in scope.queries:
                    hits = await memory.search(query.text, limit=DEPTH)
                    scored.append((query, [one for hit in hits for one in ids[way].get(hit.item.key, [])]))
                seconds[way] += time.perf_counter() - began
            for query, ranked in answers["archived"][-len(scope.queries) :]:
                if found := set(ranked[:DEPTH]) & set(query.gains):
                    relevant += len(found)
                    for name, recall in _RECALLS.items():
                        text = await recalled_text(store, f"archived {scope.name}", query.text, *recall)
                        shown[name] += sum(texts[one].strip() in text for one in found)
            print(f"{scope.name}: done", flush=True)
        newest = await newest_first(store)
    by_hand, archived = (_answer(path.stem, way, scored, seconds[way]) for way, scored in answers.items())
    in_recall = {name: count / max(relevant, 1) for name, count in shown.items()}
    return Conversations(by_hand, archived, in_recall, newest)


def _answer(name: str, way: str, scored: Sequence[tuple[Query, list[str]]], seconds: float) -> Answer:
    count = len(scored)
    recall_5, recall_10 = (
        sum(recall_at(depth, ranked, query.gains) for query, ranked in scored) / count for depth in (5, 10)
    )
    gain = sum(ndcg_at(10, ranked, query.gains) for query, ranked in scored) / count
    return Answer(name, way, recall_5, recall_10, gain, count, 1000 * seconds / count)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.conversations", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--set", type=Path, required=True, help="file of documents with speakers, queries and gold")
    parser.add_argument("--limit", type=int, help="queries of each scope at most")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    given = parser.parse_args(arguments)
    found = asyncio.run(measure_conversations(given.set, given.limit))
    rows = [
        [one.variant, *(f"{value:.3f}" for value in (one.recall_5, one.recall_10, one.ndcg_10)), f"{one.ms:.1f}"]
        for one in (found.by_hand, found.archived)
    ]
    print_table(f"{given.set.stem}: turns", ["", "recall@5", "recall@10", "nDCG@10", "ms a query"], rows)
    for name, share in found.in_recall.items():
        print(f"of the relevant passages found, in recall ({name}): {share:.3f}")
    print(f"facts that changed three times, newest first: {found.newest_first:.3f}")
    if given.json:
        given.json.write_text(json.dumps(asdict(found), indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
