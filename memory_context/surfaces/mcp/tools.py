"""The tools of the server: those of an agent's context, with the same names, arguments and answers.

A failed call returns a sentence with the remedy, marked as an error. What is a text for the model is answered as text
alone; lists and what was stored are structured, too, without that text again.
"""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from mcp import types
from mcp.server.fastmcp import Context
from mcp.server.fastmcp.tools import Tool
from mcp.server.fastmcp.utilities.func_metadata import ArgModelBase, FuncMetadata
from pydantic import PrivateAttr

from memory_context.foundation.errors import ItemNotFoundError
from memory_context.foundation.identifiers import SessionKey
from memory_context.foundation.utf8 import map_strings, sayable
from memory_context.recall.tools.base import MemoryTool, MemoryToolConfig, ToolHost, config_of, failed_answer
from memory_context.recall.tools.forget import Confirm, ForgetMemoryTool, ForgetProposal
from memory_context.recall.tools.history import Place, ReadHistoryArgs, ReadHistoryTool, past_place
from memory_context.recall.tools.items import (
    ManageLongTermMemoryArgs,
    ManageLongTermMemoryTool,
    RetrieveMemoryTool,
    StoreMemoryTool,
)
from memory_context.recall.tools.repeats import Answer
from memory_context.recall.tools.search import QueryMemoryTool, SearchMemoryTool

from ..access.gate import UsageError
from .memory import ServedMemory

__all__ = ["served_tools"]

_SESSIONS_LISTED = 10
_TEXT = {"type": "string"}
_NUMBER = {"type": "integer"}
_TEXTS = {"type": "array", "items": _TEXT}
_PROPOSED = {"memory_key": _TEXT, "description": _TEXT, "token_count": _NUMBER}
_STORED = {**_PROPOSED, "placeholder": _TEXT}
_ITEM = {
    **dict.fromkeys(("memory_key", "description", "type", "source", "origin", "created_at"), _TEXT),
    "token_count": _NUMBER,
    "tags": _TEXTS,
}
_HIT = {**_ITEM, "start_line": _NUMBER, "end_line": _NUMBER, "passage": _TEXT, "score": {"type": "number"}}

_TITLES = {
    "store_memory": "Store a text",
    "retrieve_memory": "Open a stored text",
    "search_memory": "Search what is stored",
    "query_memory": "List what is stored",
    "read_history": "Read an earlier conversation",
    "manage_long_term_memory": "Read and edit the long-term notes",
    "forget_memory": "Erase stored texts",
}


def _object(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*required]}


def _objects(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "object", "properties": properties}}


# A tool that is missing here answers with text alone: some clients show a model the structured form only, others both.
_OUTPUTS = {
    "store_memory": _object(_STORED, *_STORED),
    "search_memory": _object({"hits": _objects(_HIT)}, "hits"),
    "query_memory": _object({"items": _objects(_ITEM), "has_more": {"type": "boolean"}}, "items"),
    "forget_memory": _object(
        {"forgotten": _TEXTS, "proposed": _objects(_PROPOSED), "confirmation": _TEXT}, "forgotten"
    ),
}
_NOTHING: Mapping[str, Mapping[str, Any]] = {
    "search_memory": {"hits": []},
    "query_memory": {"items": [], "has_more": False},
    "forget_memory": {"forgotten": []},
}


class KeepTextTool(StoreMemoryTool):
    """`store_memory` for texts: this server does not see the results of other tools."""

    tool_description = "Keep a text exactly, under a [MemoryRef: …], for later conversations too."


class ReadNotesTool(ManageLongTermMemoryTool):
    """`manage_long_term_memory` of a server that only reads."""

    async def _answer(self, host: ToolHost, args: ManageLongTermMemoryArgs) -> Answer:
        if args.operation != "read":
            return Answer(f"This server only reads: {args.operation} is refused, and nothing was changed.", failed=True)
        return await super()._answer(host, args)


class ReadSessionArgs(ReadHistoryArgs):
    """Arguments of `read_history` outside of a conversation.

    Attributes:
        agent_id: The agent whose view of it is read; None for the one that began it.
    """

    agent_id: str | None = None


class ReadSessionTool(ReadHistoryTool):
    """`read_history` for any conversation of the user."""

    args_model = ReadSessionArgs
    tool_description = (
        'Page an earlier conversation, as far as it was archived, up to a minute late; session_id="" lists the latest, '
        "* finds in all."
    )

    def __init__(self, config: MemoryToolConfig, host: ToolHost, served: ServedMemory) -> None:
        super().__init__(config, host)
        self._served = served

    async def _answer(self, host: ToolHost, args: ReadHistoryArgs) -> Answer:
        if not (host.session_id if args.session_id is None else args.session_id):
            return Answer(await self._latest())
        return await super()._answer(host, args)

    async def _place(self, host: ToolHost, args: ReadHistoryArgs) -> Place:
        assert isinstance(args, ReadSessionArgs)
        session_id = host.session_id if args.session_id is None else args.session_id
        try:
            info = await self._served.session(session_id)
        except ItemNotFoundError as error:
            raise ItemNotFoundError(f'{error}. Next: read_history(session_id="")') from error
        return await past_place(host, SessionKey(host.user_id, args.agent_id or info.agent_id, session_id), info.title)

    async def _latest(self) -> str:
        sessions = await self._served.sessions(_SESSIONS_LISTED)
        if not sessions:
            return "No conversation is archived yet."
        lines = [
            f"- session_id={one.session_id!r}: {one.title or 'untitled'}; {one.message_count} messages, "
            f"agent {one.agent_id!r}, last used {one.last_activity_at:%Y-%m-%d %H:%M} UTC"
            for one in sessions
        ]
        return "\n".join(["The latest conversations; read_history(session_id=…) pages one:", *lines])


