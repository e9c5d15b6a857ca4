"""Whether a session goes on from its archive or from a saved state, and how far that is archived."""

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from autogen_core.models import UserMessage

from memory_context.foundation.identifiers import SessionKey
from memory_context.foundation.messages import Address
from memory_context.foundation.references import MemoryRef
from memory_context.sessions.archive.cursor import ArchiveCursor, BatchCursor, contains, next_batch
from memory_context.sessions.archive.resume import ResumedSession, ResumeReport
from memory_context.sessions.transcript.entries import Part, StoredPart
from memory_context.sessions.transcript.part_decisions import PartOffloaded
from memory_context.sessions.transcript.transcript import Transcript
from memory_context.sessions.transcript.values import OpenedItem
from memory_context.sessions.transcript.view_decisions import ExpansionShown, ViewCleared
from memory_context.store.conversations import ChatMessage

KEY = SessionKey("alice", "coder", "s")
BEGAN = datetime(2026, 1, 1, tzinfo=timezone.utc)


def transcript_of(*seconds: int, cleared: bool = False) -> Transcript:
    """Return a transcript of messages that were added at these times."""
    transcript = Transcript()
    for at in seconds:
        entry = transcript.append(UserMessage(content=f"at {at}", source="user"), BEGAN + timedelta(seconds=at))
        entry.measure([Part(Address("text", 0), 5)])
    if cleared:
        transcript.decide(ViewCleared(transcript.end))
    return transcript


def archived(sequence: int, *seconds: int, outcome: str = "resumed", cleared: bool = False) -> ResumedSession:
    at = BatchCursor(sequence, position=len(seconds))
    return ResumedSession(KEY, transcript_of(*seconds, cleared=cleared), ArchiveCursor(at), ResumeReport(outcome))  # type: ignore[arg-type]


def saved(at: BatchCursor | None, *seconds: int, cleared: bool = False) -> ResumedSession:
    return ResumedSession(KEY, transcript_of(*seconds, cleared=cleared), ArchiveCursor(at), ResumeReport("state"))


@pytest.mark.parametrize(
    ("archive", "state", "is_newer"),
    [
        (archived(2, 1, 2, 3), saved(BatchCursor(1), 1, 2), True),
        (archived(2, 1, 2, 3), saved(BatchCursor(1), 1, 3), True),
        (archived(2, 1, 2, 3), saved(BatchCursor(2), 1, 2), False),
        (archived(2, 1, 2, 3), saved(BatchCursor(3), 1, 2), False),
        (archived(2, 1, 2), saved(BatchCursor(1), 1, 2, 3), False),
        (archived(2, 1, 2), saved(None, 1), True),
        (archived(0, 1, 2), saved(None, 1, 3), False),
        (archived(0, 1), saved(BatchCursor(-1)), True),
        (archived(2, 1, 2, 3), saved(BatchCursor(1, "branch"), 1, 2), True),
        (archived(2, 1, 2, 4), saved(BatchCursor(1), 1, 3), False),
        (archived(2, 1, 2, 4), saved(BatchCursor(1, "branch"), 1, 3), False),
        (archived(2, 1, 2, 3, outcome="unreadable"), saved(BatchCursor(1), 1, 2), False),
        (archived(2, 1, 2, 3, outcome="new"), saved(BatchCursor(1), 1, 2), False),
        (archived(2, 1, 2, 3), saved(BatchCursor(1), 1, 2, cleared=True), False),
        (archived(2, 1, 2, 3, cleared=True), saved(BatchCursor(1), 1, 2, cleared=True), True),
    ],
    ids=[
        "a later batch",
        "a later batch of the same time",
        "the same batch",
        "an earlier batch",
        "a later batch without the last message",
        "a state that knows no batch",
        "a state that knows no batch and a later message",
        "a state with nothing in it",
        "a state on a branch that the archive continues",
        "a line that differs",
        "a branch that differs",
        "an archive that cannot be read",
        "no archive",
        "a clear that the archive does not know",
        "a clear that both know",
    ],
)
def test_archive_is_newer_than_a_saved_state_by_batch_clear_and_last_message(
    archive: ResumedSession, state: ResumedSession, is_newer: bool
):
    assert archive.is_newer_than(state) is is_newer


def test_saved_transcript_goes_on_where_it_was_archived():
    """Right behind the last batch; if the archive has another, all is written anew, or beside a line that differs."""
    archive = archived(2, 1, 2, 3)
    same = saved(BatchCursor(2, position=3, decision=1), 1, 2, 3)
    assert archive.cursor_for(same) == same.cursor
    for known in (BatchCursor(1, position=2, decision=1), BatchCursor(3), BatchCursor(1, "branch", position=2), None):
        for seconds in ((1, 2), (1, 2, 3, 4), ()):  # went back, or goes on
            expected = BatchCursor(2, position=0, decision=0, begins_anew=True)
            assert archive.cursor_for(saved(known, *seconds)).batch == expected
        beside = archive.cursor_for(saved(known, 1, 2, 4)).batch
        assert beside is not None
        assert beside == BatchCursor(branch=beside.branch, begins_anew=True)
        assert beside.branch not in ("", "branch")
    unknown = replace(archive, cursor=ArchiveCursor(None))
    assert unknown.cursor_for(saved(BatchCursor(1))) == ArchiveCursor(BatchCursor(1))
    mended = replace(archive, cursor=ArchiveCursor(BatchCursor(2, begins_anew=True)))
    assert mended.cursor_for(saved(BatchCursor(2, position=3), 1, 2, 3)).batch == BatchCursor(2, begins_anew=True)


