"""deepagents' FilesystemMiddleware in a Python of its own, which lines of JSON on standard input ask.

The first line that it writes holds what each call of a model carries: tools and instructions. Then it answers each
result of a tool with what the middleware makes of it. It imports nothing of this project, whose libraries conflict.
"""

import json
import sys
import tempfile
from typing import Any

from deepagents.backends import FilesystemBackend
from deepagents.middleware.filesystem import FilesystemMiddleware
from langchain.agents.middleware.types import ModelRequest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

__all__ = ["main"]


class _Request:
    """What the middleware reads of a call."""

    def __init__(self, call: dict[str, Any]) -> None:
        self.tool_call = call


def main() -> None:
    """Answer until standard input ends."""
    with tempfile.TemporaryDirectory() as folder:
        middleware = FilesystemMiddleware(backend=FilesystemBackend(root_dir=folder, virtual_mode=True))
        carried: list[str] = []

        def model(request: Any) -> Any:
            carried.append(getattr(request.system_message, "text", "") or "")
            carried.append(json.dumps([convert_to_openai_tool(tool)["function"] for tool in request.tools]))
            return AIMessage("")

        request: Any = ModelRequest(model=None, messages=[HumanMessage("go")], tools=[*middleware.tools], state={})
        middleware.wrap_model_call(request, model)
        print(json.dumps("\n".join(carried)), flush=True)
        for line in sys.stdin:
            result = json.loads(line)
            message = ToolMessage(result["content"], tool_call_id=result["call_id"], name=result["name"])
            asked: Any = _Request({"name": result["name"], "id": result["call_id"], "args": {}})
            shown: Any = middleware.wrap_tool_call(asked, lambda _, message=message: message)
            print(json.dumps(str(shown.content)), flush=True)


if __name__ == "__main__":
    main()
