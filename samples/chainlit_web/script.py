"""A model without a key, for whatever agent is pasted: the rules of the web chat, with the tools that are there.

The rules name the reader's tools. An agent that has others for the same thing is asked for those; one that has none of
them looks in its memory.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from autogen_core import FunctionCall
from autogen_core.models import CreateResult, FunctionExecutionResultMessage, LLMMessage
from autogen_core.tools import Tool, ToolSchema

from ..web_chat.scripted import ScriptedClient

__all__ = ["ScriptedModel"]

_GREP, _SEARCH = "grep", "search_code"
_NOTHING_TO_DO = (
    "I am a small set of rules, not a model, and this agent has no tools that I know. Start me with `OPENAI_API_KEY` "
    "set, and a model answers."
)


class ScriptedModel(ScriptedClient):
    """Decides by the rules of the web chat, with the tools that an agent has."""

    async def create(
        self, messages: Sequence[LLMMessage], *, tools: Sequence[Tool | ToolSchema] = (), **others: Any
    ) -> CreateResult:
        """Return the whole decision at once."""
        names = {tool["name"] if isinstance(tool, dict) else tool.name for tool in tools}
        decided = await super().create([_as_the_reader_calls_it(one) for one in messages], tools=tools, **others)
        if isinstance(decided.content, str) or decided.content[0].name in names:
            return decided
        call = decided.content[0]
        name, arguments = _instead(call.name, json.loads(call.arguments), names)
        if not name:
            return decided.model_copy(update={"content": _NOTHING_TO_DO, "finish_reason": "stop"})
        other = FunctionCall(id=call.id, name=name, arguments=json.dumps(arguments))
        return decided.model_copy(update={"content": [other]})


def _instead(name: str, arguments: Mapping[str, Any], names: set[str]) -> tuple[str, Mapping[str, Any]]:
    if name == _SEARCH and _GREP in names:
        return _GREP, arguments
    if name == "list_files" and "shell" in names:
        return "shell", {"command": 'cd "$CODE_ROOT" && find . -name "*.py" | sort | xargs wc -l'}
    if "search_memory" in names:
        return "search_memory", {"query": " ".join(str(value) for value in arguments.values()) or name}
    return "", {}


def _as_the_reader_calls_it(message: LLMMessage) -> LLMMessage:
    if not isinstance(message, FunctionExecutionResultMessage):
        return message
    results = [
        result.model_copy(update={"name": _SEARCH}) if result.name == _GREP else result for result in message.content
    ]
    return FunctionExecutionResultMessage(content=results)
