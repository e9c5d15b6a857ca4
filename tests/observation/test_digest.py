"""Digests of messages and the condensation of a log, both without a model."""

import json
import random
from datetime import datetime, timedelta, timezone

import pytest
from autogen_core import FunctionCall
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    UserMessage,
)

from memory_context.compaction.observation.digest import digest_edits, digest_lines
from memory_context.compaction.observation.reading import ObservedMessage
from memory_context.foundation.messages import Address
from memory_context.foundation.references import MemoryRef
from memory_context.foundation.tokens import default_token_counter
from memory_context.sessions.transcript.entries import Entry, Part, StoredPart
from memory_context.sessions.transcript.observations import ObservationChunk, ObservationLine, reflected_chunks
from memory_context.sessions.transcript.transcript import Transcript

pytestmark = pytest.mark.thorough

COUNTER = default_token_counter()
NOON = datetime(2026, 3, 5, 12, 0, tzinfo=timezone.utc)
ORIGINS = {"UserMessage": "user", "AssistantMessage": "agent", "FunctionExecutionResultMessage": "tool"}
PLENTY = 100_000


def asked(number: int, tool: str, **arguments: object) -> AssistantMessage:
    return AssistantMessage(content=[FunctionCall(f"c{number}", json.dumps(arguments), tool)], source="coder")


def answered(number: int, tool: str, content: str, is_error: bool = False) -> FunctionExecutionResultMessage:
    result = FunctionExecutionResult(content=content, name=tool, call_id=f"c{number}", is_error=is_error)
    return FunctionExecutionResultMessage(content=[result])


def read_of(*messages: LLMMessage) -> tuple[list[ObservedMessage], list[Entry]]:
    """Return messages as an observer reads them, one a minute, and their entries."""
    transcript = Transcript()
    for number, message in enumerate(messages):
        transcript.append(message, NOON + timedelta(minutes=number))
    entries = transcript.entries()
    return [_observed(entry) for entry in entries], entries


def _observed(entry: Entry) -> ObservedMessage:
    message = entry.message
    text = message.content if isinstance(message.content, str) else str(message.content)
    keys = tuple(ref.key for part in entry.measured if part.stored for ref in part.stored.refs)
    source = getattr(message, "source", "tool")
    origin = ORIGINS[type(message).__name__]
    return ObservedMessage(entry.position, source, origin, entry.added_at, text, COUNTER.count(text), keys)  # type: ignore[arg-type]


def digest_of(*messages: LLMMessage, limit_tokens: int = PLENTY) -> list[ObservationLine]:
    return digest_lines(*read_of(*messages), limit_tokens=limit_tokens, counter=COUNTER)


def size_of(lines: list[ObservationLine]) -> int:
    chunk = ObservationChunk(0, 10_000, tuple(lines))
    return COUNTER.count(chunk.text) - COUNTER.count(ObservationChunk(0, 10_000, ()).text)


def long_session(steps: int, seed: int = 1) -> list[LLMMessage]:
    draw = random.Random(seed)
    messages: list[LLMMessage] = [UserMessage(content="Survey every file; the deadline is Friday.", source="user")]
    for number in range(steps):
        path = f"src/part_{number}/module_{draw.randrange(10**6)}.py"
        messages += [asked(number, "read_file", path=path), answered(number, "read_file", f"{path} is fine\n" * 9)]
        if number % 7 == 6:
            messages.append(AssistantMessage(content=f"Read {number + 1} files so far. " * 9, source="coder"))
        if number % 11 == 10:
            messages.append(UserMessage(content=f"And remember ticket TICK-{number}.", source="user"))
    return messages


def test_digest_holds_the_users_words_each_call_and_each_answer_dated_and_with_its_messages():
    lines = digest_of(
        UserMessage(content="Find the bug in the parser.\nBe quick.", source="user"),
        asked(1, "read_file", path="src/parser.py"),
        answered(1, "read_file", "def parse(): ..."),
        asked(2, "run_shell", command="pytest -q"),
        answered(2, "run_shell", "no such file", is_error=True),
        AssistantMessage(content="It is in line 3.", source="coder"),
        UserMessage(content="Thanks.", source="user"),
    )
    assert [(line.text, line.priority, line.ranges) for line in lines] == [
        ("user said: Find the bug in the parser. Be quick.", "user", ((0, 1),)),
        (lines[1].text, "minor", ((1, 3),)),
        (lines[2].text, "project", ((3, 5),)),
        ("coder answered: It is in line 3.", "project", ((5, 6),)),
        ("user said: Thanks.", "user", ((6, 7),)),
    ]
    assert lines[1].text.startswith("read_file succeeded, path=src/parser.py, ")
    assert lines[1].text.endswith(": def parse(): ...")
    assert lines[2].text.startswith("run_shell failed, command=pytest -q, ")
    assert [line.at for line in lines] == [NOON + timedelta(minutes=number) for number in (0, 2, 4, 5, 6)]
    assert {line.kind for line in lines} == {"digest"}


def _stored(entry: Entry, path: str, compacted: str, facts: str) -> None:
    ref = MemoryRef("read_file_k3f9x2", f"path={path[:50]}…, Python source, 300 lines", 900)
    text = f"{compacted} {ref.render()}\nQuoted from it:\n> Names in it: {facts}"
    entry.measure([Part(Address("result"), 900, is_result=True, stored=StoredPart((ref,), text, 40))])


