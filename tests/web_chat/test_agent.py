"""The sample's agent without a browser: its tools keep to the package, its rules pick tools, its words add up."""

import httpx
import pytest
from autogen_core.models import FunctionExecutionResult, FunctionExecutionResultMessage, LLMMessage, UserMessage

from memory_context import AgentMemory, MemoryStore
from memory_context.testing import Call
from samples.web_chat.app import chat_app
from samples.web_chat.code_tools import list_files, read_file, search_code
from samples.web_chat.rules import decide
from samples.web_chat.scripted import ScriptedClient


def asked(question: str, *results: tuple[str, str]) -> list[LLMMessage]:
    """Return the messages of a model call: a question and what tools returned to it."""
    messages: list[LLMMessage] = [UserMessage(content=question, source="user")]
    for name, content in results:
        result = FunctionExecutionResult(content=content, name=name, call_id="1", is_error=False)
        messages.append(FunctionExecutionResultMessage(content=[result]))
    return messages


@pytest.mark.parametrize("path", ["../README.md", "/etc/passwd", "../samples/code_agent.py", "data/o200k_base.py", "."])
async def test_nothing_outside_of_the_package_is_read(path: str):
    """Whatever path a model asks for."""
    with pytest.raises(ValueError, match="the package has no file"):
        await read_file(path)


async def test_tools_return_what_is_there():
    """All of it."""
    assert "context.py\t" in await list_files()
    assert (await read_file("memory_context/foundation/errors.py")).startswith('1\t"""')
    assert await read_file("context.py") == await read_file("context/context.py")
    assert "errors.py:" in await search_code(r"class StoreError\b")
    assert await search_code("no such " + "words") == "No line matches 'no such words'."


@pytest.mark.parametrize(
    ("question", "tool", "argument"),
    [
        ("Give me a tour", "list_files", None),
        ("Read store/pool.py, please", "read_file", "store/pool.py"),
        ("Where is StoreError raised?", "search_code", "raise .*StoreError"),
        ("What do you remember about placeholders?", "search_memory", "placeholders"),
        ("Remember that tea is at four", "store_memory", "tea is at four"),
        ("Open read_file_k3f7x2 again", "retrieve_memory", "read_file_k3f7x2"),
    ],
)
def test_the_words_of_the_user_pick_the_tool(question: str, tool: str, argument: str | None):
    """And what it is to look for."""
    decision = decide(asked(question))
    assert isinstance(decision, Call)
    assert decision.tool == tool
    assert argument is None or argument in decision.arguments.values()


def test_what_is_too_large_to_be_seen_is_looked_up_in_the_memory():
    """By the key of its placeholder, and only once."""
    placeholder = "read_file succeeded. [MemoryRef: read_file_k3f7x2 - path=a.py - 9000 tokens]"
    first = asked("Read a.py: how are rows written?", ("read_file", placeholder))
    decision = decide(first)
    assert isinstance(decision, Call)
    assert (decision.tool, decision.arguments["memory_key"]) == ("retrieve_memory", "read_file_k3f7x2")
    second = asked(
        "Read a.py: how are rows written?",
        ("read_file", placeholder),
        ("retrieve_memory", "12: 12\tdef write_rows():\n13: 13\t    pass"),
    )
    answer = decide(second)
    assert isinstance(answer, str)
    assert "lines 12-13" in answer
    assert "`read_file_k3f7x2` (9,000 tokens)" in answer


async def test_an_item_opens_for_its_own_visitor_only(store: MemoryStore):
    """As JSON that no text can break; another's key is a key that does not exist."""
    app = chat_app(store, ScriptedClient(0), b"secret")
    transport = httpx.ASGITransport(app)
    async with (
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as hers,
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as his,
    ):
        for client in (hers, his):
            assert (await client.get("/api/item", params={"key": "x"})).status_code == 404
        user_id = hers.cookies["web_chat_visitor"].rpartition(".")[0]
        text = "<script>\ud83d\u2028</script>\n" + "line\n" * 500
        ref = await AgentMemory(store, user_id, "reader", "one").store(text, description="path=a/b.html, a page")
        found = await hers.get("/api/item", params={"key": ref.key, "start": "1"})
        assert found.headers["content-type"] == "application/json"
        assert (found.json()["title"], found.json()["start"], found.json()["end"]) == ("a/b.html, a page", 1, 300)
        assert found.json()["text"].startswith("<script>")
        for start, first in (("301", 301), ("-1", 1), ("nonsense", 1), ("9" * 99, 1)):
            assert (await hers.get("/api/item", params={"key": ref.key, "start": start})).json()["start"] == first
        foreign = await his.get("/api/item", params={"key": ref.key})
        assert (foreign.status_code, foreign.json().get("text")) == (404, None)


async def test_words_that_are_streamed_add_up_to_the_answer():
    """However few there may be."""
    *words, result = [part async for part in ScriptedClient(0.001, 0.01).create_stream(asked("hello"))]
    assert len(words) <= 10
    assert "".join(map(str, words)) == result.content  # type: ignore[union-attr]


async def test_two_browsers_see_nothing_of_each_other(store: MemoryStore):
    """Neither in the list nor by the address; a forged cookie makes a stranger."""
    transport = httpx.ASGITransport(chat_app(store, ScriptedClient(0), b"secret"))
    message = {"id": "m1", "text": "mine", "sender": "user", "timestamp": "2020-01-01T00:00:00Z"}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as hers:
        body = {"session_id": "one", "messages_batch": [message]}
        (await hers.post("/api/chat/session/archive_messages", json=body)).raise_for_status()
        own = hers.cookies["web_chat_visitor"]
        assert len((await hers.get("/api/chat/sessions")).json()["sessions"]) == 1
    for cookies in ({}, {"web_chat_visitor": f"{own.rpartition('.')[0]}.0"}):
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", cookies=cookies) as his:
            assert (await his.get("/api/chat/sessions")).json()["sessions"] == []
            assert (await his.get("/api/chat/sessions/one/messages")).status_code == 404
