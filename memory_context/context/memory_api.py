"""The methods of a context beside those of AutoGen: its memory, its session, its observations."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast, overload

from memory_context.compaction.observation.observers import ObservationModels
from memory_context.compaction.observation.state import observations_of_user
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.runtime.background import in_thread_if_large
from memory_context.foundation.tokens import TokenCounter, count_off_loop
from memory_context.memory.items import MemoryType
from memory_context.memory.transforms.transform import MemoryTransform
from memory_context.recall.expansion.expander import memory_decisions
from memory_context.sessions.archive.session import Session
from memory_context.store.criteria import MemoryCriteria
from memory_context.store.items import CallerOrigin
from memory_context.view.explain import ViewReport, report

from .observation import ContextObservation

if TYPE_CHECKING:
    from autogen_core.models import ChatCompletionClient
    from autogen_core.tools import BaseTool, ToolSchema, Workbench

    from memory_context.compaction.observation.observers import ObservationModels
    from memory_context.compaction.observation.state import SessionObservations
    from memory_context.connectors.protocols import Connector
    from memory_context.foundation.light_model.guards import LightModelGuards
    from memory_context.memory.agent_memory import AgentMemory, SearchHit
    from memory_context.memory.items import MemoryItem
    from memory_context.recall.tools.forget import Confirm
    from memory_context.recall.tools.prompt_head import AnyTool, MemoryWorkbench, MoreTool, PromptHead
    from memory_context.sessions.archive.archiver import Archiver
    from memory_context.sessions.archive.resume import ResumeReport
    from memory_context.sessions.transcript.observations import ObservationChunk
    from memory_context.sessions.transcript.transcript import Transcript

    from .connectors import ConnectorLink
    from .context import MemoryContext
    from .parts import Parts
    from .stats import ContextStats

__all__ = ["MemoryApi"]


_STRICT_FAMILIES = ("r1", "mistral", "ministral", "codestral", "open-codestral", "pixtral", "gemma", "llama-2")
"""Model families whose chat templates refuse two user messages in a row."""


class MemoryApi:
    """Methods of a context; those that read and write items raise StoreUnavailableError without the store.

    Attributes:
        named_session_id: None for a generated id.
    """

    user_id: str
    agent_id: str
    session_id: str
    named_session_id: str | None
    template_id: str
    policy: ContextPolicy
    token_counter: TokenCounter

    _is_strict_model: bool
    _parts: Parts
    _connectors: ConnectorLink
    _session: Session
    _light_models: LightModelGuards
    _store_pending: Callable[[], Awaitable[bool]]

    @cached_property
    def _prompt_head(self) -> PromptHead:
        from memory_context.recall.tools.prompt_head import PromptHead

        return PromptHead(self.policy, self.token_counter)

    @property
    def agent_memory(self) -> AgentMemory:
        return self._parts.agent_memory

    @property
    def transcript(self) -> Transcript:
        """Messages and decisions; read-only."""
        return self._parts.transcript

    @property
    def connectors(self) -> Sequence[Connector]:
        """The parts of the environment that the agent perceives, in the given order."""
        return [*self._connectors.host.connectors.values()]

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
        """Store content durably and return its memory_key; `related_to` links work both ways.

        Pass `origin` for words of a model, tool or file: only "application" makes preferences and facts the user's.

        Raises:
            SecretError: The type is `user_secret`, which is not supported yet.
            ValueError: Content too large, or neither str nor JSON-able.
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
        """Return the content behind a key byte for byte, or cut by a transform; of an image, its description.

        Args:
            transform: full, excerpt, summary, first_n, last_n or filtered; `params` such as `pattern="error"`.

        Raises:
            ItemNotFoundError: No such item of this user; offers the nearest keys.
            TransformError: The transform does not apply.
        """
        from memory_context.recall.tools.items import retrieve_item

        return (await retrieve_item(self, memory_key, MemoryTransform.of(transform, **params))).text

    async def open_image(self, item: MemoryItem) -> bool:
        """Show a stored image in the next view, after the results that are added next; False if the model takes none.

        `agent_memory.retrieve(key)` returns the item of an image with its bytes, `data`.
        """
        return await self._connectors.open_image(item, self.agent_memory)

    async def search(self, query: str, limit: int = 5, criteria: MemoryCriteria | None = None) -> list[SearchHit]:
        """Return this user's matching items, each with its best passage; best first."""
        return await self.agent_memory.search(query, limit, criteria)

    async def observations_of_user(self, limit: int = 20) -> list[SessionObservations]:
        """Return the observation logs of the user's other sessions, those used last first, as far as archived.

        Raises:
            StoreError: The archive cannot be read.
        """
        return await observations_of_user(self.agent_memory, limit)

    async def long_term_notes(self) -> str:
        """Return this agent's long-term notes about the user, Markdown; "" if there are none."""
        return await self.agent_memory.notes.read()

    async def show_memories(self, text: str, keys: Sequence[str], owner: str = "") -> None:
        """Show memories after the newest message, in place of the owner's earlier ones; "" shows none.

        An unchanged text stays in place, for the prompt cache.
        """
        await self._session.ensure_loaded()
        text = await in_thread_if_large(len(text), self.agent_memory.visible, text)
        (tokens,) = await count_off_loop(self.token_counter, [text])
        for decision in memory_decisions(self.transcript, text, tokens, keys, owner):
            self._parts.transcript.decide(decision)
        self._session.archiver.schedule_flush()

    def tools(self, *, also: Collection[MoreTool] = (), confirm: Confirm | None = None) -> list[BaseTool[Any, Any]]:
        """Return tools for the agent's model: for the memory, and those of the connectors.

        Without memory tools, keys in its answers are expanded.

        Args:
            also: "forget_memory" erases items if the user agrees.
            confirm: Takes a `ForgetProposal`, returns the user's answer; without it forget_memory takes two calls
                with a user message in between.

        Raises:
            ValueError: An unknown tool, or `confirm` without "forget_memory".
        """
        from memory_context.recall.tools.prompt_head import tools_of

        tools = tools_of(self, also, confirm)
        self.note_tools([tool.name for tool in tools])
        return [*tools, *self._connectors.tools()]

    def workbench(
        self, tools: Sequence[AnyTool] = (), *, also: Collection[MoreTool] = (), confirm: Confirm | None = None
    ) -> MemoryWorkbench:
        """Return the agent's own tools with memory tools, which cost no tokens until the user has memory.

        AutoGen's agents take tools or a workbench, never both.

        Raises:
            ValueError: As `tools`, or two tools share a name.
        """
        from memory_context.recall.tools.prompt_head import MemoryWorkbench, as_tools, tools_of

        own, late = as_tools([*tools, *self._connectors.tools()]), tools_of(self, also, confirm, are_late=True)
        workbench = MemoryWorkbench(as_tools([*own, *late]))
        self.note_tools([tool.name for tool in late], are_late=True)
        self.note_agent(tools=own)
        return workbench

    @overload
    def with_secrets(
        self, tool: AnyTool, allow: Mapping[str, Sequence[str]], hosts: Sequence[str] = ()
    ) -> BaseTool[Any, Any]: ...

    @overload
    def with_secrets(
        self, tool: Workbench, allow: Mapping[str, Sequence[str]], hosts: Sequence[str] = ()
    ) -> Workbench: ...

    def with_secrets(
        self, tool: AnyTool | Workbench, allow: Mapping[str, Sequence[str]], hosts: Sequence[str] = ()
    ) -> BaseTool[Any, Any] | Workbench:
        """Return the tool or MCP workbench with `{{secret:NAME}}` in its arguments resolved, inside of the call only.

        A call that names a secret elsewhere, or reaches for another host, is refused with the reason. What the tool
        returns or raises holds names, not values.

        Args:
            allow: Paths of arguments by name, such as `{"API_TOKEN": ["headers.Authorization"]}`; of a workbench they
                begin with the tool: `fetch.headers.Authorization`. `*` stands for any name or number. The name
                `detected-*` stands for all credentials that the view masks.
            hosts: The hosts that URLs in the arguments may name, such as `api.example.com`, `*.example.com` (not
                `example.com` itself) or `http://localhost:8080`; HTTPS unless a scheme is given. Without any, a call
                with a secret and a URL is refused.

        Raises:
            ValueError: A name, path or host is malformed, or no path is given; or a workbench logs its calls.
        """
        from autogen_core.tools import BaseStreamTool, Workbench

        from memory_context.recall.tools.prompt_head import as_tools
        from memory_context.recall.tools.secret_rules import SecretRules
        from memory_context.recall.tools.secret_tool import SecretStreamTool, SecretTool, SecretWorkbench

        rules = SecretRules(allow, hosts, self)
        if isinstance(tool, Workbench):
            return SecretWorkbench(tool, rules)
        made = SecretStreamTool if isinstance(tool, BaseStreamTool) else SecretTool
        return made(as_tools([cast("AnyTool", tool)])[0], rules)

    def note_tools(self, names: Iterable[str], *, are_late: bool = False) -> None:
        """Record memory tools: with `retrieve_memory`, keys in answers are no longer expanded."""
        names = set(names)
        self._prompt_head.hand_out(names, are_late=are_late)
        if "retrieve_memory" in names:
            self._parts.note_tools()
        if "read_history" in names:
            self._parts.observers.has_recall_tool = True

    def note_agent(
        self,
        *,
        system_message: str | None = None,
        tools: Sequence[AnyTool | ToolSchema] = (),
        model_client: ChatCompletionClient | None = None,
    ) -> None:
        """Count the agent's system message and own tools in each bill; None or empty keeps earlier counts.

        The client of its model tells whether images are shown, by `model_info["vision"]`, and whether user messages in
        a row are joined, by `model_info["family"]`.
        """
        from memory_context.recall.tools.prompt_head import schemas_of

        self._note_model(model_client)
        self._prompt_head.name(system_message, schemas_of(tools))

    def _be_template(self, session_id: str | None) -> None:
        """Register for dumped tools; None marks a generated id."""
        from memory_context.recall.tools.hosts import register_host

        self.named_session_id = session_id
        self.template_id = uuid.uuid4().hex if session_id is None else session_id
        register_host(self, (self.user_id, self.agent_id, self.template_id))

    def _join_template(self, template_id: str) -> None:
        from memory_context.recall.tools.hosts import is_template_in_use, register_loaded_host

        key = (self.user_id, self.agent_id, template_id)
        if not is_template_in_use(key):  # else two dumped in one team collide
            self.template_id = template_id
        register_loaded_host(self, key)

    def instructions(self) -> str:
        """Return the sentence for the system message; empty if the agent's memory tools say it."""
        return self._prompt_head.teach()

    # --- the session

    async def explain(self) -> ViewReport:
        """Report the last view and its reasons."""
        return report(self._parts.transcript, *self._parts.meter.views, self.policy.token_budget)

    @property
    def stats(self) -> ContextStats:
        """Counts since creation or `load_state`; light model calls of the whole session."""
        parts, session = self._parts, self._session
        stats = parts.meter.stats(parts.transcript, parts.offloader.transactions, session.light_model_bill)
        return replace(stats, archive_transactions=session.archiver.transactions)

    async def resume(self) -> ResumeReport:
        """Read a known session's history now, or raise StoreError; the report lists gaps."""
        return await self._session.resume()

    @property
    def resume_report(self) -> ResumeReport:
        """`pending` until the history is read."""
        return self._session.report

    async def archive(self) -> None:
        """Write unarchived messages now, or raise StoreError; they stay buffered."""
        await self._session.flush()

    @property
    def is_dirty(self) -> bool:
        """True if something is not archived."""
        return self._session.archiver.is_dirty

    @property
    def archiver(self) -> Archiver:
        return self._session.archiver

    # --- observations

    @cached_property
    def _observers(self) -> ObservationModels:
        return ObservationModels(self.policy, self._light_models)

    @property
    def observation(self) -> ContextObservation:
        """Events, state and settings of the session's observations."""
        return ContextObservation(cast("MemoryContext", self))

    async def observe_now(self) -> ObservationChunk | None:
        """Observe all complete steps now, the newest message of the user included, such as a correction.

        The observations join the view at once; their messages stay in it until observations replace messages the next
        time. What is in flight becomes void. It waits at most `observation.sync_timeout_seconds`.

        Returns:
            The new observations; None, and nothing has changed, if nothing was new, or the model failed or is missing.
        """
        await self._store_pending()
        return await self._parts.coordinator.observe_now()

    def model_changed(self, model_client: ChatCompletionClient | None = None) -> None:
        """Note that another model reads the next view: nothing is cached, so finished observations replace messages.

        Its client tells whether images are shown, and user messages in a row are joined, as in `note_agent`.
        """
        self._note_model(model_client)
        self._parts.coordinator.model_changed()

    def _note_model(self, client: ChatCompletionClient | None) -> None:
        if client is not None:
            self._connectors.images.note_model(client)
            family = str(client.model_info.get("family", "")).lower()
            self._is_strict_model = family.startswith(_STRICT_FAMILIES)
