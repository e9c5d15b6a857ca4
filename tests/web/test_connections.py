"""Connections that break and a database that goes away: on a real server, with real sockets."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from autogen_core import FunctionCall
from fastapi import FastAPI
from psycopg.conninfo import make_conninfo

from memory_context import MemoryStore
from memory_context.store import embedded
from memory_context.surfaces.web import ChatLimits, create_app, create_chat_router
from tests.support.waiting import PATIENT_SECONDS, soon

from ..support.serving import serving
from .conftest import Client, Model, StartChat, assistant, message

pytestmark = pytest.mark.thorough


@asynccontextmanager
async def listening(app: FastAPI, state: dict[str, str] | None = None) -> AsyncIterator[tuple[str, int]]:
    """Serve an application whose lifespan is somebody else's."""
    config = uvicorn.Config(_with_state(app, state or {}), lifespan="off", log_level="error")
    async with serving(config) as (_, port):
        yield "127.0.0.1", port


@pytest.mark.parametrize("stream", [False, True])
async def test_disconnected_client_stops_its_run_and_repeated_request_continues(
    client: Client, model: Model, stream: bool
):
    """The connection is closed in mid-answer: the run ends, and the same request goes on where it was."""
    model.may_answer.clear()
    asked = {"new_messages": [message("hello")], "stream": stream}
    async with listening(client.app) as (host, port):
        _, writer = await asyncio.open_connection(host, port)
        body = json.dumps(asked).encode()
        writer.write(
            b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nX-User: alice\r\nContent-Type: application/json\r\n"
        )
        writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        await model.asked.wait()
        (turn,) = client.router.chat._runs
        assert not turn.task.done()
        writer.close()
        await writer.wait_closed()
        await soon(asyncio.wait([turn.task]))  # though the model is still not allowed to answer
    model.may_answer.set()
    answer = (await client.say(*asked["new_messages"])).json()
    assert answer["message"]["text"] == "answer to hello"
    assert model.views == [["User: hello"], ["User: hello"]]
    assert await client.texts(answer["session_id"]) == ["hello", "answer to hello"]


async def test_disconnected_client_interrupts_running_tool(start_chat: StartChat, model: Model):
    """The client goes away while a tool works: its call is mended, and the same request goes on."""
    at_work, never = asyncio.Event(), asyncio.Event()

    async def search() -> str:
        """Search."""
        at_work.set()
        await never.wait()
        return "found"

    model.calls = [FunctionCall("1", "{}", "search")]
    async with start_chat(assistant(model, tools=[search], max_tool_iterations=3)) as client:
        hello = message("hello")
        asking = asyncio.ensure_future(client.say(hello))
        await at_work.wait()
        (turn,) = client.router.chat._runs
        asking.cancel()
        await soon(asyncio.wait([turn.task]))
        answer = (await client.say(hello)).json()
        assert answer["message"]["text"] == "answer to hello"
        user, call, result = model.views[-1]
        assert user == "User: hello"
        assert "search" in call
        assert "interrupted" in result
        assert await client.texts(answer["session_id"]) == ["hello", "answer to hello"]


async def test_two_processes_serve_one_session_in_turn(start_chat: StartChat, store: MemoryStore, model: Model):
    """Requests of one session reach two processes in turn: the agent knows everything, everything is there once."""
    async with (
        start_chat() as one,
        start_chat() as other,
    ):
        session = (await one.say("question 0")).json()["session_id"]
        for number in range(1, 6):
            client = (one, other)[number % 2]
            assert (await client.say(f"question {number}", session=session)).status_code == 200
            assert len(model.views[-1]) == 2 * number + 1
    expected = [text for n in range(6) for text in (f"question {n}", f"answer to question {n}")]
    assert [said.text for said in await store.conversations.chat_page("alice", session)] == expected


