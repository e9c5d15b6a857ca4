"""MemoryContext: the drop-in context of an AutoGen agent.

add_message:   Session.append -> ConnectorLink.look -> Offloader.settle (measure, compact, store)
               -> TextChooser.choose_facts -> Budget.plan -> Expander.start (decide, read)
               -> BufferingCoordinator.end_step (observations stand for messages) -> Archiver (batches)
get_messages:  Expander.apply_decision -> TextChooser -> Offloader.measure -> Budget.fit -> copies
A new session, `load_state` and the archive of a known session each bring a transcript; `_attach` makes its `Session`.
"""

from __future__ import annotations

import logging
import time
import uuid
import weakref
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, overload

from autogen_core import Component, Image
from autogen_core.model_context import ChatCompletionContext
from autogen_core.models import AssistantMessage, ChatCompletionClient, FunctionExecutionResultMessage, LLMMessage
from autogen_core.tools import BaseTool, ToolSchema, Workbench
from typing_extensions import Self

from memory_context.compaction.observation.observers import ObservationModels
from memory_context.compaction.offloader import restore_texts
from memory_context.connectors.protocols import AgentContext, Connector, ConnectorObservation
from memory_context.foundation.compactors.registry import Compactors
from memory_context.foundation.errors import MemoryContextError
from memory_context.foundation.handlers import ContextEvent, EventName
from memory_context.foundation.identifiers import SessionKey, Sharing, checked_identifier, subagent_session
from memory_context.foundation.light_model.guards import LightModelGuards
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.tokens import TokenCounter, default_token_counter
from memory_context.memory.agent_memory import AgentMemory
from memory_context.memory.items import MemoryItem, MemoryType
from memory_context.memory.learning.learner import LEARN_JOB, Learning
from memory_context.memory.transforms.transform import MemoryTransform
from memory_context.recall.tools.base import note_view_read, register_host
from memory_context.recall.tools.forget import Confirm
from memory_context.recall.tools.items import retrieve_item
from memory_context.recall.tools.prompt_head import (
    AnyTool,
    MemoryWorkbench,
    MoreTool,
    PromptHead,
    as_tools,
    schemas_of,
    tools_of,
)
from memory_context.recall.tools.secret_tool import SecretRules, SecretTool, SecretWorkbench
from memory_context.sessions.archive.archiver import Archiver
from memory_context.sessions.archive.cursor import BatchJob, conversation_job
from memory_context.sessions.archive.resume import (
    ResumedSession,
    ResumeReport,
    messages_meanwhile,
    new_session,
    redacted_session,
    saved_session,
)
from memory_context.sessions.archive.session_archive import SessionArchive
from memory_context.sessions.transcript.entries import Entry
from memory_context.sessions.transcript.observations import ObservationChunk
from memory_context.sessions.transcript.transcript import Transcript
from memory_context.store.items import CallerOrigin, MemoryCriteria
from memory_context.store.memory_store import MemoryStore
from memory_context.store.redact import PendingTraces
from memory_context.store.search.hits import SearchHit
from memory_context.view.explain import ViewReport, report
from memory_context.view.view import needs_turns

from .agent_context import agent_context, in_utc, turn_messages
from .config import MemoryContextConfig, arguments_of, config_of
from .connectors import ConnectorLink
from .hooks import Hooks
from .observation import ContextObservation
from .session import Session, StepGuard
from .stats import ContextStats, stats_of

__all__ = ["MemoryContext", "MemoryContextConfig"]

_logger = logging.getLogger("memory_context")
_CLOSE_SECONDS, _LEAVE_SECONDS, _LOAD_SECONDS, _LEARN_SECONDS = 8.0, 2.5, 8.5, 2.0  # under 10 s with the store's stop
_Allowed = Mapping[str, Sequence[str]]


