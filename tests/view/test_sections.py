"""Sections are added from outside: the head, observations and tail defined here need no other module to know them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import pytest
from autogen_core import Image
from autogen_core.models import AssistantMessage, LLMMessage, UserMessage
from PIL import Image as Picture

from memory_context import ContextPolicy, MemoryContext, MemoryRef, MemoryStore
from memory_context.foundation.policy import UserMemoryPolicy
from memory_context.foundation.tokens import IMAGE_TOKENS, default_token_counter
from memory_context.sessions.transcript.entries import MESSAGE_OVERHEAD_TOKENS
from memory_context.sessions.transcript.transcript import Decision, Transcript
from memory_context.sessions.transcript.view_decisions import HistoryFolded, UserMemoryLoaded
from memory_context.view.render import render
from memory_context.view.sections import SECTIONS, Place, Price, Slot

from ..agents.scripted import report
from ..archive.talking import context_of, say
from ..context.steps import add_step


@cache
def picture(color: str) -> Image:
    return Image(Picture.new("RGB", (2, 2), color))


def tokens_of(text: str) -> int:
    return default_token_counter().count(text)


@dataclass(frozen=True)
class ProfileLoaded(Decision):
    """The text of the head; it outlives a clear."""

    kind, outlives_clear = "test_profile", True
    text: str

    def slot(self) -> str:
        return ""


@dataclass(frozen=True)
class ScreenSeen(Decision):
    """The current state of a screen, with a picture; replaces the one before."""

    kind = "test_screen"
    screen: str
    text: str
    color: str

    def slot(self) -> str:
        return self.screen


@dataclass(frozen=True)
class ChunkActivated(Decision):
    """A chunk of observations takes the place of the messages before a position."""

    kind = "test_chunk"
    upto: int
    text: str

    def slot(self) -> int:
        return self.upto

    def apply(self, transcript: Transcript) -> None:
        HistoryFolded(self.upto, (), MemoryRef("log", "observed", 0), "", 0).apply(transcript)


@dataclass(frozen=True)
class Profile:
    name: str = "profile"
    place: Place = "head"
    price: Price = "fixed"

    def limit_tokens(self, policy: ContextPolicy) -> int:
        return 600

    def slots(self, transcript: Transcript, policy: ContextPolicy, position: int | None) -> Sequence[Slot]:
        loaded = transcript.state.newest(ProfileLoaded)
        return (Slot("", loaded.text, tokens_of(loaded.text), keys=("k1",), why="loaded"),) if loaded else ()


@dataclass(frozen=True)
class Observations:
    name: str = "log"
    place: Place = "observations"
    price: Price = "planned"

    def limit_tokens(self, policy: ContextPolicy) -> int:
        return 600

    def slots(self, transcript: Transcript, policy: ContextPolicy, position: int | None) -> Sequence[Slot]:
        chunks = transcript.state.newest_of(ChunkActivated)
        return [Slot(str(one.upto), one.text, tokens_of(one.text)) for one in chunks]


@dataclass(frozen=True)
class Screens:
    name: str = "screen"
    place: Place = "tail"
    price: Price = "volatile"

    def limit_tokens(self, policy: ContextPolicy) -> int:
        return 1300

    def slots(self, transcript: Transcript, policy: ContextPolicy, position: int | None) -> Sequence[Slot]:
        return [
            Slot(one.screen, (one.text, picture(one.color)), tokens_of(one.text) + IMAGE_TOKENS)
            for one in transcript.state.newest_of(ScreenSeen)
        ]


@pytest.fixture(autouse=True)
def sections(monkeypatch: pytest.MonkeyPatch) -> None:
    for section in (Screens(), Profile(), Observations()):
        monkeypatch.setitem(SECTIONS, section.name, section)


def content_of(message: LLMMessage) -> object:
    return message.content


async def surveyed(context: MemoryContext, *, rounds: int = 3) -> list[list[LLMMessage]]:
    """Let an agent work with a head and a changing tail; return its views."""
    context.transcript.decide(ProfileLoaded("The user keeps owls."))
    await context.add_message(UserMessage(content="Survey the owls.", source="user"))
    views = [await context.get_messages()]
    for number in range(rounds):
        context.transcript.decide(ScreenSeen("map", f"Screen {number}", ("red", "blue", "green")[number % 3]))
        await add_step(context, f"{number} {report('owls')}")
        views.append(await context.get_messages())
    return views


async def test_sections_stand_before_and_behind_the_history(store: MemoryStore):
    """Texts and pictures; the history is as it would be without them."""
    views = await surveyed(context_of(store), rounds=1)
    head, *history, tail = views[-1]
    assert (content_of(head), content_of(tail)) == ("The user keeps owls.", ["Screen 0", picture("red")])
    plain = MemoryContext("bob", "coder", "today", store)
    await plain.add_message(UserMessage(content="Survey the owls.", source="user"))
    await plain.get_messages()
    await add_step(plain, f"0 {report('owls')}")
    assert len(history) == len(await plain.get_messages()) == 3
    assert history[0] == (await plain.get_messages())[0]


async def test_newer_tail_leaves_the_prefix_stable(store: MemoryStore):
    """All of a view but its tail is the prefix of the next one; `explain()` and stats count it as such."""
    context = context_of(store)
    await surveyed(context)
    stable = context.stats.stable_tokens_total
    for number in range(3):
        before, view = await context.explain(), await context.get_messages()
        context.transcript.decide(ScreenSeen("map", f"Screen {number} of three", "red"))
        await add_step(context, f"Short result {number}")
        after = await context.get_messages()
        assert after[:-3] == view[:-1] or not number
        assert after[-1] != view[-1]
        prefix = before.tokens - before.segments[-1].tokens - MESSAGE_OVERHEAD_TOKENS
        if number:  # the first step has a large result compacted
            assert (await context.explain()).stable_tokens == prefix
            assert context.stats.stable_tokens_total == stable + prefix
        stable = context.stats.stable_tokens_total


async def test_explain_names_sections_and_their_changes(store: MemoryStore):
    """A newer tail is volatile; another head is not planned."""
    context = context_of(store)
    await surveyed(context, rounds=2)
    explained = await context.explain()
    beside = {s.kind: s for s in explained.segments if s.position < 0}
    assert {kind: (s.state, s.number) for kind, s in beside.items()} == {
        "profile": ("section", "-"),
        "screen": ("section", "-"),
    }
    assert beside["screen"].tokens > IMAGE_TOKENS
    assert (beside["profile"].keys, beside["profile"].why) == (("k1",), "loaded")
    assert "    -  section     profile   memory" in str(explained)
    context.transcript.decide(ProfileLoaded("The user keeps owls and bats."))
    context.transcript.decide(ScreenSeen("map", "Screen of a longer name", "red"))
    context.transcript.decide(ScreenSeen("log", "Another screen", "red"))
    await say(context, "Go on.")
    changes = {(one.kind, one.reason) for one in (await context.explain()).changes if one.position < 0}
    assert changes == {("profile", "unplanned"), ("screen", "volatile"), ("screen", "added")}


@pytest.mark.parametrize("token_budget", [1000, 2500, 6000])
@pytest.mark.thorough
async def test_view_with_sections_stays_within_budget(store: MemoryStore, token_budget: int):
    """They take at most half; a line stands for a slot that does not fit, and the history folds beside them."""
    policy = ContextPolicy(token_budget=token_budget)
    context = MemoryContext("alice", "coder", "today", store, policy=policy)
    context.transcript.decide(ProfileLoaded("owls and bats " * 100))
    context.transcript.decide(ChunkActivated(0, "observed " * 100))
    for number in range(12):
        context.transcript.decide(ScreenSeen("map", f"Screen {number} " * 20, "red"))
        await say(context, f"Tell me of number {number}. " + "Please. " * 150)
        explained = await context.explain()
        assert explained.tokens <= token_budget
        beside = [s for s in explained.segments if s.position < 0]
        assert sum(s.tokens + 4 for s in beside) <= token_budget // 2
        texts = [content_of(one) for one in await context.get_messages()]
        is_cut = token_budget < 6000
        assert any("left out to fit the budget" in str(text) for text in texts) == is_cut
        assert any(f"Tell me of number {number}." in str(text) for text in texts)
    assert context.stats.folds


def test_user_memory_of_a_state_with_a_larger_limit_is_left_out():
    """It may take twice the limit: what was known before, and what changed since."""
    policy, counter = ContextPolicy(user_memory=UserMemoryPolicy(limit_tokens=100)), default_token_counter()
    for tokens, text in ((190, "known"), (250, "[user_memory: 250 tokens left out to fit the budget]")):
        transcript = Transcript()
        transcript.decide(UserMemoryLoaded("known", tokens))
        (message,) = render(transcript, policy, counter).messages
        assert text in str(message.message.content)


async def test_sections_survive_save_and_resume(store: MemoryStore):
    """Byte for byte, from a saved state and from the archive."""
    context = context_of(store)
    view = (await surveyed(context))[-1]
    loaded = MemoryContext("alice", "coder", "other", store)
    await loaded.load_state(json.loads(json.dumps(await context.save_state())))
    assert await loaded.get_messages() == view
    await context.close()
    assert await context_of(store).get_messages() == view


async def test_clear_keeps_the_head_and_drops_the_tail(store: MemoryStore):
    """Each decision says whether it outlives a clear."""
    context = context_of(store)
    await surveyed(context)
    await context.clear()
    assert [content_of(one) for one in await context.get_messages()] == ["The user keeps owls."]


async def test_observations_replace_old_messages_and_grow_at_their_end(store: MemoryStore):
    """A chunk keeps its bytes when the next one comes; the messages it covers leave the view."""
    context = context_of(store)
    await surveyed(context)
    context.transcript.decide(ChunkActivated(3, "10:00 the owls were surveyed"))
    first = await context.get_messages()
    assert [content_of(one) for one in first[:2]] == ["The user keeps owls.", "10:00 the owls were surveyed"]
    assert isinstance(first[2], AssistantMessage), "the second step, with its call"
    context.transcript.decide(ChunkActivated(5, "10:01 again"))
    second = await context.get_messages()
    assert second[:2] == first[:2]
    assert content_of(second[2]) == "10:01 again"
    assert len(second) == len(first) - 1


async def test_handed_out_sections_are_copies(store: MemoryStore):
    """A client that changes what it got changes no later view."""
    context = context_of(store)
    view = (await surveyed(context, rounds=1))[-1]
    content = content_of(view[-1])
    assert isinstance(content, list)
    content.clear()
    assert content_of((await context.get_messages())[-1]) == ["Screen 0", picture("red")]
