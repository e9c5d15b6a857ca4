"""Messages that come again: a repeat is a new message, unless the whole unanswered tail comes a second time."""

import json
import uuid

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core.models import AssistantMessage, LLMMessage, SystemMessage, UserMessage
from hypothesis import given
from hypothesis import strategies as st

from memory_context import MemoryContext, MemoryStore
from memory_context.sessions.transcript.view_decisions import MessageRedelivered
from tests.support.contexts import answer, ask, context_of, opened

from ..agents.scripted import model, report, seen


def user(text: str, source: str = "user") -> UserMessage:
    return UserMessage(content=text, source=source)


def said(messages: list[LLMMessage]) -> list[object]:
    return [message.content for message in messages]


async def view_after(context: MemoryContext, *steps: str) -> list[object]:
    """Deliver texts in order; "?" asks for a view, "!" answers."""
    for step in steps:
        if step == "?":
            await context.get_messages()
        elif step == "!":
            await context.add_message(AssistantMessage(content="!", source="coder"))
        else:
            await context.add_message(user(step))
    return said(await context.get_messages())


STORIES = {
    "a third message that repeats the first": (["x", "y", "?", "x"], ["x", "y", "x"]),
    "the same, each shown before the next": (["x", "?", "y", "?", "x"], ["x", "y", "x"]),
    "the whole tail again": (["x", "y", "?", "x", "y"], ["x", "y"]),
    "the whole tail again and again": (["x", "y", "?", "x", "y", "?", "x", "y", "?", "x", "y"], ["x", "y"]),
    "the whole tail and more": (["x", "y", "?", "x", "y", "z"], ["x", "y", "z"]),
    "the tail in another order": (["x", "y", "?", "y", "x"], ["x", "y", "y", "x"]),
    "a tail that nobody was shown": (["x", "y", "x", "y"], ["x", "y", "x", "y"]),
    "a tail of which a part was shown": (["a", "?", "!", "x", "?", "y", "x", "y"], ["a", "!", "x", "y", "x", "y"]),
    "after an answer": (["a", "?", "!", "x", "y", "?", "x", "y"], ["a", "!", "x", "y"]),
    "what was answered": (["x", "?", "!", "x"], ["x", "!", "x"]),
    "a repeat with a view between": (["x", "y", "?", "x", "?", "y"], ["x", "y", "x", "y"]),
}


@pytest.mark.parametrize("story", STORIES)
async def test_only_a_complete_second_delivery_replaces_the_first(store: MemoryStore, story: str):
    steps, expected = STORIES[story]
    assert await view_after(MemoryContext("alice", "coder", None, store), *steps) == expected


class Reference:
    """What a view says, by the rule alone: lists of texts, no positions."""

    def __init__(self) -> None:
        self.before: list[str] = []  # answered, or kept for good
        self.tail: list[str] = []  # unanswered and shown
        self.came: list[str] = []  # since the last view
        self.has_answer = self.has_consumed = self.has_replaced = False

    def deliver(self, text: str) -> None:
        self.came.append(text)
        if self.came == self.tail and (self.has_answer or not self.has_consumed):
            self.tail, self.has_replaced = [], True
        elif not (self.has_answer or self.has_replaced):
            self.restart()

    def restart(self) -> None:
        """A whole thread that was never answered and comes twice begins anew, as when SelectorGroupChat loads it."""
        thread = [*self.tail, *self.came]
        half = len(thread) // 2
        if half > 1 and 0 < len(self.tail) <= half and thread[:half] == thread[half:]:
            self.tail, self.came, self.has_consumed = [], thread[half:], False

    def show(self) -> None:
        # in a context without answers, a message that follows a view answers that view
        self.has_consumed |= bool(self.tail and self.came)
        self.tail, self.came = [*self.tail, *self.came], []

    def answer(self) -> None:
        self.before += [*self.tail, *self.came, "!"]
        self.tail, self.came, self.has_answer = [], [], True

    @property
    def view(self) -> list[str]:
        return [*self.before, *self.tail, *self.came]