class MemoryContext(ChatCompletionContext, Component[MemoryContextConfig]):
    """A chat context that moves large content to Postgres and leaves a placeholder; nothing is lost.

    The constructor does no I/O. `add_message` and `get_messages` never raise because of the store or the light model;
    methods that read and write items raise StoreUnavailableError without the store.

        context = MemoryContext("alice", "coder", memory_store=store)
        agent = AssistantAgent("coder", client, workbench=context.workbench([run_shell]), model_context=context)

    Args:
        user_id: Owner of the session; no other user's data is visible.
        session_id: None generates one, which component dumps omit.
        memory_store: None for the default store: `MEMORY_CONTEXT_URL`, else the embedded Postgres.
        model_client: A small model that decides once per user message which references to expand; None for rules.
        token_counter: None for o200k_base. Not dumped.
        compactors: Choose the kept part of a result, by tool. Not dumped.
        sharing: See `for_subagent`.
        resume: False starts a known session from scratch.
        connectors: Parts of the environment, asked after each action.
        active_connectors: Returns the ids of those asked now; None asks all.
    """

    component_config_schema = MemoryContextConfig
    component_provider_override = "memory_context.MemoryContext"

    def __init__(
        self,
        user_id: str,
        agent_id: str = "agent",
        session_id: str | None = None,
        memory_store: MemoryStore | None = None,
        *,
        model_client: ChatCompletionClient | None = None,
        policy: ContextPolicy | None = None,
        token_counter: TokenCounter | None = None,
        initial_messages: list[LLMMessage] | None = None,
        compactors: Compactors | None = None,
        sharing: Sharing = "shared",
        resume: bool = True,
        connectors: Sequence[Connector] = (),
        active_connectors: Callable[[], Collection[str]] | None = None,
    ) -> None:
        super().__init__(initial_messages)
        self.user_id = checked_identifier("user_id", user_id)
        self.agent_id = checked_identifier("agent_id", agent_id)
        self.session_id = checked_identifier("session_id", uuid.uuid4().hex if session_id is None else session_id)
        self.sharing: Sharing = sharing
        self.policy = policy or ContextPolicy()
        self.token_counter = token_counter or default_token_counter()
        self.memory_store = memory_store or MemoryStore.default()
        self.light_model_client = model_client
        self.resumes, self._is_used, self._is_strict_model = resume, False, False
        self._compactors = compactors or Compactors()
        self._light_models = LightModelGuards(model_client)
        self._guard, self._prompt_head = StepGuard(), PromptHead(self.policy, self.token_counter)
        self._observers = ObservationModels(self.policy, self._light_models)
        self.observation = ContextObservation(self._observers)
        self._hooks = Hooks(self._observers.events, self.key)
        self._uses_default_store = memory_store is None
        if self._uses_default_store:
            self.memory_store.join(self)
        self._forgotten = PendingTraces(self.user_id)
        self.memory_store.forgettings.watch(self._forgotten)
        is_own = sharing == "shared" and "/" not in self.session_id  # a sub-agent's user is another agent
        self._learning = Learning(self.memory_store, user_id, self.policy, self._light_models.learning, is_own)
        said = conversation_job(self.policy, is_private=sharing != "shared")
        ports, jobs = (self._join_history, self._prepare_batch), [said, BatchJob(LEARN_JOB, self._learning.payload)]
        self._archive = SessionArchive(self.memory_store, self.policy, *ports, self._light_models, jobs)
        self._learning.flush = weakref.WeakMethod(self._archive.flush)
        self._hooks.watch(self.memory_store, self._archive.outages, self._light_models)
        settings = (self.policy, self.token_counter, self._archive, self.memory_store.unwritten)
        self._connectors = ConnectorLink(connectors, active_connectors, *settings)
        if connectors:
            weakref.finalize(self, self._connectors.drop).atexit = False
        transcript, is_archived = Transcript.of(initial_messages or ()), self.policy.archive.enabled
        new = new_session(self.key, transcript, is_archived=is_archived, is_new=session_id is None, resumes=resume)
        self._attach(new, self._memory_of(self.key))
        self._be_template(session_id)

    @property
    def key(self) -> SessionKey:
        return SessionKey(self.user_id, self.agent_id, self.session_id)

    @property
    def transcript(self) -> Transcript:
        """Messages and decisions; read-only."""
        return self._session.transcript

    @property
    def agent_memory(self) -> AgentMemory:
        return self._session.agent_memory

    @property
    def connectors(self) -> Sequence[Connector]:
        """The parts of the environment that the agent perceives, in the given order."""
        return [*self._connectors.host.connectors.values()]

    # --- the life of a session

    async def resume(self) -> ResumeReport:
        """Read a known session's history now, or raise StoreError; the report lists gaps."""
        return await self._archive.resume()

    @property
    def resume_report(self) -> ResumeReport:
        """`pending` until the history is read."""
        return self._archive.report

    async def add_message(self, message: LLMMessage) -> None:
        """Add a copy of a message, store its large parts and start to expand references.

        Content not stored within `store_timeout_seconds` is stored later.

        Raises:
            StoreUnavailableError: Only with `archive.require_history`: the history cannot be read.
        """
        await self._add(message)

    async def _add(self, message: LLMMessage, added_at: datetime | None = None) -> None:
        self.agent_memory.secrets.begin()  # beside the history, so that their waits do not add up
        await self._archive.require_history()
        entry, look = self._append(message, added_at), None
        with self._guard.step("what connectors observe"):
            look = await self._connectors.look(message)
        with self._guard.step("storing and opening what this message holds and asks for"):
            await self._store_pending()
            await self._session.user_memory.arrive()
            if self.transcript.state.answered_whole:
                await self._session.chooser.choose_facts()
            await self._measure()  # other tasks may have added messages
            self._connectors.show(look)
            if not isinstance(message, FunctionExecutionResultMessage):  # which answers nothing: the next view plans
                self._session.plan_after_answer()
            await self._session.keep_masked()
            await self._session.expander.start()
        with self._guard.step("observing what was said"):
            await self._session.end_step(entry)
        self._archive.archiver.note_step(message)
        await self._observers.events.fire()

    async def get_messages(self) -> list[LLMMessage]:
        """Return fresh copies of the view."""
        self._is_used = True
        note_view_read(self)
        self.agent_memory.secrets.begin()
        await self._archive.wait_for_rewind()
        self._archive.archiver.note_view()
        self._drop_forgotten()
        with self._guard.step("the history, or what the last message asks for"):
            await self._archive.ensure_loaded()
            await self._hide_secrets()
            await self._session.expander.apply_decision()
            self._session.user_memory.record()
            await self._prompt_head.look(self.agent_memory, self.transcript.state)
            await self._session.chooser.choose_facts()
            await self._session.chooser.choose_first_views()
        await self._measure()  # last: no await follows, except long excerpts, which restart
        self._archive.note_missing_history(self.token_counter)
        session, transcript = self._session, self._session.transcript
        view = await session.budget.fit_off_loop(transcript, session.chooser.is_held, self._measure)
        if session is not self._session or self._forgotten.waiting:
            return await self.get_messages()
        if session.summariser.record():
            view = session.budget.fit(transcript, session.chooser.is_held)
        self._prompt_head.record(transcript, view)
        joins = self._is_strict_model if (asked := self.policy.joins_user_messages) is None else asked
        session.meter.add_view(transcript, view, is_joined=joins)
        self._archive.archiver.note_decisions()
        await self._observers.events.fire()
        return view.copies(joins_user_messages=joins)

    async def record_thought(self, content: str, timestamp: datetime | None = None) -> None:
        """Add words of the agent. `timestamp` None is now, one without a zone is local time."""
        await self._add(AssistantMessage(content=content, source=self.agent_id), in_utc(timestamp))

    async def record_turn(
        self,
        action: object,
        observations: Sequence[ConnectorObservation | str | Image],
        timestamp: datetime | None = None,
    ) -> None:
        """Add an action with its observations, as if the agent had called a tool; then connectors are asked as always.

        Args:
            action: A `FunctionCall`, a mapping with `name` and `arguments` or its JSON text; anything else JSON-able
                is the arguments of a call named `action`.
            observations: Texts in front are the result, the others follow it.

        Raises:
            ValueError: The action is not JSON.
        """
        call, result, others = turn_messages(self.agent_id, action, observations)
        await self._add(call, in_utc(timestamp))
        self._connectors.note([*others])
        await self._add(result, in_utc(timestamp))

    async def clear(self) -> None:
        """Empty the view. Items and archive remain."""
        await self._archive.ensure_loaded()
        self._session.clear()

    def rewind(self, to: int | Callable[[Transcript], int | None]) -> Awaitable[int]:
        """Take the session back to before a message; return the number of messages that leave. Steps wait for it.

        Views and who resumes the session have them no more; items, what was learned, bill and archive stay.

            await context.rewind(context.transcript.end - 2)

        Args:
            to: The position of the first message that leaves, or what finds it; None for none.

        Raises:
            ValueError: The view has no such message. StoreUnavailableError: The history cannot be read yet.
        """
        return self._archive.rewind(to if callable(to) else lambda _: to, self._go_back)

    async def _go_back(self, rewound: ResumedSession) -> None:
        await restore_texts(rewound.transcript, self.agent_memory)
        self._attach(rewound, self.agent_memory)

    async def archive(self) -> None:
        """Write unarchived messages now, or raise StoreError; they stay buffered."""
        await self._archive.flush()

    async def save_state(self) -> Mapping[str, Any]:
        """Return the session, JSON-native; stored results need the same database."""
        await self._store_pending()
        await self._session.expander.apply_decision(for_view=False)
        await self._connectors.remember(at_end=True)
        await self._archive.hand_over()
        self._drop_forgotten()
        return {"user_id": self.user_id, "session_id": self.session_id, **self._archive.to_state()}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue a saved session, also of AutoGen's own contexts.

        An unused context prefers a newer archive. Without the store, its texts are shown compacted. A failed or
        cancelled load changes nothing.

        Raises:
            ValueError: Another user's state, a newer version's, or not a state.
        """
        saved = saved_session(state, self.key)
        ends_at = time.monotonic() + _LOAD_SECONDS
        await self._archive.leave(_LEAVE_SECONDS)
        session = await self._archive.newest(saved, may_be_archived=not self._is_used)
        session = await self._archive.without_forgotten(session)
        agent_memory = self.agent_memory if session.key == self.key else self._memory_of(session.key)
        await restore_texts(session.transcript, agent_memory, ends_at - time.monotonic())
        self._attach(session, agent_memory)
        with self._guard.step("what connectors saw before"):
            self._connectors.restore()
        await self._session.offloader.settle()

    def for_subagent(
        self,
        agent_id: str,
        sharing: Sharing = "shared",
        *,
        session_id: str | None = None,
        connectors: Sequence[Connector] = (),
    ) -> Self:
        """Return an empty context for another agent of this user, with the same store, policy and light model.

        Args:
            sharing: "shared" both ways; "read_only": its own items are private; "isolated": it reads only its own.
            session_id: None for `<session>/<agent>`; must differ for equal agent ids.
            connectors: Its own, or some of this context's, which this context closes.
        """
        context = type(self)(
            self.user_id,
            agent_id,
            subagent_session(self.session_id, agent_id) if session_id is None else session_id,
            self.memory_store,
            model_client=self.light_model_client,
            policy=self.policy,
            token_counter=self.token_counter,
            compactors=self._compactors,
            sharing=sharing,
            resume=False,
            connectors=connectors,
        )
        context._connectors.borrow(self._connectors)
        context._learning.is_enabled = False
        context.observation.completion_function = self.observation.completion_function
        if session_id is None and self.named_session_id is None:  # both ids are generated
            context._be_template(None)
        if self._uses_default_store:
            context._uses_default_store = True
            self.memory_store.join(context)
        return context

    async def close(self) -> None:
        """Store and archive the rest in 8 s, plus 1 s per 10 MB; the last context closes the default store.

        Up to 2 s of that are for learning what the user said, so that a session that begins at once knows it.
        """
        (session := self._session).stop()
        await self._connectors.close()
        ends_at = time.monotonic() + _CLOSE_SECONDS + await session.offloader.flush(0.55 * _CLOSE_SECONDS)
        await session.keep_masked()
        await session.summariser.close()
        await self._archive.close(ends_at - time.monotonic())
        await self._learning.catch_up(min(_LEARN_SECONDS, max(ends_at - time.monotonic(), 0.0)))
        await self._observers.events.settle(max(ends_at - time.monotonic(), 0.5))
        if self._uses_default_store:
            await self.memory_store.leave(self, write_seconds=max(ends_at - time.monotonic(), 0.0))

    async def __aenter__(self) -> Self:
        try:
            await self.memory_store.open()  # now rather than with the first message
        except MemoryContextError as error:
            _logger.warning("going on without the store for now: %s", error)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    # --- its memory

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

            errors = await context.retrieve(key, pattern="error")

        Raises:
            ItemNotFoundError: No such item of this user; offers the nearest keys.
            TransformError: The transform does not apply.
        """
        return (await retrieve_item(self, memory_key, MemoryTransform.of(transform, **params))).text

    async def open_image(self, item: MemoryItem) -> bool:
        """Show a stored image in the next view, after the results added next; False if the model takes none."""
        return await self._connectors.open_image(item, self.agent_memory)

    async def search(self, query: str, limit: int = 5, criteria: MemoryCriteria | None = None) -> list[SearchHit]:
        """Return this user's matching items, each with its best passage; best first."""
        return await self.agent_memory.search(query, limit, criteria)

    async def long_term_notes(self) -> str:
        """Return this agent's notes about the user; `agent_memory.notes` edits them."""
        return await self.agent_memory.notes.read()

    async def show_memories(self, text: str, keys: Sequence[str], owner: str = "") -> None:
        """Show memories after the newest message, in place of the owner's earlier ones, unless the text is the same."""
        await self._archive.ensure_loaded()
        await self._session.show_memories(text, keys, owner)

    # --- tools for the agent's model

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
        tools = tools_of(self, also, confirm)
        self.note_tools([tool.name for tool in tools])
        return [*tools, *self._connectors.tools()]

    def workbench(
        self, tools: Sequence[AnyTool] = (), *, also: Collection[MoreTool] = (), confirm: Confirm | None = None
    ) -> MemoryWorkbench:
        """Return the agent's own tools with memory tools, which cost no tokens until the user has memory."""
        own, late = as_tools([*tools, *self._connectors.tools()]), tools_of(self, also, confirm, are_late=True)
        workbench = MemoryWorkbench(as_tools([*own, *late]))
        self.note_tools([tool.name for tool in late], are_late=True)
        self.note_agent(tools=own)
        return workbench

    @overload
    def with_secrets(self, tool: AnyTool, allow: _Allowed, hosts: Sequence[str] = ()) -> BaseTool[Any, Any]: ...

    @overload
    def with_secrets(self, tool: Workbench, allow: _Allowed, hosts: Sequence[str] = ()) -> Workbench: ...

    def with_secrets(
        self, tool: AnyTool | Workbench, allow: _Allowed, hosts: Sequence[str] = ()
    ) -> BaseTool[Any, Any] | Workbench:
        """Return the tool or MCP workbench with `{{secret:NAME}}` in its arguments resolved, inside of the call only.

            fetch = context.with_secrets(fetch, {"API_TOKEN": ["headers.Authorization"]}, ["api.example.com"])

        Args:
            allow: Paths of arguments by name of a secret; `detected-*` names all credentials that the view masks.
            hosts: The hosts that URLs in the arguments may name; `SecretRules` has examples of both.

        Raises:
            ValueError: A name, path or host is malformed, or no path is given; or a workbench logs its calls.
        """
        rules = SecretRules(allow, hosts, self)
        return SecretWorkbench(tool, rules) if isinstance(tool, Workbench) else SecretTool(as_tools([tool])[0], rules)

    def note_tools(self, names: Iterable[str], *, are_late: bool = False) -> None:
        """Record memory tools: with `retrieve_memory`, keys in answers are no longer expanded."""
        names = set(names)
        self._prompt_head.hand_out(names, are_late=are_late)
        if "retrieve_memory" in names:
            self._session.note_tools()
        if "read_history" in names:
            self._observers.has_recall_tool = True

    def note_agent(
        self,
        *,
        system_message: str | None = None,
        tools: Sequence[AnyTool | ToolSchema] = (),
        model_client: ChatCompletionClient | None = None,
    ) -> None:
        """Count the agent's system message and own tools in each bill; None or empty keeps earlier counts.

        The client of its model tells whether images are shown and user messages in a row are joined.
        """
        if model_client is not None:
            self._connectors.images.note_model(model_client)
            self._is_strict_model = needs_turns(model_client)
        self._prompt_head.name(system_message, schemas_of(tools))

    def model_changed(self, model_client: ChatCompletionClient | None = None) -> None:
        """Note that another model reads the next view: nothing is cached, so finished observations replace messages."""
        self.note_agent(model_client=model_client)
        self._session.coordinator.model_changed()

    def instructions(self) -> str:
        """Return the sentence for the system message; empty if the agent's memory tools say it."""
        return self._prompt_head.teach()

    # --- what happened, and why

    def on(self, event: EventName, handler: Callable[[ContextEvent], object]) -> Callable[[], None]:
        """Call a function, also an async one, with each such event from now on; the returned function ends that.

        stop = context.on("folded", lambda event: print(event.tokens, event.why))
        """
        return self._hooks.on(event, handler)

    async def explain(self) -> ViewReport:
        """Report the last view and its reasons."""
        return report(self.transcript, *self._session.meter.views, self.policy.token_budget)

    @property
    def stats(self) -> ContextStats:
        """Counts of the whole session; transactions since creation or `load_state`."""
        session, archive = self._session, self._archive
        bill, beside = session.meter.bill, session.meter.views[1].beside
        stats = stats_of(session.transcript, bill.calls, archive.light_model_bill, beside)
        written, archived = session.offloader.transactions, archive.archiver.transactions
        return replace(stats, write_transactions=written, archive_transactions=archived)

    @property
    def is_dirty(self) -> bool:
        """True if something is not archived."""
        return self._archive.archiver.is_dirty

    @property
    def archiver(self) -> Archiver:
        return self._archive.archiver

    async def build_context(self, connectors: Sequence[Connector] | None = None) -> AgentContext:
        """Return what the agent thought and did since the last clear, and the present states of connectors.

        `connectors` are those whose states are rendered; None for the open ones of this context.
        """
        return agent_context(self.transcript, self.policy, await self._connectors.states(connectors))

    async def observe_now(self, *, replaces: bool = False) -> ObservationChunk | None:
        """Observe all complete steps now, the newest message of the user included, such as a correction.

        They join the view at once; their messages stay in it until observations replace messages the next time, with
        `replaces` all but the newest step leave now. Returns None if nothing was new, or the model failed or is away.
        """
        await self._store_pending()
        return await self._session.coordinator.observe_now(replaces=replaces)

    # --- component data

    def _to_config(self) -> MemoryContextConfig:
        store = {} if self._uses_default_store else self.memory_store.url_for_config
        return config_of(self, store, self._initial_messages or ())

    @classmethod
    def _from_config(cls, config: MemoryContextConfig) -> Self:
        context = cls(**arguments_of(config))
        context._be_template(config.session_id, config.template_id)
        return context

    def _be_template(self, session_id: str | None, template_id: str = "") -> None:
        """Register for dumped tools; a session id of None marks a generated one, which is in no component data."""
        self.named_session_id, self.template_id = session_id, template_id or session_id or uuid.uuid4().hex
        self._template = register_host(self)

    # --- one message's way: the session may be replaced by its history during each await

    def _append(self, message: LLMMessage, added_at: datetime | None = None, carries_result: bool = False) -> Entry:
        self._is_used = True
        entry = self._session.append(message, added_at, carries_result=carries_result)
        if entry.is_told:
            self._learning.note(entry)
        return entry

    async def _measure(self) -> None:
        await (session := self._session).offloader.measure()
        if session is not self._session:
            await self._measure()

    async def _hide_secrets(self) -> bool:
        session = self._session
        is_done = await session.hide_secrets()
        return is_done if session is self._session else await self._hide_secrets()

    async def _store_pending(self) -> bool:
        """Return False, and store nothing, while the history or the secrets are unread."""
        self._drop_forgotten()
        if may_store := await self._archive.ensure_loaded():
            self._session.user_memory.begin()
        if is_hidden := await self._hide_secrets():
            self._session.orders.note()
        may_store = is_hidden and may_store
        await (self._session.offloader.settle() if may_store else self._session.offloader.measure())
        return may_store

    async def _prepare_batch(self) -> bool:
        if may_store := await self._store_pending():
            await self._connectors.remember()
        return may_store

    def _drop_forgotten(self) -> None:
        """Drop forgotten contents before the next view, state or batch."""
        while self._forgotten.waiting:
            traces = self._forgotten.waiting.pop(0)
            self._hooks.note_forgotten(tuple(sorted(traces.keys)))
            now = ResumedSession(self.key, self.transcript, self._archive.archiver.cursor, self._archive.report)
            if (redacted := redacted_session(now, traces)) is not None:
                self._attach(redacted, self.agent_memory)

    def _memory_of(self, key: SessionKey) -> AgentMemory:
        return AgentMemory(self.memory_store, *key, sharing=self.sharing, token_counter=self.token_counter)

    def _attach(self, resumed: ResumedSession, agent_memory: AgentMemory) -> None:
        """Switch to this session."""
        self._archive.attach(resumed)
        self.session_id = resumed.key.session_id
        before: Session | None = getattr(self, "_session", None)
        if before is not None and before.transcript is resumed.transcript:
            return
        if before is not None:
            before.cancel()
        self._learning.first_position, self._learning.key = resumed.transcript.end, resumed.key
        settings = (self.policy, self.token_counter, self._compactors, self._light_models, self._observers)
        shared = (self._prompt_head, self._learning, self._archive.archiver.schedule_flush, self._hooks)
        self._session = self._connectors.session = Session(resumed, agent_memory, *settings, *shared)
        self.observation.coordinator, self.observation.agent_memory = self._session.coordinator, agent_memory

    async def _join_history(self, resumed: ResumedSession) -> None:
        """Attach the archived session and append messages added meanwhile."""
        await restore_texts(resumed.transcript, self.agent_memory)
        if not self._archive.is_pending or resumed.key != self.key:
            return
        before, history = self.transcript, resumed.transcript
        if resumed.report.outcome != "resumed":
            self._attach(replace(resumed, transcript=before, position_offset=0), self.agent_memory)
            return
        first = len(self._initial_messages or ())
        self._prompt_head.carry_over(before, history)
        meanwhile = messages_meanwhile(before, first, history)
        self._attach(replace(resumed, position_offset=history.end - first), self.agent_memory)
        for one in meanwhile:
            if one is None:
                self._session.clear()
            else:
                self._append(*one)