@pytest.mark.parametrize("stream", [False, True])
async def test_router_works_in_application_with_prefix_middleware_and_lifespan(
    store: MemoryStore, model: Model, stream: bool
):
    """Under a prefix of its own, behind its middleware, with its lifespan: answers, refusals and disconnections."""
    events: list[str] = []

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, str]]:
        events.append("begun")
        yield {"own": "state"}
        events.append("ended")

    app = FastAPI(lifespan=lifespan)

    @app.middleware("http")
    async def timed(request: Any, call_next: Any) -> Any:
        response = await call_next(request)
        response.headers["X-Own"] = request.state.own
        return response

    router = create_chat_router(store, assistant(model), agents=["assistant"], allow_anonymous=True, prefix="/chat")
    app.include_router(router, prefix="/v1")
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=_WithState(app, own="state"), base_url="http://chat") as client,
    ):
        said = await client.post("/v1/chat", json={"new_messages": [message("hello")], "stream": stream})
        assert (said.status_code, said.headers["x-own"]) == (200, "state")
        assert "answer to hello" in said.text
        assert ("event: done" in said.text) == stream
        wrong = await client.put("/v1/chat/sessions/1")
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET")
        async with listening(app, state={"own": "state"}) as (host, port):
            model.asked.clear()
            model.may_answer.clear()
            body = json.dumps({"new_messages": [message("more")], "stream": stream}).encode()
            _, writer = await asyncio.open_connection(host, port)
            writer.write(b"POST /v1/chat HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
            writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
            await model.asked.wait()
            (turn,) = router.chat._runs
            writer.close()
            await soon(asyncio.wait([turn.task]))
    assert events == ["begun", "ended"]


class _WithState(httpx.ASGITransport):
    """Gives requests what the lifespan yielded, as servers do."""

    def __init__(self, app: FastAPI, **state: str) -> None:
        super().__init__(_with_state(app, state))


def _with_state(app: FastAPI, state: dict[str, str]) -> Any:
    async def call(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "state": dict(state)}, receive, send)

    return call


async def test_create_app_serves_probes_and_static_page(store: MemoryStore, model: Model, tmp_path: Path):
    """Beside the chat, whose addresses it does not hide."""
    (tmp_path / "index.html").write_text("<p>chat</p>")
    app = create_app(store, assistant(model), agents=["assistant"], allow_anonymous=True, static_folder=tmp_path)
    async with (
        app.router.lifespan_context(app),
        Client(transport=httpx.ASGITransport(app), base_url="http://chat") as client,
    ):
        assert (await client.get("/health")).json() == {"status": "alive"}
        assert (await client.get("/ready")).json() == {"status": "ready"}
        assert (await client.get("/")).text == "<p>chat</p>"
        assert (await client.say("hello")).json()["message"]["text"] == "answer to hello"


async def test_metrics_count_what_the_process_does_and_hold_no_ids(store: MemoryStore, model: Model):
    """Tokens of calls, transactions, connections, jobs and answered requests."""
    app = create_app(store, assistant(model), agents=["assistant"], allow_anonymous=True)

    async def read() -> dict[str, float]:
        answer = await client.get("/metrics")
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    async with (
        app.router.lifespan_context(app),
        Client(transport=httpx.ASGITransport(app), base_url="http://chat") as client,
    ):
        before = await read()
        assert (await client.say("hello", session="my-session")).status_code == 200
        after = await read()
    grown = {name for name, value in after.items() if value > before.get(name, 0)}
    read_transactions = '{db_system_name="postgresql",memory_context_transaction_kind="read"}'
    assert grown >= {
        "memory_context_tokens_kept_total",
        "memory_context_tokens_shown_total",
        f"db_client_operation_duration_seconds_count{read_transactions}",
        'memory_context_requests_total{http_request_method="POST",http_response_status_code="200"}',
    }
    assert after['memory_context_connections{memory_context_connection_state="idle"}'] > 0
    assert 'memory_context_jobs{memory_context_job_state="dead"}' in after
    assert not any("my-session" in name or "hello" in name for name in after)


async def test_metrics_answer_while_the_store_is_down(model: Model):
    """With what the process knows."""
    down = MemoryStore("postgresql://u:secret@127.0.0.1:1/x")
    app = create_app(down, assistant(model), agents=["assistant"], allow_anonymous=True)
    async with Client(transport=httpx.ASGITransport(app), base_url="http://chat") as client:
        answer = await client.get("/metrics")
        assert answer.status_code == 200
        assert 'error_type="StoreUnavailableError"' in answer.text
        assert "secret" not in answer.text
    await down.close()


