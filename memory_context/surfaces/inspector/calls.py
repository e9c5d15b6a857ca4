"""The inspector's routes of sessions and model calls; all read the archive, so a running process is not disturbed.

GET  /api/about                        the user, price lists, and the policy that is assumed
GET  /api/sessions                     a page, searched and filtered
GET  /api/sessions/{id}                its agents, and sums of their bills
GET  /api/sessions/{id}/calls          compact rows, one a call
GET  /api/sessions/{id}/calls/{n}      the exact messages in segments
GET  /api/sessions/{id}/calls/{n}/changes  what differs from the call before
GET  /api/sessions/{id}/messages       a page of the transcript, such as what a fold stands for
POST /api/sessions/{id}/what-if        the bill of another policy from a call on
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Annotated, Any, get_args

from fastapi import APIRouter, Depends, HTTPException, Query
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from memory_context.foundation.policy import CachePolicy, ContextPolicy, PriceList
from memory_context.memory.agent_memory import AgentMemory
from memory_context.recall.tools.prompt_head import MEMORY_TOOLS
from memory_context.sessions.archive.resume import rebuild_transcript
from memory_context.store.memory_store import MemoryStore
from memory_context.view.bill import ModelCall
from memory_context.view.calls import CallView, bill_with, recorded_calls, view_of_call
from memory_context.view.explain import report
from memory_context.view.history import history_text
from memory_context.view.view import View

from .archive import ArchivedSessions, Transcribed
from .segments import call_as_json

__all__ = ["add_calls"]

_DOLLARS_PER_MILLION: dict[PriceList, float] = {
    "anthropic": 3.0,
    "anthropic-1h": 3.0,
    "openai-gpt-5": 1.25,
    "openai-gpt-4.1": 2.0,
    "openai-gpt-4o": 2.5,
    "gemini-2.5": 1.25,
}
"""List prices of 2025 of an ordinary input token of the largest common model of each list; the page takes others."""

_COLUMNS = ("number", "at", "messages", "head", "view", "read", "raw", "cost", "raw_cost", "marks", "did")
_MARKS = ("folds", "compactions", "answered_compactions", "expansions", "recalls", "activations", "reflections",
          "shortenings")  # fmt: skip
_LOOK_UPS = {tool.tool_name for tool in MEMORY_TOOLS}
_DECIDED_ANEW = {"token_budget", "reserved_tokens", "view_target_tokens", "user_sources", "compaction.enabled",
                 "cache.expected_calls", "cache.prices"}  # fmt: skip
_SAID_CHARACTERS = 80

Prices = Annotated[PriceList | None, Query(description="A price list; without one the prices recorded with each call.")]
Agent = Annotated[str, Query(max_length=128, description="Whose transcript; by default the one written last.")]


class WhatIf(BaseModel):
    """Another policy, for the calls from `from_call` on; settings that are left out have their defaults."""

    model_config = ConfigDict(extra="forbid")

    from_call: int = Field(default=1, ge=1)
    policy: ContextPolicy


def add_calls(
    router: APIRouter, store: MemoryStore, user: Any, policy: ContextPolicy, *, is_assumed_default: bool
) -> None:
    """Add the routes; `user` is the dependency that returns the authenticated user's id."""
    sessions = ArchivedSessions(store)

    async def read_session(session_id: str, agent: Agent = "", user_id: str = user) -> Transcribed:
        return await sessions.read(user_id, session_id, agent)

    whose = "the default one" if is_assumed_default else "that of this server"
    assumed = f"The archive holds no policy of the session; {whose} is assumed."
    _add_sessions(router, store, sessions, user)
    _add_session(router, Depends(read_session))
    _add_call(router, store, Depends(read_session), policy)
    _add_policy(router, user, Depends(read_session), policy, assumed)


