"""What tools take of a model call: their schemas as the OpenAI client sends them, in tokens."""

import json
from collections.abc import Sequence

from autogen_core.tools import ToolSchema

from ..tokens import TokenCounter

__all__ = ["tool_tokens"]


def tool_tokens(schemas: Sequence[ToolSchema], counter: TokenCounter) -> int:
    """Return what tools take in each model call: the tokens of the JSON that AutoGen's OpenAI client sends of them.

    Other services write schemas differently; the count is exact for none and comparable for all.
    """
    if not schemas:
        return 0
    sent = [
        {
            "type": "function",
            "function": {
                "name": schema["name"],
                "description": schema.get("description", ""),
                "parameters": schema.get("parameters", {}),
                "strict": schema.get("strict", False),
            },
        }
        for schema in schemas
    ]
    return counter.count(json.dumps(sent, ensure_ascii=False, separators=(",", ":")))
