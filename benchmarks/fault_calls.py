"""The calls that are run while the database fails: of a store, and of what stands before it.

store calls      contexts, memories, tools, conversations, threads, user_stats, admin
surface calls    an MCP client, the command line, Chainlit's data layer, claims of sessions
closing calls    a context and a store that still have large content to write
"""

import asyncio
import io
import math
import os
import sys
import tempfile
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, redirect_stderr, redirect_stdout
from contextvars import ContextVar
from datetime import timedelta
from typing import Any
from unittest.mock import patch
from uuid import uuid4

from autogen_core import CancellationToken
from autogen_core.models import UserMessage
from mcp import ClientSession, McpError, types
from mcp.shared.memory import create_connected_server_and_client_session
from pydantic import AnyUrl

from memory_context import AgentMemory, ContextPolicy, MemoryContext, MemoryStore
from memory_context.foundation.errors import StoreUnavailableError
from memory_context.foundation.identifiers import SessionKey
from memory_context.sessions.live.claims import Claims
from memory_context.store.items import NewItem
from memory_context.store.limits import StoreLimits, at_most
from memory_context.surfaces.cli import execute
from memory_context.surfaces.mcp import ServedMemory, create_server

__all__ = [
    "Call",
    "buffer_large",
    "closing_calls",
    "closing_contexts",
    "fill",
    "own_output",
    "store_calls",
    "surface_calls",
]

Call = Callable[[], Awaitable[object]]

_LARGE = "lines of a result that is stored\n" * 200
_KEY = "notes_abc234"


async def fill(store: MemoryStore) -> None:
    """Store what the calls ask for."""
    for user_id in ("alice", "bob"):
        notes = NewItem(_LARGE, "notes", 1000, key=_KEY, agent_id="coder", session_id="s")
        await store.items.insert_memories(user_id, [notes])
    context = MemoryContext("alice", "coder", "s", store)
    await context.add_message(UserMessage(content="Hello.", source="user"))
    await context.archive()
    await store.threads.upsert_user("alice", {})
    await store.threads.update_thread("alice", "s", name="Hello")
    await store.flush_index()


# --- the store


def store_calls(store: MemoryStore, policy: ContextPolicy) -> dict[str, Call]:
    """Return calls of a store, each on objects of its own: a step may be the first to meet the fault."""
    memory = AgentMemory(store, "alice", "coder", "s")
    tools = {tool.name: tool for tool in MemoryContext("alice", "coder", "s", store, policy=policy).tools()}
    contexts = {name: MemoryContext("alice", name, "s", store, policy=policy) for name in ("resume", "load", "save")}
    known = MemoryContext("alice", "coder", "s", store, policy=policy)
    state = {"messages": [{"type": "UserMessage", "content": "Hello.", "source": "user"}]}

    def tool(name: str, **arguments: object) -> Call:
        return lambda: tools[name].run_json(arguments, CancellationToken())

    async def step(context: MemoryContext) -> None:
        await context.add_message(UserMessage(content=f"Open {_KEY}, as last time. {_LARGE}", source="user"))
        await context.get_messages()

    async def written(name: str) -> None:
        context = MemoryContext("alice", name, memory_store=store, policy=policy)
        await context.add_message(UserMessage(content="Hello.", source="user"))
        await (context.archive() if name == "archive" else context.close())

    async def exported() -> None:
        async for _ in store.admin.export_lines("alice"):
            pass

    return {
        "step, new session": lambda: step(MemoryContext("alice", "coder", memory_store=store, policy=policy)),
        "step, known session": lambda: step(known),
        "context.archive": lambda: written("archive"),
        "context.close": lambda: written("close"),
        "context.resume": contexts["resume"].resume,
        "context.load_state": lambda: contexts["load"].load_state(state),
        "context.save_state": contexts["save"].save_state,
        "memory.store": lambda: memory.store(_LARGE, description="new"),
        "memory.retrieve": lambda: memory.retrieve(_KEY),
        "memory.query": memory.query,
        "memory.search": lambda: memory.search("lines of notes"),
        "memory.forget": lambda: memory.forget(_KEY),
        "memory.audit": memory.audit,
        "memory.snapshot": memory.snapshot,
        "tool store_memory": tool("store_memory", content="text", description="text"),
        "tool retrieve_memory": tool("retrieve_memory", memory_key=_KEY),
        "tool search_memory": tool("search_memory", query="lines of notes"),
        "tool query_memory": tool("query_memory"),
        "conversations.sessions": lambda: store.conversations.sessions("alice"),
        "conversations.chat_page": lambda: store.conversations.chat_page("alice", "s"),
        "conversations.delete_session": lambda: store.conversations.delete_session("alice", "s"),
        "threads.page": lambda: store.threads.page("alice"),
        "user_stats.extent": lambda: store.user_stats.extent("alice"),
        "user_stats.forget": lambda: store.user_stats.forget("alice", [_KEY]),
        "admin.status": store.admin.status,
        "batch: memory.clear": AgentMemory(store, "bob", "coder", "s").clear,
        "batch: erase_user": lambda: store.erase_user("bob"),
        "batch: prune": lambda: store.prune(timedelta(days=1), conversations=True),
        "batch: export": exported,
    }


# --- what stands before it


@asynccontextmanager
async def surface_calls(store: MemoryStore, proxied_url: str, limits: StoreLimits) -> AsyncIterator[dict[str, Call]]:
    """Yield calls of an MCP client, of the command line, of Chainlit and of claims, made before the fault begins."""
    server = create_server(ServedMemory(store, "alice"))
    async with (
        create_connected_server_and_client_session(server) as client,
        _claim_calls(store) as claims,
    ):
        seconds = math.inf if limits == StoreLimits() else limits.transaction_seconds
        await client.list_tools()
        yield {**_mcp_calls(client), **_command_calls(proxied_url, seconds), **_chainlit_calls(store), **claims}


