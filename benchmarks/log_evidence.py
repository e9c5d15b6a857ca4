"""How much of what answers questions stands in a log of a given size: chats with known evidence, digested.

The turns of a chat are observed in chunks, as a context would, and the log is condensed to its size. Of each turn that
answers a question counts the share of its words, without stop words, in the lines that rest on it; and whether that
are four fifths. Every other turn is a look-up away, since some line names it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from statistics import fmean

from benchmarks.comparing import Measured
from benchmarks.retrieval import Scope, read_scopes
from memory_context.compaction.observation.digest import digest_edits, digest_lines
from memory_context.compaction.observation.reading import ObservedMessage
from memory_context.foundation.text.tokenize import terms_of
from memory_context.foundation.tokens import default_token_counter
from memory_context.sessions.transcript.observations import ObservationChunk, ObservationLine, reflected_chunks

__all__ = ["LIMITS", "measure_evidence"]

LIMITS = (2_000, 8_000, 40_000)
SET = "locomo_dev_corrected"
CHUNK_TOKENS = 5_000
WORDS_SHARE = 0.8
_BEGAN = datetime(2026, 1, 5, 9, 0, tzinfo=timezone.utc)
_COUNTER = default_token_counter()


def measure_evidence(folder: Path) -> list[Measured]:
    """Return how much of each question's evidence is in view, by size of the log, and what no line leads to."""
    scopes = read_scopes(folder / f"{SET}.jsonl")
    measured: list[Measured] = []
    for limit in LIMITS:
        shares = [share for scope in scopes for share in _shares(scope, limit)]
        name = f"log of {limit:,} tokens: evidence"
        whole = fmean(share >= WORDS_SHARE for share in shares)
        detail = f"{len(shares)} turns, {len(scopes)} chats"
        measured += [
            Measured(f"{name} in view, share of its words", fmean(max(share, 0.0) for share in shares), detail=detail),
            Measured(f"{name} in view, turns with {WORDS_SHARE:.0%} of them", whole, detail=detail),
            Measured(f"{name} that no line leads to", lost := sum(share < 0 for share in shares), "0", lost == 0),
        ]
    return measured


def _shares(scope: Scope, limit_tokens: int) -> Iterator[float]:
    """Yield the share of the words of each turn that answers a question; -1 if no line rests on it."""
    lines = _log_of(_messages(scope), limit_tokens)
    shares: dict[str, float] = {}
    for position, document in enumerate(scope.documents):
        texts = [line.text for line in lines if _rests_on(line, position)]
        own = set(terms_of(document.text.partition(": ")[2]))
        shares[document.id] = len(own.intersection(terms_of("\n".join(texts)))) / max(len(own), 1) if texts else -1.0
    for query in scope.queries:
        yield from (shares[name] for name in query.gains)


def _rests_on(line: ObservationLine, position: int) -> bool:
    return any(first <= position < last for first, last in line.ranges)


def _messages(scope: Scope) -> list[ObservedMessage]:
    """Return the turns: who speaks first is the user."""
    first = scope.documents[0].text.partition(":")[0]
    messages: list[ObservedMessage] = []
    for position, document in enumerate(scope.documents):
        speaker, _, said = document.text.partition(": ")
        origin = "user" if speaker == first else "other"
        at = _BEGAN + timedelta(minutes=position)
        messages.append(ObservedMessage(position, speaker, origin, at, said, _COUNTER.count(said)))
    return messages


def _log_of(messages: Sequence[ObservedMessage], limit_tokens: int) -> list[ObservationLine]:
    """Observe in chunks, each with its share of the log, and condense what exceeds it."""
    share = limit_tokens / sum(message.tokens for message in messages)
    chunks: list[ObservationChunk] = []
    made = 0
    for batch in _batches(messages):
        limit = int(share * sum(message.tokens for message in batch))
        lines = digest_lines(batch, (), limit_tokens=limit, counter=_COUNTER)
        numbered = tuple(replace(line, id=number) for number, line in enumerate(lines, made + 1))
        chunks.append(ObservationChunk(batch[0].position, batch[-1].position + 1, numbered))
        made += len(lines)
        edits = digest_edits(chunks, limit_tokens=limit_tokens, counter=_COUNTER)
        chunks = reflected_chunks(chunks, edits, made + 1)
        made += len(edits)
    return [line for chunk in chunks for line in chunk.lines]


def _batches(messages: Sequence[ObservedMessage]) -> Iterator[list[ObservedMessage]]:
    batch: list[ObservedMessage] = []
    for message in messages:
        batch.append(message)
        if sum(one.tokens for one in batch) >= CHUNK_TOKENS:
            yield batch
            batch = []
    if batch:
        yield batch
