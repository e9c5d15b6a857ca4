"""MemoryWorkbench: an agent's own tools, and those of its memory once something is stored.

Schemas of tools stand in every model call, and before everything else. So the memory tools are offered late: the
context records once in a session that they are (`Offered`), with the first view after an offload, or with the first of
all if the user has memory. To wait for the first placeholder is dearer: more stands behind them by then, and a prompt
cache reads it anew. AutoGen lists tools after each `get_messages`, and again for each call that it
runs; what was offered stays offered.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

from autogen_core.tools import BaseTool, FunctionTool, StaticStreamWorkbench, ToolSchema

from .base import MemoryTool

__all__ = ["AnyTool", "MemoryWorkbench", "as_tools", "schemas_of"]

AnyTool = BaseTool[Any, Any] | Callable[..., Any]
"""A tool as AutoGen's agents take it: also a function, whose docstring describes it."""


class MemoryWorkbench(StaticStreamWorkbench):
    """AutoGen's workbench of static tools, but for the memory tools among them, which are offered late.

    It is what `MemoryContext.workbench` makes, and dumps and loads as a component.
    """

    component_provider_override = "memory_context.tools.MemoryWorkbench"

    async def list_tools(self) -> list[ToolSchema]:
        """Return the schemas of the tools that are offered now."""
        late = {tool.name for tool in self._tools if isinstance(tool, MemoryTool) and not tool.is_due}
        return [schema for schema in await super().list_tools() if schema["name"] not in late]


def as_tools(tools: Sequence[AnyTool]) -> list[BaseTool[Any, Any]]:
    """Return tools and functions as tools.

    Raises:
        ValueError: Two have the same name.
    """
    made = [_as_tool(tool) for tool in tools]
    names = [tool.name for tool in made]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"tools of the same name: {', '.join(repeated)}; give each a name of its own")
    return made


def schemas_of(tools: Sequence[AnyTool | ToolSchema]) -> list[ToolSchema]:
    """Return the schemas of tools; what is a schema already, such as a workbench lists it, stays as it is."""
    return [cast(ToolSchema, tool) if isinstance(tool, dict) else _as_tool(tool).schema for tool in tools]


def _as_tool(tool: AnyTool) -> BaseTool[Any, Any]:
    if isinstance(tool, BaseTool):
        return cast("BaseTool[Any, Any]", tool)
    return FunctionTool(tool, description=tool.__doc__ or "")
