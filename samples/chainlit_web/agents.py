"""Who answers in a chat: the reader of this repository's code, or what an operator pasted."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_core import FunctionCall
from autogen_core.models import ChatCompletionClient, CreateResult, LLMMessage
from autogen_core.tools import Tool, ToolSchema

from memory_context import ContextPolicy, MemoryContext, MemoryStore, SessionKey

from ..web_chat.code_tools import code_tools
from ..web_chat.scripted import ScriptedClient
from .ui_hook import BuiltAgent, UIAgentBuilder

__all__ = ["Agents", "Component", "ScriptedModel"]

Component = Mapping[str, Any]

_POLICY = ContextPolicy(first_view_limit_tokens=3000)  # so that a file of some hundred lines shows a reference
_READER = "reader"
_SYSTEM_MESSAGE = """\
You answer questions about the source code of the Python package memory_context. Find with search_code, then read;
name files and lines for what you say, and claim nothing that you have not seen. Answer in short Markdown."""


class Agents:
    """Makes the agents of chats, with contexts in a store. `light` is their light model; None for the same model."""

    def __init__(
        self, store: MemoryStore, model_client: ChatCompletionClient, light: ChatCompletionClient | str | None = None
    ) -> None:
        self.store = store
        self.model_client = model_client
        self._builder = UIAgentBuilder(_READER, _POLICY, light)

    def build(
        self, key: SessionKey, component: Component | None, contexts: Mapping[str, MemoryContext] | None = None
    ) -> BuiltAgent:
        """Return the agent of a component (raises ComponentError), or the reader, with the contexts that are given."""
        common: Any = {"model_client": self.model_client, "session_id": key.session_id}
        if component is not None:
            return self._builder.build_component(key.user_id, self.store, component, contexts=contexts, **common)
        context = (contexts or {}).get(_READER)
        if context is None:
            context = self._builder.build_model_context(key.user_id, self.store, **common)
        context.note_agent(system_message=_SYSTEM_MESSAGE, tools=code_tools(), model_client=self.model_client)
        reader = AssistantAgent(
            _READER,
            self.model_client,
            tools=[*code_tools(), *context.tools()],  # at once: it may be told to remember something
            model_context=context,
            system_message=_SYSTEM_MESSAGE,
            model_client_stream=True,
            max_tool_iterations=20,
        )
        return BuiltAgent(reader, {_READER: context})


class ScriptedModel(ScriptedClient):
    """A model for a server without a key: rules made for the reader. Other agents are asked to look in their memory."""

    async def create(
        self, messages: Sequence[LLMMessage], *, tools: Sequence[Tool | ToolSchema] = (), **others: Any
    ) -> CreateResult:
        """Return the whole decision at once."""
        decided = await super().create(messages, tools=tools, **others)
        names = {tool["name"] if isinstance(tool, dict) else tool.name for tool in tools}
        if isinstance(decided.content, str) or decided.content[0].name in names:
            return decided
        call = decided.content[0]
        if "search_memory" in names:
            query = " ".join(map(str, json.loads(call.arguments).values())) or call.name
            search = FunctionCall(id=call.id, name="search_memory", arguments=json.dumps({"query": query}))
            return decided.model_copy(update={"content": [search]})
        told = "I am a small set of rules, not a model. Start me with `OPENAI_API_KEY` set, and a model answers."
        return decided.model_copy(update={"content": told, "finish_reason": "stop"})
