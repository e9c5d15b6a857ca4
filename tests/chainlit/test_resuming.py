"""The whole way of a chat through Chainlit's own socket: said, shown, left, and gone on with after a restart."""

import asyncio
from typing import Any
from uuid import uuid4

import httpx
import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import LLMMessage, UserMessage

from memory_context import MemoryContext
from memory_context.store.memory_store import MemoryStore
from memory_context.testing import ScriptedModel
from tests.support.waiting import PATIENT_SECONDS

from .conftest import MemoryDataLayer, Message, Step, chainlit, data, elements, get_context, log_in

Emitted = list[tuple[str, Any]]


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> Emitted:
    """What the server sends to the page."""
    events: Emitted = []

    async def emit(event: str, payload: Any = None, **others: Any) -> None:
        events.append((event, payload))
        await asyncio.sleep(0)  # as a socket does

    monkeypatch.setattr(chainlit.socket.sio, "emit", emit)
    return events


@pytest.fixture
def application(monkeypatch: pytest.MonkeyPatch) -> Emitted:
    """An application that greets, works in a step, streams its answer and shows things beside it; what it resumed."""
    resumed: Emitted = []

    async def greet() -> None:
        await Message("Welcome.").send()

    async def answer(message: Message) -> None:
        async with Step(name="search", type="tool") as outer:
            outer.input = {"query": message.content}
            async with Step(name="fetch", type="tool") as inner:
                inner.output = "fetched"
            outer.output = "found"
        reply = Message("", author="Guide", elements=[elements.Image(name="map", content=b"\x89PNG", mime="image/png")])
        for token in ("The ", "harbour."):
            await reply.stream_token(token)
        await reply.send()
        reply.content += " Done."
        await reply.update()
        tasks = elements.TaskList()
        await tasks.send()

    async def resume(thread: Any) -> None:
        resumed.append(("resume", thread))

    code = chainlit.server.config.code
    for name, callback in (("on_chat_start", greet), ("on_message", answer), ("on_chat_resume", resume)):
        monkeypatch.setattr(code, name, callback)
    return resumed


async def settle() -> None:
    """Wait for what Chainlit does in the background."""
    while others := asyncio.all_tasks() - {asyncio.current_task()}:  # type: ignore[arg-type]
        _, unfinished = await asyncio.wait(
            others, timeout=PATIENT_SECONDS
        )  # an error belongs to whoever began the task
        assert not unfinished


async def connect(web: httpx.AsyncClient, thread_id: str = "") -> str:
    """Open the page, of a new thread or of one that is gone on with; return the connection."""
    connection = str(uuid4())
    cookie = "; ".join(f"{name}={value}" for name, value in web.cookies.items())
    auth: Any = {"sessionId": str(uuid4()), "clientType": "webapp", "threadId": thread_id, "userEnv": "{}"}
    assert await chainlit.socket.connect(connection, {"HTTP_COOKIE": cookie}, auth)
    await chainlit.socket.connection_successful(connection)
    await settle()
    return connection


async def say(connection: str, text: str) -> None:
    """Send a message from the page."""
    said = {"id": str(uuid4()), "name": "alice", "type": "user_message", "output": text, "createdAt": ""}
    await chainlit.socket.message(connection, {"message": said, "fileReferences": None})
    await settle()


async def leave(connection: str) -> None:
    """Close the page."""
    await chainlit.socket.clean_session(connection)
    await chainlit.socket.disconnect(connection)
    await settle()


