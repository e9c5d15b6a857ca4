"""What a killed process, a page that archives by itself and a client that goes away leave behind, and how it heals."""

import pytest

from memory_context import MemoryStore
from tests.support.chats import archive, cut_off

from .conftest import Client, Model, StartChat, claimed, kill, message

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("is_killed", [True, False])
async def test_request_repeated_after_restart_is_answered_once(start_chat: StartChat, model: Model, is_killed: bool):
    """Shut down in mid-answer, or killed before anything but the first message was archived."""
    hello = message("hello")
    async with start_chat() as client:
        await cut_off(client, model, client.say(hello))
        if is_killed:
            kill(client)
    async with start_chat() as client:
        answer = (await client.say(hello)).json()
        assert answer["message"]["text"] == "answer to hello"
        assert model.views == [["User: hello"], ["User: hello"]]
        assert await client.texts(answer["session_id"]) == ["hello", "answer to hello"]


async def test_messages_archived_by_page_after_kill_are_replayed_to_agent(start_chat: StartChat, model: Model):
    """A killed process had not written its batch; the page brings the conversation back, and it goes on."""
    hello = message("hello")
    async with start_chat() as client:
        first = (await client.say(hello)).json()
        session, more = first["session_id"], message("more")
        second = (await client.say(more, session=session)).json()
        kill(client)
    async with start_chat() as client:
        assert await client.texts(session) == ["hello"]
        stored = await archive(client, session, more, first["message"], second["message"], hello)
        assert stored.json() == {
            "stored_ids": [more["id"], first["message"]["id"], second["message"]["id"], hello["id"]]
        }
        await client.say("what did I say?", session=session)
        assert model.views[-1] == [
            "User: hello", claimed("answer to hello"), "User: more", claimed("answer to more"), "User: what did I say?",
        ]  # fmt: skip
        again = (await client.say(more, session=session)).json()
        assert (again["message"], again["replayed"]) == (second["message"] | {"unverified": True}, True)
        assert len(await client.texts(session)) == 6
    async with start_chat() as client:  # closed in order this time: nothing is heard twice
        await client.say("and now?", session=session)
        assert len(model.views[-1]) == 7
        assert len(await client.texts(session)) == 8


async def test_archived_question_waits_for_its_request(start_chat: StartChat, model: Model):
    """It is neither lost nor answered unasked; another question finds it in front of it."""
    async with start_chat() as client:
        session = (await client.say("hello")).json()["session_id"]
    waiting = message("waiting")
    async with start_chat() as client:
        await archive(client, session, waiting)
        answer = (await client.say(waiting, session=session)).json()
        assert answer["message"]["text"] == "answer to waiting"
        assert waiting["id"] in answer["stored_ids"]
    forgotten = message("forgotten")
    async with start_chat() as client:
        await archive(client, session, forgotten)
        assert (await client.say("next", session=session)).json()["message"]["text"] == "answer to next"
        assert model.views[-1][-2:] == ["User: forgotten", "User: next"]
        said = ["hello", "answer to hello", "waiting", "answer to waiting", "forgotten", "next", "answer to next"]
        assert await client.texts(session) == said


async def test_live_session_replays_messages_archived_past_it(client: Client, model: Model):
    session = (await client.say("hello")).json()["session_id"]
    await archive(client, session, message("from my phone"), message("noted", "ai"))
    await client.say("more", session=session)
    assert model.views[-1] == [
        "User: hello", "Assi: answer to hello", "User: from my phone", claimed("noted"), "User: more",
    ]  # fmt: skip


async def test_next_question_answers_the_one_cut_off_before(client: Client, model: Model):
    """Both questions are in the agent's context; asking the first again gives the answer that came."""
    hello = message("hello")
    await cut_off(client, model, client.say(hello))
    sessions = (await client.get("/api/chat/sessions")).json()["sessions"]
    session = sessions[0]["session_id"]
    answer = (await client.say("or rather this", session=session)).json()
    assert model.views[-1] == ["User: hello", "User: or rather this"]
    again = (await client.say(hello, session=session)).json()
    assert (again["message"], again["replayed"]) == (answer["message"], True)


@pytest.mark.parametrize("page_knows_it", [False, True])
async def test_answer_lost_between_run_and_archive_is_recovered(
    start_chat: StartChat, model: Model, store: MemoryStore, page_knows_it: bool
):
    """The process ended between the agent's last word and taking it up as a chat message: told, and heard once."""
    hello = message("hello")
    async with start_chat() as client:
        answer = (await client.say(hello)).json()
        session = answer["session_id"]
        ((_, entry),) = client.router.chat.sessions._entries.items()
        entry.session.context.archiver._delivered.pop(answer["message"]["id"])
        entry.session.context.archiver.forget_chat([answer["message"]["id"]])
    assert [one.text for one in await store.conversations.chat_page("alice", session)] == ["hello"]
    async with start_chat() as client:
        if page_knows_it:
            await archive(client, session, answer["message"])
        else:
            again = (await client.say(hello, session=session)).json()
            assert (again["message"]["id"], again["message"]["text"]) == (answer["message"]["id"], "answer to hello")
            assert len(model.views) == 1
        await client.say("more", session=session)
        assert model.views[-1] == ["User: hello", "Assi: answer to hello", "User: more"]
        assert await client.texts(session) == ["hello", "answer to hello", "more", "answer to more"]


async def test_answer_older_than_the_log_is_found_in_the_store(
    start_chat: StartChat, model: Model, monkeypatch: pytest.MonkeyPatch
):
    """Though the process keeps only the newest messages."""
    monkeypatch.setattr("memory_context.surfaces.web.session._LOG_MESSAGES", 4)
    monkeypatch.setattr("memory_context.surfaces.web.session._PAGE_MESSAGES", 3)
    hello = message("hello")
    async with start_chat() as client:
        first = (await client.say(hello)).json()
        for number in range(5):
            await client.say(f"question {number}", session=first["session_id"])
    async with start_chat() as client:
        again = (await client.say(hello, session=first["session_id"])).json()
        assert (again["message"], again["replayed"]) == (first["message"], True)
        await client.say("one more", session=first["session_id"])
        assert len(model.views[-1]) == 13
        assert len(await client.texts(first["session_id"])) == 14
