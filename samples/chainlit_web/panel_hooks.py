"""The side panel: what it is asked to show, what it is asked to do.

Two ways lead from the page to here. Window messages (`public/links.js`) open things in the reader's own panel and
change nothing, since any page that holds a handle of the window may post one. What changes something is an action: a
request with the user's cookie, answered for the user of the session.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import chainlit as cl

from memory_context import MemoryContextError

from .chats import Said
from .failures import without_unanswered
from .panels import (
    about_panel,
    change_statement,
    forget,
    item_panel,
    notes_panel,
    save_notes,
    stored_panel,
    view_panel,
)
from .plans import EXAMPLES, Plan
from .service import chats, current_plan, current_thread, current_user, is_operator, keep_plan, store
from .ui_hook import ComponentError, check_component, read_component

__all__ = ["NAMED_BY_ACTION"]

NAMED_BY_ACTION = "is_named_by_action"
"""Noted in a session whose thread Chainlit named after an action, as it does if there was no message before."""

_PANEL = "Memory"
_LEARNING_SECONDS = 2.0  # a list waits at most so long for it
_NOTES_CHARACTERS = 100_000  # what is longer than notes may be is refused with a reason
_STATEMENT_CHARACTERS = 2_000  # what is longer than a statement may be is refused with a reason
_CHANGED = {
    "add": "Added.",
    "edit": "Saved.",
    "confirm": "Confirmed.",
    "forget": "Forgotten.",
    "delete secret": "Deleted.",
}
_OPERATORS_ONLY = "Only operators may change who answers: loading an agent runs its code."


@cl.on_window_message
async def look(asked: Any) -> None:
    """Show something in the reader's panel. This only reads, and only what is theirs."""
    asked = asked.get("memory_context") if isinstance(asked, dict) else None
    if not isinstance(asked, dict):
        return  # messages of others: browser extensions, developer tools
    chat = chats.peek(current_user(), current_thread())
    if asked.get("show") == "item":
        context = next(iter(chat.contexts.values()), None) if chat else None
        start = asked.get("start")
        shown = await item_panel(
            store,
            current_user(),
            current_thread(),
            str(asked.get("key"))[:64],
            context=context,
            start_line=start if isinstance(start, int) else 1,
            pattern=str(asked.get("pattern") or "")[:500],
        )
    elif asked.get("show") == "view":
        shown = await view_panel(chat.contexts if chat else {})
    elif asked.get("show") == "about":
        shown = await about_panel(store, current_user(), with_earlier=bool(asked.get("with_earlier")))
    elif asked.get("show") == "notes":
        shown = await _notes()
    elif asked.get("show") == "agent":
        shown = _agent_panel()
    elif asked.get("show") == "stored":
        shown = await _stored(asked)
    else:
        return
    await _show({**shown, "asked": str(asked.get("id") or "")[:40]})


async def _stored(asked: Mapping[str, Any]) -> dict[str, Any]:
    """List what is stored, with what the user said a moment ago: it is learned beside the answer."""
    await chats.archive(current_user(), current_thread())
    with suppress(MemoryContextError):
        await store.jobs.catch_up(current_user(), ("learn",), _LEARNING_SECONDS)
    scope = "all" if asked.get("scope") == "all" else "chat"
    return await stored_panel(store, current_user(), current_thread(), scope, str(asked.get("query") or "")[:500])


async def _notes() -> dict[str, Any]:
    chat = chats.peek(current_user(), current_thread())
    agents = [context.agent_id for context in chat.contexts.values()] if chat else []
    return await notes_panel(store, current_user(), agents)


async def _show(shown: Mapping[str, Any]) -> None:
    panel = cl.CustomElement(
        id=f"memory-{current_thread()}",  # always the same, so that one replaces the other
        name=_PANEL,
        display="side",
        props={**shown, "is_operator": is_operator()},
        url=f"/public/elements/{_PANEL}.jsx",  # without an address, Chainlit writes what is shown to a file
    )
    await panel.send(for_id="", persist=False)


