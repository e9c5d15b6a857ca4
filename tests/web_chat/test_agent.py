"""The sample's agent without a browser: its tools keep to the package, its rules pick tools, its words add up."""

import pytest
from autogen_core.models import FunctionExecutionResult, FunctionExecutionResultMessage, LLMMessage, UserMessage

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
    assert (await read_file("memory_context/errors.py")).startswith('1\t"""')
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
    assert isinstance(decision, tuple)
    assert decision[0] == tool
    assert argument is None or argument in decision[1].values()


def test_what_is_too_large_to_be_seen_is_looked_up_in_the_memory():
    """By the key of its placeholder, and only once."""
    placeholder = "read_file succeeded. [MemoryRef: read_file_k3f7x2 - path=a.py - 9000 tokens]"
    first = asked("Read a.py: how are rows written?", ("read_file", placeholder))
    decision = decide(first)
    assert isinstance(decision, tuple)
    assert decision[0] == "retrieve_memory"
    assert decision[1]["memory_key"] == "read_file_k3f7x2"
    second = asked(
        "Read a.py: how are rows written?",
        ("read_file", placeholder),
        ("retrieve_memory", "12: 12\tdef write_rows():\n13: 13\t    pass"),
    )
    answer = decide(second)
    assert isinstance(answer, str)
    assert "lines 12-13" in answer
    assert "`read_file_k3f7x2` (9,000 tokens)" in answer


async def test_words_that_are_streamed_add_up_to_the_answer():
    """To the last line break."""
    client = ScriptedClient(seconds_per_word=0)
    *words, result = [part async for part in client.create_stream(asked("hello"))]
    assert "".join(map(str, words)) == result.content  # type: ignore[union-attr]
