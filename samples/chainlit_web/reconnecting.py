"""A page that connects with a thread: one that is loaded, or was open when the server ended and another began.

Chainlit reads the thread once. If the database does not answer, it lets the page in without the thread, and takes its
next message for the first of a new chat: another name, another agent, and nothing that was said before.
"""

import asyncio
import logging
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

import chainlit as cl
from chainlit import socket
from chainlit.server import sio
from chainlit.session import WebsocketSession

from memory_context import StoreError

from .service import store

_LOOKS = 4  # at most ten seconds each; a socket that is silent for longer is closed, and the page connects again
_logger = logging.getLogger(__name__)
_coming: WeakKeyDictionary[WebsocketSession, asyncio.Lock] = WeakKeyDictionary()


@sio.on("connect")
async def let_in(sid: str, environ: dict[str, Any], auth: Any) -> bool:
    """Let a page in as soon as its thread can be read; until then it says that it cannot reach the server."""
    for _ in range(_LOOKS):
        try:
            if thread_id := auth.get("threadId"):
                await store.threads.owner(thread_id)
            break
        except StoreError as error:
            _logger.warning("a page waits for its thread: %s", error)
            await asyncio.sleep(1)
    return await socket.connect(sid, environ, auth)


@sio.on("connection_successful")
async def come(sid: str) -> None:
    """Give the page its thread, and its stop button if a turn is at work."""
    session = WebsocketSession.require(sid)
    async with _coming.setdefault(session, asyncio.Lock()):
        await socket.connection_successful(sid)
    if session.current_task is not None and not session.current_task.done():
        await session.emit("task_start", {})


@sio.on("client_message")
async def hear(sid: str, payload: Any) -> None:
    """Hear a message once its page has its thread."""
    session = WebsocketSession.require(sid)
    coming = _coming.setdefault(session, asyncio.Lock())
    is_early = coming.locked()
    async with coming:
        if is_early:  # the thread has replaced all that the page showed
            await session.emit("new_message", payload["message"])
        await socket.message(sid, payload)


@cl.on_chat_start
async def begin() -> None:
    """Begin a chat, whose agent is made with its first message; or say that the thread of the page cannot be read."""
    thread_id, owner = cl.context.session.thread_id_to_resume, ""
    if thread_id:
        with suppress(StoreError):
            owner = await store.threads.owner(thread_id)
        if owner is None:
            told = "This chat is not stored: it was deleted, or the server ended before. Begin a new one."
            await cl.ErrorMessage(told).send()
        else:  # the page loads it again: public/links.js
            await cl.send_window_message({"memory_context": {"thread": thread_id}})