class _ServedTool(Tool):
    """A memory tool behind the SDK's: the SDK lists and calls it, arguments and answers are those of a context."""

    _kind: type[MemoryTool] = PrivateAttr()
    _served: ServedMemory = PrivateAttr()

    @classmethod
    def of(cls, kind: type[MemoryTool], served: ServedMemory) -> "_ServedTool":
        schema = kind.args_model.model_json_schema()
        kept = ("type", "properties", "required", "additionalProperties")
        destroys = kind is ForgetMemoryTool or issubclass(kind, ManageLongTermMemoryTool)
        tool = cls(
            fn=kind,
            name=kind.tool_name,
            title=_TITLES[kind.tool_name],
            description=kind.tool_description,
            parameters={name: schema[name] for name in kept if name in schema},
            fn_metadata=FuncMetadata(arg_model=ArgModelBase, output_schema=_OUTPUTS.get(kind.tool_name)),
            is_async=True,
            context_kwarg=None,
            annotations=types.ToolAnnotations(
                readOnlyHint=kind is not KeepTextTool and not destroys,
                destructiveHint=destroys,
                idempotentHint=not issubclass(kind, ManageLongTermMemoryTool),  # the same text is the same item
                openWorldHint=False,
            ),
        )
        tool._kind, tool._served = kind, served
        return tool

    async def run(
        self, arguments: dict[str, Any], context: Context[Any, Any, Any] | None = None, convert_result: bool = False
    ) -> types.CallToolResult:
        """Return the answer; never raises."""
        try:
            answer = await self._answer(arguments, context)
        except UsageError as error:
            answer = Answer(f"{self.name} failed: {error}.", failed=True)
        except Exception as error:
            answer = failed_answer(self.name, error)
        return self._result(answer)

    async def _answer(self, arguments: dict[str, Any], context: Context[Any, Any, Any] | None) -> Answer:
        async def answer() -> Answer:
            host = await self._served.host()
            return await self._tool(config_of(host), host, context).answer(arguments)

        if self._kind.waits_for_person:
            await self._served.ready()
            return await answer()
        return await self._served.in_time(answer)

    def _tool(self, config: MemoryToolConfig, host: ToolHost, context: Context[Any, Any, Any] | None) -> MemoryTool:
        if self._kind is ReadSessionTool:
            return ReadSessionTool(config, host, self._served)
        if self._kind is ForgetMemoryTool:
            return ForgetMemoryTool(config, host, context and _confirm_at_client(context))
        return self._kind(config, host)

    def _result(self, answer: Answer) -> types.CallToolResult:
        content: list[types.ContentBlock] = [types.TextContent(type="text", text=sayable(answer.text))]
        if answer.failed:
            return types.CallToolResult(content=content, isError=True)
        if (image := answer.image) is not None and image.data is not None:
            encoded = b64encode(image.data).decode()
            content.append(types.ImageContent(type="image", data=encoded, mimeType=image.content_type))
        data: dict[str, Any] | None = None
        if ref := answer.stored:
            told = {"memory_key": ref.key, "description": ref.description, "token_count": ref.token_count}
            data = {**told, "placeholder": ref.render()}
        elif self.name in _OUTPUTS:
            data = {**_NOTHING[self.name], **answer.data}
        return types.CallToolResult(content=content, structuredContent=data and map_strings(data, sayable))


def served_tools(served: ServedMemory, *, read_only: bool, forgets: bool) -> list[Tool]:
    """Return the tools of one server, without `store_memory` if `read_only`, with `forget_memory` if `forgets`."""
    kinds: list[type[MemoryTool]] = [] if read_only else [KeepTextTool]
    kinds += [RetrieveMemoryTool, SearchMemoryTool, QueryMemoryTool, ReadSessionTool]
    kinds += [ReadNotesTool if read_only else ManageLongTermMemoryTool]
    kinds += [ForgetMemoryTool] if forgets else []
    return [_ServedTool.of(kind, served) for kind in kinds]


def _confirm_at_client(context: Context[Any, Any, Any]) -> Confirm | None:
    """Return None if the client shows no forms, or over HTTP, where nobody can be asked while a call waits."""
    client = context.session.client_params
    can = client.capabilities.elicitation if client else None
    if context.request_context.request is not None or can is None or (can.form is None and can.url is not None):
        return None

    async def confirm(proposal: ForgetProposal) -> bool:
        text = f"Erase this from the memory for good?\n{sayable(str(proposal))}"
        empty_form: dict[str, Any] = {"type": "object", "properties": {}}
        answer = await context.session.elicit_form(text, empty_form, context.request_id)
        return answer.action == "accept"

    return confirm
