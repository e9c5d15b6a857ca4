"""Live chats without a page: one for each thread, whatever changes; a run that is stopped leaves it whole."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from autogen_core import FunctionCall
from autogen_core.models import (
    AssistantMessage,
    CreateResult,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    UserMessage,
)

from memory_context import ContextPolicy, MemoryStore, SessionGoneError
from samples.chainlit_web.agents import Agents
from samples.chainlit_web.chats import Chats, Said
from samples.chainlit_web.plans import Plan
from samples.chainlit_web.script import ScriptedModel
from samples.chainlit_web.ui_hook import ComponentError
from tests.support.waiting import soon

# first: it has Chainlit write elsewhere than into the checkout
from ..chainlit.conftest import MemoryDataLayer, Message, data, get_context
from ..chainlit.conftest import chat as chainlit_session
from ..context.lights import Light, choose
from ..model_service import FAILURES, model_service

NOTES = {"provider": "autogen_agentchat.agents.AssistantAgent", "config": {"name": "notes"}}
THREAD = "thread-1"


@pytest.fixture
async def chats(store: MemoryStore) -> AsyncIterator[Chats]:
    """Live chats with a scripted model."""
    chats = Chats(Agents(store, ScriptedModel(0)))
    yield chats
    await chats.close()


async def turn(chats: Chats, text: str) -> str:
    from samples.chainlit_web.turns import run_turn

    with chainlit_session("ada", THREAD):
        async with chats.hold("ada", THREAD, Plan()) as chat:
            display = await run_turn(chat, text)
    return display.answer.content if display.answer else ""


async def texts(chats: Chats, agent: str) -> str:
    chat = chats.peek("ada", THREAD)
    assert chat is not None
    return str(await chat.contexts[agent].get_messages())


async def test_a_turn_is_answered_with_links_to_what_was_stored(chats: Chats) -> None:
    answer = await turn(chats, "read context.py and show me how a message is added")
    assert "async def add_message" in answer
    assert "](#memory/read_file_" in answer


async def test_a_step_refers_to_its_result_also_if_that_is_stored_later(chats: Chats) -> None:
    from samples.chainlit_web.turns import TurnDisplay

    done = FunctionExecutionResult(content="x\n" * 5000, name="shell", call_id="1", is_error=False)
    with chainlit_session("ada", THREAD) as session:
        async with chats.hold("ada", THREAD, Plan()) as chat:
            display = TurnDisplay(chat)
            call = FunctionCall(id="1", name="shell", arguments="{}")
            await display.show_calls([call])
            await display.show_results([done])
            context = chat.contexts["reader"]
            await context.add_message(AssistantMessage(content=[call], source="reader"))
            await context.add_message(FunctionExecutionResultMessage(content=[done]))
            await context.get_messages()
            await display.end()
            await display.end()
    sent: Any = session.emit
    (element,) = [one.args[1] for one in sent.await_args_list if one.args[0] == "element"]
    assert element["props"]["refs"][0]["key"].startswith("shell_")


async def test_neither_a_long_argument_nor_a_long_result_reaches_the_page_whole(chats: Chats) -> None:
    from samples.chainlit_web.turns import TurnDisplay

    long = "x\n" * 100_000
    with chainlit_session("ada", THREAD) as session:
        async with chats.hold("ada", THREAD, Plan()) as chat:
            display = TurnDisplay(chat)
            await display.show_calls([FunctionCall(id="1", name="shell", arguments=json.dumps({"command": long}))])
            await display.show_results(
                [FunctionExecutionResult(content=long, name="shell", call_id="1", is_error=True)]
            )
    sent: Any = session.emit
    assert sent.await_count >= 2
    assert len(str(sent.await_args_list)) < 20_000


async def test_what_a_turn_is_said_to_cost_is_what_its_context_counted(chats: Chats) -> None:
    await turn(chats, "read context.py")
    chat = chats.peek("ada", THREAD)
    assert chat is not None
    stats = chat.contexts["reader"].stats
    assert chat.totals[:3] == (stats.views, stats.view_tokens_total, stats.raw_tokens_total)
    assert 0 < chat.totals.seen_tokens < chat.totals.raw_tokens


class Layer(MemoryDataLayer):
    """Tells when a token meter is kept with its thread."""

    def __init__(self, memory_store: MemoryStore) -> None:
        super().__init__(memory_store)
        self.has_meter = asyncio.Event()

    async def create_element(self, element: Any) -> None:
        await super().create_element(element)
        if element.name == "TokenMeter":
            self.has_meter.set()


async def test_meter_names_the_light_models_calls_after_a_restart_and_with_another_agent(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By kind, with their tokens; a call that ends after the answer is told when the page is loaded again."""
    from samples.chainlit_web.answers import answer_question, refresh_meter

    light = Light(choose())
    told: list[str] = []
    layer = Layer(store)
    monkeypatch.setattr(data, "_data_layer", layer)
    monkeypatch.setattr(data, "_data_layer_initialized", True)

    async def ask(chats: Chats, plan: Plan) -> dict[str, Any]:
        layer.has_meter.clear()
        with chainlit_session("ada", THREAD):
            question = Message(content="Do it like last time.", type="user_message")
            await question.send()
            await answer_question(chats, "ada", plan, question)
        await soon(layer.has_meter.wait())
        thread: Any = await layer.get_thread(THREAD)
        told.append(meter_of(thread)["props"]["light_model"])
        return thread

    def meter_of(thread: Any) -> Any:
        return [one for one in thread["elements"] if one["name"] == "TokenMeter"][-1]

    before, notes = Chats(Agents(store, ScriptedModel(0), light)), Plan("pasted", NOTES)
    thread = await ask(before, Plan())
    await before.close()  # asks for a title
    chats = Chats(Agents(store, ScriptedModel(0), light))
    async with chats.hold("ada", THREAD, Plan()) as chat:
        refresh_meter(thread, chat)
        told.append(meter_of(thread)["props"]["light_model"])
        await chat.become(notes)
    await ask(chats, notes)
    await chats.close()
    assert told == [
        "1 call (1 decision), 100 tokens read and 10 written",
        "2 calls (1 decision, 1 title), 200 tokens read and 20 written",
        "3 calls (2 decisions, 1 title), 300 tokens read and 30 written",
    ]


