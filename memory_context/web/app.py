"""A whole application around the chat: its routes, what an orchestrator asks, and optionally a page.

Promise: `/health` answers as long as the process does; `/ready` says whether requests can be served, and waits no
longer than two seconds to find out.
"""

import asyncio
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.staticfiles import StaticFiles

from ..access import Gate, GateRules
from ..errors import StoreError
from ..outages import outages_of
from ..store import MemoryStore
from .chat import AgentBuilder, Chat
from .problems import ProblemError, ProblemRoute, problem_responses
from .router import HOST_SETTING, CurrentUser, create_chat_router

__all__ = ["create_app"]

_READY_SECONDS = 2.0


def create_app(
    memory_store: MemoryStore,
    build_agent: AgentBuilder | Mapping[str, AgentBuilder],
    current_user: CurrentUser | None = None,
    *,
    static_folder: str | Path | None = None,
    hosts: Collection[str] = (),
    origins: Collection[str] = (),
    **settings: Any,
) -> FastAPI:
    """Return an application with a chat under `/api/chat`, `/health` and `/ready`.

    Args:
        memory_store: Where conversations go; whoever runs the application closes it.
        build_agent: As `create_chat_router` takes it.
        current_user: The dependency that says who asks.
        static_folder: Files to be served beside it, such as a chat page.
        hosts: As `create_chat_router` takes them; here they hold for the page and the probes too.
        origins: As `create_chat_router` takes them.
        **settings: Whatever else `create_chat_router` takes.

    Raises:
        ValueError: The folder does not exist, or `create_chat_router` refuses an argument.
    """
    if static_folder is not None and not Path(static_folder).is_dir():
        raise ValueError(f"static_folder={str(static_folder)!r}: there is no such folder")
    chat_router = create_chat_router(memory_store, build_agent, current_user, hosts=hosts, origins=origins, **settings)
    app = FastAPI(title="memory_context chat", summary="Conversations with agents whose memory lasts")
    app.add_middleware(Gate, rules=GateRules(hosts, origins, host_setting=HOST_SETTING))
    app.include_router(chat_router)
    app.include_router(_probes(chat_router.chat))
    if static_folder is not None:
        app.mount("/", StaticFiles(directory=static_folder, html=True), name="static")
    return app


def _probes(chat: Chat) -> APIRouter:
    router = APIRouter(route_class=ProblemRoute, tags=["probes"])

    @router.get("/health", summary="Whether the process answers")
    async def health() -> dict[str, str]:
        return {"status": "alive"}

    @router.get(
        "/ready", summary="Whether requests can be served", responses=problem_responses("internal", "unavailable")
    )
    async def ready() -> dict[str, str]:
        try:
            await asyncio.wait_for(chat.check(), _READY_SECONDS)
        except (StoreError, asyncio.TimeoutError) as error:
            reason = str(error) or f"the store did not answer in {_READY_SECONDS:g} s"
            outages_of(chat).failed("ready", "not ready: %s", reason)
            raise ProblemError("unavailable", "the store does not answer", retry_after_seconds=2) from None
        outages_of(chat).worked("ready")
        return {"status": "ready"}

    _ = health, ready
    return router
