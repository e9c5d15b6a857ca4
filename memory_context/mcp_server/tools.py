"""The tools of the server: those an agent's context has, with the same names, arguments and answers.

Promises: a call that cannot be done answers with a sentence that says what to do instead, marked as an error; no
answer is longer than a first view of a context, whatever is behind the key; what the arguments hold is no matter.
"""

import logging
from collections.abc import Mapping
from typing import Any

from mcp import types

from ..access import UsageError
from ..errors import ItemNotFoundError, MemoryContextError, StoreError
from ..references import one_line
from ..store import within
from ..tools import (
    Answer,
    Confirm,
    ForgetMemoryTool,
    MemoryTool,
    MemoryToolConfig,
    QueryMemoryTool,
    ReadHistoryArgs,
    ReadHistoryTool,
    RetrieveMemoryTool,
    SearchMemoryTool,
    StoreMemoryTool,
    ToolHost,
    config_of,
)
from .memory import ServedMemory

__all__ = ["ServedTools"]

_logger = logging.getLogger("memory_context")

_SESSIONS_LISTED = 10
_TITLES = {
    "store_memory": "Store a text",
    "retrieve_memory": "Open a stored text",
    "search_memory": "Search what is stored",
    "query_memory": "List what is stored",
    "read_history": "Read an earlier conversation",
    "forget_memory": "Erase stored texts",
}
_TEXT = {"type": "string"}
_NUMBER = {"type": "integer"}
_ITEM = {
    **dict.fromkeys(("memory_key", "description", "type", "source", "origin", "created_at"), _TEXT),
    "token_count": _NUMBER,
    "tags": {"type": "array", "items": _TEXT},
}
_HIT = {**_ITEM, "start_line": _NUMBER, "end_line": _NUMBER, "passage": _TEXT, "score": {"type": "number"}}
_PROPOSED = {"memory_key": _TEXT, "description": _TEXT, "token_count": _NUMBER}
_OUTPUTS: dict[str, dict[str, Any]] = {
    "store_memory": {"memory_key": _TEXT, "description": _TEXT, "token_count": _NUMBER, "placeholder": _TEXT},
    "retrieve_memory": {"memory_key": _TEXT, "shown": _TEXT, "text": _TEXT},
    "search_memory": {"hits": {"type": "array", "items": {"type": "object", "properties": _HIT}}, "text": _TEXT},
    "query_memory": {
        "items": {"type": "array", "items": {"type": "object", "properties": _ITEM}},
        "has_more": {"type": "boolean"},
        "text": _TEXT,
    },
    "read_history": {"first_message": _NUMBER, "last_message": _NUMBER, "text": _TEXT},
    "forget_memory": {
        "forgotten": {"type": "array", "items": _TEXT},
        "proposed": {"type": "array", "items": {"type": "object", "properties": _PROPOSED}},
        "confirmation": _TEXT,
        "text": _TEXT,
    },
}
"""What a tool answers a program, beside the text for a model; `text` is that text."""
_NOTHING: dict[str, dict[str, Any]] = {
    "search_memory": {"hits": []},
    "query_memory": {"items": [], "has_more": False},
    "forget_memory": {"forgotten": []},
}
_REQUIRED = {
    "store_memory": [*_OUTPUTS["store_memory"]],
    "search_memory": ["hits"],
    "query_memory": ["items"],
    "forget_memory": ["forgotten"],
}


class KeepTextTool(StoreMemoryTool):
    """Lets a model keep a text; of the results of its other tools this server knows nothing."""

    tool_description = "Keep a text exactly, under a [MemoryRef: …], for later conversations too."


class ReadSessionArgs(ReadHistoryArgs):
    """Arguments of `read_history`, where there is no conversation of one's own.

    Attributes:
        session_id: Which conversation; "" lists the latest ones, with their ids. None for the one the server was
            started for, if any, else that list.
        agent_id: Which agent's view of it, where several took part; None for the one that began it.
    """

    session_id: str | None = None
    agent_id: str | None = None


