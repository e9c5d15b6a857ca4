"""The history as text: keys of folds, messages as text, and pages that follow each other without gap or overlap."""

import re
from collections.abc import Mapping

import pytest
from autogen_core import FunctionCall
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    SystemMessage,
    UserMessage,
)

from memory_context.foundation.messages import Address, texts_of
from memory_context.foundation.references import MemoryRef
from memory_context.foundation.tokens import default_token_counter
from memory_context.sessions.transcript.entries import Part, StoredPart
from memory_context.sessions.transcript.transcript import Transcript
from memory_context.sessions.transcript.view_decisions import ViewCleared
from memory_context.view.history import HistoryPage, PageRequest, fold_key, folded_text, history_text, read_history

counter = default_token_counter()
TAG = "abcdef"


def page_of(transcript: Transcript, first: int, limit_tokens: int = 1000, character: int = 1) -> HistoryPage:
    return read_history(transcript, PageRequest(first, character), limit_tokens, counter)


def text_of(page: HistoryPage) -> str:
    """Return a page with its footer, as tools show it."""
    return f"{page.text}\n{page.footer(call)}"


def call(arguments: Mapping[str, int]) -> str:
    return f"read_history({', '.join(f'{name}={value}' for name, value in arguments.items())})"


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
        page = page_of(transcript, first, limit_tokens)
        assert page.first == first
        assert counter.count(text_of(page)) <= limit_tokens
        *texts, footer = text_of(page).splitlines()
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
    page = page_of(transcript, 1, 500)
    assert (page.first, page.last) == (1, 1)
    assert text_of(page).endswith("[messages 1-1 of 3. Next: read_history(first_message=2)]")
    whole, read, position = history_text(transcript[1]), "", 1
    while True:
        page = page_of(transcript, 2, 500, position)
        piece, _, footer = text_of(page).rpartition("\n")
        read += piece
        assert counter.count(text_of(page)) <= 500
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
    page = page_of(transcript_of("word " * 500), 1, 10)
    assert text_of(page).startswith("(\n[message 1: characters 1-1 of ")


def test_missing_message_is_refused_with_the_available_ones():
    transcript = transcript_of("a", "b", "c")
    for number in (0, -1, 4):
        with pytest.raises(ValueError, match=f"there is no message {number}; this session has messages 1-3"):
            page_of(transcript, number)
    transcript.decide(ViewCleared(1))
    with pytest.raises(ValueError, match="there is no message 1; this session has messages 2-3"):
        page_of(transcript, 1)
    assert page_of(transcript, 2).text.startswith("(2) user said:\nb")
    transcript.decide(ViewCleared(3))
    with pytest.raises(ValueError, match="this session has no messages yet"):
        page_of(transcript, 3)


def test_words_show_one_masked_line_for_each_text():
    secret = "sk-proj-" + "a1B2c3D4" * 6
    calls = [FunctionCall(id=name, name=name, arguments='{"a": 1}') for name in ("look", "find")]
    transcript = Transcript.of(
        [
            UserMessage(content=f"Use {secret}\nand {'many words ' * 50}near the harbour", source="user"),
            AssistantMessage(content=calls, source="coder", thought="Let me see."),
        ]
    )
    for entry in transcript.entries():
        entry.measure([Part(address, counter.count(text)) for address, text in texts_of(entry.message)])
    page = read_history(transcript, PageRequest(words=("many",)), 1000, counter)
    first, *others = page.text.splitlines()
    at = f"{transcript[0].added_at:%Y-%m-%d %H:%M}"
    assert first.startswith(f"(1) {at} user said: Use [credential] and many words")
    assert re.search(r"… \(\d+ tokens\)$", first)
    assert [re.sub(at[:-2] + r"\d\d ", "", line) for line in others] == [
        "(2.1) coder thought: Let me see.",
        '(2.2) coder called look with: {"a": 1}',
        '(2.3) coder called find with: {"a": 1}',
    ]
    found = read_history(transcript, PageRequest(words=("harbour",), limit=1), 1000, counter)
    assert "near the harbour" in found.text
    assert found.following == {"first_message": 2}
