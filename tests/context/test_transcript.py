"""What messages and decisions add up to: the task, what is consumed, the texts that are kept, what is not shown."""

import pytest
from autogen_core import FunctionCall
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    SystemMessage,
    UserMessage,
)

from memory_context.foundation.messages import Address
from memory_context.foundation.references import MemoryRef
from memory_context.sessions.transcript.entries import Entry, Part, StoredPart
from memory_context.sessions.transcript.part_decisions import (
    CompactedTextChosen,
    FirstViewChosen,
    PartOffloaded,
    PartsCompacted,
    PartShortened,
)
from memory_context.sessions.transcript.transcript import Decision, Transcript
from memory_context.sessions.transcript.view_decisions import (
    ExpansionShown,
    ExpansionWithdrawn,
    HistoryFolded,
    ViewCleared,
    ViewShown,
)

TEXT, RESULT, ARGUMENTS = Address("text", 0), Address("result", 0), Address("arguments", 0)
REF = MemoryRef("key", "an item", 100)
WHOLE = StoredPart((REF,), "compacted", 5, "excerpt", 40)


def user(text: str, source: str = "user") -> UserMessage:
    return UserMessage(content=text, source=source)


def agent(text: str = "Yes.") -> AssistantMessage:
    return AssistantMessage(content=text, source="coder")


def call(name: str = "1", arguments: str = "{}") -> AssistantMessage:
    return AssistantMessage(content=[FunctionCall(id=name, name="look", arguments=arguments)], source="coder")


def result(name: str = "1", content: str = "a long result") -> FunctionExecutionResultMessage:
    one = FunctionExecutionResult(content=content, name="look", call_id=name, is_error=False)
    return FunctionExecutionResultMessage(content=[one])


def parts_of(message: LLMMessage) -> list[Part]:
    if isinstance(message, FunctionExecutionResultMessage):
        return [Part(RESULT, 100, is_result=True)]
    return [Part(ARGUMENTS if isinstance(message.content, list) else TEXT, 10)]


def transcript_of(*events: LLMMessage | Decision | str) -> Transcript:
    """Return a transcript of messages, decisions, and "show" for a view that is handed out."""
    transcript = Transcript()
    for event in events:
        if event == "show":
            transcript.decide(ViewShown(transcript.end))
        elif isinstance(event, (UserMessage, SystemMessage, AssistantMessage, FunctionExecutionResultMessage)):
            transcript.append(event).measure(parts_of(event))
        else:
            assert not isinstance(event, str)
            transcript.decide(event)
    return transcript


STEP = (user("Go."), "show", call(), result())
"""A call at position 1, its result at 2, which no view has shown."""


def texts(entry: Entry) -> list[str | None]:
    return [entry.text(part.address) for part in entry.measured]


# --- positions


def test_entries_are_counted_from_the_first_held():
    """Those from the beginning of the view on unless told otherwise; an entry that is not held is an error."""
    transcript = Transcript(5)
    assert (transcript.first, transcript.end, transcript.entries()) == (5, 5, [])
    for text in ("a", "b", "c"):
        transcript.append(user(text))
    assert [entry.position for entry in transcript.entries()] == [5, 6, 7]
    assert [entry.position for entry in transcript.entries(6)] == [6, 7]
    assert [entry.position for entry in transcript.entries(0, 6)] == [5]
    assert transcript.entries(0, 3) == []
    assert transcript[5].position == 5
    with pytest.raises(IndexError, match="message 5 is not held; the oldest is 6"):
        transcript[4]
    transcript.decide(ViewCleared(7))
    assert [entry.position for entry in transcript.entries()] == [7]
    assert [entry.position for entry in transcript.entries(end=6)] == []


@pytest.mark.parametrize(
    ("messages", "task"),
    [
        ((SystemMessage(content="Be brief."),), None),
        ((user("One."), agent(), user("Two."), agent()), 2),
        ((user("Ours.", "helper"), user("One."), user("Theirs.", "helper")), 1),
        ((SystemMessage(content="Be brief."), user("First.", "helper"), user("Second.", "critic"), agent()), 1),
        ((user("One."), ViewCleared(1), user("Theirs.", "helper")), 1),
        ((user("One."), ViewCleared(1)), None),
    ],
)
def test_task_is_the_users_latest_word_or_the_first_message_to_the_agent(
    messages: tuple[LLMMessage | Decision, ...], task: int | None
):
    assert transcript_of(*messages).task(["user"]) == task


def test_result_knows_the_call_it_answers():
    transcript = transcript_of(user("Go."), call("7", '{"a": 1}'), result("7"), result("unknown"))
    answered = transcript.call_answered_by(2, 0)
    assert answered is not None
    assert answered.arguments == '{"a": 1}'
    assert transcript.call_answered_by(3, 0) is None


# --- consumed


