"""The scripted observer answers real prompts in the form that the observer and the reflector accept."""

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone

from autogen_core.models import LLMMessage, UserMessage

from memory_context.compaction.observation.observer import run_observer
from memory_context.compaction.observation.reading import ObservedMessage
from memory_context.compaction.observation.reflector import run_reflector
from memory_context.foundation.light_model.answers import Completion
from memory_context.foundation.tokens import default_token_counter
from memory_context.sessions.transcript.observations import ObservationChunk, reflected_chunks
from memory_context.testing import observe_by_script

COUNTER = default_token_counter()
NOON = datetime(2026, 3, 5, 12, 0, tzinfo=timezone.utc)
SETTINGS = {"instructions": "", "counter": COUNTER, "light_window_tokens": 32_000, "now": NOON}


async def complete(messages: Sequence[LLMMessage], limit_tokens: int) -> Completion:
    return Completion(observe_by_script(messages), 0, 0)


def read(position: int, origin: str, source: str, text: str) -> ObservedMessage:
    at = NOON + timedelta(minutes=position)
    return ObservedMessage(position, source, origin, at, text, COUNTER.count(text))  # type: ignore[arg-type]


async def observed(messages: Sequence[ObservedMessage]) -> ObservationChunk:
    last = messages[-1].position + 1
    output = await run_observer(complete, messages, first=0, last=last, previous="", **SETTINGS)
    lines = tuple(replace(line, id=number) for number, line in enumerate(output.lines, 1))
    chunk = ObservationChunk(0, last, lines)
    return replace(chunk, tokens=COUNTER.count(chunk.text))


async def test_scripted_observer_writes_a_dated_line_for_each_message_and_each_call_with_its_result():
    chunk = await observed(
        [
            read(0, "user", "user", "Find the slow query."),
            read(1, "agent", "coder", 'called run_sql with:\n{"query": "EXPLAIN ANALYZE"}'),
            read(2, "tool", "run_sql", "result of run_sql:\nSeq Scan on orders"),
            read(3, "agent", "coder", "The table has no index."),
        ]
    )
    assert [(line.ranges, line.priority, line.at) for line in chunk.lines] == [
        (((0, 1),), "user", NOON),
        (((2, 3),), "minor", NOON + timedelta(minutes=2)),
        (((3, 4),), "project", NOON + timedelta(minutes=3)),
    ]
    assert chunk.lines[0].text == "Find the slow query."
    assert "run_sql" in chunk.lines[1].text
    assert "Seq Scan on orders" in chunk.lines[1].text


async def test_scripted_reflector_merges_the_oldest_lines_until_the_log_is_short():
    draw = random.Random(3)
    texts = [" ".join(f"{draw.getrandbits(40):x}" for _ in range(16)) for _ in range(24)]
    chunk = await observed([read(number, "agent", "coder", text) for number, text in enumerate(texts)])
    output = await run_reflector(complete, [chunk], limit_tokens=chunk.tokens // 2, level=1, **SETTINGS)
    condensed = reflected_chunks([chunk], output.edits, 1000)
    assert len(condensed[0].lines) < len(chunk.lines)
    assert sum(output.tokens) < chunk.tokens


def test_scripted_observer_answers_other_prompts_with_an_empty_object():
    assert observe_by_script([UserMessage(content="Which keys are meant?", source="user")]) == "{}"