async def test_settings_change_at_once_and_nothing_is_lost(chats: Chats) -> None:
    await turn(chats, "read context.py")
    async with chats.hold("ada", THREAD, Plan()) as chat:
        await chat.become(Plan(policy=ContextPolicy(first_view_by_tool={"*": "placeholder"})))
    await turn(chats, "read policy.py")
    said = await texts(chats, "reader")
    assert "read context.py" in said
    chat = chats.peek("ada", THREAD)
    assert chat is not None
    assert chat.contexts["reader"].policy.first_view_by_tool == {"*": "placeholder"}


async def test_another_agent_has_heard_what_was_said(chats: Chats) -> None:
    await turn(chats, "Which parts does the package have?")
    async with chats.hold("ada", THREAD, Plan()) as chat:
        await chat.become(Plan("pasted", NOTES), [Said(True, "the first question"), Said(False, "its answer")])
    said = await texts(chats, "notes")
    assert said.index("the first question") < said.index("its answer")
    async with chats.hold("ada", THREAD, Plan()) as chat:  # and hears it once: now it has a history of its own
        await chat.become(Plan("pasted", NOTES), [Said(True, "the first question")])
    assert (await texts(chats, "notes")).count("the first question") == 1


async def test_an_agent_that_cannot_be_made_leaves_the_chat_as_it_was(chats: Chats) -> None:
    await turn(chats, "Which parts does the package have?")
    async with chats.hold("ada", THREAD, Plan()) as chat:
        with pytest.raises(ComponentError):
            await chat.become(Plan("pasted", {"provider": "os.system"}))
        assert chat.plan == Plan()
    assert "folders" in await turn(chats, "Which parts does the package have?")


async def test_two_tabs_work_on_one_chat_one_after_the_other(chats: Chats) -> None:
    answers = await asyncio.gather(turn(chats, "remember that x is 1"), turn(chats, "remember that y is 2"))
    assert all("I will remember" in answer for answer in answers)
    said = await texts(chats, "reader")
    assert "x is 1" in said
    assert "y is 2" in said


class StuckModel(ScriptedModel):
    """Calls a tool, and then answers only when it may."""

    def __init__(self) -> None:
        super().__init__(0)
        self.is_stuck = asyncio.Event()
        self.goes_on = asyncio.Event()

    async def create(self, messages: Sequence[Any], **others: Any) -> CreateResult:
        if isinstance(messages[-1], FunctionExecutionResultMessage):
            self.is_stuck.set()
            await self.goes_on.wait()
        return await super().create(messages, **others)


async def test_a_run_that_is_stopped_leaves_a_chat_that_goes_on(store: MemoryStore) -> None:
    model = StuckModel()
    agents = Agents(store, model)
    chats = Chats(agents)
    running = asyncio.create_task(turn(chats, "read policy.py"))
    await model.is_stuck.wait()
    running.cancel()  # as Chainlit's stop button does
    with pytest.raises(asyncio.CancelledError):
        await running
    agents.model_client = ScriptedModel(0)
    async with chats.hold("ada", THREAD, Plan()) as chat:
        await chat.remake_agent()
    assert "folders" in await turn(chats, "Which parts does the package have?")
    assert "read policy.py" in await texts(chats, "reader")
    await chats.close()