def _mcp_calls(client: ClientSession) -> dict[str, Call]:
    def tool(name: str, **arguments: object) -> Call:
        return lambda: client.call_tool(name, arguments)

    async def answered(request: Awaitable[types.Result]) -> None:
        try:
            await request
        except McpError as error:
            raise StoreUnavailableError(error.error.message) from error

    return {
        "MCP store_memory": tool("store_memory", content="text", description="text"),
        "MCP retrieve_memory": tool("retrieve_memory", memory_key=_KEY),
        "MCP search_memory": tool("search_memory", query="lines of notes"),
        "MCP read_history": tool("read_history", session_id="s"),
        "MCP list_resources": lambda: answered(client.list_resources()),
        "MCP read_resource": lambda: answered(client.read_resource(AnyUrl(f"memory://{_KEY}"))),
    }


_output: ContextVar[io.StringIO | None] = ContextVar("output of a command", default=None)


class _OwnOutput(io.TextIOBase):
    """Takes what each command prints, in a thread of its own, apart."""

    def write(self, text: str, /) -> int:
        output = _output.get()
        return len(text) if output is None else output.write(text)


@contextmanager
def own_output() -> Iterator[None]:
    """Keep what commands print out of the output of this process."""
    with redirect_stdout(_OwnOutput()), redirect_stderr(_OwnOutput()):
        yield


def _command_calls(url: str, seconds: float) -> dict[str, Call]:
    """Return commands; each fails with one line and exit code 1, or works. Without settings they have the defaults."""

    async def run(*arguments: str) -> None:
        _output.set(io.StringIO())
        with at_most(seconds):
            code = await asyncio.to_thread(execute, [*arguments, "--url", url, "--user", "alice"])
        printed = (output := _output.get()) and output.getvalue()
        if code == 1 and printed and printed.startswith("memory-context: ") and printed.count("\n") == 1:
            raise StoreUnavailableError(printed)
        if code != 0:
            raise AssertionError(f"{code}: {printed}")

    return {
        "command list": lambda: run("list"),
        "command search": lambda: run("search", "lines of notes"),
        "command show": lambda: run("show", _KEY),
        "command sessions": lambda: run("sessions", "s"),
    }


def _chainlit_calls(store: MemoryStore) -> dict[str, Call]:
    layer_of, pagination, thread_filter = _chainlit()
    layer = layer_of(store)
    step: Any = {"id": "step", "threadId": "s", "type": "user_message", "output": "Hello."}
    return {
        "Chainlit get_user": lambda: layer.get_user("alice"),
        "Chainlit list_threads": lambda: layer.list_threads(pagination(first=20), thread_filter(userId="alice")),
        "Chainlit get_thread": lambda: layer.get_thread("s"),
        "Chainlit create_step": lambda: layer.create_step(step),
        "Chainlit update_thread": lambda: layer.update_thread("s", name="Hello again", user_id="alice"),
        "Chainlit delete_thread": lambda: layer.delete_thread("s"),
    }


def _chainlit() -> tuple[Any, Any, Any]:
    """Return what is called of Chainlit; importing it writes its settings into a folder, a passing one here."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), patch.dict(os.environ):
        if "chainlit" not in sys.modules:
            os.environ["CHAINLIT_APP_ROOT"] = folder
        warnings.simplefilter("ignore")
        from chainlit.types import Pagination, ThreadFilter

        from memory_context.surfaces.chainlit import MemoryDataLayer

        __import__("chainlit.server")
    return MemoryDataLayer, Pagination, ThreadFilter


@asynccontextmanager
async def _claim_calls(store: MemoryStore) -> AsyncIterator[dict[str, Call]]:
    """Yield calls of claims: of a free session, and of held ones."""
    claims = Claims(store.claim_rows, lambda key: None, lambda key: None)
    run = uuid4().hex  # claims of a run before last until their leases end
    taken, confirmed, released = (SessionKey("alice", name, run) for name in ("taken", "confirmed", "released"))
    confirmed_claim, released_claim = await claims.claim(confirmed, 0), await claims.claim(released, 0)
    yield {
        "claim": lambda: claims.claim(taken, 1),
        "confirm a claim": lambda: claims.confirm(confirmed_claim),
        "claim released": lambda: claims.release(released_claim),
    }
    await claims.close()


# --- closing


def closing_contexts(url: str, policy: ContextPolicy) -> dict[str, MemoryContext]:
    """Return contexts that are to be closed with large content: on a store of their own, and on the default store."""
    stores = {name: MemoryStore(url) for name in ("close: context", "close: store")}
    contexts = {name: MemoryContext("alice", name, memory_store=store, policy=policy) for name, store in stores.items()}
    with patch.dict(os.environ, MEMORY_CONTEXT_URL=url):
        contexts["close: context, default store"] = MemoryContext("alice", "default", policy=policy)
    return contexts


async def buffer_large(context: MemoryContext, size: int) -> None:
    """Have a context buffer content that cannot be stored now."""
    line = "lines of a result that is large\n"
    await context.add_message(UserMessage(content=line * (size // len(line)), source="user"))


def closing_calls(contexts: dict[str, MemoryContext]) -> dict[str, Call]:
    """Return what closes each of them."""
    return {
        name: context.memory_store.close if name == "close: store" else context.close
        for name, context in contexts.items()
    }