def test_batch_holds_what_follows_a_place_or_everything_and_names_its_items():
    """Each item once, in the order in which it came up, both stored and opened ones."""
    transcript = transcript_of(1, 2, 3)
    refs = [MemoryRef(f"k{number}", "an item", 5) for number in range(3)]
    transcript.decide(PartOffloaded(0, Address("text", 0), StoredPart((refs[0],), "compacted", 2)))
    transcript.decide(PartOffloaded(2, Address("text", 0), StoredPart((refs[1], refs[0]), "compacted", 2)))
    transcript.decide(ExpansionShown(2, "text", 3, (OpenedItem("k2", "named", ""), OpenedItem("k1", "named", ""))))
    after = next_batch(BatchCursor(4, position=1, decision=1), transcript, new_messages=2, chat_ids={"b", "a"})
    assert (after.sequence, after.begins_anew, after.message_count) == (5, False, 2)
    assert (after.memory_keys, after.chat_ids) == (("k1", "k0", "k2"), ("a", "b"))
    assert (after.started_at, after.ended_at) == (BEGAN + timedelta(seconds=2), BEGAN + timedelta(seconds=3))
    assert len(after.body["entries"]) == 2
    anew = next_batch(BatchCursor(4, position=1, decision=1, begins_anew=True), transcript, new_messages=0, chat_ids=())
    assert (anew.sequence, anew.begins_anew, anew.memory_keys) == (5, True, ("k0", "k1", "k2"))
    assert (anew.started_at, len(anew.body["entries"])) == (BEGAN + timedelta(seconds=1), 3)
    decisions = next_batch(BatchCursor(4, position=3, decision=1), transcript, new_messages=0, chat_ids=())
    assert decisions.started_at == decisions.ended_at == BEGAN + timedelta(seconds=3), "the newest message"


def test_transcript_holds_entries_of_the_same_place_and_time_only():
    whole = transcript_of(1, 2, 3)
    assert contains(whole, transcript_of(1, 2).entries())
    assert contains(whole, [])
    assert not contains(whole, transcript_of(1, 3).entries())
    assert not contains(whole, transcript_of(1, 2, 3, 4).entries())
    later = Transcript(1)
    later.append(UserMessage(content="at 2", source="user"), BEGAN + timedelta(seconds=2))
    assert contains(whole, later.entries())
    assert contains(later, whole.entries()[:2]), "what came before it was cleared"
    assert not contains(later, whole.entries()[:1]), "they have no position in common"


def test_cursor_comes_back_from_a_state_and_nonsense_is_refused():
    chat = (ChatMessage("m1", "said \x00", "user", BEGAN),)
    cursor = ArchiveCursor(BatchCursor(2, "branch", 3, 0, True), {"m1": 2}, chat)
    state = cursor.to_state(transcript_of(1, 2, 3), with_cleared=True)
    assert ArchiveCursor.from_state(state) == cursor
    assert ArchiveCursor.from_state(None) == ArchiveCursor(None)
    assert ArchiveCursor.from_state({**state, "line": None}).batch is None
    for broken in ({}, {**state, "delivered": 5}, {**state, "line": {"unknown": 1}}, {**state, "chat": [{}]}):
        with pytest.raises(ValueError, match="no saved state, or it was cut"):
            ArchiveCursor.from_state(broken)


def test_state_of_a_cursor_is_json_in_utf_8_whatever_was_said():
    """Half surrogates are spelled, and come back as they were."""
    said = ChatMessage("m1", "half a pair \ud800", "user", BEGAN)
    state = ArchiveCursor(chat=(said,)).to_state(transcript_of(1), with_cleared=False)
    text = json.dumps(state, ensure_ascii=False).encode()
    assert ArchiveCursor.from_state(json.loads(text)).chat == (said,)


def test_cleared_words_are_archived_with_the_decision_that_cleared_them():
    transcript = transcript_of(1, 2)
    assert ArchiveCursor(None).has_cleared(transcript), "nothing was cleared"
    transcript.decide(ViewCleared(2))
    assert not ArchiveCursor(None).has_cleared(transcript)
    assert not ArchiveCursor(BatchCursor(0, decision=0)).has_cleared(transcript)
    assert ArchiveCursor(BatchCursor(0, decision=1)).has_cleared(transcript)
    assert not ArchiveCursor(BatchCursor(0, decision=1, begins_anew=True)).has_cleared(transcript)


def test_report_says_what_is_missing():
    """In one line; complete is what lacks nothing."""
    whole = ResumeReport("resumed", 7, 2, BEGAN)
    assert str(whole) == "7 messages from 2 batches; the last of 2026-01-01 00:00:00 UTC"
    assert whole.is_complete
    parts = {
        "missing_batches": (1, 2),
        "damaged_batches": (3, 4),
        "later_keys": ("k1", "k2"),
        "branches": ("b",),
    }
    for name, value in parts.items():
        assert not replace(whole, **{name: value}).is_complete
    assert str(replace(whole, archived_at=None, missing_messages=5, **parts)) == (
        "7 messages from 2 batches; batches 1, 2 are missing, with 5 messages; batches 3, 4 are not what was written; "
        "items stored after it, whose messages are missing: k1, k2; "
        "it was continued otherwise too, and that is archived beside it: branch b"
    )
    assert str(ResumeReport("state", 3)) == "3 messages from a saved state"
    for outcome in ("new", "pending", "unreadable", "off"):
        assert str(ResumeReport(outcome))
