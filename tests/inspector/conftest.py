"""The inspector in the process of the test, on a real store with sessions that contexts have lived."""

from dataclasses import dataclass
from typing import Any

import httpx
from autogen_core.models import AssistantMessage, UserMessage

from memory_context import ContextPolicy, MemoryContext, MemoryStore, ObservationPolicy
from memory_context.surfaces.inspector import inspector_app

from ..agents.scripted import report
from ..context.steps import add_step

__all__ = ["POLICY", "Inspector", "inspector_of", "live"]

POLICY = ContextPolicy(token_budget=4000, store_timeout_seconds=30, observation=ObservationPolicy(mode="off"))


class Inspector(httpx.AsyncClient):
    """A client of a user's inspector; its base is the API."""

    async def read(self, path: str, **query: Any) -> Any:
        answer = await self.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def rows(self, session: str = "s", **query: Any) -> list[dict[str, Any]]:
        told = await self.read(f"sessions/{session}/calls", **query)
        return [dict(zip(told["columns"], row, strict=True)) for row in told["rows"]]


def inspector_of(
    store: MemoryStore, user: str = "alice", policy: ContextPolicy | None = POLICY, **settings: Any
) -> Inspector:
    transport = httpx.ASGITransport(inspector_app(store, user, policy=policy, **settings))
    return Inspector(transport=transport, base_url="http://localhost/inspector/api/")


@dataclass
class Lived:
    """What a session left: the keys of its items, and how many calls it made."""

    keys: list[str]
    calls: int


async def live(store: MemoryStore, session: str = "s", *, user: str = "alice", steps: int = 24) -> Lived:
    """Live a session with large results, a repeated one, opened items and folds, as another process would."""
    async with MemoryContext(user, "coder", session, store, policy=POLICY) as context:
        context.note_agent(system_message="You survey animals.")
        await context.add_message(UserMessage(content=f"Survey the animals of {session}.", source="user"))
        for number in range(steps):
            lines = (60, 25, 400)[number % 3]
            await add_step(context, report(f"owl {number - number % 6}", lines + number), name=f"survey_{number % 3}")
        keys = [ref.key for one in context.transcript.entries() for part in one.measured if part.stored
                for ref in part.stored.refs]  # fmt: skip
        await context.get_messages()
        await context.add_message(AssistantMessage(content="Surveyed.", source="coder"))
        await context.add_message(UserMessage(content=f"What exactly stood in {keys[0]}?", source="user"))
        await add_step(context, report("bat", 30))
        await context.get_messages()
        return Lived(keys, context.stats.views)
