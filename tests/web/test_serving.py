"""The server as a process: it stops gracefully, it may be killed, and the command says what it needs."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from memory_context import MemoryStore
from memory_context.foundation.identifiers import SessionKey
from memory_context.surfaces.cli import execute
from memory_context.surfaces.web.serve import user_dependency
from tests.conftest import REPOSITORY
from tests.support.waiting import PATIENT_SECONDS, soon

from .conftest import StartChat, message

pytestmark = pytest.mark.thorough

AGENT = '''
import asyncio, os, sys
from pathlib import Path
from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.replay import ReplayChatCompletionClient
from tests.web.conftest import Model

HELD = Path(os.environ["HELD"])

class HeldModel(Model):
    """Says that it was asked, and answers when the file is gone."""

    async def create(self, messages, **settings):
        if HELD.exists():
            self.may_answer.clear()
            print("asked", flush=True)
        return await super().create(messages, **settings)

model_client = ReplayChatCompletionClient(["{}"])  # the light model, unless that is off

def build(context):
    assert context.light_model_client is (None if "off" in sys.argv else model_client)
    return AssistantAgent("assistant", model_client=HeldModel(), model_context=context, model_client_stream=True)
'''


class Served:
    """A server process."""

    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self.process = process
        self.client = httpx.AsyncClient(base_url=url, timeout=PATIENT_SECONDS)

    async def say(self, *messages: Any, session: str | None = None) -> dict[str, Any]:
        response = await self.client.post("/api/chat", json={"new_messages": messages, "session_id": session})
        response.raise_for_status()
        return response.json()

    async def asked(self) -> None:
        """Wait until the model was asked."""
        assert await self.process.stdout.readline() == b"asked\n"  # type: ignore[union-attr]

    async def texts(self, session: str) -> list[str]:
        page = (await self.client.get(f"/api/chat/sessions/{session}/messages")).json()
        return [one["text"] for one in page["messages"]]

    async def end(self, number: int) -> int:
        await self.client.aclose()
        self.process.send_signal(number)
        return await soon(self.process.wait())


class Starter:
    """Starts servers on one database, with an agent that can be held."""

    def __init__(self, folder: Path, url: str) -> None:
        (folder / "agents_of_test.py").write_text(AGENT)
        self.held = folder / "held"
        self.folder = folder
        self.url = url
        self.processes: list[asyncio.subprocess.Process] = []
        self.clients: list[httpx.AsyncClient] = []

    async def command(self, *arguments: str, **environment: str) -> asyncio.subprocess.Process:
        """Run the command as it is installed."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "from memory_context.surfaces.cli import main; main()", *arguments,
            cwd=self.folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), "HELD": str(self.held), "COLUMNS": "100", **environment},
        )  # fmt: skip
        self.processes.append(process)
        return process

    async def serve(self, *arguments: str, **environment: str) -> Served:
        """Start a server and wait until it listens."""
        process = await self.command(
            "serve", "--agent", "agents_of_test:build", "--port", "0", "--url", self.url, *arguments, **environment
        )
        told = b""
        while b"running on" not in (line := await process.stderr.readline()):  # type: ignore[union-attr]
            told += line
            assert line, told.decode()
        light_model = b"off, the rules decide" if "off" in arguments else b"the agent's own model"
        assert b"Light model: " + light_model in told
        served = Served(process, line.decode().split("running on ")[1].split()[0])
        self.clients.append(served.client)
        return served