@given(steps=st.lists(st.sampled_from(["x", "y", "x", "y", "z", "?", "?", "!", "reload"]), max_size=20))
async def test_random_deliveries_follow_the_reference_model(store: MemoryStore, steps: list[str]):
    """Also across a save and a load at any point. Each example has a user of its own, without earlier conversations."""
    somebody = uuid.uuid4().hex
    context, reference = MemoryContext(somebody, "coder", None, store), Reference()
    for step in [*steps, "?"]:
        if step == "?":
            reference.show()
            assert said(await context.get_messages()) == reference.view
        elif step == "!":
            await context.add_message(AssistantMessage(content="!", source="coder"))
            reference.answer()
        elif step == "reload":
            state = json.loads(json.dumps(await context.save_state()))
            context = MemoryContext(somebody, "coder", None, store)
            await context.load_state(state)
        else:
            await context.add_message(user(step))
            reference.deliver(step)
    delivered = [step for step in steps if step not in ("?", "reload")]
    assert context.transcript.end == len(delivered), "nothing is left out"


async def test_a_redelivery_of_large_and_named_content_shows_it_once(store: MemoryStore):
    """What was opened for the earlier copy stands with the later one; the task is the later one."""
    context = context_of(store)
    key = await context.store(report("newts", 40), "a survey of newts", source="newts")
    words = f"What does {key} say? " + "word " * 900
    await ask(context, words)
    before = await context.get_messages()
    assert len(opened(before)) == 1
    await context.add_message(user(words))
    assert await context.get_messages() == before
    assert context.transcript.task(["user"]) == 1
    gone = [change for change in (await context.explain()).changes if change.after is None]
    assert {(change.position, change.reason) for change in gone} == {(0, "redelivered")}


async def test_system_messages_between_do_not_hide_a_redelivery(store: MemoryStore):
    """AutoGen's own memories add one in each run."""
    context = MemoryContext("alice", "coder", None, store)
    for _ in range(3):
        await context.add_message(user("x"))
        await context.add_message(SystemMessage(content="Remember."))
        view = await context.get_messages()
    assert sorted(map(str, said(view))) == ["Remember.", "x"]


async def test_a_resumed_session_has_its_redelivery(store: MemoryStore):
    """The decision is archived with the messages."""
    context = MemoryContext("alice", "coder", "s", store)
    view = await view_after(context, "x", "y", "?", "x", "y", "z")
    await context.close()
    resumed = MemoryContext("alice", "coder", "s", store)
    assert said(await resumed.get_messages()) == view == ["x", "y", "z"]
    assert sum(isinstance(one, MessageRedelivered) for _, one in resumed.transcript.log) == 2


async def test_a_team_that_fails_again_and_again_shows_its_thread_once(store: MemoryStore):
    """AutoGen delivers all that was not answered once more, before what is new."""
    client = model()
    context = MemoryContext("alice", "critic", None, store)
    team = RoundRobinGroupChat([AssistantAgent("critic", client, model_context=context)], max_turns=1)
    for task in ("One.", "Two."):
        with pytest.raises(RuntimeError, match="No more mock responses"):
            await team.run(task=task)
    client.chat_completions.append("Good.")
    await team.run(task="Three.")
    assert said(seen(client)[1:]) == ["One.", "Two.", "Three."]


# --- show_memories


async def test_memories_that_are_shown_are_archived(store: MemoryStore):
    """Also those that nothing was said after: a resumed session shows the same view, each time."""
    context = MemoryContext("alice", "coder", "s", store)
    await ask(context, "Hello.")
    await answer(context)
    await context.archive()
    assert not context.is_dirty
    await context.show_memories("One.", ["a_key"])
    assert context.is_dirty
    view = await context.get_messages()
    assert opened(view) == ["One."]
    await context.archive()
    for text in ("One.", "Two.", ""):
        resumed = MemoryContext("alice", "coder", "s", store)
        assert await resumed.get_messages() == view
        await resumed.show_memories(text, [])
        view = await resumed.get_messages()
        assert opened(view) == ([text] if text else [])
        await resumed.close()
