"""The agent builder of the side panel: who answers, and what an operator pastes instead."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from autogen_core.models import LLMMessage

from memory_context import MemoryContextError

from .chats import LiveChat
from .service import current_component, hold_chat, is_operator, keep_component
from .ui_hook import ComponentError, check_component, read_component

__all__ = ["agent_panel", "change_agent"]

_EXAMPLE = {
    "provider": "autogen_agentchat.agents.AssistantAgent",
    "config": {"name": "secretary", "system_message": "You keep notes for the user, and find them again."},
}


def agent_panel(chat: LiveChat | None) -> dict[str, Any]:
    """Return who answers in the chat of the current session; JSON for operators only."""
    component = current_component()
    return {
        "tab": "agent",
        "is_pasted": component is not None,
        "agents": list(chat.contexts) if chat else [],
        "json": json.dumps(component, indent=2, ensure_ascii=False) if component else "",
        "example": _EXAMPLE,
    }


async def change_agent(asked: Mapping[str, Any], said: Sequence[LLMMessage]) -> dict[str, Any]:
    """Say what a pasted component (`json`) may do; with `use`, or without `json`, go on with it, or with the reader."""
    if not is_operator():
        return {"error": "Only operators may change who answers: loading an agent runs its code."}
    text = str(asked.get("json") or "")
    try:
        component = read_component(text) if text else None
        if component and not asked.get("use"):
            checked = check_component(component)
            return {"agents": [agent.name for agent in checked.agents], "reach": checked.reach}
        async with hold_chat() as chat:
            await chat.become(component, said)
    except ComponentError as error:
        return {"error": str(error)}
    except MemoryContextError as error:
        return {"error": f"The chat stays as it is: {error}"}
    await keep_component(component)
    return {"is_used": True}
