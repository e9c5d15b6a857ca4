"""What a model may call: store, retrieve, search, list, read the history; on request, forget."""

from collections.abc import Collection

from .base import MemoryTool, MemoryToolConfig, ToolHost, config_of
from .forget import Confirm, ForgetMemoryTool, ForgetProposal
from .history import ReadHistoryArgs, ReadHistoryTool
from .hosts import TemplateKey, is_template_in_use, register_host, register_loaded_host
from .items import RetrieveMemoryTool, StoreMemoryTool, retrieve_item
from .prompt_head import INSTRUCTIONS, MEMORY_TOOLS, MORE_TOOLS, MoreTool, PromptHead
from .repeats import Answer
from .search import QueryMemoryTool, SearchMemoryTool
from .workbench import AnyTool, MemoryWorkbench, as_tools, schemas_of

__all__ = [
    "INSTRUCTIONS",
    "Answer",
    "AnyTool",
    "Confirm",
    "ForgetMemoryTool",
    "ForgetProposal",
    "MemoryTool",
    "MemoryToolConfig",
    "MemoryWorkbench",
    "MoreTool",
    "PromptHead",
    "QueryMemoryTool",
    "ReadHistoryArgs",
    "ReadHistoryTool",
    "RetrieveMemoryTool",
    "SearchMemoryTool",
    "StoreMemoryTool",
    "TemplateKey",
    "ToolHost",
    "as_tools",
    "config_of",
    "is_template_in_use",
    "register_host",
    "register_loaded_host",
    "retrieve_item",
    "schemas_of",
    "tools_of",
]


def tools_of(
    host: ToolHost, also: Collection[MoreTool] = (), confirm: Confirm | None = None, *, are_late: bool = False
) -> list[MemoryTool]:
    """Return the tools of one context.

    Args:
        host: The context.
        also: Tools to offer beside the usual ones.
        confirm: Asks a person before something is forgotten.
        are_late: Whether a `MemoryWorkbench` is to offer them once something is stored.

    Raises:
        ValueError: There is no such tool, or `confirm` is given without `forget_memory`.
    """
    if isinstance(also, str) or set(also) - set(MORE_TOOLS):
        raise ValueError(f"also={also!r}: use a list of names among {', '.join(map(repr, MORE_TOOLS))}")
    if confirm is not None and "forget_memory" not in also:
        raise ValueError("confirm is asked by forget_memory only: give also=['forget_memory'] too")
    config = config_of(host, is_late=are_late)
    tools = [tool(config, host) for tool in MEMORY_TOOLS]
    return [*tools, ForgetMemoryTool(config, host, confirm)] if also else tools
