"""What Chainlit calls: login, a chat's beginning, return and end, messages, and the side panel."""

import logging
from typing import Any

import chainlit as cl
from autogen_core import EVENT_LOGGER_NAME
from autogen_core.models import AssistantMessage, UserMessage
from chainlit.auth import get_current_user
from chainlit.config import config
from chainlit.server import app
from chainlit.types import ThreadDict
from fastapi import Depends

from memory_context import MemoryContextError
from memory_context.surfaces.access.gate import Gate
from memory_context.surfaces.chainlit.edits import take_back
from memory_context.surfaces.inspector import create_inspector_router

from . import reconnecting  # noqa: F401  # it registers handlers
from .builder import agent_panel, change_agent
from .panel import change_memory, shown_panel
from .service import ThreadLayer, chats, current_key, hold_chat, is_operator, keep_component, store, users
from .turns import run_turn
from .ui_hook import ComponentError

__all__ = ["store"]

_own_hosts: list[str] = []
_ALLOWED = "allow_origins of .chainlit/config.toml"
# Chainlit applies allow_origins to CORS only, which covers no WebSocket
app.add_middleware(
    Gate, hosts=_own_hosts, origins=config.project.allow_origins, host_setting=_ALLOWED, origin_setting=_ALLOWED
)


async def inspecting_user(user: Any = Depends(get_current_user)) -> str:  # noqa: B008
    """Return who is logged in; the inspector shows their own sessions."""
    return user.identifier


_known = len(app.router.routes)
app.include_router(create_inspector_router(store, inspecting_user, hosts=_own_hosts))
app.router.routes[:] = app.router.routes[_known:] + app.router.routes[:_known]  # Chainlit answers every other path
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
        cl.Starter("Read a large file", "Read context.py and show me how a message is added"),
        cl.Starter("Search the code", "Where is `StoreUnavailableError` raised?"),
        cl.Starter("Ask the memory", "What do you remember about messages?"),
    ]


# --- a chat


@cl.on_chat_resume
async def come_back(thread: ThreadDict) -> None:
    """Go on with a thread: the same agent, with contexts from their archive."""
    chat = chats.peek(current_key())
    if chat is not None and chat.turn is not None:  # the page was loaded again in mid-answer
        chat.turn.follow(cl.context.session, thread)
        return
    said = [step for step in thread["steps"] if "message" in step["type"]]
    if said and said[-1]["type"] == "user_message":
        notice = cl.ErrorMessage("The server ended before it answered. Send your message again.")
        notice.parent_id = None  # Chainlit's own step is not on the page
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
    # what an action shows answers the last question, too: public/links.js asks again until its answer shows
    question = str(asked.get("id") or cl.user_session.get("asked") or "")[:40]
    if asked.get("id") and cl.user_session.get("answering") == [question]:
        return  # a second answer would build the panel anew under the reader's finger
    answering = [question]
    cl.user_session.set("asked", question)
    cl.user_session.set("answering", answering)
    try:
        chat = chats.peek(current_key())
        if asked.get("show") == "agent":
            shown = agent_panel(chat)
        else:
            shown = await shown_panel(store, current_key(), asked, chat.contexts if chat else {})
        if cl.user_session.get("answering") is not answering:
            return  # the reader asked for something else meanwhile
        panel = cl.CustomElement(
            id=f"memory-{current_key().session_id}",  # always the same, so that one replaces the other
            name="Memory",
            display="side",
            props={**shown, "asked": question, "is_operator": is_operator()},
            url="/public/elements/Memory.jsx",  # without an address, Chainlit writes what is shown to a file
        )
        await panel.send(for_id="", persist=False)
    finally:
        if cl.user_session.get("answering") is answering:
            cl.user_session.set("answering", None)
