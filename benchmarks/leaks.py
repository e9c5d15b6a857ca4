"""A second user forges calls with the keys, ids and states of the first: nothing of the first user's texts may come.

    python -m benchmarks.leaks [--calls N] [--seed N]

Each path is a way to read: it is called with arguments that are another user's own, or nearly so. What it answers, and
what its errors say, is searched for the marks that stand in every text of the first user. That the search can find them
is shown by the first user's own calls, which the same functions make.
"""

import argparse
import asyncio
import base64
import io
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime, timezone
from typing import Any, cast

import httpx
from autogen_agentchat.agents import AssistantAgent
from autogen_core import CancellationToken, FunctionCall
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    ModelInfo,
    UserMessage,
)
from autogen_ext.models.replay import ReplayChatCompletionClient
from fastapi import FastAPI, Header
from mcp.shared.memory import create_connected_server_and_client_session
from pydantic import AnyUrl

from benchmarks.scratch import scratch_store
from memory_context import MemoryContext, MemoryCriteria, MemoryStore, MemoryTransform
from memory_context.foundation.identifiers import SessionKey
from memory_context.memory.agent_memory import AgentMemory
from memory_context.memory.scope import MemorySnapshot
from memory_context.store.conversations import ChatMessage
from memory_context.store.threads import ThreadElement, ThreadStep
from memory_context.surfaces.cli import execute
from memory_context.surfaces.mcp import ServedMemory, create_server
from memory_context.surfaces.web import create_chat_router

__all__ = ["LeakReport", "Path", "Victim", "attack", "cli_paths", "live", "main"]

VICTIM, ATTACKER = "alice", "mallory"
CALLS = 50_000
CLI_SHARE = 0.002  # a command starts a store of its own
_MARK = "zqxcanary"
_SESSION = "quarter"
_WORDS = ("harbour", "quarterly report", "what did I say last time?", "invoice E4711", "payment gateway")
_INFO = ModelInfo(vision=False, function_calling=True, json_output=False, family="unknown", structured_output=False)


def _canary(name: str, lines: int = 3) -> str:
    """Return a text of the first user: common words, to be found by, and marks in every line."""
    return "\n".join(f"harbour quarterly report {_MARK}{name}{n}: invoice E4711 {_MARK}" for n in range(lines))


@dataclass
class Victim:
    """What the attacker knows of the first user: everything but texts.

    Attributes:
        known: Arguments by their kind, such as key or session.
        is_exact: Whether the first of each is used as it is: for the first user's own calls.
    """

    known: dict[str, list[str]]
    is_exact: bool = False

    def pick(self, kind: str, rng: random.Random) -> str:
        """Return an argument of the first user's."""
        return self.known[kind][0] if self.is_exact else rng.choice(self.known[kind])

    def forge(self, kind: str, rng: random.Random) -> str:
        """Return an argument of the first user's, or one that is nearly it."""
        value = self.pick(kind, rng)
        if self.is_exact or rng.random() < 0.7:
            return value
        return rng.choice(
            [
                value.upper(),
                value[:-1] or value,
                f"{value} ",
                f"{VICTIM}/{value}",
                f"../{VICTIM}/{value}",
                f"{value}' OR user_id = '{VICTIM}",
                f"{value}\x00",
                f"{value}%",
                f"[MemoryRef: {value} - note - 9 tokens]",
                rng.choice(self.known[rng.choice(sorted(self.known))])[:100],
            ]
        )


@dataclass(frozen=True)
class Path:
    """A way to read.

    Attributes:
        name: Where it is and what it is called.
        call: Calls it as a user with forged arguments and returns what came back.
    """

    name: str
    call: Callable[[str, random.Random], Awaitable[Any]]


@dataclass(frozen=True)
class LeakReport:
    """What came of an attack.

    Attributes:
        calls: Calls by path.
        leaks: Calls that showed something of the first user, by path.
        example: The first such answer, cut.
    """

    calls: Counter[str]
    leaks: Counter[str]
    example: str = ""


