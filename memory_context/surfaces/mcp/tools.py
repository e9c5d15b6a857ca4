"""The tools of the server: those of an agent's context, with the same names, arguments and answers.

A failed call returns a sentence with the remedy, marked as an error.
"""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple

from mcp import types

from memory_context.foundation.errors import ItemNotFoundError, MemoryContextError, StoreError
from memory_context.foundation.identifiers import SessionKey
from memory_context.foundation.references import one_line
from memory_context.recall.tools.base import MemoryTool, MemoryToolConfig, ToolHost, config_of, failed_answer
from memory_context.recall.tools.forget import Confirm, ForgetMemoryTool
from memory_context.recall.tools.history import Place, ReadHistoryArgs, ReadHistoryTool, past_place
from memory_context.recall.tools.items import (
    ManageLongTermMemoryArgs,
    ManageLongTermMemoryTool,
    RetrieveMemoryTool,
    StoreMemoryTool,
)
from memory_context.recall.tools.repeats import Answer
from memory_context.recall.tools.search import QueryMemoryTool, SearchMemoryTool
from memory_context.store.limits import within

from ..access.gate import UsageError
from .memory import ServedMemory

__all__ = ["ServedTools"]

_SESSIONS_LISTED = 10
_TEXT = {"type": "string"}
_NUMBER = {"type": "integer"}
_TEXTS = {"type": "array", "items": _TEXT}


def _objects(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "object", "properties": properties}}


_ITEM = {
    **dict.fromkeys(("memory_key", "description", "type", "source", "origin", "created_at"), _TEXT),
    "token_count": _NUMBER,
    "tags": _TEXTS,
}
_HIT = {**_ITEM, "start_line": _NUMBER, "end_line": _NUMBER, "passage": _TEXT, "score": {"type": "number"}}
_PROPOSED = {"memory_key": _TEXT, "description": _TEXT, "token_count": _NUMBER}
_STORED = {**_PROPOSED, "placeholder": _TEXT}


class _Listing(NamedTuple):
    """A tool's structured output, its required properties, and their empty values."""

    title: str
    output: Mapping[str, Any]
    required: tuple[str, ...] = ("text",)
    empty: Mapping[str, Any] = {}


_LISTINGS = {
    "store_memory": _Listing("Store a text", _STORED, tuple(_STORED)),
    "retrieve_memory": _Listing("Open a stored text", {"memory_key": _TEXT, "shown": _TEXT, "text": _TEXT}),
    "search_memory": _Listing(
        "Search what is stored", {"hits": _objects(_HIT), "text": _TEXT}, ("hits",), {"hits": []}
    ),
    "query_memory": _Listing(
        "List what is stored",
        {"items": _objects(_ITEM), "has_more": {"type": "boolean"}, "text": _TEXT},
        ("items",),
        {"items": [], "has_more": False},
    ),
    "read_history": _Listing(
        "Read an earlier conversation", {"first_message": _NUMBER, "last_message": _NUMBER, "text": _TEXT}
    ),
    "manage_long_term_memory": _Listing(
        "Read and edit the long-term notes", {"notes": _TEXT, "version": _NUMBER, "text": _TEXT}
    ),
    "forget_memory": _Listing(
        "Erase stored texts",
        {"forgotten": _TEXTS, "proposed": _objects(_PROPOSED), "confirmation": _TEXT, "text": _TEXT},
        ("forgotten",),
        {"forgotten": []},
    ),
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
        if not (args.memory_key or (host.session_id if args.session_id is None else args.session_id)):
            return Answer(await self._latest())
        return await super()._answer(host, args)

    async def _place(self, host: ToolHost, args: ReadHistoryArgs) -> Place:
        if args.memory_key:
            return await super()._place(host, args)
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


class ServedTools:
    """The tools of one server, without `store_memory` if `read_only`, with `forget_memory` if `forgets`."""

    def __init__(self, served: ServedMemory, *, read_only: bool = False, forgets: bool = False) -> None:
        self._served = served
        storing: list[type[MemoryTool]] = [] if read_only else [KeepTextTool]
        notes = ReadNotesTool if read_only else ManageLongTermMemoryTool
        reading = [RetrieveMemoryTool, SearchMemoryTool, QueryMemoryTool, ReadSessionTool, notes]
        erasing = [ForgetMemoryTool] if forgets else []
        self._kinds = {kind.tool_name: kind for kind in [*storing, *reading, *erasing]}

    def listed(self) -> list[types.Tool]:
        return [_listed(kind, _LISTINGS[name]) for name, kind in self._kinds.items()]

    async def call(
        self, name: str, arguments: Mapping[str, Any], confirm: Confirm | None = None
    ) -> types.CallToolResult:
        """Return the answer of a tool; never raises."""
        try:
            answer = await self._answer(name, arguments, confirm)
        except StoreError as error:
            answer = failed_answer(name, error)
        except (MemoryContextError, UsageError) as error:
            answer = Answer(f"{name} failed: {error}.", failed=True)
        except Exception as error:
            answer = failed_answer(name, error)
        return _result(answer, name)

    async def _answer(self, name: str, arguments: Mapping[str, Any], confirm: Confirm | None) -> Answer:
        kind = self._kinds.get(name)
        if kind is None:
            known = ", ".join(self._kinds)
            return Answer(f"There is no tool {one_line(name, 80)!r} here; there are {known}.", failed=True)

        async def answer() -> Answer:
            return await (await self._tool(kind, confirm)).answer(arguments)

        if kind.waits_for_person:
            return await answer()
        return await within(self._served.store.limits.call_seconds, answer())

    async def _tool(self, kind: type[MemoryTool], confirm: Confirm | None) -> MemoryTool:
        host = await self._served.host()
        config = config_of(host)
        if kind is ReadSessionTool:
            return ReadSessionTool(config, host, self._served)
        if kind is ForgetMemoryTool:
            return ForgetMemoryTool(config, host, confirm)
        return kind(config, host)


def _listed(kind: type[MemoryTool], listing: _Listing) -> types.Tool:
    schema = kind.args_model.model_json_schema()
    destroys = kind in (ForgetMemoryTool, ManageLongTermMemoryTool)
    kept = ("type", "properties", "required", "additionalProperties")
    return types.Tool(
        name=kind.tool_name,
        title=listing.title,
        description=kind.tool_description,
        inputSchema={name: schema[name] for name in kept if name in schema},
        outputSchema={"type": "object", "properties": listing.output, "required": [*listing.required]},
        annotations=types.ToolAnnotations(
            readOnlyHint=kind is not KeepTextTool and not destroys,
            destructiveHint=destroys,
            idempotentHint=kind is not ManageLongTermMemoryTool,  # the same text is the same item
            openWorldHint=False,
        ),
    )


def _result(answer: Answer, name: str = "") -> types.CallToolResult:
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=answer.text)]
    if answer.failed:
        return types.CallToolResult(content=content, isError=True)
    if (image := answer.image) is not None and image.data is not None:
        encoded = b64encode(image.data).decode()
        content.append(types.ImageContent(type="image", data=encoded, mimeType=image.content_type))
    data = {**_LISTINGS[name].empty, **answer.data, "text": answer.text}
    if ref := answer.stored:
        told = {"memory_key": ref.key, "description": ref.description, "token_count": ref.token_count}
        data = {**told, "placeholder": ref.render()}
    return types.CallToolResult(content=content, structuredContent=data)