def test_result_is_consumed_when_a_view_that_showed_it_is_answered():
    """Neither a view alone does it, nor an answer to the view before."""
    stored = PartOffloaded(2, RESULT, WHOLE)
    transcript = transcript_of(*STEP, stored)
    assert (transcript.state.consumed, transcript.state.answered_whole) == (1, set())
    transcript.append(agent())
    assert transcript.state.answered_whole == set(), "no view has shown it"
    transcript = transcript_of(*STEP, stored, "show")
    assert transcript.state.answered_whole == set()
    transcript.append(user("And?"))
    assert transcript.state.answered_whole == set(), "that is no answer"
    transcript.append(agent())
    state = transcript.state
    assert state.answered_whole == {(2, RESULT)}
    assert (state.answered_from, state.consumed, state.shown) == (1, 3, 3)
    assert (state.answered, state.answers, state.own_answer) == (5, 2, 4)


def test_first_view_of_a_result_that_no_view_has_shown_is_not_chosen_again():
    """An answer to the view before forgets the first views of what it consumed only."""
    chosen = FirstViewChosen(2, RESULT, 9, "shorter")
    transcript = transcript_of(*STEP, PartOffloaded(2, RESULT, WHOLE), chosen, ViewShown(2), agent())
    assert (transcript.state.consumed, transcript.state.first_views) == (2, {(2, RESULT)})
    transcript.decide(ViewShown(3))
    transcript.append(agent())
    assert transcript.state.first_views == set()


def test_any_message_consumes_the_view_in_a_context_without_answers():
    """As in that of a SelectorGroupChat; after a first answer it is as usual."""
    transcript = transcript_of(user("One.", "helper"), "show", user("Two.", "helper"))
    assert transcript.state.consumed == 1
    assert transcript.state.own_answer == -1
    transcript = transcript_of(user("One."), agent(), "show", user("Two.", "helper"))
    assert transcript.state.consumed == 0


def test_answer_without_a_view_before_it_is_not_the_agents_own():
    """A hand-off brings those of others."""
    transcript = transcript_of(user("One."), agent("Another agent's."))
    assert (transcript.state.own_answer, transcript.state.answers) == (-1, 1)
    assert not transcript.append(user("printed", "coder")).carries_result
    transcript = transcript_of(user("One."), "show", agent())
    assert transcript.state.own_answer == 1
    assert transcript.append(user("printed", "coder")).carries_result, "the output of its code"
    assert not transcript.append(user("said", "coder")).carries_result, "something stands between"


def test_result_stored_after_its_answer_waits_to_be_compacted_without_an_excerpt():
    transcript = transcript_of(*STEP, "show", agent(), PartOffloaded(2, RESULT, WHOLE))
    assert transcript.state.answered_whole == {(2, RESULT)}
    stored = transcript[2].part(RESULT).stored
    assert stored is not None
    assert (stored.excerpt, stored.excerpt_tokens, stored.compacted) == (None, 40, "compacted")


# --- texts


def test_compacted_part_keeps_no_text_in_the_process_and_counts_as_compacted_once():
    """Another part's text stays; in the log there is no excerpt, since it would be kept for ever."""
    transcript = transcript_of(*STEP, PartOffloaded(2, RESULT, WHOLE), "show", agent())
    before = len(transcript.touched)
    assert texts(transcript[2]) == ["a long result"]
    transcript.decide(PartsCompacted(((2, RESULT),), "consumed"))
    assert texts(transcript[2]) == [None]
    assert texts(transcript[0]) == ["Go."]
    assert 2 in transcript.touched[before:]
    assert transcript.state.compacted == {(2, RESULT)}
    assert transcript.state.answered_whole == set()
    (offloaded,) = [one for _, one in transcript.log if isinstance(one, PartOffloaded)]
    assert offloaded.stored.excerpt is None
    held = transcript[2].part(RESULT).stored
    assert held is not None
    assert held.excerpt is None
    before = len(transcript.touched)
    transcript[2].restore_texts({RESULT: "a long result"})
    assert texts(transcript[2]) == ["a long result"]
    assert transcript.touched[before:] == [2], "the next view shows it"


def test_arguments_stay_as_they_were_written_when_their_strings_are_stored():
    transcript = transcript_of(user("Go."), "show", call(arguments='{"text": "long"}'), result())
    transcript.decide(PartOffloaded(1, ARGUMENTS, WHOLE))
    transcript.decide(PartsCompacted(((1, ARGUMENTS),), "budget"))
    assert texts(transcript[1]) == ['{"text": "long"}']


def test_retained_text_takes_the_place_of_the_first_one_and_the_excerpt_goes_on():
    """What chose last is known; a part that is not stored has nothing to retain."""
    transcript = transcript_of(*STEP, PartOffloaded(2, RESULT, WHOLE), CompactedTextChosen(2, RESULT, "facts", 3))
    stored = transcript[2].part(RESULT).stored
    assert stored is not None
    assert (stored.compacted, stored.compacted_tokens, stored.excerpt) == ("facts", 3, "excerpt")
    assert texts(transcript[2]) == [None]
    transcript.decide(CompactedTextChosen(2, RESULT, "fewer", 2, "age"))
    assert transcript.state.retained == {(2, RESULT): "age"}
    transcript.decide(CompactedTextChosen(0, TEXT, "facts", 3))
    assert transcript.state.retained == {(2, RESULT): "age"}
    without = transcript_of(
        *STEP, PartOffloaded(2, RESULT, StoredPart((REF,), "compacted", 5)), CompactedTextChosen(2, RESULT, "facts", 3)
    )
    assert texts(without[2]) == ["a long result"], "the view shows it whole"