async def test_session_ids_are_read_from_the_address_as_it_was_sent(client: Client):
    """Over a real socket, in an application that another one mounts under a name that is encoded, too."""
    outer = FastAPI()
    outer.mount("/my chat", client.app)
    await client.say("hello", session="a/b?c#d 100%")
    async with (
        listening(outer) as (host, port),
        httpx.AsyncClient(base_url=f"http://{host}:{port}/my%20chat/", headers={"X-User": "alice"}) as real,
    ):
        path = "api/chat/sessions/a%2Fb%3Fc%23d%20100%25"
        assert (await real.get(path)).json()["session_id"] == "a/b?c#d 100%"
        assert len((await real.get(f"{path}/messages")).json()["messages"]) == 2
        assert (await real.delete(path)).status_code == 204


async def test_pages_of_listed_origins_read_answers_and_refusals(store: MemoryStore, model: Model):
    """Browsers ask first, and show a page nothing without the headers of CORS."""
    page = {"Origin": "https://app.example.org"}
    app = create_app(store, assistant(model), agents=["assistant"], allow_anonymous=True, origins=[page["Origin"]])
    async with (
        app.router.lifespan_context(app),
        Client(transport=httpx.ASGITransport(app), base_url="http://chat", headers=page) as client,
    ):
        asked = {"Access-Control-Request-Method": "DELETE"}
        for answer, status in (
            (await client.options("/api/chat/sessions/1", headers=asked), 200),
            (await client.say("hello"), 200),
            (await client.get("/api/chat/sessions/none"), 404),
        ):
            assert answer.status_code == status
            assert answer.headers["access-control-allow-origin"] == page["Origin"]
        refused = await client.get("/api/chat/sessions", headers={"Origin": "https://evil.example"})
        assert (refused.status_code, "access-control-allow-origin" in refused.headers) == (403, False)


async def test_silent_stream_sends_pings(start_chat: StartChat, model: Model):
    """Comments keep proxies from closing it."""
    model.may_answer.clear()
    body = {"new_messages": [message("hello")], "stream": True}
    async with (
        start_chat(limits=ChatLimits(ping_seconds=1)) as client,
        listening(client.app) as (host, port),
        httpx.AsyncClient(headers={"X-User": "alice"}) as real,
    ):
        async with real.stream("POST", f"http://{host}:{port}/api/chat", json=body) as response:
            lines = response.aiter_lines()
            async for line in lines:
                if line.startswith(":"):
                    break
            model.may_answer.set()
            said = [line async for line in lines]
        assert "event: done" in said


async def test_database_outage_under_load_loses_and_doubles_nothing(home: Path, model: Model):
    """Requests are answered or refused for now; nobody's session breaks, and nothing is lost or doubled."""
    url = make_conninfo(**embedded.start(home))
    store = MemoryStore(url)
    app = create_app(store, assistant(model), agents=["assistant"], allow_anonymous=True)
    async with app.router.lifespan_context(app):
        client = Client(transport=httpx.ASGITransport(app), base_url="http://chat", timeout=PATIENT_SECONDS)
        async with client:
            stop = asyncio.Event()
            statuses: set[int] = set()

            async def talk(number: int) -> tuple[str, list[str]]:
                session, said = None, []
                while not stop.is_set() or len(said) < 3:
                    one = message(f"{number}.{len(said)}")
                    while (answer := await client.say(one, session=session)).status_code != 200:
                        statuses.add(answer.status_code)
                        assert answer.headers["Retry-After"]
                        await asyncio.sleep(0.02)  # a client's patience; nothing tells it when to come again
                    statuses.add(200)
                    session = answer.json()["session_id"]
                    said.append(one["text"])
                return session, said

            talking = [asyncio.create_task(talk(number)) for number in range(4)]
            embedded.release(home)
            assert (await client.get("/health")).status_code == 200
            assert (await client.get("/ready")).status_code == 503
            late = await client.say("a session that is new")
            assert late.status_code == 503
            embedded.start(home)
            await asyncio.gather(client.say("hello"), client.say("hello"), return_exceptions=True)
            stop.set()
            conversations = [await task for task in talking]
            assert statuses <= {200, 503}
            for session, said in conversations:
                expected = [text for one in said for text in (one, f"answer to {one}")]
                assert await client.texts(session) == expected
    for session, said in conversations:
        assert len(await store.conversations.chat_page("anonymous", session, limit=200)) == 2 * len(said)
    await store.close()
