"""One's own sessions: listed, read page by page, archived by the page, deleted; never another user's."""

import asyncio
import json
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from autogen_agentchat.agents import AssistantAgent
from fastapi import FastAPI

from memory_context import MemoryContext, MemoryStore
from memory_context.foundation.identifiers import SessionKey
from memory_context.testing import ScriptedModel
from tests.support.contexts import archived

from .conftest import Client, Model, StartChat, assistant, message

ARCHIVE = "/api/chat/session/archive_messages"


@pytest.mark.batches_turns
async def test_session_list_is_paged_most_recent_first(client: Client, store: MemoryStore):
    """The last archived first; the cursor leads to the next page and ends."""
    sessions: list[str] = []
    for number in range(5):
        sessions.append((await client.say(f"hello {number}")).json()["session_id"])
        await archived(store, sessions[-1], 2)
    found: list[str] = []
    cursor = None
    while True:
        query = {"limit": 2, **({"before": cursor} if cursor else {})}
        page = (await client.get("/api/chat/sessions", params=query)).json()
        found += [one["session_id"] for one in page["sessions"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert found == sessions[::-1]
    one = (await client.get(f"/api/chat/sessions/{sessions[0]}")).json()
    assert (one["title"], one["agent_id"], one["message_count"]) == ("hello 0", "assistant", 2)


async def test_session_title_masks_credentials(client: Client):
    """Nor a part of one that the length of a title cuts; the message itself stays as it was said."""
    key = "sk-" + "proj-" + "Zq7Rk2Vw9Xs4Tb6Yn1" * 3
    for words in (f"Use OPENAI_API_KEY={key}", "so " * 20 + f"use OPENAI_API_KEY={key}"):
        session = (await client.say(words)).json()["session_id"]
        one = (await client.get(f"/api/chat/sessions/{session}")).json()
        assert one["title"].startswith(words[:6])
        assert not [part for part in (key[n : n + 6] for n in range(8, len(key) - 6)) if part in one["title"]]
        page = (await client.get(f"/api/chat/sessions/{session}/messages")).json()
        assert page["messages"][0]["text"] == words


async def test_message_pages_join_stored_and_buffered_messages(client: Client):
    """Each once, in order, with a part of them archived by the page and a part still in the process."""
    answer = (await client.say("question 0")).json()
    session = answer["session_id"]
    for number in range(1, 8):
        if number == 4:
            await client.post(ARCHIVE, json={"session_id": session, "messages_batch": [answer["message"]]})
        answer = (await client.say(f"question {number}", session=session)).json()
    texts: list[str] = []
    cursor = None
    while True:
        query = {"limit": 3, **({"before": cursor} if cursor else {})}
        page = (await client.get(f"/api/chat/sessions/{session}/messages", params=query)).json()
        texts = [one["text"] for one in page["messages"]] + texts
        cursor = page["next"]
        if cursor is None:
            break
    assert texts == [text for n in range(8) for text in (f"question {n}", f"answer to question {n}")]


async def test_archiving_a_batch_is_idempotent_in_any_order(client: Client):
    """All its ids are durable afterwards, and the server writes them no second time."""
    first = (await client.say("hello")).json()
    session, batch = first["session_id"], [message("one"), message("two", "ai"), message("three"), first["message"]]
    for order in (batch, batch[::-1], batch[:2] * 2):
        for _ in range(2):
            response = await client.post(ARCHIVE, json={"session_id": session, "messages_batch": order})
            assert response.status_code == 200
            assert set(response.json()["stored_ids"]) == {one["id"] for one in order}
    assert sorted(await client.texts(session)) == sorted(["hello", *(one["text"] for one in batch)])
    assert client.router.chat.sessions.peek(("alice", "assistant", session)).buffered == []


async def test_archive_route_takes_text_beacons_of_own_pages_only(client: Client):
    """`navigator.sendBeacon(url, string)` sends text/plain, which pages of any site may send without asking first."""
    session = (await client.say("hello")).json()["session_id"]
    for text, origin, status in (
        ("kept", "http://chat", 200),
        ("forged", "http://evil.example", 403),
        ("forged", "null", 403),
        ("forged", None, 415),
    ):
        body = json.dumps({"session_id": session, "messages_batch": [message(text)]})
        headers = {"Content-Type": "text/plain;charset=UTF-8", **({"Origin": origin} if origin else {})}
        assert (await client.post(ARCHIVE, content=body, headers=headers)).status_code == status
    assert await client.texts(session) == ["hello", "answer to hello", "kept"]


async def test_each_session_id_that_is_taken_can_be_read_archived_and_deleted(client: Client):
    """Also one that means something in an address; ids that differ in spelling only are different sessions."""
    ids = ["a/b", "a%2Fb", "a/messages", "what?", "x#y", "100% sure", "a b", "/", "a+b", "ü\"'", "...", "%00"]
    for session in ids:
        assert (await client.say(f"hello {session}", session=session)).status_code == 200
        batch = {"session_id": session, "messages_batch": [message("noted")]}
        assert (await client.post(ARCHIVE, json=batch)).status_code == 200
    listed = (await client.get("/api/chat/sessions?limit=200")).json()["sessions"]
    assert {one["session_id"] for one in listed} == set(ids)
    for session in ids:
        path = f"/api/chat/sessions/{quote(session, safe='')}"
        found = (await client.get(path)).json()
        assert found.get("session_id") == session, (session, found)
        page = (await client.get(f"{path}/messages")).json()
        assert [one["text"] for one in page["messages"]] == [f"hello {session}", f"answer to hello {session}", "noted"]
        assert (await client.delete(path)).status_code == 204
        assert (await client.get(path)).status_code == 410
    assert (await client.get("/api/chat/sessions")).json()["sessions"] == []


async def test_archive_route_answers_during_a_run(client: Client, model: Model):
    """The page can archive while the agent is at work."""
    session = (await client.say("hello")).json()["session_id"]
    model.asked.clear()
    model.may_answer.clear()
    more = message("more")
    answering = asyncio.ensure_future(client.say(more, session=session))
    await model.asked.wait()
    body = {"session_id": session, "messages_batch": [more]}
    assert (await client.post(ARCHIVE, json=body)).json() == {"stored_ids": [more["id"]]}
    model.may_answer.set()
    assert more["id"] in (await answering).json()["stored_ids"]
    assert await client.texts(session) == ["hello", "answer to hello", "more", "answer to more"]


async def test_deleted_session_is_410_on_every_route(
    client: Client, store: MemoryStore, caplog: pytest.LogCaptureFixture
):
    """For reading, writing and asking; its first message again does not bring it back."""
    hello = message("hello")
    session = (await client.say(hello)).json()["session_id"]
    assert (await client.delete(f"/api/chat/sessions/{session}")).status_code == 204
    assert (await client.delete(f"/api/chat/sessions/{session}")).status_code == 404
    assert (await client.get("/api/chat/sessions")).json() == {"sessions": [], "next": None}
    body = {"session_id": session, "messages_batch": [hello]}
    for response in (
        await client.get(f"/api/chat/sessions/{session}"),
        await client.get(f"/api/chat/sessions/{session}/messages"),
        await client.post(ARCHIVE, json=body),
        await client.say(hello, session=session),
        await client.say(hello),
    ):
        assert response.status_code == 410
        assert "was deleted" in response.json()["detail"]
    assert [record for record in caplog.records if record.levelname == "WARNING"] == []


async def test_deleting_a_session_stops_its_run(client: Client, model: Model):
    session = (await client.say("hello")).json()["session_id"]
    model.asked.clear()
    model.may_answer.clear()
    answering = asyncio.ensure_future(client.say("more", session=session))
    await model.asked.wait()
    assert (await client.delete(f"/api/chat/sessions/{session}")).status_code == 204
    assert (await answering).status_code == 410
    assert client.router.chat.sessions.stats.live == 0


@pytest.mark.batches_turns
async def test_session_deleted_by_another_process_becomes_410(client: Client, store: MemoryStore):
    """Another process deleted it: the next batch notices, and nobody is told that something is stored."""
    session = (await client.say("hello")).json()["session_id"]
    assert await store.conversations.delete_session("alice", session)
    live = client.router.chat.sessions.peek(SessionKey("alice", "assistant", session))
    assert live is not None
    statuses: list[int] = []
    for n in range(40):
        statuses.append((await client.say(f"more {n}", session=session)).status_code)
        await live.context.archiver.wait()  # the batch is written beside the turns, which do not wait for it
    assert statuses[-1] == 410
    assert statuses == sorted(statuses)


async def test_session_of_another_user_is_404(client: Client):
    """On every route that reads or deletes: as if it did not exist. What begins by the same id is one's own."""
    hello = message("hello")
    session = (await client.say(hello)).json()["session_id"]
    eve = client.as_user("eve")
    for response in (
        await eve.get(f"/api/chat/sessions/{session}"),
        await eve.get(f"/api/chat/sessions/{session}/messages"),
        await eve.delete(f"/api/chat/sessions/{session}"),
    ):
        assert (response.status_code, "there is no session" in response.json()["detail"]) == (404, True)
    assert (await eve.get("/api/chat/sessions")).json()["sessions"] == []
    own = (await eve.say(hello)).json()
    assert own["session_id"] != session
    assert own["replayed"] is False
    assert await client.texts(session) == ["hello", "answer to hello"]


@pytest.mark.parametrize("stream", [False, True])
async def test_client_made_session_id_is_scoped_to_its_user(start_chat: StartChat, model: Model, stream: bool):
    """The same id of two users is two sessions: neither hears, reads, stops or deletes the other's."""
    async with start_chat() as client:
        eve = client.as_user("eve")
        for one in (client, eve):
            said = await one.say(f"I am {one.headers['X-User']}", session="my-own", stream=stream)
            assert said.status_code == 200, said.text
        assert await client.texts("my-own") == ["I am alice", "answer to I am alice"]
        assert await eve.texts("my-own") == ["I am eve", "answer to I am eve"]
        again = (await client.say("and?", session="my-own")).json()
        assert (again["session_id"], again["message"]["text"]) == ("my-own", "answer to and?")
        assert model.views[-1] == ["User: I am alice", "Assi: answer to I am alice", "User: and?"]
        assert (await eve.delete("/api/chat/sessions/my-own")).status_code == 204
        assert (await eve.say("hello", session="my-own")).status_code == 410
    async with start_chat() as client:
        assert len(await client.texts("my-own")) == 4


async def test_archiving_with_unused_id_creates_session(start_chat: StartChat, model: Model):
    """The session begins with what it buffered, under its title; the question is then answered once."""
    hello = message("hello there")
    async with start_chat({name: assistant(model) for name in ("coder", "writer")}) as client:
        body = {"session_id": "early", "messages_batch": [hello]}
        assert (await client.post(ARCHIVE, json=body)).json() == {"stored_ids": [hello["id"]]}
        (entry,) = (await client.get("/api/chat/sessions")).json()["sessions"]
        assert (entry["session_id"], entry["title"], entry["agent_id"]) == ("early", "hello there", "coder")
        answer = (await client.say(hello, session="early")).json()
        assert (answer["message"]["text"], answer["agent_id"]) == ("answer to hello there", "coder")
        assert await client.texts("early") == ["hello there", "answer to hello there"]
        named = {"session_id": "late", "agent_id": "writer", "messages_batch": [message("dear all")]}
        assert (await client.post(ARCHIVE, json=named)).status_code == 200
        assert (await client.get("/api/chat/sessions/late")).json()["agent_id"] == "writer"
        unknown = await client.post(ARCHIVE, json=named | {"session_id": "new", "agent_id": "cook"})
        assert (unknown.status_code, unknown.json()["detail"]) == (
            404,
            "there is no agent 'cook'; there is 'coder', 'writer'",
        )
        assert (await client.get("/api/chat/sessions/new")).status_code == 404


async def test_first_named_agent_is_the_default(start_chat: StartChat, model: Model):
    """One function makes several; without names nothing is served; a mapping names its own."""
    with pytest.raises(ValueError, match=r"name the agents.*agents=\['assistant'\]"):
        async with start_chat(agents=[]):
            pass
    with pytest.raises(ValueError, match="build_agent names 'coder'; leave agents out"):
        async with start_chat({"coder": assistant(model)}, agents=["writer"]):
            pass
    async with start_chat(agents=["reader", "writer"]) as client:
        assert (await client.say("hello")).json()["agent_id"] == "reader"
        assert (await client.say("hello", agent_id="writer")).json()["agent_id"] == "writer"


async def test_router_requires_authentication_or_allow_anonymous(start_chat: StartChat, store: MemoryStore):
    """A router without a dependency refuses to be made, unless everybody may be the same user."""
    with pytest.raises(ValueError, match="allow_anonymous=True"):
        async with start_chat(user=None):
            pass
    async with start_chat(user=None, allow_anonymous=True) as client:
        session = (await client.say("hello")).json()["session_id"]
        assert (await store.conversations.session("anonymous", session)) is not None
    async with start_chat() as client:
        del client.headers["X-User"]
        refused = await client.say("hello")
        assert (refused.status_code, refused.json()) == (401, {"detail": "say who you are"})
        assert refused.headers["www-authenticate"] == "X-User"
        client.headers["X-User"] = "x" * 129
        assert (await client.say("hello")).status_code == 403


async def test_application_that_builds_an_agent_for_each_request_resumes_with_all_turns(store: MemoryStore):
    """AutoGen's pattern with FastAPI: load the state, run, save the state; nothing is closed."""
    app, states = FastAPI(), dict[str, Any]()

    @app.post("/chat/{thread}")
    async def chat(thread: str, text: str) -> str:
        context = MemoryContext("alice", "assistant", None, store)
        agent = AssistantAgent("assistant", ScriptedModel("Noted."), model_context=context)
        if thread in states:
            await agent.load_state(states[thread])
        result = await agent.run(task=text)
        states[thread] = json.loads(json.dumps(await agent.save_state()))
        return str(result.messages[-1].content)

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://chat") as http:
        for number in range(4):
            for thread in ("harbour", "island"):
                answer = await http.post(f"/chat/{thread}", params={"text": f"question {number} on the {thread}"})
                assert answer.json() == "Noted."
    await store.unwritten.write_out()
    for state in states.values():
        resumed = MemoryContext("alice", "assistant", state["llm_context"]["session_id"], store)
        report = await resumed.resume()
        assert (report.messages, report.branches) == (8, ())
