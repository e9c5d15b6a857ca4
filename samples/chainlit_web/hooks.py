"""What Chainlit calls: login, a chat's beginning, return and end, messages, settings; `panel_hooks` for the panel."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import chainlit as cl
from autogen_core import EVENT_LOGGER_NAME
from chainlit.config import config
from chainlit.server import app
from chainlit.types import ThreadDict

from memory_context import MemoryContextError
from memory_context.surfaces.access.gate import Gate

from .answers import answer_again, answer_question, refresh_meter
from .failures import RETRY, offer_retry
from .pages import OwnPages
from .panel_hooks import NAMED_BY_ACTION
from .plans import Plan
from .service import chats, current_plan, current_thread, current_user, keep_plan, store, users
from .serving import shown_host
from .settings import policy_of
from .tabs import catch_up
from .threads import ThreadLayer
from .ui_hook import ComponentError
from .widgets import send_settings
from .wording import put_wording

# --- the server, and who comes


app.add_middleware(OwnPages, login_hint=users.login_hint)
# Chainlit gives allow_origins to CORS only, and CORS covers no WebSocket
_own_hosts: list[str] = []
_ALLOWED = "allow_origins of .chainlit/config.toml"
_origins = config.project.allow_origins
app.add_middleware(Gate, hosts=_own_hosts, origins=_origins, host_setting=_ALLOWED, origin_setting=_ALLOWED)
put_wording()
config.ui.default_theme = "system"  # which the settings file cannot say
# AutoGen's event log has whole results of tools in it, which are people's data
logging.getLogger(EVENT_LOGGER_NAME).setLevel(logging.WARNING)


@cl.on_app_startup
async def begin_to_serve() -> None:
    """Have the store ready before the first chat, and its own addresses among those that may talk to this server."""
    users.check_host(config.run.host)
    names = dict.fromkeys((shown_host(config.run.host), "localhost", "127.0.0.1"))
    config.project.allow_origins.extend(f"http://{name}:{config.run.port}" for name in names)
    _own_hosts.extend(origin.rpartition("://")[2] for origin in config.project.allow_origins)
    await store.open()
    store.consolidate_daily()


@cl.on_app_shutdown
async def close_everything() -> None:
    """Archive every chat."""
    await chats.close()
    await store.close()


@cl.data_layer
def data_layer() -> ThreadLayer:
    """Keep threads in the store, beside what the agents remember."""
    return ThreadLayer(store, chats)


@cl.password_auth_callback
async def login(name: str, password: str) -> cl.User | None:
    """Let those in who are known."""
    return cl.User(identifier=name) if users.knows(name, password) else None


@cl.set_starters
async def starters(user: cl.User | None) -> list[cl.Starter]:
    """Offer first messages that show something."""
    return [
        cl.Starter("Take a tour", "Which parts does the package have?", icon="/public/icons/tour.svg"),
        cl.Starter(
            "Read a large file",
            "Read context.py and show me how a message is added",
            icon="/public/icons/file.svg",
        ),
        cl.Starter("Search the code", "Where is `StoreUnavailableError` raised?", icon="/public/icons/search.svg"),
        cl.Starter("Ask the memory", "What do you remember about messages?", icon="/public/icons/memory.svg"),
    ]


# --- a chat begins, comes back, ends


@cl.on_chat_start
async def begin() -> None:
    """Have a new chat; its agent is made with the first message."""
    await send_settings(Plan().policy)


@cl.on_chat_resume
async def come_back(thread: ThreadDict) -> None:
    """Go on with a thread: same agent, same settings, contexts from its archive."""
    plan = current_plan()
    await send_settings(plan.policy)
    await offer_retry(thread)
    if catch_up():
        return  # the chat is at work, so its history is there
    try:
        async with chats.hold(current_user(), current_thread(), plan) as chat:
            refresh_meter(thread, chat)
    except ComponentError as error:
        await keep_plan(Plan(policy=plan.policy))
        await cl.context.emitter.send_toast(
            f"The agent of this chat cannot be made, the reader answers: {error}", "error"
        )
    except MemoryContextError as error:
        await cl.context.emitter.send_toast(f"Its history is read with your next message: {error}", "warning")


@cl.on_chat_end
async def leave() -> None:
    """Archive what was said; the chat itself stays for a while, for who only reloads the page."""
    await chats.archive(current_user(), current_thread())


# --- a message


@cl.on_message
async def answer(message: cl.Message) -> None:
    """Have the agent answer."""
    if cl.user_session.get(NAMED_BY_ACTION):
        cl.user_session.set(NAMED_BY_ACTION, False)
        await cl.context.emitter.init_thread(message.content)
    await answer_question(chats, current_user(), current_plan(), message)


@cl.action_callback(RETRY)
async def try_again(action: cl.Action) -> None:
    """Begin to answer a question that got no answer; the stop button stops that like any other answer."""
    question = cl.Message(content=str(action.payload.get("text") or ""), id=str(action.payload.get("id") or ""))
    again = answer_again(chats, current_user(), current_plan(), question)
    cl.context.session.current_task = asyncio.create_task(again)


# --- settings


@cl.on_settings_update
async def set_up(settings: Mapping[str, Any]) -> None:
    """Apply settings to the chat at once."""
    plan = replace(current_plan(), policy=policy_of(settings, current_plan().policy))
    try:
        if chats.peek(current_user(), current_thread()) is not None:
            async with chats.hold(current_user(), current_thread(), plan) as chat:
                await chat.become(plan)
        await keep_plan(plan)
    except MemoryContextError as error:
        await send_settings(current_plan().policy)  # or the page shows what does not hold
        await cl.context.emitter.send_toast(f"Not applied, try again: {error}", "error")
        return
    await cl.context.emitter.send_toast("Applied to this chat.", "success")