@cl.action_callback("Forget")
async def forget_item(action: cl.Action) -> dict[str, Any]:
    """Erase a content of the user whose session this is, with all items that hold it."""
    _note_action()
    key = str(action.payload.get("key"))[:64]
    try:
        forgotten = await forget(store, current_user(), key)
    except MemoryContextError as error:
        return {"error": str(error)}
    note = {0: "It was forgotten before.", 1: "1 item is forgotten."}.get(
        forgotten, f"{forgotten} items are forgotten: all that held this content."
    )
    await _show({**await _stored(action.payload), "note": note})
    return {"forgotten": forgotten}


@cl.action_callback("Save notes")
async def save_edited_notes(action: cl.Action) -> dict[str, Any]:
    """Replace an agent's long-term notes about the user whose session this is."""
    _note_action()
    asked = action.payload
    agent_id, version = str(asked.get("agent"))[:128], asked.get("version")
    text = str(asked.get("text") or "")[:_NOTES_CHARACTERS]
    problem = await save_notes(store, current_user(), agent_id, text, version if isinstance(version, int) else -1)
    if problem:
        return {"error": problem}
    await _show({**await _notes(), "note": "Saved."})
    return {}


@cl.action_callback("Change statement")
async def change_what_is_known(action: cl.Action) -> dict[str, Any]:
    """Change a statement about the user whose session this is, or delete a secret."""
    _note_action()
    asked = action.payload
    does = str(asked.get("does"))[:16]
    problem = await change_statement(
        store,
        current_user(),
        does,
        key=str(asked.get("key"))[:64],
        statement=str(asked.get("statement") or "")[:_STATEMENT_CHARACTERS],
        type=str(asked.get("type")),
    )
    if problem:
        return {"error": problem}
    shown = await about_panel(store, current_user(), with_earlier=bool(asked.get("with_earlier")))
    await _show({**shown, "note": _CHANGED[does]})
    return {}


# --- the agent builder


def _agent_panel(**more: Any) -> dict[str, Any]:
    plan = current_plan()
    chat = chats.peek(current_user(), current_thread())
    return {
        "tab": "agent",
        "agent": plan.agent,
        "agents": list(chat.contexts) if chat else [],
        "json": json.dumps(plan.component, indent=2, ensure_ascii=False) if plan.component and is_operator() else "",
        "uses_own_model": plan.uses_own_model,
        "examples": EXAMPLES,
        "error": "",
        **more,
    }


@cl.action_callback("Check agent")
async def check_agent(action: cl.Action) -> dict[str, Any]:
    """Say what a pasted component is, and what it may do on this server, before it is loaded."""
    _note_action()
    if not is_operator():
        return {"error": _OPERATORS_ONLY}
    try:
        checked = check_component(
            read_component(str(action.payload.get("json") or "")), has_model=not action.payload.get("uses_own_model")
        )
    except ComponentError as error:
        return {"error": str(error)}
    return {
        "kind": checked.kind,
        "agents": [agent.name for agent in checked.agents],
        "reach": checked.reach,
        "notes": checked.notes,
    }


@cl.action_callback("Agent")
async def use_agent(action: cl.Action) -> dict[str, Any]:
    """Have the chat go on with another agent, and keep that with the thread."""
    _note_action()
    if not is_operator():
        return {"error": _OPERATORS_ONLY}
    before, wanted = current_plan(), action.payload.get("agent")
    try:
        if wanted == "pasted":
            component = read_component(str(action.payload.get("json") or ""))
            plan = Plan("pasted", component, bool(action.payload.get("uses_own_model")), before.policy)
        else:
            plan = Plan("coder" if wanted == "coder" else "reader", policy=before.policy)
        async with chats.hold(current_user(), current_thread(), before) as chat:
            await chat.become(plan, _said())
    except ComponentError as error:
        return {"error": str(error)}
    except MemoryContextError as error:
        return {"error": f"The chat stays as it is: {error}"}
    await keep_plan(plan)
    await _show(_agent_panel(done=True))
    return {"agents": list(chat.contexts)}


def _note_action() -> None:
    if not cl.chat_context.get():
        cl.user_session.set(NAMED_BY_ACTION, True)


def _said() -> list[Said]:
    return [
        Said(one.type == "user_message", one.content)
        for one in without_unanswered(cl.chat_context.get())
        if one.content
    ]