async def live(store: MemoryStore) -> Victim:
    """Let the first user live: items, a session with large results, sub-agents, a chat page; return what is known."""
    context = MemoryContext(VICTIM, "assistant", _SESSION, store)
    async with context:
        await context.add_message(UserMessage(content=f"Read the report. {_canary('task', 1)}", source="user"))
        call = FunctionCall(id="c", name="read_report", arguments=json.dumps({"path": _canary("argument", 1)}))
        await context.add_message(AssistantMessage(content=[call], source="assistant"))
        result = FunctionExecutionResult(
            call_id="c", name="read_report", content=_canary("result", 300), is_error=False
        )
        await context.add_message(FunctionExecutionResultMessage(content=[result]))
        await context.get_messages()
        await context.add_message(AssistantMessage(content=_canary("answer", 2), source="assistant"))
        keys = [
            await context.store(_canary(f"note{n}"), _canary(f"description{n}", 1), tags=[_canary(f"tag{n}", 1)])
            for n in range(3)
        ]
        keys.append(await context.store(_canary("raw") + "\ud800\x00", "raw"))
        private = AgentMemory(store, VICTIM, "clerk", f"{_SESSION}/clerk", sharing="isolated")
        keys.append((await private.store(_canary("private"))).key)
        keys += [item.key for item in await context.agent_memory.query(MemoryCriteria())]
        snapshot = (await context.agent_memory.snapshot()).to_json()
        state = json.dumps(await context.save_state())
    now = datetime.now(timezone.utc)
    chat = [ChatMessage(f"m{n}", _canary(f"chat{n}", 1), "user", now) for n in range(3)]
    title = _canary("title", 1)
    key = SessionKey(VICTIM, "assistant", _SESSION)
    await store.conversations.append(key, chat=chat, title=title, summary=_canary("summary"))
    await store.threads.update_thread(VICTIM, "thread", name=_canary("thread", 1), metadata={"note": _canary("m", 1)})
    step = ThreadStep("step", "thread", {"name": _canary("step", 1)}, input=_canary("input"), output=_canary("output"))
    await store.threads.upsert_step(VICTIM, step, is_update=False)
    element = ThreadElement("element", "thread", "step", {"name": _canary("element", 1)})
    await store.threads.upsert_element(VICTIM, element, content=_canary("file").encode())
    await AgentMemory(store, ATTACKER, "assistant", _SESSION).store("my own harbour report", description="mine")
    await store.flush_index()
    # the attacker has no text of the first user: what was in the state stands there as something else
    hidden = state.replace(_MARK, "hidden").replace(f'"{VICTIM}"', f'"{ATTACKER}"')
    return Victim(
        {
            "key": list(dict.fromkeys(keys)),
            "session": [_SESSION, f"{_SESSION}/clerk", "thread"],
            "agent": ["assistant", "clerk"],
            "message": [one.id for one in chat],
            "thread": ["thread", _SESSION],
            "step": ["step"],
            "element": ["element"],
            "query": list(_WORDS),
            "snapshot": [snapshot, snapshot.replace(f'"{VICTIM}"', f'"{ATTACKER}"')],
            "state": [state.replace(_MARK, "hidden"), hidden],
        }
    )


