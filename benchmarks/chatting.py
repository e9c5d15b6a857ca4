"""Many conversations at once: the chat server beside the same agents without memory.

    python -m benchmarks.chatting [--sessions N] [--turns N] [--json FILE]

Every session talks by turns, all sessions at once, with agents whose model answers at once, so that what is measured is
everything around it: first as fast as they can, then with a pause before each turn, as people have. Every fifth turn
calls a tool with a large result. Beside it the same agents with AutoGen's own unbounded context, held in a dict behind
the same kind of route. Afterwards each conversation is read back and compared with what was said; a message that is
lost, doubled or out of its place is an error.
"""

import argparse
import asyncio
import json
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import httpx
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import BaseChatMessage
from autogen_core import FunctionCall
from autogen_core.model_context import ChatCompletionContext, UnboundedChatCompletionContext
from autogen_core.models import (
    CreateResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    ModelInfo,
    RequestUsage,
    UserMessage,
)
from autogen_ext.models.replay import ReplayChatCompletionClient
from fastapi import FastAPI

from benchmarks.comparing import Measured, print_measured
from benchmarks.scratch import scratch_store
from memory_context import ContextPolicy, MemoryContext, MemoryStore
from memory_context.surfaces.web import ChatLimits, create_chat_router

__all__ = ["main", "measure_chatting"]

SESSIONS = 200
TURNS = 10
OFFLOAD_EVERY = 5
PACED_TURNS = 5
PAUSE_SECONDS = 8.0
TRANSACTIONS_TARGET = 1.1  # one a turn, and one to begin a session of ten
_MODEL_INFO = ModelInfo(vision=False, function_calling=True, json_output=True, family="unknown", structured_output=True)
_LINES = 400

Say = Callable[[str, str], Awaitable[str]]
"""Says something in a session, which may be new, and returns what was answered."""


class Scripted(ReplayChatCompletionClient):
    """A model that answers at once: with a call where it is told to survey, else with the words it was told."""

    def __init__(self) -> None:
        super().__init__([""], model_info=_MODEL_INFO)

    async def create(self, messages: Sequence[LLMMessage], **_: Any) -> CreateResult:
        """Answer the last message."""
        last = messages[-1]
        usage = RequestUsage(prompt_tokens=0, completion_tokens=0)
        said = (one for one in reversed(messages) if isinstance(one, UserMessage) and one.source == "user")
        asked = str(next(said).content)
        if "survey" in asked and not isinstance(last, FunctionExecutionResultMessage):
            call = FunctionCall(id=uuid.uuid4().hex, name="survey", arguments=json.dumps({"topic": asked[-40:]}))
            return CreateResult(finish_reason="function_calls", content=[call], usage=usage, cached=False)
        return CreateResult(finish_reason="stop", content=f"On {asked}", usage=usage, cached=False)


async def survey(topic: str) -> str:
    """Survey a topic: some 6,000 tokens."""
    return "\n".join(f"{topic} finding {i}: value {i * 37 % 1009}" for i in range(_LINES))


def agent_around(context: ChatCompletionContext) -> AssistantAgent:
    """Make the agent that both sides have."""
    return AssistantAgent("coder", Scripted(), tools=[survey], model_context=context, max_tool_iterations=3)


@dataclass
class Run:
    """What one side did.

    Attributes:
        seconds: All of it together.
        latencies: Seconds of each turn.
        errors: What went wrong, in words.
    """

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list[float])
    errors: list[str] = field(default_factory=list[str])


async def measure_chatting(
    sessions: int = SESSIONS, turns: int = TURNS, pause_seconds: float = PAUSE_SECONDS
) -> list[Measured]:
    """Let everybody talk, with memory and without, in a scratch database."""
    async with scratch_store() as (store, _):
        with_memory, transactions, events = await _with_memory(store, sessions, turns)
    without = await _without_memory(sessions, turns)
    async with scratch_store() as (store, _):
        paced, *_ = await _with_memory(store, sessions, PACED_TURNS, pause_seconds)
    paced_without = await _without_memory(sessions, PACED_TURNS, pause_seconds)
    offloads = sum((turn + 1) % OFFLOAD_EVERY == 0 for turn in range(turns)) * sessions
    per_turn = (transactions - offloads) / (sessions * turns)
    both = (with_memory, without)
    errors = with_memory.errors + paced.errors
    return [
        Measured("errors", len(errors), "0", not errors, "; ".join(errors[:3])),
        Measured(
            "write transactions a turn, one for each message with offloads left out",
            per_turn,
            f"<= {TRANSACTIONS_TARGET}",
            per_turn <= TRANSACTIONS_TARGET,
            f"{transactions} for {sessions * turns} turns, {offloads} with offloads; {events} for index and audit",
        ),
        Measured(
            "turns a second / without memory",
            without.seconds / with_memory.seconds,
            detail=" / ".join(f"{sessions * turns / one.seconds:.0f}" for one in both),
        ),
        *(
            Measured(
                f"{name} of a turn, {pace} / without memory",
                figure(one.latencies) / figure(other.latencies),
                detail=f"{1000 * figure(one.latencies):.0f} ms / {1000 * figure(other.latencies):.0f} ms",
            )
            for pace, one, other in (
                ("as fast as they can", with_memory, without),
                (f"each session every {pause_seconds:g} s", paced, paced_without),
            )
            for name, figure in (("median latency", median), ("95 % latency", _late))
        ),
    ]


