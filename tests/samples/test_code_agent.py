"""CodeAgent: its tools on real files, its context, and itself as a component."""

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from autogen_agentchat.messages import ToolCallExecutionEvent
from autogen_core import CancellationToken, FunctionCall
from autogen_core.model_context import BufferedChatCompletionContext, UnboundedChatCompletionContext
from autogen_core.models import CreateResult, FunctionExecutionResult, ModelFamily, ModelInfo, RequestUsage
from autogen_ext.models.replay import ReplayChatCompletionClient

from memory_context import MemoryContext, MemoryStore
from samples.code_agent import SYSTEM_MESSAGE, CodeAgent, model_client_from_env

INFO = ModelInfo(
    vision=False, function_calling=True, json_output=False, family=ModelFamily.UNKNOWN, structured_output=False
)
NAMES = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL")


def model(*answers: str | list[FunctionCall]) -> ReplayChatCompletionClient:
    """Return a model that gives these answers."""
    usage = RequestUsage(prompt_tokens=0, completion_tokens=0)
    return ReplayChatCompletionClient(
        [CreateResult(finish_reason="stop", content=answer, usage=usage, cached=False) for answer in answers], INFO
    )


def call(tool: str, **arguments: object) -> FunctionCall:
    return FunctionCall(id=f"call_{tool}_{len(json.dumps(arguments))}", name=tool, arguments=json.dumps(arguments))


async def results(agent: CodeAgent, task: str = "go on") -> list[FunctionExecutionResult]:
    """Run a turn and return what the tools gave."""
    run = await agent.run(task=task)
    return [r for message in run.messages if isinstance(message, ToolCallExecutionEvent) for r in message.content]


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A small code base."""
    root = tmp_path / "code"
    (root / "pack").mkdir(parents=True)
    (root / "pack" / "one.py").write_text("import os\n\n\ndef answer():\n    return 42\n")
    (root / "pack" / "long.py").write_text("\n".join(f"value_{n} = {n}" for n in range(1, 301)))
    (root / "notes.txt").write_text("def not_code\n")
    return root


@pytest.fixture
async def context(store: MemoryStore) -> AsyncIterator[MemoryContext]:
    async with MemoryContext("alice", "coder", memory_store=store) as context:
        yield context


async def test_shell_reads_and_greps_real_files(context: MemoryContext, code: Path) -> None:
    """All three in one step, in parallel; the shell runs outside of the code."""
    calls = [
        call("shell", command='pwd; cat "$CODE_ROOT/notes.txt"'),
        call("read_file", path="pack/one.py", start_line=4),
        call("grep", pattern="^def |value_299"),
    ]
    agent = CodeAgent("coder", model(calls, "Done."), model_context=context, code_root=code)
    work_dir = agent.work_dir
    shell, read, grep = (result.content for result in await results(agent))
    assert shell == f"{work_dir}\ndef not_code\n"
    assert read == "4\tdef answer():\n5\t    return 42"
    assert grep == "pack/long.py:299:value_299 = 299\npack/one.py:4:def answer():\n"
    await agent.close()
    assert not work_dir.exists()


async def test_what_is_large_leaves_the_view_and_can_be_looked_up(
    context: MemoryContext, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory tools are among the tools from the first reference on, which here need not pay for them."""
    monkeypatch.setattr("memory_context.view.economics.pays_for_tools", lambda *given: True)
    client = model([call("read_file", path="pack/long.py")], "Read.", [call("read_history")], "Done.")
    agent = CodeAgent("coder", client, model_context=context, code_root=code)
    await agent.run(task="read it")
    await agent.run(task="and now?")
    shown = [str(request["messages"]) for request in client.create_calls]
    assert "value_150" in shown[1]
    assert "value_150" not in shown[2]
    assert "[MemoryRef: read_file_" in shown[2]
    assert client.create_calls[0]["messages"][0].content == SYSTEM_MESSAGE
    offered = [{tool["name"] for tool in call["tools"]} for call in client.create_calls]
    assert offered[0] == {"shell", "read_file", "grep"}
    assert offered[1] == offered[0]
    assert offered[2] == {*offered[0], "retrieve_memory"}
    stats = context.stats
    assert stats.head_tokens > stats.raw_head_tokens > context.token_counter.count(SYSTEM_MESSAGE)
    await agent.close()


