"""Saying something: the answer whole and as a stream, once however often it is asked for."""

import asyncio
import json
from contextlib import AsyncExitStack
from datetime import datetime, timedelta, timezone

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import TaskRunner
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import FunctionCall

from memory_context import MemoryContext, MemoryStore
from memory_context.surfaces.web import ChatLimits

from ..model_service import FAILURES, model_service
from .conftest import Client, Model, StartChat, assistant, claimed, events_of, message


async def test_first_message_creates_session_and_gets_answer(client: Client):
    """The session and the message are durable with the answer; the answer itself comes with a later batch."""
    hello = message("hello")
    answer = (await client.say(hello)).json()
    assert answer["message"]["text"] == "answer to hello"
    assert answer["message"]["sender"] == "ai"
    assert (answer["agent_id"], answer["replayed"]) == ("assistant", False)
    assert answer["stored_ids"] == [hello["id"]]
    assert await client.texts(answer["session_id"]) == ["hello", "answer to hello"]


async def test_answer_is_streamed_as_server_sent_events(client: Client):
    """Session, words, the message, what is durable: in this order, also when only the header asks for it."""
    hello = message("hello")
    first = await client.say(hello, stream=True)
    assert first.headers["content-type"].startswith("text/event-stream")
    events = events_of(first)
    assert [name for name, _ in events] == ["session", "delta", "delta", "delta", "message", "done"]
    assert "".join(data["text"] for name, data in events if name == "delta").strip() == "answer to hello"
    assert events[-1][1] == {"stored_ids": [hello["id"]], "replayed": False}
    assert events[0][1]["answer_id"] == dict(events)["message"]["id"]
    session = events[0][1]["session_id"]
    body = json.dumps({"new_messages": [message("more")], "session_id": session})
    headers = {"Accept": "text/event-stream", "Content-Type": "application/json"}
    again = events_of(await client.post("/api/chat", content=body, headers=headers))
    assert dict(again)["message"]["text"] == "answer to more"


async def test_step_shows_placeholder_of_large_result(start_chat: StartChat, model: Model):
    """A call, and what it gave as the model sees it from then on; never the whole output."""

    async def read_log() -> str:
        """Read the log."""
        return "\n".join(f"line {number} of the log" for number in range(3000))

    model.calls = [FunctionCall("1", "{}", "read_log")]
    build = assistant(model, tools=[read_log], max_tool_iterations=3)
    async with start_chat(build) as client:
        answer = (await client.say("read it")).json()
    call, result = answer["steps"]
    assert (call["kind"], call["name"]) == ("call", "read_log")
    assert result["kind"] == "result"
    assert "[MemoryRef: read_log_" in result["summary"]
    assert len(result["summary"]) < 400


async def test_repeated_request_returns_same_answer_without_a_run(client: Client, model: Model):
    """A response that was lost, a second tab: the answer is given again, whole or as a stream, and nobody is asked."""
    hello = message("hello")
    first = (await client.say(hello)).json()
    again = (await client.say(hello, session=first["session_id"])).json()
    assert (again["message"], again["replayed"]) == (first["message"], True)
    without_id = (await client.say(hello)).json()
    assert (without_id["session_id"], without_id["replayed"]) == (first["session_id"], True)
    streamed = events_of(await client.say(hello, stream=True))
    assert [name for name, _ in streamed] == ["session", "message", "done"]
    assert streamed[1][1] == first["message"]
    assert len(model.views) == 1


async def test_concurrent_identical_requests_get_one_answer(client: Client, model: Model):
    hello = message("hello")
    one, other = await asyncio.gather(client.say(hello), client.say(hello))
    assert one.json()["message"] == other.json()["message"]
    assert sorted([one.json()["replayed"], other.json()["replayed"]]) == [False, True]
    assert len(model.views) == 1


async def test_concurrent_requests_of_one_session_run_in_turn(client: Client, model: Model):
    """What is said in both at once is said one after the other."""
    session = (await client.say("hello")).json()["session_id"]
    answers = await asyncio.gather(*(client.say(f"question {n}", session=session) for n in range(3)))
    assert [one.json()["message"]["text"] for one in answers] == [f"answer to question {n}" for n in range(3)]
    assert len(await client.texts(session)) == 8
    assert len(model.views[-1]) == 7


