"""UIAgentBuilder: how a web application gets an agent whose context is the user's own.

Nothing here imports a user interface. `data_layer` is whatever the application keeps its data with; the builder only
asks it for a `memory_store`. An agent is built by the application (`build_agent`) or from component JSON that an
operator hands in (`build_component`); in both, each agent holds a `MemoryContext` of its own.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autogen_agentchat.base import ChatAgent, TaskRunner, Team
from autogen_core import ComponentLoader
from autogen_core.models import ChatCompletionClient

from memory_context import ContextPolicy, MemoryContext, MemoryContextBuilder

from ...code_agent import CodeAgent
from .components import AgentPlace, ComponentError, check_component
from .handing import Hands

__all__ = ["BuiltAgent", "UIAgentBuilder"]


@dataclass(frozen=True)
class BuiltAgent:
    """What answers in a conversation, and what it remembers by.

    Attributes:
        runner: The agent or the team.
        contexts: The contexts of its agents, by agent name, in order.
    """

    runner: TaskRunner
    contexts: Mapping[str, MemoryContext]


class UIAgentBuilder(MemoryContextBuilder):
    """Builds contexts and agents for the users of an application.

    Args:
        agent_id: The agent's name, and whose memory it is beside the user's.
        policy: The settings of every context.
        light_model: The light model of every context; None for the model client that an agent is built with.
    """

    def __init__(
        self,
        agent_id: str = "assistant",
        policy: ContextPolicy | None = None,
        light_model: ChatCompletionClient | str | None = None,
    ) -> None:
        self.agent_id = agent_id
        self.policy = policy or ContextPolicy()
        self.light_model = light_model

    def build_agent(
        self,
        user_id: str,
        data_layer: object,
        model_client: ChatCompletionClient,
        *,
        session_id: str | None = None,
        code_root: str | Path | None = None,
        model_context: MemoryContext | None = None,
    ) -> CodeAgent:
        """Return a CodeAgent that holds such a context.

        When the conversation ends, close the agent (`await agent.close()`) and then its context
        (`await agent.model_context.close()`).

        Args:
            user_id: The user.
            data_layer: As for `build_model_context`.
            model_client: The agent's model.
            session_id: The conversation's id in the application; None for a new one.
            code_root: The code it works on; None for the current folder.
            model_context: A context to go on with; None to have one made.

        Raises:
            TypeError: The data layer is none that `build_model_context` takes.
        """
        context = model_context or self.build_model_context(
            user_id, data_layer, model_client=model_client, session_id=session_id
        )
        return CodeAgent(self.agent_id, model_client, model_context=context, code_root=code_root)

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
        """Return the agent or team that component data describes, each agent with a MemoryContext of its own.

        The context an agent is configured with is left aside. Agents that take tools get those of their memory, and
        the words that teach them their memory at the end of their system message. The agents stay AutoGen's own.

        Loading a component runs its code: take one from operators only (see `components`).

        Args:
            user_id: The user.
            data_layer: As for `build_model_context`.
            component: The component data.
            model_client: Replaces every model client in it; None to use those it names.
            session_id: The conversation's id in the application; None for a new one.
            contexts: Contexts to go on with, by agent name; for other agents they are made.

        Raises:
            ComponentError: It cannot be used; says where in the JSON.
            TypeError: The data layer is none that `build_model_context` takes.
        """
        checked = check_component(component, has_model=model_client is not None)
        hands = Hands()
        made = dict(contexts or {})

        def context_of(agent: AgentPlace) -> MemoryContext:
            if agent.name not in made:
                made[agent.name] = self.build_model_context(
                    user_id, data_layer, model_client=model_client, session_id=session_id, agent_id=agent.name
                )
            return made[agent.name]

        for agent in checked.agents:
            if agent.takes_context:
                _put_memory(agent, hands, context_of(agent), _calls_tools(agent, model_client))
        if model_client is not None:
            for place in checked.model_places.values():
                _replace(place, hands.put(model_client))
        try:
            with hands.open(), warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that it runs code: `Checked.reach` has told what
                expected = Team if checked.kind == "team" else ChatAgent
                runner = ComponentLoader.load_component(checked.component, expected)
        except Exception as error:  # whatever its constructors raise, in their words
            raise ComponentError(f"The {checked.kind} cannot be built: {error}") from error
        names = [agent.name for agent in checked.agents if agent.takes_context]
        return BuiltAgent(runner, {name: made[name] for name in names})


def _put_memory(agent: AgentPlace, hands: Hands, context: MemoryContext, calls_tools: bool) -> None:
    """Put a context into an agent, with the tools that go with it."""
    agent.config["model_context"] = hands.put(context)
    if not calls_tools:  # it finds what it names in its answers: the context opens that by itself
        return
    # all of them from the first call on: what a pasted agent is for is not known, it may be told to keep something
    tools = [hands.put(tool) for tool in context.tools()]
    if agent.config.get("workbench"):  # an agent has either: tools beside a workbench are a workbench too
        static = {"provider": "autogen_core.tools.StaticStreamWorkbench", "config": {"tools": tools}}
        agent.config["workbench"] = [*_listed(agent.config["workbench"]), static]
    else:
        agent.config["tools"] = [*_listed(agent.config.get("tools")), *tools]
    context.note_agent(system_message=agent.config.get("system_message"))


def _calls_tools(agent: AgentPlace, model_client: ChatCompletionClient | None) -> bool:
    """Return whether an agent takes tools and its model can call them, as far as the JSON says."""
    if not agent.takes_tools or model_client is not None:
        return agent.takes_tools
    named: Any = agent.config.get("model_client")
    info = named.get("config", {}).get("model_info") if isinstance(named, dict) else None
    return not isinstance(info, dict) or info.get("function_calling") is not False


def _listed(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _replace(place: dict[str, Any], component: dict[str, Any]) -> None:
    place.clear()
    place.update(component)