def test_fold_hides_what_is_before_it_but_for_what_is_kept():
    """Stored texts leave the process, also those stored later; what waits there to be compacted does so no more."""
    transcript = transcript_of(*STEP, PartOffloaded(2, RESULT, WHOLE), "show", agent())
    transcript.decide(ExpansionShown(2, "opened", 5, ()))
    transcript.decide(ExpansionShown(3, "opened", 5, ()))
    transcript.decide(HistoryFolded(3, (0,), REF, "folded", 5))
    state = transcript.state
    assert [state.is_folded(position) for position in range(4)] == [False, True, True, False]
    assert state.answered_whole == set()
    assert [texts(entry) for entry in transcript.entries()] == [["Go."], ["{}"], [None], ["Yes."]]
    assert list(state.expanded) == [(3, "turn")]
    transcript.decide(ExpansionShown(1, "opened", 5, ()))
    assert list(state.expanded) == [(3, "turn")], "nobody would see it"
    late = transcript_of(
        *STEP, "show", agent(), HistoryFolded(3, (), REF, "folded", 5), PartOffloaded(2, RESULT, WHOLE)
    )
    assert texts(late[2]) == [None]
    assert late.state.answered_whole == set()


# --- shown no more


def test_withdrawn_expansion_is_neither_shown_nor_kept_as_text():
    """What it took stays known; another one in the same place is not touched, nor is one that is not there."""
    opened, kept = ExpansionShown(0, "opened", 5, ()), ExpansionShown(0, "noted", 6, (), "memory")
    transcript = transcript_of(user("Go."), opened, kept)
    assert transcript.state.unseen == {opened.place, kept.place}
    transcript.decide(ExpansionWithdrawn((opened.place, (9, "turn")), "planned"))
    assert list(transcript.state.expanded) == [kept.place]
    assert transcript.state.unseen == {kept.place}
    assert [(one.text, one.tokens) for _, one in transcript.log if isinstance(one, ExpansionShown)] == [
        ("", 5),
        ("noted", 6),
    ]
    transcript.decide(ViewShown(1))
    assert transcript.state.unseen == set()


def test_clear_begins_a_new_state_and_drops_stored_texts():
    """Messages before it stay readable, small ones with their text; what is opened before it is not shown."""
    transcript = transcript_of(*STEP, PartOffloaded(2, RESULT, WHOLE), "show", agent())
    transcript.decide(ExpansionShown(3, "opened", 5, ()))
    transcript.decide(PartShortened(3, TEXT, "shorter", 1))
    transcript.decide(ViewCleared(4))
    state = transcript.state
    assert (state.start, state.shown, state.consumed, state.answered_from, state.answered) == (4,) * 5
    assert (state.expanded, state.shortened, state.answered_whole, state.fold) == ({}, {}, set(), None)
    assert (transcript.entries(), transcript.has_answer()) == ([], False)
    assert [texts(entry) for entry in transcript.entries(0)] == [["Go."], ["{}"], [None], ["Yes."]]
    transcript.decide(ExpansionShown(3, "late", 5, ()))
    assert state.expanded == {}
    transcript.append(user("Again.")).measure([Part(TEXT, 5)])
    transcript.decide(ExpansionShown(4, "opened", 5, ()))
    assert list(state.expanded) == [(4, "turn")]


def test_on_decision_is_called_after_the_effect_and_not_at_a_replay():
    transcript = transcript_of(user("Go."))
    told: list[tuple[Decision, int]] = []
    transcript.on_decision = lambda of, decision: told.append((decision, of.state.shown))
    transcript.decide(ViewShown(1))
    transcript.replay(1, ViewShown(0))
    assert told == [(ViewShown(1), 1)]
    assert transcript.log == [(1, ViewShown(1)), (1, ViewShown(0))]


def test_decisions_on_entries_that_are_not_held_are_recorded_only():
    """A process that goes on with a session does not hold what was cleared."""
    transcript = Transcript(5)
    transcript.decide(PartOffloaded(4, RESULT, WHOLE))
    transcript.decide(CompactedTextChosen(4, RESULT, "facts", 3))
    assert len(transcript.log) == 2
    transcript.append(user("Go.")).measure([Part(TEXT, 5)])
    transcript.decide(PartOffloaded(5, TEXT, WHOLE))
    assert transcript[5].part(TEXT).stored == WHOLE
    transcript.decide(CompactedTextChosen(5, TEXT, "facts", 3))
    assert transcript.state.retained == {(5, TEXT): "compactor"}, "the first one that is held"
