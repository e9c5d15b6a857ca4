"""Tools for models: store, retrieve, search, list, read the history, keep notes; on request, forget."""

from .base import MemoryTool, failed_answer
from .forget import Confirm, ForgetMemoryTool, ForgetProposal
from .history import Place, ReadHistoryArgs, ReadHistoryTool, RecallResult, RecallTool, create_recall_tool, past_place
from .hosts import (
    MemoryToolConfig,
    ToolHost,
    config_of,
    is_template_in_use,
    register_host,
    register_loaded_host,
)
from .items import (
    ManageLongTermMemoryArgs,
    ManageLongTermMemoryTool,
    RetrieveMemoryTool,
    StoreMemoryTool,
    retrieve_item,
)
from .prompt_head import (
    AnyTool,
    MemoryWorkbench,
    MoreTool,
    PromptHead,
    as_tools,
    schemas_of,
    tool_json,
    tool_tokens,
    tools_of,
)
from .repeats import Answer
from .search import QueryMemoryTool, SearchMemoryTool
from .secret_rules import SecretRules
from .secret_tool import SecretStreamTool, SecretTool, SecretToolError, SecretWorkbench

__all__ = [
    "Answer",
    "AnyTool",
    "Confirm",
    "ForgetMemoryTool",
    "ForgetProposal",
    "ManageLongTermMemoryArgs",
    "ManageLongTermMemoryTool",
    "MemoryTool",
    "MemoryToolConfig",
    "MemoryWorkbench",
    "MoreTool",
    "Place",
    "PromptHead",
    "QueryMemoryTool",
    "ReadHistoryArgs",
    "ReadHistoryTool",
    "RecallResult",
    "RecallTool",
    "RetrieveMemoryTool",
    "SearchMemoryTool",
    "SecretRules",
    "SecretStreamTool",
    "SecretTool",
    "SecretToolError",
    "SecretWorkbench",
    "StoreMemoryTool",
    "ToolHost",
    "as_tools",
    "config_of",
    "create_recall_tool",
    "failed_answer",
    "is_template_in_use",
    "past_place",
    "register_host",
    "register_loaded_host",
    "retrieve_item",
    "schemas_of",
    "tool_json",
    "tool_tokens",
    "tools_of",
]