def test_digest_of_a_stored_result_has_key_description_exact_path_and_facts():
    path = f"/srv/{'deeply/' * 9}nested/module.py"
    _, entries = read_of(asked(1, "read_file", path=path), answered(1, "read_file", ""))
    _stored(entries[1], path, "read_file failed.", "parse_order, TICK-1044")
    messages = [_observed(entry) for entry in entries]
    (line,) = digest_lines(messages, entries, limit_tokens=PLENTY, counter=COUNTER)
    assert line.text == (
        f"read_file_k3f9x2: failed, {path}, Python source, 300 lines\n- Names in it: parse_order, TICK-1044"
    )
    assert line.priority == "project"
    (short,) = digest_lines(messages, entries, limit_tokens=size_of([line]) - 16, counter=COUNTER)
    assert "TICK-1044" not in short.text, "facts stand only where there is room"


def test_digest_keeps_beginning_and_end_of_long_words():
    words = f"Please begin here. {'Words and words. ' * 200}Above all, keep the names."
    (line,) = digest_of(UserMessage(content=words, source="user"))
    assert line.text.startswith("user said: Please begin here.")
    assert line.text.endswith("keep the names.")
    assert COUNTER.count(line.text) < 150


def test_digest_without_entries_is_made_from_what_was_read():
    messages, _ = read_of(UserMessage(content="Hello.", source="user"))
    (line,) = digest_lines(messages, (), limit_tokens=PLENTY, counter=COUNTER)
    assert line.text == "user said: Hello."
    assert digest_lines([], [], limit_tokens=10, counter=COUNTER) == []


def test_digest_masks_credentials_of_results_and_calls():
    secret = "qX7vB2nM9k" + "L4pR8tZ1wC"
    lines = digest_of(
        asked(1, "run_shell", command=f"login --password {secret}"), answered(1, "run_shell", f"password={secret}")
    )
    assert secret[:8] not in lines[0].text
    assert "[credential]" in lines[0].text or "(credential)" in lines[0].text


@pytest.mark.parametrize("steps", [5, 40, 150])
@pytest.mark.parametrize("share", [0.02, 0.05, 0.1])
def test_digest_respects_its_limit_and_covers_every_message_once(steps: int, share: float):
    messages = long_session(steps)
    limit = max(200, int(share * sum(COUNTER.count(str(message.content)) for message in messages)))
    lines = digest_of(*messages, limit_tokens=limit)
    assert size_of(lines) <= limit + 40
    trail = [line for line in lines if line.text.startswith("Touched by tools")]
    covered = [
        position
        for line in lines
        if line not in trail
        for first, last in line.ranges
        for position in range(first, last)
    ]
    assert covered == list(range(len(messages)))
    assert trail == [] or trail[0].ranges == ((0, len(messages)),)


def test_digest_too_long_keeps_the_newest_and_the_names_of_the_rest():
    """Two thirds of room: the oldest calls are merged into lines of names, the user's words stay."""
    messages = long_session(40)
    whole = digest_of(*messages)
    lines = digest_of(*messages, limit_tokens=size_of(whole) * 2 // 3)
    assert whole[-8].text in {line.text for line in lines}
    assert sum(line.priority == "user" for line in lines) == sum(line.priority == "user" for line in whole)
    merged = lines[1]
    assert merged.ranges[0][1] - merged.ranges[0][0] > 2
    assert merged.text.count("src/part_") >= 2
    assert lines[-1].text.startswith("Touched by tools, by last action: read_file src/part_39/")


def logged(steps: int, chunk_size: int = 12) -> list[ObservationChunk]:
    lines = digest_of(*long_session(steps))
    lines = [
        ObservationLine(one.text, one.ranges, one.at, one.priority, one.kind, number + 1)
        for number, one in enumerate(lines)
    ]
    groups = [lines[start : start + chunk_size] for start in range(0, len(lines), chunk_size)]
    return [ObservationChunk(group[0].ranges[0][0], group[-1].ranges[-1][1], tuple(group)) for group in groups]


def _sources(chunks: list[ObservationChunk]) -> set[int]:
    return {
        position
        for chunk in chunks
        for line in chunk.lines
        for first, last in line.ranges
        for position in range(first, last)
    }


@pytest.mark.parametrize("limit_tokens", [3000, 1200, 400, 150])
def test_condensed_log_respects_its_limit_and_every_line_leads_to_its_messages(limit_tokens: int):
    chunks = logged(80)
    edits = digest_edits(chunks, limit_tokens=limit_tokens, counter=COUNTER)
    condensed = reflected_chunks(chunks, edits, 10_000)
    assert size_of([line for chunk in condensed for line in chunk.lines]) <= limit_tokens * 1.1 + 40
    assert _sources(condensed) == _sources(chunks)
    assert (condensed[0].first, condensed[-1].last) == (chunks[0].first, chunks[-1].last)


def test_condensing_a_log_leaves_its_newest_chunks_as_they_are():
    chunks = logged(80)
    size = sum(COUNTER.count(chunk.text) for chunk in chunks)
    condensed = reflected_chunks(chunks, digest_edits(chunks, limit_tokens=size // 2, counter=COUNTER), 10_000)
    assert condensed[-1] is chunks[-1]
    assert digest_edits(condensed, limit_tokens=size, counter=COUNTER) == ()


def test_log_condensed_ten_times_still_leads_to_every_message():
    chunks, made = logged(40), 1000
    sources = _sources(chunks)
    for generation in range(10):
        edits = digest_edits(chunks, limit_tokens=1500 - 100 * generation, counter=COUNTER)
        chunks = reflected_chunks(chunks, edits, made)
        made += len(edits)
        assert chunks
        assert _sources(chunks) == sources
    assert size_of([line for chunk in chunks for line in chunk.lines]) <= 700
