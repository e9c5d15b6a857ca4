"""Who answers in a chat: the reader, the code agent, or what an operator pasted."""

from collections.abc import Mapping

from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import ChatCompletionClient

from memory_context import MemoryContext, MemoryStore

from ..web_chat.code_tools import CODE_ROOT, code_tools
from .plans import Plan
from .ui_hook import BuiltAgent, UIAgentBuilder

__all__ = ["Agents"]

_SYSTEM_MESSAGE = """\
You answer questions about the source code of the Python package memory_context. Find with search_code, then read;
name files and lines for what you say, and claim nothing that you have not seen. Answer in short Markdown."""


class Agents:
    """Makes agents for chats.

    Args:
        memory_store: Where their contexts keep everything.
        model_client: The application's model.
        light_model: The light model of their contexts; None for the application's model.
    """

    def __init__(
        self,
        memory_store: MemoryStore,
        model_client: ChatCompletionClient,
        light_model: ChatCompletionClient | str | None = None,
    ) -> None:
        self.memory_store = memory_store
        self.model_client = model_client
        self.light_model = light_model

    def build(
        self, plan: Plan, user_id: str, session_id: str, contexts: Mapping[str, MemoryContext] | None = None
    ) -> BuiltAgent:
        """Return the agent of a plan; it goes on with the contexts that are given.

        Raises:
            ComponentError: What was pasted cannot be used.
        """
        name = plan.agent
        builder = UIAgentBuilder(name, plan.policy, self.light_model)
        if plan.component is not None:
            return builder.build_component(
                user_id,
                self.memory_store,
                plan.component,
                model_client=None if plan.uses_own_model else self.model_client,
                session_id=session_id,
                contexts=contexts,
            )
        context = (contexts or {}).get(name)
        if context is None:
            context = builder.build_model_context(
                user_id, self.memory_store, model_client=self.model_client, session_id=session_id
            )
        if name == "coder":
            agent = builder.build_agent(
                user_id, self.memory_store, self.model_client, code_root=CODE_ROOT, model_context=context
            )
        else:
            context.note_agent(system_message=_SYSTEM_MESSAGE, tools=code_tools(), model_client=self.model_client)
            agent = AssistantAgent(
                name,
                self.model_client,
                tools=[*code_tools(), *context.tools()],  # at once: it may be told to remember something
                model_context=context,
                system_message=_SYSTEM_MESSAGE,
                model_client_stream=True,
                max_tool_iterations=20,
            )
        return BuiltAgent(agent, {name: context})
