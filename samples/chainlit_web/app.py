"""What Chainlit calls: login, a chat's beginning, return and end, messages, and the side panel."""

import asyncio
import logging
from contextlib import suppress
from typing import Any

import chainlit as cl
from autogen_core import EVENT_LOGGER_NAME
from autogen_core.models import AssistantMessage, UserMessage
from chainlit.config import config
from chainlit.server import app, sio
from chainlit.socket import connect
from chainlit.types import ThreadDict

from memory_context import MemoryContextError, StoreError
from memory_context.surfaces.access.gate import Gate
from memory_context.surfaces.chainlit.edits import take_back

from .builder import agent_panel, change_agent
from .panel import change_memory, shown_panel
from .service import ThreadLayer, chats, current_key, hold_chat, is_operator, keep_component, store, users
from .turns import run_turn
from .ui_hook import ComponentError

__all__ = ["store"]

_LOOKS = 4  # of a page for its thread, at most ten seconds each; a socket that is silent for longer is closed
_logger = logging.getLogger(__name__)

# --- the server, and who comes

_own_hosts: list[str] = []
_ALLOWED = "allow_origins of .chainlit/config.toml"
# Chainlit applies allow_origins to CORS only, which covers no WebSocket
app.add_middleware(
    Gate, hosts=_own_hosts, origins=config.project.allow_origins, host_setting=_ALLOWED, origin_setting=_ALLOWED
)
config.ui.description = " ".join([config.ui.description, users.login_hint])  # links.js shows it on the login page
config.ui.default_theme = "system"  # a value that the settings file cannot have
# AutoGen's event log has whole results of tools in it, which are people's data
logging.getLogger(EVENT_LOGGER_NAME).setLevel(logging.WARNING)


@cl.on_app_startup
async def start() -> None:
    """Open the store, and let pages of this server's own addresses talk to it."""
    users.check_host(config.run.host)
    hosts = {f"[{config.run.host}]" if ":" in config.run.host else config.run.host, "localhost", "127.0.0.1"}
    config.project.allow_origins.extend(f"http://{host}:{config.run.port}" for host in hosts)
    _own_hosts.extend(origin.rpartition("://")[2] for origin in config.project.allow_origins)
    await store.open()
    store.consolidate_daily()


@cl.on_app_shutdown
async def stop() -> None:
    """Archive every chat."""
    await chats.close()
    await store.close()


@cl.data_layer
def data_layer() -> ThreadLayer:
    """Keep threads in the store, beside what the agents remember."""
    return ThreadLayer(store)


@cl.password_auth_callback
async def login(name: str, password: str) -> cl.User | None:
    """Let those in who are known."""
    return cl.User(identifier=name) if users.knows(name, password) else None


@cl.set_starters
async def starters(user: cl.User | None) -> list[cl.Starter]:
    """Offer first messages."""
    return [
        cl.Starter("See the parts", "Which parts does the package have?"),
        cl.Starter("Read a large file", "Read context.py and show me how a message is added"),
        cl.Starter("Search the code", "Where is `StoreUnavailableError` raised?"),
        cl.Starter("Ask the memory", "What do you remember about messages?"),
    ]


# --- a chat


@sio.on("connect")
async def let_in(sid: str, environ: dict[str, Any], auth: Any) -> bool:
    """Let a page in as soon as its thread can be read.

    A page that was open when the server ended names its thread here. While the database does not answer, Chainlit would
    let it in without the thread: it would show the chat, and its next message would begin another one.
    """
    for _ in range(_LOOKS):
        try:
            if thread_id := auth.get("threadId"):
                await store.threads.owner(thread_id)
            break
        except StoreError as error:
            _logger.warning("a page waits for its thread: %s", error)
            await asyncio.sleep(1)
    return await connect(sid, environ, auth)


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


@cl.on_chat_resume
async def come_back(thread: ThreadDict) -> None:
    """Go on with a thread: the same agent, with contexts from their archive."""
    chat = chats.peek(current_key())
    if chat is not None and chat.turn is not None:  # the page was loaded again in mid-answer
        await cl.context.emitter.task_start()
        chat.turn.follow(cl.context.session, thread)
        return
    said = [step for step in thread["steps"] if "message" in step["type"]]
    if said and said[-1]["type"] == "user_message":
        notice = cl.ErrorMessage("The server ended before it answered. Send your message again.")
        await notice.send()
        thread["steps"].append(notice.to_dict())
    try:
        async with hold_chat():
            pass
    except ComponentError as error:
        await keep_component(None)
        await cl.context.emitter.send_toast(f"The agent cannot be made, the reader answers: {error}", "error")
    except MemoryContextError as error:
        await cl.context.emitter.send_toast(f"Its history is read with your next message: {error}", "warning")


@cl.on_message
async def answer(message: cl.Message) -> None:
    """Have the agent answer."""
    if cl.chat_context.get() == [message]:  # Chainlit may have named the thread after an action of the panel
        await cl.context.emitter.init_thread(message.content)
    try:
        async with hold_chat() as chat:
            # the data layer does this for contexts that were open when the user edited a message
            await take_back(chat.key.user_id, chat.key.session_id, message.id)
            await run_turn(chat, message.content)
    except (ComponentError, MemoryContextError) as error:
        await cl.ErrorMessage(str(error)).send()


# --- the side panel: a page asks by window messages (public/links.js), which change nothing, since any page that has a
# handle of the window may post one. Changes are actions: requests with the user's cookie.


@cl.on_window_message
async def look(asked: Any) -> None:
    """Show something in the reader's panel, and only what is theirs."""
    asked = asked.get("memory_context") if isinstance(asked, dict) else None
    if isinstance(asked, dict) and "show" in asked:  # others post messages too, such as browser extensions
        await _show(asked)


@cl.action_callback("Memory")
async def change(action: cl.Action) -> dict[str, Any]:
    """Change something in the memory of the user, or who answers; return why not, or show what there is now."""
    problem = await change_memory(store, current_key().user_id, action.payload)
    if not problem:
        await _show(action.payload)
    return {"error": problem}


@cl.action_callback("Agent")
async def choose_agent(action: cl.Action) -> dict[str, Any]:
    """Check a pasted agent, or go on with it."""
    said = [
        UserMessage(content=one.content, source="user")
        if one.type == "user_message"
        else AssistantMessage(content=one.content, source=one.author)
        for one in cl.chat_context.get()
        if one.content and not one.is_error
    ]
    outcome = await change_agent(action.payload, said)
    if outcome.get("is_used"):
        await _show({"show": "agent"})
    return outcome


async def _show(asked: dict[str, Any]) -> None:
    chat = chats.peek(current_key())
    if asked.get("show") == "agent":
        shown = agent_panel(chat)
    else:
        shown = await shown_panel(store, current_key(), asked, chat.contexts if chat else {})
    panel = cl.CustomElement(
        id=f"memory-{current_key().session_id}",  # always the same, so that one replaces the other
        name="Memory",
        display="side",
        props={**shown, "asked": str(asked.get("id") or "")[:40], "is_operator": is_operator()},
        url="/public/elements/Memory.jsx",  # without an address, Chainlit writes what is shown to a file
    )
    await panel.send(for_id="", persist=False)
