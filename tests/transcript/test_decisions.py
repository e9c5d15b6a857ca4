"""A decision kind is one class: the kind defined here is rendered, saved, archived, audited and counted by it alone."""

import ast
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from autogen_core.models import UserMessage

import memory_context
import memory_context.sessions.transcript as transcript_package
from memory_context import MemoryContext, MemoryStore
from memory_context.foundation.handlers import ContextEvent
from memory_context.sessions.archive.cursor import BatchCursor, next_batch
from memory_context.sessions.transcript.codec import append_saved, load_transcript, save_events, save_transcript
from memory_context.sessions.transcript.entries import Address, Part, StoredPart
from memory_context.sessions.transcript.part_decisions import PartOffloaded, PartsCompacted
from memory_context.sessions.transcript.transcript import Decided, Decision, Transcript, audit_line
from memory_context.sessions.transcript.view_decisions import ViewCleared, ViewShown
from memory_context.view.bill import Bill

from ..agents.scripted import report
from ..archive.talking import context_of, say
from ..context.steps import add_step

PACKAGE = Path(memory_context.__file__).parent


@dataclass(frozen=True)
class MessageHidden(Decision):
    """Views leave a message out; `keys` are the items it referred to."""

    kind = "test_hidden"
    position: int
    keys: tuple[str, ...]

    def apply(self, transcript: Transcript) -> None:
        transcript.state.redelivered.add(self.position)
        transcript.touched.append(self.position)

    def positions(self) -> tuple[int, ...]:
        return (self.position,)

    def memory_keys(self) -> tuple[str, ...]:
        return self.keys

    def audit(self, transcript: Transcript) -> list[ContextEvent]:
        return audit_line("withdrawn", self.keys, f"message {self.position + 1} was hidden")

    def tally(self) -> dict[str, int]:
        return {"compactions": 1}

    def decided(self, transcript: Transcript, earlier: Sequence[Decision]) -> Decided:
        return Decided("hidden", "test", 1)


@dataclass(frozen=True)
class MoodNoted(Decision):
    """A decision with a slot for each person; nothing but its data is defined."""

    kind, outlives_clear = "test_mood", True
    person: str
    mood: str

    def slot(self) -> str:
        return self.person

    def replaced(self) -> Decision:
        return replace(self, mood="")


async def hidden(store: MemoryStore) -> tuple[MemoryContext, str]:
    """Return a context in whose view a message is hidden, and a key."""
    context = context_of(store)
    await say(context, "Good morning.", "A secret wish.")
    await add_step(context, report("owls"))
    before = await context.get_messages()
    (key,) = [hit.item.key for hit in await context.search("owls", 1)]
    context.transcript.decide(MessageHidden(2, (key,)))
    await context.add_message(UserMessage(content="Go on.", source="user"))
    after = await context.get_messages()
    assert [one for one in before if one not in after] == [UserMessage(content="A secret wish.", source="user")]
    return context, key


async def test_new_decision_kind_shows_in_view_explain_stats_and_audit(store: MemoryStore):
    """No reader of decisions knows its class."""
    context, key = await hidden(store)
    explained = await context.explain()
    assert [str(one) for one in explained.decisions] == ["hidden 1 (test)"]
    assert [(one.position, one.after) for one in explained.changes if one.after is None] == [(2, None)]
    assert context.stats.compactions == 1
    assert [call.mark for call in Bill(context.transcript).calls if call.mark] == ["compaction"]
    events = [event for event in await context.agent_memory.audit() if event.kind == "withdrawn"]
    assert [(event.keys, event.detail) for event in events] == [((key,), "message 3 was hidden")]


async def test_new_decision_kind_survives_save_and_load(store: MemoryStore):
    """Through JSON text, in another context."""
    context, _ = await hidden(store)
    view = await context.get_messages()
    loaded = MemoryContext("alice", "coder", "other", store)
    await loaded.load_state(json.loads(json.dumps(await context.save_state())))
    assert await loaded.get_messages() == view
    assert loaded.transcript.log == context.transcript.log


async def test_new_decision_kind_survives_archive_and_resume(store: MemoryStore):
    """As part of a batch."""
    context, _ = await hidden(store)
    view = await context.get_messages()
    await context.close()
    resumed = context_of(store)
    assert await resumed.get_messages() == view
    assert resumed.resume_report.outcome == "resumed"


def test_batch_names_the_items_of_a_new_decision_kind():
    """So that pruning keeps them."""
    transcript = thread("a", "b")
    transcript.decide(MessageHidden(1, ("k1", "k0")))
    batch = next_batch(BatchCursor(), transcript, new_messages=2, chat_ids=())
    assert batch.memory_keys == ("k1", "k0")


def thread(*texts: str) -> Transcript:
    return Transcript.of(UserMessage(content=text, source="user") for text in texts)