@asynccontextmanager
async def store_paths(store: MemoryStore, victim: Victim, users: tuple[str, ...]) -> AsyncIterator[list[Path]]:
    """Yield the paths of a store: its parts, contexts, tools, the MCP server, and the chat's routes."""
    forge = victim.forge

    def memory(user: str, rng: random.Random) -> AgentMemory:
        return AgentMemory(store, user, forge("agent", rng), victim.pick("session", rng))

    def context(user: str, rng: random.Random) -> MemoryContext:
        return MemoryContext(user, "assistant", victim.pick("session", rng), store)

    async def retrieve(user: str, rng: random.Random) -> Any:
        transform = rng.choice(
            [MemoryTransform.of("full"), MemoryTransform.of("summary"), MemoryTransform.of("filtered", pattern="E4711")]
        )
        return await memory(user, rng).retrieve(forge("key", rng), transform)

    async def query(user: str, rng: random.Random) -> Any:
        session = None if victim.is_exact else rng.choice([None, forge("session", rng)])
        related = None if victim.is_exact else rng.choice([None, victim.pick("key", rng)])
        return await memory(user, rng).query(MemoryCriteria(session_id=session, related_to=related))

    async def restore(user: str, rng: random.Random) -> Any:
        reader = memory(user, rng)
        await reader.restore(MemorySnapshot.from_json(victim.pick("snapshot", rng)))
        return [await reader.retrieve(key) for key in victim.known["key"][:2]]

    async def resume(user: str, rng: random.Random) -> Any:
        async with context(user, rng) as one:
            await one.add_message(UserMessage(content=f"{forge('query', rng)} {forge('key', rng)}", source="user"))
            return await one.get_messages(), await one.explain(), await one.resume()

    async def load_state(user: str, rng: random.Random) -> Any:
        async with MemoryContext(user, "assistant", None, store) as one:
            await one.load_state(json.loads(victim.pick("state", rng)))
            return await one.get_messages(), await one.save_state()

    def of_tool(name: str) -> Callable[[str, random.Random], Awaitable[Any]]:
        async def call(user: str, rng: random.Random) -> Any:
            (tool,) = [tool for tool in context(user, rng).tools() if tool.name == name]
            return await tool.run_json(_arguments(name, victim, rng), CancellationToken())

        return call

    async with _clients(store, users) as (mcp, web):

        async def read(user: str, rng: random.Random) -> Any:
            kind = rng.choice(["key", "session"])
            place = forge(kind, rng)
            found = await mcp[user].read_resource(AnyUrl(f"memory://{'sessions/' * (kind == 'session')}{place}"))
            return found.model_dump()

        def of_server(name: str) -> Callable[[str, random.Random], Awaitable[Any]]:
            async def call(user: str, rng: random.Random) -> Any:
                return (await mcp[user].call_tool(name, _arguments(name, victim, rng))).model_dump()

            return call

        def of_route(route: str) -> Callable[[str, random.Random], Awaitable[Any]]:
            async def call(user: str, rng: random.Random) -> Any:
                place = httpx.URL("http://chat").copy_with(path=route.format(session=forge("session", rng))).path
                return (await web.get(place, headers={"X-User": user})).text

            return call

        async def say(user: str, rng: random.Random) -> Any:
            new = {"id": forge("message", rng), "text": forge("key", rng), "sender": "user"}
            body = {
                "new_messages": [new | {"timestamp": "2026-01-01T00:00:00Z"}],
                "session_id": victim.pick("session", rng),
                "agent_id": "assistant",
            }
            return (await web.post("/api/chat", json=body, headers={"X-User": user})).text

        archive, threads = store.conversations, store.threads

        async def archived(user: str, rng: random.Random) -> Any:
            return await archive.read(SessionKey(user, "assistant", forge("session", rng)))

        yield [
            Path("AgentMemory.retrieve", retrieve),
            Path("AgentMemory.query", query),
            Path("AgentMemory.search", lambda user, rng: memory(user, rng).search(forge("query", rng))),
            Path("AgentMemory.retrieve_contents", lambda user, rng: memory(user, rng).retrieve_contents(
                [forge("key", rng) for _ in range(4)])),
            Path("AgentMemory.not_found", lambda user, rng: memory(user, rng).not_found(forge("key", rng))),
            Path("AgentMemory.audit", lambda user, rng: memory(user, rng).audit(forge("session", rng))),
            Path("AgentMemory.restore", restore),
            Path("MemoryContext.get_messages", resume),
            Path("MemoryContext.load_state", load_state),
            Path("MemoryContext.retrieve", lambda user, rng: context(user, rng).retrieve(forge("key", rng))),
            Path("MemoryContext.search", lambda user, rng: context(user, rng).search(forge("query", rng))),
            Path("conversations.read", archived),
            Path("conversations.session", lambda user, rng: archive.session(user, forge("session", rng))),
            Path("conversations.sessions", lambda user, rng: archive.sessions(user)),
            Path("conversations.chat_page", lambda user, rng: archive.chat_page(user, forge("session", rng))),
            Path("threads.thread", lambda user, rng: threads.thread(user, forge("thread", rng))),
            Path("threads.element", lambda user, rng: threads.element(
                user, forge("thread", rng), forge("element", rng))),
            Path("threads.element_content", lambda user, rng: threads.element_content(
                user, forge("thread", rng), forge("element", rng))),
            Path("user_stats.kinds", lambda user, rng: store.user_stats.kinds(
                user, session_id=forge("session", rng))),
            Path("user_stats.transcripts", lambda user, rng: store.user_stats.transcripts(
                user, forge("session", rng))),
            *(Path(f"tool {name}", of_tool(name)) for name in ("retrieve_memory", "search_memory", "query_memory")),
            *(Path(f"MCP {name}", of_server(name)) for name in ("retrieve_memory", "search_memory", "query_memory")),
            Path("MCP read_history", of_server("read_history")),
            Path("MCP read_resource", read),
            Path("MCP list_resources", lambda user, rng: mcp[user].list_resources()),
            Path("web sessions", of_route("/api/chat/sessions")),
            Path("web session", of_route("/api/chat/sessions/{session}")),
            Path("web messages", of_route("/api/chat/sessions/{session}/messages")),
            Path("web chat", say),
        ]  # fmt: skip


