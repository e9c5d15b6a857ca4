"""The server of one user, without a transport: what it offers, and how it answers when something is wrong.

Every request passes `_answering`, the one place where an error becomes a sentence and where a text that UTF-8 cannot
say (half a surrogate pair, as broken tools print them) is made sayable: the protocol's JSON cannot carry it.
"""

import logging
from collections.abc import Awaitable, Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from mcp import McpError, types
from mcp.server.lowlevel import Server
from pydantic_core import PydanticSerializationError

from ..access import UsageError
from ..errors import ItemNotFoundError, MemoryContextError, StoreError
from ..escaping import sayable
from ..store import within
from ..tools import Confirm, ForgetProposal
from .memory import ServedMemory
from .prompts import instructions_for, prompt_named, prompts
from .resources import completed, list_resources, read_resource, resource_templates
from .tools import ServedTools

__all__ = ["create_server"]

_logger = logging.getLogger("memory_context")

_RESOURCE_NOT_FOUND = -32002  # of the protocol; the SDK does not name it

_Answer = Callable[[Any], Awaitable[types.ServerResult]]


def create_server(served: ServedMemory, *, read_only: bool = False, forgets: bool = False) -> Server[Any, Any]:
    """Return a server of the MCP SDK that offers a user's memory; run it on any transport.

    Args:
        served: The memory.
        read_only: Whether nothing can be stored.
        forgets: Whether `forget_memory` is offered, which asks the person at the client before it erases anything.
    """
    instructions = instructions_for(read_only=read_only, forgets=forgets)
    server = Server[Any, Any]("memory_context", version=_version(), instructions=instructions)
    tools = ServedTools(served, read_only=read_only, forgets=forgets)

    async def list_tools(_: types.ListToolsRequest) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools.listed())

    async def call_tool(request: types.CallToolRequest) -> types.CallToolResult:
        confirm = _confirm_at_client(server) if forgets else None
        return await tools.call(request.params.name, request.params.arguments or {}, confirm)

    async def list_pages(request: types.ListResourcesRequest) -> types.ListResourcesResult:
        listing = list_resources(served, request.params.cursor if request.params else None)
        return await within(served.store.limits.call_seconds, listing)

    async def list_templates(_: types.ListResourceTemplatesRequest) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resourceTemplates=resource_templates())

    async def read(request: types.ReadResourceRequest) -> types.ReadResourceResult:
        return await within(served.store.limits.call_seconds, read_resource(served, request.params.uri))

    async def list_prompts(_: types.ListPromptsRequest) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=prompts())

    async def get_prompt(request: types.GetPromptRequest) -> types.GetPromptResult:
        return prompt_named(request.params.name, request.params.arguments, instructions)

    async def complete(request: types.CompleteRequest) -> types.CompleteResult:
        ref = request.params.ref
        template = ref.uri if isinstance(ref, types.ResourceTemplateReference) else ""
        completing = completed(served, template, request.params.argument)
        return types.CompleteResult(completion=await within(served.store.limits.call_seconds, completing))

    server.request_handlers |= {
        types.ListToolsRequest: _answering(list_tools),
        types.CallToolRequest: _answering(call_tool),
        types.ListResourcesRequest: _answering(list_pages),
        types.ListResourceTemplatesRequest: _answering(list_templates),
        types.ReadResourceRequest: _answering(read),
        types.ListPromptsRequest: _answering(list_prompts),
        types.GetPromptRequest: _answering(get_prompt),
        types.CompleteRequest: _answering(complete),
    }
    return server


def _confirm_at_client(server: Server[Any, Any]) -> Confirm | None:
    """Return what asks the person at the client of this request; None if the client has no form to show.

    Over HTTP the answer to a request is one body, so nothing can be asked meanwhile.
    """
    context = server.request_context
    client = context.session.client_params
    can = client.capabilities.elicitation if client else None
    if context.request is not None or can is None or (can.form is None and can.url is not None):
        return None

    async def confirm(proposal: ForgetProposal) -> bool:
        text = f"Erase this from the memory for good?\n{sayable(str(proposal))}"
        nothing_to_fill_in: dict[str, Any] = {"type": "object", "properties": {}}
        answer = await context.session.elicit_form(text, nothing_to_fill_in, context.request_id)
        return answer.action == "accept"

    return confirm


def _answering(answer: Callable[[Any], Awaitable[types.ServerResultType]]) -> _Answer:
    """Return a handler for the SDK: its result is always JSON, its error always a sentence."""

    async def answered(request: Any) -> types.ServerResult:
        try:
            result = await answer(request)
        except ItemNotFoundError as error:
            raise _error(_RESOURCE_NOT_FOUND, str(error)) from error
        except ValueError as error:
            raise _error(types.INVALID_PARAMS, str(error)) from error
        except StoreError as error:
            raise _error(types.INTERNAL_ERROR, f"The memory cannot be reached at the moment ({error}).") from error
        except (MemoryContextError, UsageError) as error:
            raise _error(types.INTERNAL_ERROR, str(error)) from error
        except Exception as error:
            _logger.exception("%s failed", type(request).__name__)
            raise _error(types.INTERNAL_ERROR, f"a defect of the memory: {type(error).__name__}") from error
        try:
            result.model_dump_json()
        except PydanticSerializationError:
            result = type(result).model_validate(_sayable(result.model_dump(by_alias=True)))
        return types.ServerResult(result)

    return answered


def _error(code: int, text: str) -> McpError:
    sentence = text if text.endswith((".", "?")) else f"{text}."
    return McpError(types.ErrorData(code=code, message=_sayable(sentence)))


def _sayable(value: Any) -> Any:
    """Return a value in whose texts each half of a surrogate pair is spelled, such as `\\ud83d`."""
    if isinstance(value, str):
        return sayable(value)
    if isinstance(value, dict):
        return {_sayable(name): _sayable(one) for name, one in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [_sayable(one) for one in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def _version() -> str:
    try:
        return version("memory-context")
    except PackageNotFoundError:  # run from a folder that was never installed
        return "unknown"
