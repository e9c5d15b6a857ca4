"""What a model may call: store, retrieve, search, list, read the history."""

from .history import ReadHistoryTool
from .hosting import MemoryTool, MemoryToolConfig, ToolHost, config_of
from .items import RetrieveMemoryTool, StoreMemoryTool, retrieve_item
from .prompt_head import INSTRUCTIONS, MEMORY_TOOLS, PromptHead
from .search import QueryMemoryTool, SearchMemoryTool
from .templates import TemplateKey, adopt, announce, is_in_use
from .workbench import AnyTool, MemoryWorkbench, as_tools, schemas_of

__all__ = [
    "INSTRUCTIONS",
    "AnyTool",
    "MemoryTool",
    "MemoryToolConfig",
    "MemoryWorkbench",
    "PromptHead",
    "QueryMemoryTool",
    "ReadHistoryTool",
    "RetrieveMemoryTool",
    "SearchMemoryTool",
    "StoreMemoryTool",
    "TemplateKey",
    "ToolHost",
    "adopt",
    "announce",
    "as_tools",
    "is_in_use",
    "retrieve_item",
    "schemas_of",
    "tools_of",
]


def tools_of(host: ToolHost, *, are_late: bool = False) -> list[MemoryTool]:
    """Return the tools of one context.

    Args:
        host: The context.
        are_late: Whether a `MemoryWorkbench` is to offer them once something is stored.
    """
    config = config_of(host, is_late=are_late)
    return [tool(config, host) for tool in MEMORY_TOOLS]