async def test_chat_resumes_after_restart(
    web: httpx.AsyncClient,
    layer: MemoryDataLayer,
    database_url: str,
    application: Emitted,
    emitted: Emitted,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Everything is as it was shown, with what stood beside it; the application resumes with it."""
    await log_in(web, "alice")
    connection = await connect(web)
    assert (await web.post("/project/threads", json={"pagination": {"first": 9}, "filter": {}})).json()["data"] == []
    await say(connection, "Where is the harbour?")
    await leave(connection)
    page = (await web.post("/project/threads", json={"pagination": {"first": 9}, "filter": {}})).json()
    ((thread_id, name),) = [(one["id"], one["name"]) for one in page["data"]]
    assert name == "Where is the harbour?"

    async with MemoryStore(database_url) as another_process:
        monkeypatch.setattr(data, "_data_layer", MemoryDataLayer(another_process))
        emitted.clear()
        connection = await connect(web, thread_id)
        ((_, thread),) = [event for event in emitted if event[0] == "resume_thread"]
        assert [event[1]["id"] for event in application] == [thread_id]
        shown = [(step["type"], step["name"], step["output"]) for step in thread["steps"]]
        assert shown == [
            ("assistant_message", "Assistant", "Welcome."),
            ("user_message", "alice", "Where is the harbour?"),
            ("tool", "search", "found"),
            ("tool", "fetch", "fetched"),
            ("assistant_message", "Guide", "The harbour. Done."),
        ]
        steps = {step["name"]: step for step in thread["steps"]}
        assert steps["fetch"]["parentId"] == steps["search"]["id"]
        assert steps["search"]["end"] is not None
        assert "Where is the harbour?" in steps["search"]["input"]
        image, tasks = sorted(thread["elements"], key=lambda element: element["type"])
        assert (image["forId"], tasks["type"]) == (steps["Guide"]["id"], "tasklist")
        assert (await web.get(image["url"])).content == b"\x89PNG"
        assert (await web.get(tasks["url"])).json() == {"status": "Ready", "tasks": []}

        await say(connection, "And the lighthouse?")
        read = (await web.get(f"/project/thread/{thread_id}")).json()
        assert [one["output"] for one in read["steps"] if one["type"] == "user_message"] == [
            "Where is the harbour?",
            "And the lighthouse?",
        ]
        await leave(connection)
        await log_in(web, "bob")
        with pytest.raises(ConnectionRefusedError):
            await connect(web, thread_id)


@pytest.fixture
def hearing_application(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """An application whose agent answers with what it heard of the user."""

    def tell(view: list[LLMMessage]) -> str:
        return " / ".join(str(one.content) for one in view if isinstance(one, UserMessage) and one.source == "user")

    async def begin(thread: Any = None) -> None:
        context = MemoryContext("alice", "guide", get_context().session.thread_id, store)
        chainlit.user_session.set("agent", AssistantAgent("guide", ScriptedModel(tell), model_context=context))

    async def answer(message: Message) -> None:
        if message.content != "help":  # which the application answers itself
            result = await chainlit.user_session.get("agent").run(task=message.content)
            await Message(str(result.messages[-1].content)).send()

    async def end() -> None:
        await chainlit.user_session.get("agent").model_context.archive()

    code = chainlit.server.config.code
    callbacks = {"on_chat_start": begin, "on_message": answer, "on_chat_resume": begin, "on_chat_end": end}
    for name, callback in callbacks.items():
        monkeypatch.setattr(code, name, callback)


async def edit(connection: str, number: int, text: str) -> None:
    """Change the user's message of this number on the page."""
    messages = [one for one in chainlit.chat_context.get() if one.type == "user_message"]
    await chainlit.socket.edit_message(connection, {"message": {"id": messages[number].id, "output": text}})
    await settle()


@pytest.mark.parametrize(
    ("said", "number", "heard"),
    [
        (["one", "two", "three"], 1, "one / new"),
        (["one", "two", "three"], 0, "new"),
        (["one", "one", "one"], 1, "one / new"),
        (["one", "help", "three"], 2, "one / new"),
        (["one", "help", "three"], 1, "one / new"),
    ],
)
async def test_agent_hears_an_edited_message_and_nothing_that_came_after_it(
    web: httpx.AsyncClient, hearing_application: None, emitted: Emitted, said: list[str], number: int, heard: str
) -> None:
    """The page, the thread and the agent agree, also when the chat is gone on with."""
    await log_in(web, "alice")
    connection = await connect(web)
    for text in said:
        await say(connection, text)
    emitted.clear()
    await edit(connection, number, "new")
    answers = [payload["output"] for event, payload in emitted if event == "new_message"]
    assert answers[-1] == heard
    await leave(connection)
    page = (await web.post("/project/threads", json={"pagination": {"first": 9}, "filter": {}})).json()
    (thread_id,) = [one["id"] for one in page["data"]]
    thread = (await web.get(f"/project/thread/{thread_id}")).json()
    kept = [one["output"] for one in thread["steps"] if one["type"] == "user_message"]
    assert kept == [*said[:number], "new"]
    connection = await connect(web, thread_id)
    emitted.clear()
    await say(connection, "more")
    assert [payload["output"] for event, payload in emitted if event == "new_message"][-1] == f"{heard} / more"
    await edit(connection, number, "newer")
    answers = [payload["output"] for event, payload in emitted if event == "new_message"]
    assert answers[-1] == f"{heard}er"
    await leave(connection)


async def test_chat_continues_while_database_is_down(
    web: httpx.AsyncClient,
    layer: MemoryDataLayer,
    application: Emitted,
    emitted: Emitted,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also one that should be gone on with: it is said that it was not found, and a new one begins."""
    await log_in(web, "alice")
    monkeypatch.setattr(layer, "_threads", MemoryStore("postgresql://localhost:1/nowhere").threads)
    connection = await connect(web, str(uuid4()))
    await say(connection, "Where is the harbour?")
    await leave(connection)
    events = [event for event, _ in emitted]
    assert "resume_thread_error" in events
    answers = [payload["output"] for event, payload in emitted if event in ("new_message", "update_message")]
    assert answers[-1] == "The harbour. Done."