async def _with_memory(
    store: MemoryStore, sessions: int, turns: int, pause_seconds: float = 0.0
) -> tuple[Run, int, int]:
    limits = ChatLimits(requests_per_minute=1_000_000)
    app = FastAPI()
    policy = ContextPolicy(store_timeout_seconds=60)  # with its message, so that it can be counted
    router = create_chat_router(store, agent_around, _alice, agents=["assistant"], policy=policy, limits=limits)
    app.include_router(router)
    begun: dict[str, str] = {}
    said: dict[str, list[str]] = {}

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://chat", timeout=600) as client:

        async def say(session: str, text: str) -> str:
            message = {"id": uuid.uuid4().hex, "text": text, "sender": "user", "timestamp": _now()}
            body = {"new_messages": [message], "session_id": begun.get(session)}
            response = await client.post("/api/chat", json=body)
            response.raise_for_status()
            answer = response.json()
            begun[session] = answer["session_id"]
            said.setdefault(session, []).extend([text, answer["message"]["text"]])
            return str(answer["message"]["text"])

        run = await _talk(say, sessions, turns, pause_seconds)
        await router.chat.close()
    transactions = store.conversations.write_transactions + store.items.write_transactions
    before = store._database.write_transactions  # pyright: ignore[reportPrivateUsage]
    run.errors += await _compare(store, begun, said)
    return run, transactions, before - transactions


async def _alice() -> str:  # a plain function would take a thread for each request
    return "alice"


async def _without_memory(sessions: int, turns: int, pause_seconds: float = 0.0) -> Run:
    app = FastAPI()
    agents: dict[str, AssistantAgent] = {}

    @app.post("/api/chat")
    async def chat(body: dict[str, Any]) -> dict[str, Any]:
        session_id = body["session_id"]
        if session_id not in agents:
            agents[session_id] = agent_around(UnboundedChatCompletionContext())
        result = await agents[session_id].run(task=body["new_messages"][0]["text"])
        last = result.messages[-1]
        assert isinstance(last, BaseChatMessage)
        return {"session_id": session_id, "message": {"text": last.to_text()}}

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://chat", timeout=600) as client:

        async def say(session: str, text: str) -> str:
            body = {"new_messages": [{"text": text}], "session_id": session}
            response = await client.post("/api/chat", json=body)
            response.raise_for_status()
            return str(response.json()["message"]["text"])

        return await _talk(say, sessions, turns, pause_seconds)


async def _talk(say: Say, sessions: int, turns: int, pause_seconds: float) -> Run:
    """Let all sessions talk at once, each turn by turn."""
    run = Run()

    async def talk(number: int) -> None:
        await asyncio.sleep(pause_seconds * number / sessions)
        for turn in range(turns):
            await asyncio.sleep(pause_seconds if turn else 0)
            is_large = (turn + 1) % OFFLOAD_EVERY == 0
            text = f"{'survey' if is_large else 'tell me'} number {turn} of session {number}"
            started = time.perf_counter()
            try:
                answer = await say(f"session {number}", text)
            except httpx.HTTPError as error:
                run.errors.append(repr(error))
                continue
            run.latencies.append(time.perf_counter() - started)
            if answer != f"On {text}":
                run.errors.append(f"{text!r} was answered {answer!r}")

    started = time.perf_counter()
    await asyncio.gather(*(talk(number) for number in range(sessions)))
    run.seconds = time.perf_counter() - started
    return run


async def _compare(store: MemoryStore, begun: dict[str, str], said: dict[str, list[str]]) -> list[str]:
    """Return what is not as it was said: what people see, and what the agents know."""
    errors: list[str] = []
    for session, texts in said.items():
        page = await store.conversations.chat_page("alice", begun[session], limit=10 * len(texts))
        if [message.text for message in page] != texts:
            errors.append(f"{session}: {len(page)} chat messages instead of {len(texts)}, or in another order")
        context = MemoryContext("alice", "assistant", begun[session], store)
        report = await context.resume()
        words = [
            str(entry.message.content)
            for entry in context.transcript.entries()
            if not isinstance(entry.message, FunctionExecutionResultMessage) and isinstance(entry.message.content, str)
        ]
        if words != texts or not report.is_complete:
            errors.append(f"{session}: the agent knows {len(words)} messages instead of {len(texts)}: {report}")
    return errors


def _now() -> str:
    return datetime.now(timezone.utc).isoformat()


def _late(latencies: list[float]) -> float:
    return quantiles(latencies, n=20)[-1]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chatting", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sessions", type=int, default=SESSIONS, help=f"at once (default {SESSIONS})")
    parser.add_argument("--turns", type=int, default=TURNS, help=f"of each (default {TURNS})")
    parser.add_argument("--pause", type=float, default=PAUSE_SECONDS, help=f"seconds (default {PAUSE_SECONDS:g})")
    parser.add_argument("--json", type=Path, help="write the figures here")
    given = parser.parse_args(arguments)
    measured = asyncio.run(measure_chatting(given.sessions, given.turns, given.pause))
    print_measured(measured, f"{given.sessions} conversations at once")
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in measured], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