@pytest.fixture
async def starter(tmp_path: Path, database_url: str) -> AsyncIterator[Starter]:
    starter = Starter(tmp_path, database_url)
    yield starter
    for client in starter.clients:
        await client.aclose()
    for process in starter.processes:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_killed_server_loses_and_doubles_no_message(starter: Starter, store: MemoryStore):
    """Started again, without a light model, the same request gets one answer; every message is there once, in order."""
    first = await starter.serve()
    hello = message("hello")
    answer = await first.say(hello)
    session = answer["session_id"]
    starter.held.touch()
    more = message("more")
    asking = asyncio.ensure_future(first.say(more, session=session))
    await first.asked()
    assert await first.end(signal.SIGKILL) == -signal.SIGKILL
    with pytest.raises(httpx.HTTPError):
        await asking
    starter.held.unlink()
    second = await starter.serve("--light-model", "off")
    archived = {"session_id": session, "messages_batch": [hello, answer["message"], more]}  # what the page has
    await second.client.post("/api/chat/session/archive_messages", json=archived)
    one, other = await asyncio.gather(second.say(more, session=session), second.say(more, session=session))
    assert one["message"] == other["message"]
    expected = ["hello", "answer to hello", "more", "answer to more"]
    assert await second.texts(session) == expected
    assert await second.end(signal.SIGTERM) == 0
    assert [said.text for said in await store.conversations.chat_page("anonymous", session)] == expected
    batches = (await store.conversations.read(SessionKey("anonymous", "assistant", session))).batches
    assert sum(batch.message_count for batch in batches) == 4


async def test_stopped_server_archives_buffered_messages(starter: Starter, store: MemoryStore):
    """Also what it was at work on; the client is told to come back, or finds the connection closed."""
    server = await starter.serve()
    session = (await server.say(message("hello")))["session_id"]
    starter.held.touch()
    body = {"new_messages": [message("more")], "session_id": session, "stream": True}
    async with server.client.stream("POST", "/api/chat", json=body) as response:
        await server.asked()
        server.process.send_signal(signal.SIGTERM)
        await soon(server.process.wait())
        assert response.status_code == 200
    assert server.process.returncode == 0
    said = [one.text for one in await store.conversations.chat_page("anonymous", session)]
    assert said == ["hello", "answer to hello", "more"]


async def test_serve_command_limits_connections(starter: Starter):
    """One too many is answered by uvicorn itself."""
    server = await starter.serve("--connections", "1")
    _, writer = await asyncio.open_connection(server.client.base_url.host, server.client.base_url.port)
    assert (await server.client.get("/health")).status_code == 503
    writer.close()


async def test_user_is_authenticated_by_token(start_chat: StartChat, monkeypatch: pytest.MonkeyPatch):
    """Nobody else is let in; each has sessions of their own, and OpenAPI tells how to ask."""
    monkeypatch.setenv("TOKENS", "ann:secret, bob:other")
    async with start_chat(user=user_dependency("127.0.0.1", "TOKENS", False)) as client:
        client.headers["Authorization"] = "Bearer secret"
        session = (await client.say("hello")).json()["session_id"]
        for given, status in (("Bearer secret", 200), ("bearer other", 404), ("Bearer guess", 401), ("Basic x", 401)):
            answer = await client.get(f"/api/chat/sessions/{session}", headers={"Authorization": given})
            assert answer.status_code == status
        assert answer.headers["www-authenticate"] == "Bearer"
        assert client.app.openapi()["components"]["securitySchemes"]["HTTPBearer"]["scheme"] == "bearer"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "give --agent module:function, or set OPENAI_API_KEY"),
        (["--agent", "nowhere"], 2, "use module:function"),
        (["--agent", "nowhere:build"], 2, "No module named 'nowhere'"),
        (["--agent", "json:nothing"], 2, "no function 'nothing'"),
        (["--agent", "json:dumps", "--host", "0.0.0.0"], 2, "--allow-anonymous"),
        (["--agent", "json:dumps", "--token-env", "NONE"], 2, "user:token"),
        (["--agent", "json:dumps", "--allow-anonymous", "--token-env", "X"], 2, "contradict"),
        (["--agent", "json:dumps", "--url", "postgresql://u:pw@127.0.0.1:1/x"], 1, "not answer"),
        (["--agent", "json:dumps", "--url", "nonsense"], 2, "expected postgresql:"),
        (["--agent", "json:dumps", "--static", "/nowhere"], 2, "no such folder"),
        (["--port", "x"], 2, "'--port'"),
    ],
)
def test_serve_command_usage_error_is_one_line_with_remedy(
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    said: str,
):
    """With the remedy, without a password, and with an exit code that tells misuse from failure."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("MEMORY_CONTEXT_URL", database_url)
    monkeypatch.setattr("sys.path", [*sys.path])
    assert execute(["serve", *arguments]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err
    assert "pw@" not in printed.err
    assert printed.err.startswith("memory-context: ")
    assert printed.err.count("\n") == 1