def cli_paths(url: str, victim: Victim) -> list[Path]:
    """Return the commands that read, run as they are; outside of an event loop."""

    def of_command(*words: str, kind: str = "") -> Callable[[str, random.Random], Awaitable[Any]]:
        async def call(user: str, rng: random.Random) -> Any:
            place = [victim.forge(kind, rng).replace("\x00", "")] if kind else []
            out = io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace")  # exports go to the bytes behind it
            with redirect_stdout(out), redirect_stderr(out):
                await asyncio.to_thread(execute, [*words, *place, "--user", user, "--url", url])
            out.flush()
            return cast(io.BytesIO, out.buffer).getvalue()

        return call

    commands = (("show",), "key"), (("search",), "query"), (("list",), ""), (("sessions",), "session")
    rest = (("sessions", "--explain"), "session"), (("export", "--session"), "session"), (("stats",), "")
    return [Path(f"CLI {' '.join(words)}", of_command(*words, kind=kind)) for words, kind in (*commands, *rest)]


async def attack(paths: list[Path], user: str, calls: int, seed: int) -> LeakReport:
    """Call all paths in turn as a user, with forged arguments, and look for the first user's marks in what comes."""
    rng = random.Random(seed)
    made, leaks, example = Counter[str](), Counter[str](), ""
    for number in range(calls):
        path = paths[number % len(paths)]
        try:
            answer = _text(await path.call(user, rng))
        except Exception as error:
            answer = f"{error!r} {error.__cause__!r}"
        made[path.name] += 1
        if any(mark in answer for mark in _MARKS):
            leaks[path.name] += 1
            example = example or f"{path.name}: {answer[:500]}"
    return LeakReport(made, leaks, example)


def _marks() -> tuple[str, ...]:
    """Return what shows that a text of the first user came: the mark, also inside of Base64, wherever it begins."""
    inside = [base64.b64encode(b"x" * shift + _MARK.encode()).decode()[4:12] for shift in range(3)]
    return _MARK, *(part.lower() for part in inside)


