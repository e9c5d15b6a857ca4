"""The agent builder of the side panel: who answers, and what an operator pastes instead."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from autogen_core.models import LLMMessage

from memory_context import MemoryContextError

from .chats import LiveChat
from .service import current_component, hold_chat, is_operator, keep_component
from .ui_hook import ComponentError, check_component, read_component

__all__ = ["EXAMPLES", "agent_panel", "change_agent"]

_ASSISTANT = "autogen_agentchat.agents.AssistantAgent"


def _assistant(name: str, system_message: str) -> dict[str, Any]:
    return {"provider": _ASSISTANT, "config": {"name": name, "system_message": system_message}}


EXAMPLES: Mapping[str, Any] = {
    "an agent": _assistant("secretary", "You keep notes for the user, and find them again."),
    "a team": {
        "provider": "autogen_agentchat.teams.RoundRobinGroupChat",
        "config": {
            "participants": [
                _assistant("writer", "You write what is asked for."),
                _assistant("critic", "You say in two sentences what could be better."),
            ],
            "max_turns": 2,
        },
    },
}
"""Components to begin with."""


def agent_panel(chat: LiveChat | None, *, is_done: bool = False) -> dict[str, Any]:
    """Return who answers in the chat of the current session; JSON for operators only."""
    component = current_component()
    return {
        "tab": "agent",
        "is_pasted": component is not None,
        "agents": list(chat.contexts) if chat else [],
        "json": json.dumps(component, indent=2, ensure_ascii=False) if component else "",
        "examples": EXAMPLES,
        "done": is_done,
    }


async def change_agent(asked: Mapping[str, Any], said: Sequence[LLMMessage]) -> dict[str, Any]:
    """Say what a pasted component may do on this server; or have the chat go on with it, or with the reader again.

    Args:
        asked: `json`, the component ("" for the reader), and `use`, True to go on with it.
        said: The chat so far, for an agent that has not answered in it.
    """
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