async def test_earlier_messages_of_a_request_become_history(client: Client, model: Model):
    """What comes before the last questions is history; the questions are asked together; order is kept."""
    before = [message("my name is Ann"), message("hello Ann", "ai")]
    asked = [message("what is my name?"), message("and yours?")]
    answer = (await client.say(*before, *asked)).json()
    assert model.views == [
        ["User: my name is Ann", claimed("hello Ann"), "User: what is my name?", "User: and yours?"],
    ]
    texts = [one["text"] for one in [*before, *asked]]
    assert await client.texts(answer["session_id"]) == [*texts, "answer to and yours?"]
    again = (await client.say(*before, *asked, session=answer["session_id"])).json()
    assert (again["message"], again["replayed"]) == (answer["message"], True)
    half = (await client.say(asked[0], session=answer["session_id"])).json()
    assert half["message"] == answer["message"]


async def test_request_without_question_gets_no_answer(client: Client, model: Model):
    answer = (await client.say(message("hello", "ai"))).json()
    assert (answer["message"], answer["replayed"], model.views) == (None, False, [])
    await client.say("good morning", session=answer["session_id"])
    assert model.views == [[claimed("hello"), "User: good morning"]]


async def test_message_order_ignores_client_clocks(client: Client):
    """A page whose clock is years behind, or ahead: what is said later stands later."""
    now = datetime.now(timezone.utc)
    session = (await client.say(message("one", at=now - timedelta(days=900)))).json()["session_id"]
    for text, days in (("two", 20000), ("three", -900), ("four", 0)):
        await client.say(message(text, at=now + timedelta(days=days)), session=session)
    said = ["one", "two", "three", "four"]
    assert await client.texts(session) == [text for one in said for text in (one, f"answer to {one}")]


async def test_requests_take_at_most_one_write_transaction_a_turn(client: Client, store: MemoryStore):
    """And one to begin; turns that follow each other at once share one. Each id is told once, when it is durable."""
    ids: list[str] = []
    reported: list[str] = []
    session = None
    for number in range(30):
        said = message(f"question {number}")
        answer = (await client.say(said, session=session)).json()
        session = answer["session_id"]
        durable = await store.conversations.known_chat_ids("alice", session, [*ids, *answer["stored_ids"], said["id"]])
        assert set(answer["stored_ids"]) <= durable
        ids += [said["id"], answer["message"]["id"]]
        reported += answer["stored_ids"]
    assert store.conversations.write_transactions <= 1 + 30
    await client.router.chat.sessions.peek(("alice", "assistant", session)).archive()
    reported += (await client.say("the last", session=session)).json()["stored_ids"]
    assert sorted(reported) == sorted(ids)


async def test_session_keeps_its_agent_and_unknown_agents_are_404(start_chat: StartChat, model: Model):
    """Several agents by their ids; an unknown one is refused by the names of those there are."""
    build = assistant(model)
    async with start_chat({"coder": build, "writer": build}) as client:
        assert (await client.say("hello")).json()["agent_id"] == "coder"
        session = (await client.say("a poem", agent_id="writer")).json()["session_id"]
        other = await client.say("code", session=session, agent_id="coder")
        assert (other.status_code, "writer" in other.json()["detail"]) == (409, True)
        assert "Retry-After" not in other.headers
        assert (await client.say("more", session=session)).json()["agent_id"] == "writer"
        unknown = await client.say("hello", agent_id="cook")
        assert (unknown.status_code, unknown.json()["detail"]) == (
            404,
            "there is no agent 'cook'; there is 'coder', 'writer'",
        )


