"""The memory of a context as applications use it: store, retrieve, search, tools for the agent."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .. import archive, compaction, expansion, memory, offload, store, transcript, transforms, view
from ..memory import MemoryType
from ..policy import ContextPolicy
from ..store import CallerOrigin, MemoryCriteria
from ..tokens import TokenCounter

if TYPE_CHECKING:
    from autogen_core.tools import ToolSchema

    from ..memory import AgentMemory, SearchHit
    from ..tools import AnyTool, Confirm, MemoryTool, MemoryWorkbench, MoreTool, PromptHead
    from ..transcript import Transcript
    from .parts import Parts

__all__ = ["MemoryApi", "load_parts"]


def load_parts() -> None:
    """Import the parts of contexts now: a server does so before requests come, whose event loop would wait."""
    for package in (archive, compaction, expansion, memory, offload, store, transcript, view):
        for name in package.__all__:
            getattr(package, name)


class MemoryApi:
    """The methods of a context that read and write items, and that give the agent's model the tools for that.

    Attributes:
        named_session_id: The session id that the application gave; None for a generated one.
        template_id: Names this context for its tools in component data.
    """

    user_id: str
    agent_id: str
    session_id: str
    named_session_id: str | None
    template_id: str
    policy: ContextPolicy
    token_counter: TokenCounter

    _parts: Parts

    @cached_property
    def _prompt_head(self) -> PromptHead:
        from ..tools import PromptHead

        return PromptHead(self.policy, self.token_counter)

    @property
    def agent_memory(self) -> AgentMemory:
        """The items this context stores and reads."""
        return self._parts.agent_memory

    @property
    def transcript(self) -> Transcript:
        """The messages and decisions; read it, do not write to it."""
        return self._parts.transcript

    async def store(
        self,
        content: Any,
        description: str,
        type: MemoryType = "custom",
        *,
        source: str | None = None,
        tags: Sequence[str] = (),
        related_to: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        origin: CallerOrigin = "application",
    ) -> str:
        """Store a content and return its memory_key, once it is durable.

        Words of a model, a tool or a file need that `origin`: preferences and facts count as the user's only if the
        application stored them as its own. Links of `related_to` are found from both sides. Own types are allowed.

        Raises:
            SecretError: The type is `user_secret`, which is refused until there is a vault.
            ValueError: The content is neither a str nor JSON-able, or too large.
            StoreUnavailableError: The store cannot be reached now.
        """
        ref = await self.agent_memory.store(
            content,
            description=description,
            type=type,
            source=source,
            tags=tags,
            related_to=related_to,
            metadata=metadata,
            origin=origin,
        )
        self._prompt_head.user_has_memory = True
        return ref.key

    async def retrieve(self, memory_key: str, transform: str = "full", **params: Any) -> str:
        """Return the content behind a key, whole and byte for byte, or cut by a transform.

        Args:
            memory_key: The key of a placeholder; also that of folded steps.
            transform: full, excerpt, summary, first_n, last_n or filtered.
            **params: Parameters of the transform, such as `pattern="error"`.

        Raises:
            ItemNotFoundError: This user has no such item; offers the nearest keys.
            TransformError: The transform cannot be applied; says what to send instead.
            StoreUnavailableError: The store cannot be reached now.
        """
        from ..tools import retrieve_item

        text, _ = await retrieve_item(self, memory_key, transforms.MemoryTransform.of(transform, **params))
        return text

    async def search(self, query: str, limit: int = 5, criteria: MemoryCriteria | None = None) -> list[SearchHit]:
        """Return the items of this user that answer a query best, each with its best passage; the best first.

        Raises:
            ValueError: The limit is less than 1.
            StoreUnavailableError: The store cannot be reached now.
        """
        return await self.agent_memory.search(query, limit, criteria)

    def tools(self, *, also: Collection[MoreTool] = (), confirm: Confirm | None = None) -> list[MemoryTool]:
        """Return the tools that let the agent's model use its memory.

        For an agent without them, the context opens the keys that it names in its answers.

        Args:
            also: Further tools: "forget_memory", which erases items if the user agrees.
            confirm: Gets the `ForgetProposal` and returns the user's answer. Without it forget_memory takes two calls
                with a message of the user in between. No part of a dump.

        Raises:
            ValueError: There is no such tool, or `confirm` is given without "forget_memory".
        """
        from ..tools import tools_of

        tools = tools_of(self, also, confirm)
        self.note_tools([tool.name for tool in tools])
        return tools

    def workbench(
        self, tools: Sequence[AnyTool] = (), *, also: Collection[MoreTool] = (), confirm: Confirm | None = None
    ) -> MemoryWorkbench:
        """Return the agent's own tools with those of its memory, which are offered once something is stored.

        Until then their schemas take no tokens. If the user has memory, they are offered from the first call on.
        AutoGen's agents take tools or a workbench, never both; beside another workbench, pass a list of both.

        Args:
            tools: The agent's own tools.
            also: See `tools`.
            confirm: See `tools`.

        Raises:
            ValueError: Two tools have the same name, there is no such memory tool, or `confirm` is given without
                "forget_memory".
        """
        from ..tools import MemoryWorkbench, as_tools, tools_of

        own, late = as_tools(tools), tools_of(self, also, confirm, are_late=True)
        workbench = MemoryWorkbench(as_tools([*own, *late]))
        self.note_tools([tool.name for tool in late], are_late=True)
        self.note_agent(tools=own)
        return workbench

    def note_tools(self, names: Iterable[str], *, are_late: bool = False) -> None:
        """Note that the agent has memory tools: its answers open no keys, and whole results name none any more."""
        self._prompt_head.hand_out(names, are_late=are_late)
        self._parts.note_tools()

    def note_agent(self, *, system_message: str | None = None, tools: Sequence[AnyTool | ToolSchema] = ()) -> None:
        """Count the agent's system message and own tools in the bill of each call; only their tokens are kept.

        The context sees neither. `workbench(tools)` notes its tools by itself.

        Args:
            system_message: The whole of it, with or without `instructions()`; None leaves what was noted.
            tools: The agent's own; none leaves what was noted.
        """
        from ..tools import schemas_of

        self._prompt_head.name(system_message, schemas_of(tools))

    def _be_template(self, session_id: str | None) -> None:
        """Register for tools that are loaded from its component data; `session_id` is None if it was generated."""
        from ..tools import register_host

        self.named_session_id = session_id
        self.template_id = uuid.uuid4().hex if session_id is None else session_id
        register_host(self, (self.user_id, self.agent_id, self.template_id))

    def _join_template(self, template_id: str) -> None:
        """Register for the tools that are loaded with this context."""
        from ..tools import is_template_in_use, register_loaded_host

        key = (self.user_id, self.agent_id, template_id)
        if not is_template_in_use(key):  # else two that are dumped in one team could not be told apart
            self.template_id = template_id
        register_loaded_host(self, key)

    def instructions(self) -> str:
        """Return a sentence that teaches a model the placeholder, to be appended to the system message."""
        from ..tools import INSTRUCTIONS

        self._prompt_head.teach()
        return INSTRUCTIONS