async def test_a_failure_is_shown_with_the_services_words_and_tried_again(store: MemoryStore) -> None:
    """The question is in the context once; half an answer and the failure go away."""
    from samples.chainlit_web.answers import answer_again, answer_question

    async with model_service() as service:
        client = service.client()
        chats = Chats(Agents(store, client, "off"))
        with chainlit_session("ada", THREAD) as session:
            sent: Any = session.emit

            def shown(event: str) -> list[Any]:
                return [call.args[1] for call in sent.await_args_list if call.args[0] == event]

            question = Message(content="hello", type="user_message")
            service.mode = "401"
            await answer_question(chats, "ada", Plan(), question)
            for service.mode, told in FAILURES.items():
                sent.reset_mock()
                await answer_again(chats, "ada", Plan(), question)
                notice = shown("new_message")[-1]
                assert notice["isError"]
                assert f"The model's service {told}" in notice["output"]
                assert "sk-proj" not in notice["output"]
                (button,) = shown("action")
                assert (button["name"], button["forId"]) == ("Try again", notice["id"])
            service.mode = "well"
            sent.reset_mock()
            await answer_again(chats, "ada", Plan(), question)
            assert len(shown("delete_message")) == 2, "the failure, and half of an answer"
            assert [one["output"] for one in shown("update_message") if one["type"] == "assistant_message"] == [
                "Half an answer and the rest."
            ]
            assert not shown("action")
        assert (await texts(chats, "reader")).count("hello") == 1
        await chats.close()
        await client.close()


async def test_a_tab_opened_in_mid_turn_shows_it_to_its_end_and_the_meter_goes_on(store: MemoryStore) -> None:
    """A reload is such a tab. The turns of the meter belong to the chat, not to a tab."""
    from samples.chainlit_web.answers import answer_question
    from samples.chainlit_web.tabs import catch_up

    model = StuckModel()
    agents = Agents(store, model, "off")
    chats = Chats(agents)

    def shown(tab: Any, event: str) -> list[Any]:
        return [call.args[1] for call in tab.emit.await_args_list if call.args[0] == event]

    with chainlit_session("ada", THREAD) as first:
        question = Message(content="read policy.py", type="user_message")
        running = asyncio.create_task(answer_question(chats, "ada", Plan(), question))
        await model.is_stuck.wait()
    with chainlit_session("grace", THREAD) as foreign:
        assert not catch_up()
    with chainlit_session("ada", THREAD) as second:
        assert catch_up()
        await get_context().emitter.resume_thread({"id": THREAD, "steps": []})
        assert second.current_task is running, "its stop button stops the turn"
    assert shown(second, "new_message")[0]["output"] == "read policy.py"
    assert shown(second, "task_start")
    assert not shown(second, "task_end")
    model.goes_on.set()
    await running
    for event in ("stream_start", "update_message", "element", "task_end"):
        assert shown(second, event)
    assert shown(second, "update_message")[-1]["output"] == shown(first, "update_message")[-1]["output"]
    assert foreign.emit.await_count == 0
    with chainlit_session("ada", THREAD) as third:
        await answer_question(chats, "ada", Plan(), Message(content="Which parts does it have?", type="user_message"))
    assert [len(shown(tab, "element")[-1]["props"]["turns"]) for tab in (second, third)] == [2, 2]
    await chats.close()


async def test_a_chat_comes_back_from_its_archive(store: MemoryStore) -> None:
    before = Chats(Agents(store, ScriptedModel(0)))
    await turn(before, "remember that the key is under the mat")
    await before.close()
    after = Chats(Agents(store, ScriptedModel(0)))
    async with after.hold("ada", THREAD, Plan()):
        pass
    assert "under the mat" in await texts(after, "reader")
    await after.close()


async def test_nothing_is_archived_of_a_thread_that_is_deleted(store: MemoryStore, chats: Chats) -> None:
    await turn(chats, "remember that the key is under the mat")
    await chats.archive("ada", THREAD)
    await chats.discard("ada", THREAD)
    await store.conversations.delete_session("ada", THREAD)
    assert chats.peek("ada", THREAD) is None
    with pytest.raises(SessionGoneError):
        await turn(chats, "who is still there?")
    await chats.close()
    assert await store.conversations.session("ada", THREAD) is None


def result(name: str, content: str) -> list[Any]:
    done = FunctionExecutionResult(content=content, name=name, call_id="1", is_error=False)
    return [UserMessage(content="where is `grep` used?", source="user"), FunctionExecutionResultMessage(content=[done])]


@pytest.mark.parametrize(
    ("asked", "tools", "expected"),
    [
        ("where is `x_y` used?", {"search_code"}, "search_code"),
        ("where is `x_y` used?", {"grep", "shell"}, "grep"),
        ("Which parts does it have?", {"grep", "shell"}, "shell"),
        ("read policy.py", {"search_memory"}, "search_memory"),
    ],
)
async def test_the_scripted_model_uses_the_tools_an_agent_has(asked: str, tools: set[str], expected: str) -> None:
    schemas: Any = [{"name": name} for name in tools]
    decided = await ScriptedModel(0).create([UserMessage(content=asked, source="user")], tools=schemas)
    (call,) = decided.content
    assert isinstance(call, FunctionCall)
    assert call.name == expected


async def test_the_scripted_model_answers_without_any_tool() -> None:
    decided = await ScriptedModel(0).create([UserMessage(content="read policy.py", source="user")])
    assert "this agent has no tools that I know" in str(decided.content)
    found = await ScriptedModel(0).create(result("grep", "a.py:3:grep"), tools=[])
    assert "1 matching lines" in str(found.content)
