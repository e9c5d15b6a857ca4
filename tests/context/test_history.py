"""The history as text: keys of folds, messages as text, and pages that follow each other without gap or overlap."""

import pytest
from autogen_core import FunctionCall
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    SystemMessage,
    UserMessage,
)

from memory_context.messages import Address
from memory_context.references import MemoryRef
from memory_context.tokens import default_token_counter
from memory_context.transcript import Part, StoredPart, Transcript, ViewCleared
from memory_context.view.history import fold_key, folded_text, history_text, read_history

counter = default_token_counter()
TAG = "abcdef"


def transcript_of(*texts: str) -> Transcript:
    return Transcript.of(UserMessage(content=text, source="user") for text in texts)


def test_key_of_a_fold_opens_exactly_its_messages_in_its_session():
    """Numbers count from 1; what another session, a clear or nobody folded is none of its keys."""
    transcript = transcript_of("a", "b", "c", "d")
    key = fold_key(TAG, 1, 2)
    assert key == "history_2-3_abcdef"
    assert folded_text(transcript, TAG, key) == "(2) user said:\nb\n(3) user said:\nc"
    assert folded_text(transcript, TAG, fold_key(TAG, 0, 3)) == "\n".join(
        f"({number}) user said:\n{text}" for number, text in enumerate("abcd", 1)
    )
    for other in (
        "history_2-3_fedcba",
        "history_2-5_abcdef",
        "history_0-2_abcdef",
        "history_3-2_abcdef",
        "history_2_abcdef",
        "history_-3_abcdef",
        "history_2-x_abcdef",
        "2-3_abcdef",
        "survey_2-3_abcdef",
    ):
        assert folded_text(transcript, TAG, other) is None, other
    transcript.decide(ViewCleared(1))
    assert folded_text(transcript, TAG, key) is not None
    assert folded_text(transcript, TAG, fold_key(TAG, 0, 2)) is None
    assert folded_text(transcript, TAG, "history_3-3_abcdef") == "(3) user said:\nc"


def test_message_as_text_says_who_said_what_and_shows_stored_parts_by_their_reference():
    transcript = Transcript()
    transcript.append(SystemMessage(content="Be brief."))
    calls = [FunctionCall(id=name, name=name, arguments=f'{{"{name}": 1}}') for name in ("look", "find")]
    transcript.append(AssistantMessage(content=calls, source="coder", thought="Let me see."))
    results = [
        FunctionExecutionResult(content=f"{name} result", name=name, call_id=name, is_error=name == "find")
        for name in ("look", "find")
    ]
    entry = transcript.append(FunctionExecutionResultMessage(content=results))
    stored = StoredPart((MemoryRef("key", "an item", 100),), "look succeeded. [MemoryRef]", 5)
    entry.measure([Part(Address("result", 0), 100, stored=stored), Part(Address("result", 1), 5)])
    transcript.append(AssistantMessage(content="Seen.", source="coder"))
    transcript.append(UserMessage(content="Thanks.", source="user"))
    assert "\n".join(history_text(entry) for entry in transcript.entries()).splitlines() == [
        "(1) system said:",
        "Be brief.",
        "(2) coder thought:",
        "Let me see.",
        "(2) coder called look with:",
        '{"look": 1}',
        "(2) coder called find with:",
        '{"find": 1}',
        "(3) result of look:",
        "look succeeded. [MemoryRef]",
        "(3) result of find, an error:",
        "find result",
        "(4) coder answered:",
        "Seen.",
        "(5) user said:",
        "Thanks.",
    ]


@pytest.mark.parametrize("limit_tokens", [100, 130, 200, 1000])
def test_pages_follow_each_other_and_keep_their_limit(limit_tokens: int):
    """As many messages on each as fit; the last one says that it is all."""
    transcript = transcript_of(*(f"message number {number} with some words in it" for number in range(40)))
    first, seen = 1, list[str]()
    while True:
        page = read_history(transcript, first, limit_tokens, counter)
        assert page.first == first
        assert counter.count(page.text) <= limit_tokens
        *texts, footer = page.text.splitlines()
        seen += texts
        assert footer.startswith(f"[messages {first}-{page.last} of 40.")
        if page.last == 40:
            assert footer.endswith(" That is all.]")
            break
        assert footer.endswith(f" Next: read_history(first_message={page.last + 1})]")
        following = counter.count(history_text(transcript[page.last]))
        assert sum(map(counter.count, texts)) + following + 80 + len(texts) > limit_tokens, "one more had fitted"
        first = page.last + 1
    assert seen == [line for entry in transcript.entries() for line in history_text(entry).splitlines()]


def test_long_message_is_continued_at_its_next_character():
    """On a page of its own: what stands before it comes first."""
    long = " ".join(f"word{number}" for number in range(2000))
    transcript = transcript_of("short", long, "short again")
    page = read_history(transcript, 1, 500, counter)
    assert (page.first, page.last) == (1, 1)
    assert page.text.endswith("[messages 1-1 of 3. Next: read_history(first_message=2)]")
    whole, read, position = history_text(transcript[1]), "", 1
    while True:
        page = read_history(transcript, 2, 500, counter, position)
        piece, _, footer = page.text.rpartition("\n")
        read += piece
        assert counter.count(page.text) <= 500
        assert (page.first, page.last) == (2, 2)
        if footer == "[messages 2-2 of 3. Next: read_history(first_message=3)]":
            break
        end = position + len(piece) - 1
        assert footer == (
            f"[message 2: characters {position}-{end} of {len(whole)}. "
            f"Next: read_history(first_message=2, first_character={end + 1})]"
        )
        position = end + 1
    assert read == whole


def test_page_has_one_character_at_least():
    """However small the limit, following the pages comes to an end."""
    page = read_history(transcript_of("word " * 500), 1, 10, counter)
    assert page.text.startswith("(\n[message 1: characters 1-1 of ")


def test_missing_message_is_refused_with_the_available_ones():
    transcript = transcript_of("a", "b", "c")
    for number in (0, -1, 4):
        with pytest.raises(ValueError, match=f"there is no message {number}; this session has messages 1-3"):
            read_history(transcript, number, 1000, counter)
    transcript.decide(ViewCleared(1))
    with pytest.raises(ValueError, match="there is no message 1; this session has messages 2-3"):
        read_history(transcript, 1, 1000, counter)
    assert read_history(transcript, 2, 1000, counter).text.startswith("(2) user said:\nb")
    transcript.decide(ViewCleared(3))
    with pytest.raises(ValueError, match="this session has no messages yet"):
        read_history(transcript, 3, 1000, counter)
