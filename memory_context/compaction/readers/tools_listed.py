"""Lists of tools and of endpoints, as MCP servers, model APIs and OpenAPI documents give them: names and parameters.

An agent asks for such a list to make a call next; what it needs is which tools there are and what they take.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

__all__ = ["ListedTool", "tools_in"]

_NAMES = ("tool_name", "name", "tool", "operationId")
_PARAMETERS = ("inputSchema", "inputschema", "input_schema", "parameters", "args_schema", "arguments", "params", "args")
_SCHEMA_WORDS = {"type", "description", "title", "required", "properties", "$schema", "additionalProperties", "$defs"}
_METHODS = ("get", "post", "put", "patch", "delete")
_TOOLS = 200
_SHOWN_PARAMETERS = 12


@dataclass(frozen=True)
class ListedTool:
    """A tool: its name, what it takes (`?` marks what may be left out), and the server it is on, if that is said."""

    name: str
    parameters: Sequence[str]
    server: str

    def line(self) -> str:
        """Return it as a call."""
        more = ", …" if len(self.parameters) > _SHOWN_PARAMETERS else ""
        server = f"{self.server}: " if self.server else ""
        return f"{server}{self.name}({', '.join(self.parameters[:_SHOWN_PARAMETERS])}{more})"


def tools_in(value: Any, records: Sequence[dict[str, Any]]) -> list[ListedTool]:
    """Return the tools that records list, or the endpoints of an OpenAPI document; empty if they are something else."""
    paths: Any = cast("dict[str, Any]", value).get("paths") if isinstance(value, dict) else None
    if isinstance(paths, dict):
        return _endpoints(cast("dict[str, Any]", paths))
    tools = [tool for record in records[:_TOOLS] if (tool := _tool(record))]
    return tools if len(tools) * 2 > min(len(records), _TOOLS) else []


def _tool(record: dict[str, Any]) -> ListedTool | None:
    function: Any = record.get("function")
    if isinstance(function, dict):
        record = cast("dict[str, Any]", function)
    name = next((found for key in _NAMES if isinstance(found := record.get(key), str) and found), "")
    key = next((key for key in _PARAMETERS if key in record), "")
    if not name or not key or " " in name:
        return None
    if not isinstance(record[key], (dict, list, type(None))):
        return None
    server: Any = record.get("server_name") or record.get("server")
    return ListedTool(name[:80], _parameters(record[key]), server[:60] if isinstance(server, str) else "")


def _parameters(schema: Any) -> list[str]:
    if isinstance(schema, list):
        items = [cast("dict[str, Any]", item) for item in cast("list[Any]", schema) if isinstance(item, dict)]
        return [_marked(str(item["name"]), bool(item.get("required"))) for item in items if "name" in item]
    if not isinstance(schema, dict):
        return []
    named = cast("dict[str, Any]", schema)
    properties: Any = named.get("properties")
    if isinstance(properties, dict):
        required: Any = named.get("required")
        needed = cast("list[Any]", required) if isinstance(required, list) else []
        return [_marked(key, key in needed) for key in cast("dict[str, Any]", properties)]
    return [
        _marked(key, not (isinstance(told, str) and "optional" in told[:40].lower()))
        for key, told in named.items()
        if key not in _SCHEMA_WORDS or isinstance(told, str)
    ]


def _marked(name: str, is_required: bool) -> str:
    return name[:40] if is_required else f"{name[:40]}?"


def _endpoints(paths: dict[str, Any]) -> list[ListedTool]:
    tools: list[ListedTool] = []
    for path, methods in list(paths.items())[:_TOOLS]:
        if not path.startswith("/") or not isinstance(methods, dict):
            continue
        for method, operation in cast("dict[str, Any]", methods).items():
            if method in _METHODS:
                taken: Any = (
                    cast("dict[str, Any]", operation).get("parameters") if isinstance(operation, dict) else None
                )
                tools.append(ListedTool(f"{method.upper()} {path[:80]}", _parameters(taken), ""))
    return tools
