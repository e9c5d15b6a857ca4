"""One turn in every tab of its thread: the tabs that show it get the same events, one that is opened later catches up.

Chainlit sends the events of a turn to the tab that asked. After a reload that tab is gone, and the page in its place
would show neither a spinner nor the answer.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import chainlit as cl
from chainlit.context import get_context
from chainlit.data import get_data_layer
from chainlit.emitter import ChainlitEmitter
from chainlit.session import WebsocketSession, ws_sessions_id
from chainlit.types import ThreadDict
from chainlit.utils import utc_now

__all__ = ["catch_up", "in_every_tab", "other_tabs"]

_KEPT = {"new_message", "update_message", "stream_start"}


class _Turn(ChainlitEmitter):
    """Sends the events of a turn to every tab of its thread, and keeps their outcome for tabs that are opened later."""

    def __init__(self, session: WebsocketSession) -> None:
        super().__init__(session)
        self.task = asyncio.current_task()
        self._steps: dict[str, dict[str, Any]] = {}
        self._others: dict[tuple[str, str], Any] = {}  # elements and actions

    @property
    def emit(self) -> Any:
        return self._emit

    async def _emit(self, event: str, data: Any) -> None:
        self._keep(event, data)
        await self.session.emit(event, data)
        await self.emit_to_others(event, data)

    async def emit_to_others(self, event: str, data: Any) -> None:
        """Send an event to the tabs that did not ask."""
        for tab in other_tabs(self.session):
            await tab.emit(event, data)

    async def begin(self, question: cl.Message) -> None:
        """Show the question and a spinner in the other tabs."""
        run = cl.context.current_run
        for step in [question.to_dict(), *([run.to_dict()] if run else [])]:
            self._keep("new_message", step)
            await self.emit_to_others("new_message", step)
        await self.emit_to_others("task_start", {})

    async def end(self) -> None:
        """Take the spinner of the other tabs away."""
        run = cl.context.current_run
        if run is not None:
            await self.emit_to_others("update_message", {**run.to_dict(), "end": utc_now()})
        await self.emit_to_others("task_end", {})

    async def show_to(self, tab: WebsocketSession) -> None:
        """Show a tab what there is of the turn; from now on it gets the events."""
        for step in [*self._steps.values()]:
            await tab.emit("new_message", step)
        for (event, _), data in [*self._others.items()]:
            await tab.emit(event, data)
        await tab.emit("task_start", {})
        tab.current_task = self.task  # its stop button stops this turn

    def _keep(self, event: str, data: Any) -> None:
        if event in _KEPT:
            self._steps[data["id"]] = dict(data)
        elif event == "stream_token" and data["id"] in self._steps:
            step = self._steps[data["id"]]
            step["output"] = data["token"] if data["isSequence"] else step["output"] + data["token"]
        elif event == "delete_message":
            self._steps.pop(data["id"], None)
        elif event in ("element", "action"):
            self._others[event, data["id"]] = data
        elif event == "remove_action":
            self._others.pop(("action", data["id"]), None)


class _Arrival(ChainlitEmitter):
    """Shows a thread as it is now, with the turns that are at work on it."""

    async def resume_thread(self, thread_dict: ThreadDict) -> None:
        layer = get_data_layer()
        newest = await layer.get_thread(thread_dict["id"]) if layer else None
        await self.emit("resume_thread", newest or thread_dict)
        for turn in _running.get(_key(self.session), ()):
            await turn.show_to(self.session)


_running: dict[tuple[str, str], list[_Turn]] = {}


@asynccontextmanager
async def in_every_tab(question: cl.Message) -> AsyncIterator[None]:
    """Show what happens now in every tab of the thread, from its question to its end."""
    context = get_context()
    before, key = context.emitter, _key(context.session)
    turn = context.emitter = _Turn(context.session)
    _running.setdefault(key, []).append(turn)
    try:
        await turn.begin(question)
        yield
    finally:
        _running[key].remove(turn)
        if not _running[key]:
            del _running[key]
        context.emitter = before
        await turn.end()


def catch_up() -> bool:
    """Have the tab that is being opened show the turns that are at work on its thread; whether there are any."""
    context = get_context()
    if _key(context.session) not in _running:
        return False
    context.emitter = _Arrival(context.session)
    return True


def other_tabs(session: WebsocketSession) -> list[WebsocketSession]:
    """Return the other sessions of the same user that show the same thread."""
    return [one for one in [*ws_sessions_id.values()] if one is not session and _key(one) == _key(session)]


def _key(session: Any) -> tuple[str, str]:
    return (session.user.identifier if session.user else "", session.thread_id)