_MARKS = _marks()


def _text(answer: Any) -> str:
    """Return all that an answer holds, in lower case."""
    if isinstance(answer, bytes):
        return answer.decode("utf-8", "replace").lower()
    if is_dataclass(answer) and not isinstance(answer, type):  # whose own repr may be short
        return "\n".join(_text(getattr(answer, field.name)) for field in fields(answer))
    if isinstance(answer, (list, tuple)):
        return "\n".join(map(_text, cast("list[Any]", answer)))
    return (answer if isinstance(answer, str) else repr(answer)).lower()


def _arguments(tool: str, victim: Victim, rng: random.Random) -> dict[str, Any]:
    if tool == "retrieve_memory":
        return {"memory_key": victim.forge("key", rng), "transform": rng.choice(["full", "summary"])}
    if tool == "read_history":
        return {"session_id": victim.forge("session", rng)}
    if tool == "search_memory":
        return {"query": victim.forge("query", rng)}
    return {} if victim.is_exact else {"related_to": rng.choice([None, victim.pick("key", rng)])}


@asynccontextmanager
async def _clients(
    store: MemoryStore, users: tuple[str, ...]
) -> AsyncIterator[tuple[dict[str, Any], httpx.AsyncClient]]:
    """Yield a client of an MCP server for each user, and one of the chat's routes for whoever it says it is."""

    async def current_user(x_user: str = Header()) -> str:
        return x_user

    def agent(context: MemoryContext) -> AssistantAgent:
        return AssistantAgent("assistant", ReplayChatCompletionClient(["ok"] * 1000, _INFO), model_context=context)

    app = FastAPI()
    app.include_router(create_chat_router(store, {"assistant": agent}, current_user))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://chat", timeout=60) as web,
    ):
        first, second = (create_server(ServedMemory(store, user)) for user in (users[0], users[-1]))
        async with (
            create_connected_server_and_client_session(first) as one,
            create_connected_server_and_client_session(second) as other,
        ):
            yield {users[0]: one, users[-1]: other}, web


async def run(store: MemoryStore, url: str, calls: int, seed: int) -> tuple[LeakReport, LeakReport]:
    """Attack a store in which nobody lived yet; return what the attacker got, and what the first user gets."""
    victim = await live(store)
    commands = cli_paths(url, victim)
    by_command = max(int(calls * CLI_SHARE), len(commands))
    async with store_paths(store, victim, (VICTIM, ATTACKER)) as paths:
        attacked = [
            await attack(paths, ATTACKER, calls - by_command, seed),
            await attack(commands, ATTACKER, by_command, seed),
        ]
        victim.is_exact = True
        owns = [await attack(paths, VICTIM, 3 * len(paths), seed), await attack(commands, VICTIM, len(commands), seed)]
    return _joined(attacked), _joined(owns)


def _joined(reports: list[LeakReport]) -> LeakReport:
    made, leaks = Counter[str](), Counter[str]()
    for report in reports:
        made += report.calls
        leaks += report.leaks
    return LeakReport(made, leaks, next((one.example for one in reports if one.example), ""))


def main(arguments: list[str] | None = None) -> LeakReport:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.leaks", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--calls", type=int, default=CALLS, help=f"forged calls (default {CALLS:,})")
    parser.add_argument("--seed", type=int, default=1, help="of the arguments (default 1)")
    given = parser.parse_args(arguments)

    async def attacked() -> LeakReport:
        async with scratch_store() as (store, url):
            return (await run(store, url, given.calls, given.seed))[0]

    report = asyncio.run(attacked())
    print(f"{report.calls.total():,} forged calls, {report.leaks.total()} leaks (seed {given.seed})")
    for name, calls in sorted(report.calls.items()):
        print(f"  {name}: {calls:,} calls, {report.leaks[name]} leaks")
    if report.example:
        print(report.example)
    return report


if __name__ == "__main__":
    main()
