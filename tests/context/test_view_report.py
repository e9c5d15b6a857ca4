"""What `explain()` says of two views: each difference with its decision, the stable head, a table for people."""

from autogen_core.models import UserMessage

from memory_context.foundation.messages import Address
from memory_context.foundation.references import MemoryRef
from memory_context.sessions.transcript.entries import Part
from memory_context.sessions.transcript.part_decisions import PartsCompacted
from memory_context.sessions.transcript.transcript import Decided, Transcript
from memory_context.sessions.transcript.values import Arithmetic
from memory_context.sessions.transcript.view_decisions import ExpansionWithdrawn, HistoryFolded, ViewCleared, ViewShown
from memory_context.view.explain import SegmentChange, ViewReport, report, stable_tokens
from memory_context.view.view import MessageList, Segment, View, ViewMessage

RESULT = Address("result", 0)
SUM = Arithmetic(1200, 3400, 6, -56.4)


def segment(position: int, state: str = "full", kind: str = "result", tokens: int = 10, **others: object) -> Segment:
    full_tokens = int(str(others.pop("full_tokens", tokens)))
    return Segment(position, "survey", kind, 0, state, tokens, full_tokens, **others)  # type: ignore[arg-type]


def message(*segments: Segment, text: str = "text") -> ViewMessage:
    tokens = sum(one.tokens for one in segments) + 4
    return ViewMessage(
        segments[0].position, UserMessage(content=text, source="user"), tokens, segments, segments[0].position
    )


def view_of(*messages: ViewMessage) -> View:
    """Return a view of a renderer of its own."""
    shared = MessageList()
    shared.replace(0, 0, messages)
    return shared.newest()


def view(*segments: Segment) -> View:
    return view_of(*map(message, segments))


def changes(before: View, after: View, transcript: Transcript) -> list[tuple[int, str | None, str | None, str]]:
    told = report(transcript, before, after, None).changes
    return [(change.position, change.before, change.after, change.reason) for change in told]


def transcript_of(messages: int) -> Transcript:
    transcript = Transcript.of(UserMessage(content=f"message {number}", source="user") for number in range(messages))
    for entry in transcript.entries():
        entry.measure([Part(RESULT, 10, is_result=True)])
    return transcript


def test_change_is_a_segment_that_came_went_or_differs_in_state_or_size():
    """In order of position; what is as it was is not told."""
    transcript = transcript_of(6)
    before = view(segment(0), segment(1), segment(2), segment(3, "excerpt"), segment(5, "shortened"))
    after = view(segment(0), segment(2, tokens=9), segment(3), segment(4), segment(5, "shortened", tokens=5))
    assert changes(before, after, transcript) == [
        (1, "full", None, "repeated"),
        (2, "full", "full", "stored"),
        (3, "excerpt", "full", "stored"),
        (4, None, "full", "added"),
        (5, "shortened", "shortened", "budget"),
    ]


def test_reason_is_the_decision_behind_a_change():
    """Of a compaction its own reason; before anything else, that it was cleared or folded."""
    transcript = transcript_of(8)
    transcript.decide(ViewShown(8))
    transcript.decide(PartsCompacted(((6, RESULT),), "saves"))
    transcript.decide(HistoryFolded(2, (0,), MemoryRef("fold", "two messages", 5), "folded", 5))
    before = view(segment(1), segment(4, "expanded", "expansion"), segment(5), segment(6), segment(7))
    after = view(
        segment(1, "folded", "fold"),
        segment(3, "expanded", "expansion", why="named by user"),
        segment(5, "placeholder"),
        segment(6, "placeholder"),
    )
    assert sorted(changes(before, after, transcript), key=lambda change: (change[0], str(change[2]))) == [
        (1, "full", None, "folded"),
        (1, None, "folded", "folded"),
        (3, None, "expanded", "named by user"),
        (4, "expanded", None, "withdrawn"),
        (5, "full", "placeholder", "consumed"),
        (6, "full", "placeholder", "saves"),
        (7, "full", None, "repeated"),
    ]
    new = view(segment(7, "placeholder"))
    assert changes(View(), new, transcript) == [(7, None, "placeholder", "added")], "it never stood there whole"
    transcript.decide(ViewCleared(8))
    assert {reason for *_, reason in changes(before, View(), transcript)} == {"cleared"}


def test_stable_head_ends_at_the_first_message_that_differs():
    """In tokens of the messages before it, equal or the same; what comes equal again does not count."""
    one, two, three = (message(segment(number, tokens=number * 10), text=str(number)) for number in (1, 2, 3))
    equal = message(segment(1, tokens=10), text="1")
    changed = message(segment(2, tokens=20), text="changed")
    assert stable_tokens(view_of(one, two, three), view_of(equal, two, three)) == 14 + 24 + 34
    assert stable_tokens(view_of(one, two, three), view_of(one, changed, three)) == 14
    assert stable_tokens(view_of(one, two), view_of(one)) == stable_tokens(view_of(one), view_of(one, two)) == 14
    assert stable_tokens(View(), view_of(one)) == 0


def test_report_lists_decisions_between_the_last_two_views():
    transcript = transcript_of(8)
    transcript.decide(PartsCompacted(((1, RESULT),), "budget"))
    transcript.decide(ViewShown(6))
    transcript.decide(PartsCompacted(((2, RESULT), (3, RESULT)), "saves", SUM))
    transcript.decide(ExpansionWithdrawn(((0, "turn"),), "planned"))
    transcript.decide(ViewShown(8))
    transcript.decide(PartsCompacted(((4, RESULT),), "consumed"))
    assert report(transcript, View(), View(), None).decisions == (
        Decided("compacted", "saves", 2, SUM),
        Decided("withdrawn", "planned", 1, None),
    )
    assert report(transcript_of(1), View(), View(), None).decisions == ()


def test_report_is_a_table_for_people():
    """Sizes of what is not whole beside the whole; of each segment why it is there or what it refers to."""
    text = str(
        ViewReport(
            segments=(
                segment(0, "placeholder", tokens=20, full_tokens=4321, keys=("key_1", "key_2")),
                segment(1, "expanded", "expansion", tokens=1234, keys=("key_3",), why="key_3: named by user"),
            ),
            tokens=1254,
            stable_tokens=1000,
            token_budget=16000,
            changes=(
                SegmentChange(0, "result", "full", "placeholder", "saves"),
                SegmentChange(1, "expansion", None, "expanded", "named"),
                SegmentChange(2, "text", "full", None, "cleared"),
            ),
            decisions=(Decided("compacted", "saves", 2, SUM), Decided("folded", "budget", 3, None)),
        )
    )
    assert text.splitlines() == [
        "view: 1,254 tokens of 16,000, 1,000 unchanged at its head",
        "    1  placeholder result    survey                    20 of 4,321  key_1 key_2",
        "    2  expanded    expansion survey                 1,234  key_3: named by user",
        "changed: message 1 result: full -> placeholder (saves)",
        "changed: message 2 expansion: - -> expanded (named)",
        "changed: message 3 text: full -> - (cleared)",
        "decided: compacted 2 (saves): 1,200 tokens less in each of 6 calls expected, 3,400 read anew once; net -56",
        "decided: folded 3 (budget)",
    ]
    assert str(ViewReport((), 0, 0, None, ())) == "view: 0 tokens, 0 unchanged at its head"