async def test_agent_failure_is_502_and_repeated_request_continues(
    client: Client, model: Model, caplog: pytest.LogCaptureFixture
):
    """Nothing of what went wrong goes out; the message is there once."""
    hello = message("hello")
    model.error = RuntimeError("the key sk-123 is wrong")
    failed = await client.say(hello)
    assert (failed.status_code, "kept: send it again" in failed.json()["detail"]) == (502, True)
    assert "sk-123" not in failed.text
    assert "sk-123" in caplog.text
    streamed = events_of(await client.say(hello, stream=True))
    assert streamed[-1][0] == "error"
    assert streamed[-1][1]["status"] == 502
    model.error = None
    answer = (await client.say(hello)).json()
    assert answer["message"]["text"] == "answer to hello"
    assert model.views[-1] == ["User: hello"]
    assert await client.texts(answer["session_id"]) == ["hello", "answer to hello"]


@pytest.mark.parametrize("is_team", [False, True])
@pytest.mark.thorough
async def test_model_service_failure_reaches_client_in_its_own_words(
    start_chat: StartChat, caplog: pytest.LogCaptureFixture, is_team: bool
):
    """No credential, no stack trace; the same message is answered when the service is back."""
    async with model_service() as service, AsyncExitStack() as stack:

        def build(context: MemoryContext) -> TaskRunner:
            client = service.client()
            stack.push_async_callback(client.close)
            agent = AssistantAgent("assistant", client, model_context=context, model_client_stream=True)
            return RoundRobinGroupChat([agent], termination_condition=MaxMessageTermination(2)) if is_team else agent

        client = await stack.enter_async_context(start_chat(build))
        hello = message("hello")
        for service.mode, told in FAILURES.items():
            kind, data = events_of(await client.say(hello, stream=True))[-1]
            assert (kind, data["status"]) == ("error", 502)
            assert f"The model's service {told}" in data["detail"]
            assert "send it again" in data["detail"]
            assert "sk-proj" not in data["detail"]
        assert "Traceback" not in caplog.text or is_team
        service.mode = "well"
        events = events_of(await client.say(hello, stream=True))
        assert [data["text"] for kind, data in events if kind == "message"] == ["Half an answer and the rest."]


async def test_agent_builder_failure_is_502(start_chat: StartChat, model: Model):
    attempts: list[MemoryContext] = []

    async def build(context: MemoryContext) -> AssistantAgent:
        attempts.append(context)
        if len(attempts) == 1:
            raise RuntimeError("no such folder")
        return assistant(model)(context)

    async with start_chat(build) as client:
        hello = message("hello")
        assert (await client.say(hello)).status_code == 502
        assert (await client.say(hello)).json()["message"]["text"] == "answer to hello"


async def test_run_over_its_time_limit_is_504(start_chat: StartChat, model: Model):
    """It is stopped; the same request goes on where it was."""
    model.may_answer.clear()
    async with start_chat(limits=ChatLimits(run_seconds=0.5)) as client:
        hello = message("hello")
        slow = await client.say(hello)
        assert (slow.status_code, "stopped after 0.5 s" in slow.json()["detail"]) == (504, True)
        client.router.chat._limits = ChatLimits()
        model.may_answer.set()
        assert (await client.say(hello)).json()["message"]["text"] == "answer to hello"
    assert model.views == [["User: hello"], ["User: hello"]]


async def test_team_answers_and_continues_after_failure(start_chat: StartChat, model: Model):
    """The last of its words are the answer; a run that was cut off goes on, and nothing is said twice."""

    def build(context: MemoryContext) -> RoundRobinGroupChat:
        other = Model()
        members = [
            AssistantAgent("first", model_client=model, model_context=context),
            AssistantAgent("second", model_client=other),
        ]
        return RoundRobinGroupChat(members, termination_condition=MaxMessageTermination(3))

    async with start_chat(build) as client:
        model.error = RuntimeError("once")
        hello = message("hello")
        assert (await client.say(hello)).status_code == 502
        model.error = None
        answer = (await client.say(hello)).json()
        assert answer["message"]["text"].startswith("answer to ")
        assert model.views[1][0] == "User: hello"
        assert sum(text == "User: hello" for text in model.views[1]) == 1
        more = (await client.say("more", session=answer["session_id"])).json()
        assert more["message"]["text"] != answer["message"]["text"]
        assert (await client.texts(answer["session_id"]))[::2] == ["hello", "more"]