def _add_sessions(router: APIRouter, store: MemoryStore, archive: ArchivedSessions, user: Any) -> None:
    @router.get("/api/sessions")
    async def sessions(
        query: Annotated[str, Query(max_length=200)] = "",
        agent: Agent = "",
        since: Annotated[AwareDatetime | None, Query()] = None,
        until: Annotated[AwareDatetime | None, Query()] = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 30,
        before_at: Annotated[AwareDatetime | None, Query()] = None,
        before_id: Annotated[str, Query(max_length=128)] = "",
        user_id: str = user,
    ) -> dict[str, Any]:
        before = (before_at, before_id) if before_at else (until, "") if until else None
        found = await store.conversations.sessions(
            user_id, limit=limit, before=before, words=query.split(), agent=agent, since=since
        )
        last = found[-1] if len(found) == limit else None
        more = {"before_at": last.last_activity_at, "before_id": last.session_id} if last else None
        return {"sessions": [asdict(one) for one in found], "next": more}

    @router.get("/api/sessions/{session_id:chat_id}")
    async def session(session_id: str, prices: Prices = None, user_id: str = user) -> dict[str, Any]:
        info = await archive.info(user_id, session_id)
        agents: list[dict[str, Any]] = []
        for agent in await archive.agents(user_id, session_id):
            read = await archive.read(user_id, session_id, agent)
            calls = await asyncio.to_thread(recorded_calls, read.saved, _listed(prices))
            agents.append({"agent": agent, **_sums([call for call, _ in calls])})
        return {**asdict(info), "agents": agents}

    _ = sessions, session


def _add_session(router: APIRouter, own: Any) -> None:
    @router.get("/api/sessions/{session_id:chat_id}/calls")
    async def calls(read: Transcribed = own, prices: Prices = None) -> dict[str, Any]:
        found = await asyncio.to_thread(recorded_calls, read.saved, _listed(prices))
        return {
            "session": asdict(read.archived.session) if read.archived.session else None,
            "agent": read.key.agent_id,
            "agents": read.agents,
            "remarks": read.remarks,
            "sums": _sums([call for call, _ in found]),
            "columns": _COLUMNS,
            "rows": [*_rows(found, read.saved)],
        }

    @router.get("/api/sessions/{session_id:chat_id}/messages")
    async def messages(
        first: Annotated[int, Query(ge=1)] = 1, limit: Annotated[int, Query(ge=1, le=200)] = 50, read: Transcribed = own
    ) -> dict[str, Any]:
        transcript, _, _ = await asyncio.to_thread(rebuild_transcript, read.archived, True)
        page = transcript.entries(start=max(first - 1, transcript.first), end=first - 1 + limit)
        return {
            "count": transcript.end,
            "messages": [{"number": one.position + 1, "at": one.added_at, "text": history_text(one)} for one in page],
        }

    _ = calls, messages


def _add_call(router: APIRouter, store: MemoryStore, own: Any, policy: ContextPolicy) -> None:
    async def view(read: Transcribed, number: int) -> CallView:
        try:
            return await view_of_call(read.saved, number, AgentMemory(store, *read.key), policy)
        except IndexError as error:
            raise HTTPException(404, str(error)) from None

    @router.get("/api/sessions/{session_id:chat_id}/calls/{number}")
    async def call(number: int, read: Transcribed = own) -> dict[str, Any]:
        found = await view(read, number)
        known = await asyncio.to_thread(recorded_calls, read.saved)
        return await asyncio.to_thread(call_as_json, found, known, number, policy)

    @router.get("/api/sessions/{session_id:chat_id}/calls/{number}/changes")
    async def changes(number: int, read: Transcribed = own) -> dict[str, Any]:
        after = await view(read, number)
        before = (await view(read, number - 1)).view if number > 1 else View()
        told = await asyncio.to_thread(report, after.transcript, before, after.view, policy.token_budget)
        differing = [{**vars(one), "number": one.number} for one in told.changes]
        return {"changes": differing, "decisions": [str(one) for one in told.decisions]}

    _ = call, changes