def test_stretch_behind_a_gap_keeps_what_it_decided_about_its_own_messages():
    """What concerns messages before it is left out, and a stretch from elsewhere is refused."""
    saved_from, transcript = thread("x", "y", "a", "b"), thread("x", "a note")
    for decision in (MessageHidden(1, ()), MessageHidden(3, ()), ViewShown(4)):
        saved_from.decide(decision)
    append_saved(transcript, save_events(saved_from, 2, 0))
    assert transcript.log == [(4, MessageHidden(3, ())), (4, ViewShown(4))]
    with pytest.raises(ValueError, match="message 3 does not follow message 4"):
        append_saved(transcript, save_events(saved_from, 2, 0))


def test_slot_keeps_the_newest_decision_in_state_and_saved_data():
    """The log keeps the earlier ones without what they no longer need; a clear forgets none that outlives it."""
    transcript = thread("Hello")
    for person, mood in (("ann", "glad"), ("bob", "calm"), ("ann", "cross")):
        transcript.decide(MoodNoted(person, mood))
    assert transcript.state.newest(MoodNoted, "ann") == MoodNoted("ann", "cross")
    assert transcript.state.newest_of(MoodNoted) == [MoodNoted("ann", "cross"), MoodNoted("bob", "calm")]
    assert [one for _, one in transcript.log] == [
        MoodNoted("ann", ""),
        MoodNoted("bob", "calm"),
        MoodNoted("ann", "cross"),
    ]
    transcript.decide(ViewCleared(1))
    saved = save_transcript(transcript)
    assert [data for _, data in saved["decisions"]] == [
        {"person": "bob", "mood": "calm", "kind": "test_mood"},
        {"person": "ann", "mood": "cross", "kind": "test_mood"},
    ]
    assert load_transcript(saved).state.newest(MoodNoted, "bob") == MoodNoted("bob", "calm")


def test_archive_has_each_decision_of_a_slot_that_a_view_showed():
    """As it was; the log drops what it needs no longer as soon as the archive has it."""
    transcript = thread("Hello")
    transcript.keep_views(0)
    for mood in ("glad", "calm"):
        transcript.decide(MoodNoted("ann", mood))
    transcript.decide(ViewShown(1))
    transcript.decide(MoodNoted("ann", "cross"))
    moods = [data["mood"] for _, data in save_events(transcript, 0, 0)["decisions"] if "mood" in data]
    assert moods == ["calm", "cross"], "no view showed the first"
    transcript.note_archived(1, 1)
    assert [one.mood for _, one in transcript.decisions(MoodNoted)] == ["", "calm", "cross"], "it has one decision"
    transcript.note_archived(1, len(transcript.log))
    assert [one.mood for _, one in transcript.decisions(MoodNoted)] == ["", "", "cross"]
    assert [data["mood"] for _, data in save_transcript(transcript)["decisions"] if "mood" in data] == ["cross"]


def test_archive_has_texts_that_left_the_process_before_it_wrote_them():
    """Also of messages that were there when archiving began, but not of those that it has."""
    transcript, text = thread("archived", "not yet"), Address("text", 0)
    for entry in transcript.entries():
        entry.measure([Part(text, 5)])
    transcript.keep_views(1)
    for position in (0, 1):
        transcript.decide(PartOffloaded(position, text, StoredPart((), "compacted", 5)))
        transcript.decide(PartsCompacted(((position, text),), "budget"))
    assert [one["message"]["content"] for one in save_events(transcript, 0, 0)["entries"]] == ["", "not yet"]
    transcript.keep_views(1)
    assert save_events(transcript, 1, 0)["entries"][0]["message"]["content"] == "not yet"


def test_unknown_decision_kind_is_refused_with_its_name():
    """Saved by a newer version, or by a module that is not imported."""
    transcript = thread("Hello")
    transcript.decide(MoodNoted("ann", "glad"))
    saved: dict[str, Any] = save_transcript(transcript)
    saved["decisions"][0][1]["kind"] = "dreamt"
    with pytest.raises(ValueError, match=r"unknown decision kind 'dreamt'.*not imported"):
        load_transcript(saved)
    with pytest.raises(ValueError, match="unknown decision kind 'dreamt'"):
        append_saved(thread("Hello"), saved)


def test_two_decision_kinds_of_one_name_are_refused():
    """The name is what saved data is read by."""
    with pytest.raises(TypeError, match="'shown' is already defined by ViewShown"):

        class OtherShown(Decision):  # pyright: ignore[reportUnusedClass]
            kind = "shown"


@pytest.mark.thorough
def test_package_asks_no_decision_for_its_class():
    """Behaviour is a method of the class, so that a new kind cannot be forgotten anywhere."""
    kinds = {kind.__name__ for kind in kinds_below(Decision) if kind.__module__.startswith(transcript_package.__name__)}
    assert {"ViewShown", "HistoryFolded", "PartOffloaded"} <= kinds
    for path in PACKAGE.rglob("*.py"):
        if path.parent.name != "transcript":
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
                    asked = {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
                    assert not asked & kinds, f"{path}:{node.lineno}"


def kinds_below(kind: type[Decision]) -> set[type[Decision]]:
    return {one for below in kind.__subclasses__() for one in (below, *kinds_below(below))}
