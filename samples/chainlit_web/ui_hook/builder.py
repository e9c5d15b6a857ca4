"""UIAgentBuilder: a web application hands in a user and component JSON, and gets an agent that remembers.

`data_layer` is whatever the application keeps its data with; the builder only asks it for a `memory_store`.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autogen_agentchat.base import TaskRunner
from autogen_core import ComponentLoader
from autogen_core.models import ChatCompletionClient

from memory_context import ContextPolicy, MemoryContext, MemoryContextBuilder

from .components import AgentPlace, ComponentError, check_component
from .live import LiveObjects

__all__ = ["BuiltAgent", "UIAgentBuilder"]


@dataclass(frozen=True)
class BuiltAgent:
    """The agent or team of a conversation, and the contexts of its agents by name."""

    runner: TaskRunner
    contexts: Mapping[str, MemoryContext]


@dataclass
class UIAgentBuilder(MemoryContextBuilder):
    """Builds contexts (`build_model_context`), and agents of component JSON, for the users of an application."""

    agent_id: str = "assistant"
    policy: ContextPolicy = field(default_factory=ContextPolicy)
    light_model: ChatCompletionClient | str | None = None

    def build_component(
        self,
        user_id: str,
        data_layer: object,
        component: Mapping[str, Any],
        *,
        model_client: ChatCompletionClient | None = None,
        session_id: str | None = None,
        contexts: Mapping[str, MemoryContext] | None = None,
    ) -> BuiltAgent:
        """Return the agent or team of a component, each agent with a MemoryContext of its own and its memory's tools.

        The context that the JSON names is left aside. Loading a component runs its code: take it from operators only.

        Args:
            data_layer: As for `build_model_context`.
            model_client: For agents that name no model.
            session_id: The conversation's id in the application; None for a new one.
            contexts: Contexts to go on with, by agent name.

        Raises:
            ComponentError: It cannot be used; says where in the JSON.
        """
        checked = check_component(component)
        live, made = LiveObjects(), dict[str, MemoryContext]()
        for agent in checked.agents:
            if "model_client" in agent.fields and not agent.config.get("model_client") and model_client is not None:
                agent.config["model_client"] = live.put(model_client)
            if "model_context" in agent.fields:
                context = (contexts or {}).get(agent.name) or self.build_model_context(
                    user_id, data_layer, model_client=model_client, session_id=session_id, agent_id=agent.name
                )
                made[agent.name] = context
                agent.config["model_context"] = live.put(context)
                if "tools" in agent.fields:  # other agents have opened what they name in their answers
                    _add_tools(agent, live, context)
        try:
            with live.open(), warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # "runs code": `Checked.reach` has said so
                runner: Any = ComponentLoader.load_component(checked.component, object)
        except Exception as error:  # constructors raise anything; their words help the operator most
            raise ComponentError(f"It cannot be built: {error}") from error
        return BuiltAgent(runner, made)


def _add_tools(agent: AgentPlace, live: LiveObjects, context: MemoryContext) -> None:
    tools = [live.put(tool) for tool in context.tools()]
    if agent.config.get("workbench"):  # AutoGen takes tools or workbenches, so these tools become a workbench
        static = {"provider": "autogen_core.tools.StaticStreamWorkbench", "config": {"tools": tools}}
        agent.config["workbench"] = [*_as_list(agent.config["workbench"]), static]
    else:
        agent.config["tools"] = [*_as_list(agent.config.get("tools")), *tools]
    context.note_agent(system_message=agent.config.get("system_message"))


def _as_list(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]