def _add_policy(router: APIRouter, user: Any, own: Any, policy: ContextPolicy, assumed: str) -> None:
    @router.get("/api/about")
    async def about(user_id: str = user) -> dict[str, Any]:
        lists = {name: _DOLLARS_PER_MILLION.get(name) for name in get_args(PriceList)}
        return {"user": user_id, "prices": lists, "policy": policy.model_dump(mode="json"), "assumed": assumed}

    @router.post("/api/sessions/{session_id:chat_id}/what-if")
    async def what_if(asked: WhatIf, read: Transcribed = own) -> dict[str, Any]:
        other, begin = asked.policy, asked.from_call
        pairs = await asyncio.to_thread(bill_with, other, read.saved, recorded=policy, first_call=begin)
        rest = pairs[begin - 1 :]
        columns = ("number", "view_tokens", "read_tokens", "head_tokens", "cost", "mark")
        return {
            "assumed": assumed,
            "from_call": begin,
            "remarks": [*_unhonoured(policy, other)],
            "recorded": _sums([recorded for recorded, _ in rest]),
            "other": _sums([again for _, again in rest]),
            "columns": columns,
            "recorded_rows": [[getattr(one, name) for name in columns] for one, _ in rest],
            "other_rows": [[getattr(one, name) for name in columns] for _, one in rest],
        }

    _ = about, what_if


def _listed(prices: PriceList | None) -> CachePolicy | None:
    return CachePolicy(prices=prices) if prices else None


def _sums(calls: list[ModelCall]) -> dict[str, float]:
    return {
        "calls": len(calls),
        "shown": sum(one.view_tokens + one.head_tokens for one in calls),
        "raw": sum(one.raw_tokens + one.raw_head_tokens for one in calls),
        "read": sum(one.read_tokens for one in calls),
        "cost": round(sum(one.cost for one in calls), 1),
        "raw_cost": round(sum(one.raw_cost for one in calls), 1),
        "peak": max((one.view_tokens + one.head_tokens for one in calls), default=0),
    }


def _rows(calls: list[tuple[ModelCall, Counter[str]]], saved: Mapping[str, Any]) -> Iterator[list[Any]]:
    """Yield a row of `_COLUMNS` for each call; a thousand take about 80 kB."""
    entries, first = saved["entries"], saved["first_position"]
    for one, changes in calls:
        answer = one.messages - first
        did, look_ups = _answer(entries[answer]["message"] if 0 <= answer < len(entries) else {})
        marks = {name: changes[name] for name in _MARKS if changes[name]} | ({"look_ups": look_ups} if look_ups else {})
        raw = one.raw_tokens + one.raw_head_tokens
        costs = round(one.cost, 1), round(one.raw_cost, 1)
        at = one.at.isoformat(timespec="seconds") if one.at else None
        yield [one.number, at, one.messages, one.head_tokens, one.view_tokens, one.read_tokens, raw, *costs, marks, did]


def _answer(message: Mapping[str, Any]) -> tuple[str, int]:
    """Return what the model did in a call, in a few words, and the number of its look-ups in the memory."""
    content = message.get("content") if message.get("type") == "AssistantMessage" else None
    if isinstance(content, list):
        names: list[str] = [one["name"] for one in content]  # pyright: ignore[reportUnknownVariableType]
        return ", ".join(names), sum(name in _LOOK_UPS for name in names)
    return (str(content)[:_SAID_CHARACTERS] if content else ""), 0


def _unhonoured(recorded: ContextPolicy, other: ContextPolicy) -> Iterator[str]:
    """Yield a sentence for each changed setting whose effect is not, or not wholly, in the bill."""
    was, now = dict(_flat(recorded.model_dump())), dict(_flat(other.model_dump()))
    for name in (one for one in now if now[one] != was.get(one) and one not in _DECIDED_ANEW):
        if name in ("first_view_limit_tokens", "offload_threshold_tokens"):
            if now[name] < was[name]:
                yield f"{name}: a lower limit changes nothing here, since nobody made the shorter texts"
        elif name == "observation.mode":
            if now[name] != "off":
                yield "observation.mode: observations that nobody made cannot be priced"
        else:
            yield f"{name}: stays as recorded"


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, dict) and name != "first_view_by_tool":
            yield from _flat(value, f"{prefix}{name}.")  # pyright: ignore[reportUnknownArgumentType]
        else:
            yield prefix + name, value