class ReadSessionTool(ReadHistoryTool):
    """Lets a model page any conversation of the user.

    Args:
        config: Names the server's user, agent and session.
        host: The server's own.
        served: Where the conversations are.
    """

    args_model = ReadSessionArgs
    tool_description = (
        'Page an earlier conversation, as far as it was archived, up to a minute late; session_id="" lists the latest.'
    )

    def __init__(self, config: MemoryToolConfig, host: ToolHost, served: ServedMemory) -> None:
        super().__init__(config, host)
        self._served = served

    async def _answer(self, host: ToolHost, args: ReadHistoryArgs) -> Answer:
        assert isinstance(args, ReadSessionArgs)
        session_id = host.session_id if args.session_id is None else args.session_id
        if not session_id:
            return Answer(await self._latest())
        try:
            session = await self._served.session_host(session_id, args.agent_id)
        except ItemNotFoundError as error:
            return Answer(f'{error}. Next: read_history(session_id="").', failed=True)
        answer = await super()._answer(session, args)
        page, _, footer = answer.text.rpartition("\n")
        named = f"session_id={session_id!r}, " + (f"agent_id={args.agent_id!r}, " if args.agent_id else "")
        text = f"{page}\n{footer.replace('read_history(', f'read_history({named}', 1)}" if page else footer
        return Answer(text, failed=answer.failed)

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
    """The tools of one server.

    Args:
        served: What they work on.
        read_only: Whether `store_memory` is left out.
        forgets: Whether `forget_memory` is offered.
    """

    def __init__(self, served: ServedMemory, *, read_only: bool = False, forgets: bool = False) -> None:
        self._served = served
        storing: list[type[MemoryTool]] = [] if read_only else [KeepTextTool]
        reading = [RetrieveMemoryTool, SearchMemoryTool, QueryMemoryTool, ReadSessionTool]
        erasing = [ForgetMemoryTool] if forgets else []
        self._kinds = {kind.tool_name: kind for kind in [*storing, *reading, *erasing]}

    def listed(self) -> list[types.Tool]:
        """Return what a client is told of them."""
        return [
            types.Tool(
                name=name,
                title=_TITLES[name],
                description=kind.tool_description,
                inputSchema=_schema(kind),
                outputSchema={
                    "type": "object",
                    "properties": _OUTPUTS[name],
                    "required": _REQUIRED.get(name, ["text"]),
                },
                annotations=types.ToolAnnotations(
                    readOnlyHint=kind not in (KeepTextTool, ForgetMemoryTool),
                    destructiveHint=kind is ForgetMemoryTool,  # what is stored again is the same item
                    idempotentHint=True,
                    openWorldHint=False,
                ),
            )
            for name, kind in self._kinds.items()
        ]

    async def call(
        self, name: str, arguments: Mapping[str, Any], confirm: Confirm | None = None
    ) -> types.CallToolResult:
        """Return what a tool answers; never raises.

        Args:
            name: The tool.
            arguments: What it is asked.
            confirm: Asks the person at the client before something is forgotten; None where the client cannot.
        """
        kind = self._kinds.get(name)
        if kind is None:
            known = ", ".join(self._kinds)
            return _result(Answer(f"There is no tool {one_line(name, 80)!r} here; there are {known}.", failed=True))
        try:
            answering = self._answered(kind, arguments, confirm)
            if kind.waits_for_person:
                return _result(await answering, name)
            return _result(await within(self._served.store.limits.call_seconds, answering), name)
        except StoreError as error:
            text = f"The memory cannot be reached at the moment ({error}). Go on without it, or try again later."
            return _result(Answer(text, failed=True))
        except (MemoryContextError, UsageError) as error:
            return _result(Answer(f"{name} failed: {error}.", failed=True))
        except Exception as error:
            _logger.exception("%s failed", name)
            text = f"{name} failed by a defect of the memory ({type(error).__name__}). Go on without it."
            return _result(Answer(text, failed=True))

    async def _answered(self, kind: type[MemoryTool], arguments: Mapping[str, Any], confirm: Confirm | None) -> Answer:
        return await (await self._tool(kind, confirm)).answer(arguments)

    async def _tool(self, kind: type[MemoryTool], confirm: Confirm | None) -> MemoryTool:
        host = await self._served.host()
        config = config_of(host)
        if kind is ReadSessionTool:
            return ReadSessionTool(config, host, self._served)
        if kind is ForgetMemoryTool:
            return ForgetMemoryTool(config, host, confirm)
        return kind(config, host)


def _schema(kind: type[MemoryTool]) -> dict[str, Any]:
    schema = kind.args_model.model_json_schema()
    return {name: schema[name] for name in ("type", "properties", "required", "additionalProperties") if name in schema}


def _result(answer: Answer, name: str = "") -> types.CallToolResult:
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=answer.text)]
    data: dict[str, Any] | None = {**_NOTHING.get(name, {}), **answer.data, "text": answer.text}
    if ref := answer.stored:
        data = {
            "memory_key": ref.key,
            "description": ref.description,
            "token_count": ref.token_count,
            "placeholder": ref.render(),
        }
    return types.CallToolResult(
        content=content, structuredContent=None if answer.failed else data, isError=answer.failed
    )
