"""A session from its batches, whole or mended, and what was said before its history came."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from autogen_core.models import UserMessage

from memory_context.foundation.messages import Address
from memory_context.foundation.references import MemoryRef
from memory_context.sessions.archive.resume import messages_meanwhile, rebuild_transcript
from memory_context.sessions.transcript.codec import save_events
from memory_context.sessions.transcript.entries import Part, StoredPart
from memory_context.sessions.transcript.part_decisions import PartOffloaded, PartsCompacted
from memory_context.sessions.transcript.transcript import Transcript
from memory_context.sessions.transcript.view_decisions import ViewCleared
from memory_context.store.conversations import Archived, StoredBatch

BEGAN = datetime(2026, 1, 1, tzinfo=timezone.utc)
TEXT = Address("text", 0)


def transcript_of(count: int, first: int = 0) -> Transcript:
    transcript = Transcript()
    for number in range(first, first + count):
        message = UserMessage(content=f"message {number}", source="user")
        transcript.append(message, BEGAN + timedelta(seconds=number)).measure([Part(TEXT, 5)])
    return transcript


def batch(number: int, body: dict[str, Any], *, begins_anew: bool = False, is_intact: bool = True) -> StoredBatch:
    return StoredBatch(
        sequence=number,
        body=body,
        message_count=len(body.get("entries", ())),
        begins_anew=begins_anew,
        memory_keys=(),
        chat_ids=(),
        started_at=BEGAN,
        ended_at=BEGAN,
        sha256="",
        is_intact=is_intact,
        archived_at=BEGAN + timedelta(minutes=number),
    )


def batches_of(transcript: Transcript, *ends: int) -> list[StoredBatch]:
    """Return batches that each end before one of these positions."""
    found: list[StoredBatch] = []
    begin = 0
    for number, end in enumerate(ends):
        body = save_events(transcript, begin, len(transcript.log))
        found.append(batch(number, {**body, "entries": body["entries"][: end - begin]}))
        begin = end
    return found


def archived(*batches: StoredBatch, head: int | None = None, **others: Any) -> Archived:
    head = batches[-1].sequence if head is None else head
    return Archived(
        tuple(batches), head, **{"branch": "", "branches": (), "later_items": (), "session": None, **others}
    )


def said(transcript: Transcript) -> list[object]:
    return [entry.message.content for entry in transcript.entries(0)]


MESSAGES = [f"message {number}" for number in range(6)]
NOTES = ["[2 messages of this session are missing here: the archive does not have them.]"] * 2


def test_batches_without_a_gap_give_the_transcript_as_it_was():
    transcript, report, is_mended = rebuild_transcript(
        archived(*batches_of(transcript_of(6), 2, 4, 6), branches=("b",), later_items=(("k", 7),))
    )
    assert (said(transcript), is_mended) == (MESSAGES, False)
    assert (report.outcome, report.messages, report.batches) == ("resumed", 6, 3)
    assert report.archived_at == BEGAN + timedelta(minutes=2)
    assert (report.missing_batches, report.missing_messages, report.damaged_batches) == ((), 0, ())
    assert (report.branches, report.later_keys) == (("b",), ("k",))


def test_batch_that_does_not_begin_where_the_one_before_ends_is_behind_a_gap():
    """Such a batch was written behind another history: its decisions are about messages that are not there."""
    mine, other = batches_of(transcript_of(6), 2, 4, 6), batches_of(transcript_of(1), 1)
    transcript, report, is_mended = rebuild_transcript(archived(other[0], replace(mine[2], sequence=1)))
    gap = "[3 messages of this session are missing here: the archive does not have them.]"
    assert (said(transcript), is_mended) == ([MESSAGES[0], gap, gap, gap, *MESSAGES[4:]], True)
    assert transcript.state.shown <= transcript.end
    assert (report.missing_messages, report.is_complete) == (3, False)
    assert "3 messages are missing between its batches" in str(report)


@pytest.mark.parametrize(
    ("kept", "missing", "said_to_be"),
    [
        (
            (1, 2),
            (0,),
            [*NOTES, *MESSAGES[2:]],
        ),
        (
            (0, 2),
            (1,),
            [
                *MESSAGES[:2],
                *NOTES,
                *MESSAGES[4:],
            ],
        ),
        ((0, 1), (2,), MESSAGES[:4]),
    ],
    ids=["the first", "one between", "the last"],
)
def test_missing_batch_is_said_in_its_place_and_counted(
    kept: tuple[int, ...], missing: tuple[int, ...], said_to_be: list[str]
):
    """The messages of a missing last batch cannot be counted."""
    batches = batches_of(transcript_of(6), 2, 4, 6)
    transcript, report, is_mended = rebuild_transcript(archived(*(batches[number] for number in kept), head=2))
    assert (said(transcript), is_mended) == (said_to_be, True)
    assert report.missing_batches == missing
    assert report.missing_messages == (0 if missing == (2,) else 2)


def test_messages_behind_a_gap_keep_their_numbers_and_a_view_shows_one_note_for_all_of_it():
    """So items that name their message still find it."""
    batches = batches_of(transcript_of(9), 2, 7, 9)
    transcript, _, _ = rebuild_transcript(archived(batches[0], batches[2]))
    assert [transcript[position].message.content for position in (7, 8)] == ["message 7", "message 8"]
    shown = [entry.position for entry in transcript.shown()]
    assert shown == [0, 1, 2, 7, 8]


def test_batch_whose_numbers_are_damaged_is_left_out():
    first, second, _, last = batches_of(transcript_of(8), 2, 4, 6, 8)
    far = replace(second, body={**second.body, "first_position": 10**12}, is_intact=False)
    transcript, report, _ = rebuild_transcript(archived(first, far, last))
    assert [transcript[position].message.content for position in (0, 1, 6, 7)] == [
        f"message {number}" for number in (0, 1, 6, 7)
    ]
    assert (report.missing_batches, report.damaged_batches, report.missing_messages) == ((2,), (1,), 4)


def test_batch_that_begins_anew_needs_no_batches_before_it():
    """Nor does a batch that holds everything again."""
    whole = batch(5, save_events(transcript_of(4), 0, 0), begins_anew=True)
    later = batch(6, save_events(transcript_of(6), 4, 0))
    transcript, report, _ = rebuild_transcript(archived(whole, later))
    assert (said(transcript), report.missing_batches) == (MESSAGES, ())
    _, report, _ = rebuild_transcript(archived(whole, later, head=7))
    assert report.missing_batches == (7,)


def test_damaged_batch_is_left_out_and_named_and_a_whole_one_that_cannot_be_read_is_an_error():
    """A newer version wrote that: nothing of it may be taken for lost."""
    first, second, third = batches_of(transcript_of(6), 2, 4, 6)
    broken = replace(second, body={"entries": "nonsense"}, is_intact=False)
    transcript, report, is_mended = rebuild_transcript(archived(first, broken, third))
    assert said(transcript)[:2] == MESSAGES[:2]
    assert said(transcript)[-2:] == MESSAGES[4:]
    assert (is_mended, report.damaged_batches, report.missing_messages) == (True, (1,), 2)
    changed = replace(second, is_intact=False)  # its hash only: it can be read
    transcript, report, is_mended = rebuild_transcript(archived(first, changed, third))
    assert (said(transcript), is_mended, report.damaged_batches) == (MESSAGES, False, (1,))
    with pytest.raises(ValueError, match="version 99"):
        rebuild_transcript(archived(replace(first, body={**first.body, "version": 99}), second, third))


def test_cleared_messages_stay_in_the_archive_only():
    cleared = transcript_of(6)
    cleared.decide(ViewCleared(4))
    transcript, report, _ = rebuild_transcript(archived(batch(0, save_events(cleared, 0, 0))))
    assert (transcript.first, transcript.state.start, transcript.end) == (4, 4, 6)
    assert report.messages == 2


def test_items_of_messages_after_the_last_batch_are_later():
    """Messages are numbered from 1: number 6 is the last of six."""
    later_items = (("known", 6), ("later", 7), ("last", 9))
    _, report, _ = rebuild_transcript(archived(*batches_of(transcript_of(6), 6), later_items=later_items))
    assert report.later_keys == ("later", "last")


def test_messages_said_before_the_history_came_are_added_once_and_clears_stay_in_place():
    history = transcript_of(2)
    meanwhile = transcript_of(4, first=1)  # 1 is in the history already
    told = messages_meanwhile(meanwhile, 0, history)
    assert [(one[0].content, one[1]) if one else None for one in told] == [
        (f"message {number}", BEGAN + timedelta(seconds=number)) for number in (2, 3, 4)
    ]
    assert messages_meanwhile(meanwhile, 3, history) == told[2:]
    meanwhile.decide(ViewCleared(2))
    assert messages_meanwhile(meanwhile, 0, history) == [told[0], None, *told[1:]]
    assert messages_meanwhile(meanwhile, 3, history) == [None, told[2]]
    meanwhile.decide(ViewCleared(4))
    assert messages_meanwhile(meanwhile, 0, history) == [*told, None]


def test_message_said_before_the_history_came_refers_to_what_only_the_store_has():
    meanwhile = transcript_of(2, first=5)
    stored = StoredPart((MemoryRef("key", "an item", 5),), "the reference", 5)
    meanwhile.decide(PartOffloaded(0, TEXT, stored))
    meanwhile.decide(PartOffloaded(1, TEXT, stored))
    meanwhile.decide(PartsCompacted(((0, TEXT),), "budget"))
    told = messages_meanwhile(meanwhile, 0, Transcript())
    assert [one[0].content for one in told if one] == ["the reference", "message 6"]