async def test_what_goes_wrong_is_told_to_the_model(context: MemoryContext, code: Path) -> None:
    """Nothing outside of the code is read, and a failed command says its status."""
    calls = [
        call("shell", command="echo lost >&2; exit 3"),
        call("read_file", path="../../etc/passwd"),
        call("read_file", path="pack/none.py"),
        call("read_file", path="pack/one.py", start_line=99),
        call("grep", pattern="nowhere at all"),
        call("grep", pattern="(", path="pack"),
    ]
    agent = CodeAgent("coder", model(calls, "Done."), model_context=context, code_root=code)
    shell, outside, missing, beyond, nothing, bad = await results(agent)
    assert shell.content == "exit code 3\nlost\n"
    assert outside.is_error
    assert "outside of the code" in outside.content
    assert missing.is_error
    assert beyond.content == "pack/one.py ends at line 5"
    assert nothing.content == "no match of 'nowhere at all' in *.py of ."
    assert bad.content.startswith("exit code 2\n")
    await agent.close()


async def test_a_command_that_takes_too_long_ends(context: MemoryContext, code: Path) -> None:
    agent = CodeAgent("coder", model("."), model_context=context, code_root=code, timeout_seconds=1)
    assert await agent.shell("exec sleep 60", CancellationToken()) == "exit code 124\n\nTimeout"
    await agent.close()


async def test_takes_any_context_of_autogen(code: Path) -> None:
    """Without a memory there are no tools for it."""
    client = model("Hello.")
    agent = CodeAgent("coder", client, model_context=BufferedChatCompletionContext(5), code_root=code)
    await agent.run(task="hello")
    assert {tool["name"] for tool in client.create_calls[0]["tools"]} == {"shell", "read_file", "grep"}
    await agent.close()


async def test_makes_a_memory_of_its_own_if_it_gets_none(new_home: Path) -> None:
    """For the user it is told, without touching the store."""
    agent = CodeAgent("coder", model("."), user_id="alice")
    context = agent.model_context
    assert isinstance(context, MemoryContext)
    assert (context.user_id, context.agent_id) == ("alice", "coder")
    await agent.close()
    assert os.listdir(new_home) == []


async def test_is_a_component(context: MemoryContext, code: Path) -> None:
    """Loaded again it has the same folders and tools; its memory's teaching is in the message once."""
    agent = CodeAgent("coder", model("One.", "Two."), model_context=context, code_root=code, max_tool_iterations=7)
    dumped = json.loads(agent.dump_component().model_dump_json())
    loaded = CodeAgent.load_component(dumped)
    assert loaded.dump_component() == agent.dump_component()
    assert isinstance(loaded.model_context, MemoryContext)
    assert loaded.model_context.session_id != context.session_id, "a template has no conversation"
    assert (await loaded.read_file("pack/one.py", 5, 5)) == "5\t    return 42"
    assert "hidden" not in json.dumps(dumped)
    await agent.close()
    await loaded.close()


async def test_keeps_its_state(context: MemoryContext, store: MemoryStore, code: Path) -> None:
    """Another agent goes on where it was."""
    agent = CodeAgent(
        "coder", model([call("read_file", path="pack/long.py")], "Read."), model_context=context, code_root=code
    )
    await agent.run(task="read it")
    state = json.loads(json.dumps(await agent.save_state()))
    async with MemoryContext("alice", "coder", memory_store=store) as other_context:
        other = CodeAgent("coder", model("Yes."), model_context=other_context, code_root=code)
        await other.load_state(state)
        assert await other_context.get_messages() == await context.get_messages()
        await other.close()
    await agent.close()


def test_without_a_key_there_is_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    assert model_client_from_env() is None


@pytest.mark.parametrize("name", ["gpt-4.1-mini", "a-model-nobody-knows", ""])
async def test_a_key_gives_a_model_that_knows_function_calling(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that AutoGen has never heard of."""
    for variable, value in zip(NAMES, ("test-key", "http://127.0.0.1:1/v1", name), strict=True):
        monkeypatch.setenv(variable, value)
    client = model_client_from_env()
    assert client is not None
    assert client.model_info["function_calling"]
    agent = CodeAgent("coder", client, model_context=UnboundedChatCompletionContext())
    assert "test-key" not in agent.dump_component().model_dump_json()
    await agent.close()
    await client.close()
