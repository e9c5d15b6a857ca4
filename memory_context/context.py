"""MemoryContext: the drop-in context of an AutoGen agent. It wires the parts together and has no policy of its own.

    add_message:   transcript.deliver -> offloader.settle (measure, compact, store) -> retainer.settle (choose facts)
                   -> budget.plan (decide) -> expander.begin (decide, read)
    get_messages:  expander.settle -> retainer.settle -> offloader.measure -> budget.fit (decide) -> view -> copies

Read this file first: every arrow of the data flow is one line here.
"""

import logging
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from autogen_core import Component
from autogen_core.model_context import ChatCompletionContext
from autogen_core.models import ChatCompletionClient, LLMMessage
from pydantic import TypeAdapter
from typing_extensions import Self

from .compaction import Compactors
from .context_config import MemoryContextConfig
from .errors import MemoryContextError
from .identifiers import checked_identifier, subagent_session
from .light_model import LightModel
from .memory import AgentMemory, MemoryCriteria, MemoryTransform, MemoryType, SearchHit, Sharing
from .messages import message_from_json, message_to_json
from .offload import Offloader, Retainer, Summariser, restore_texts, summary_model
from .policy import ContextPolicy
from .stats import ContextStats, Meter
from .store import MemoryStore
from .tokens import TokenCounter, count_off_loop, default_token_counter
from .tools import INSTRUCTIONS, MemoryTool, announce, retrieve_item, tools_of
from .transcript import Cleared, Shown, Transcript, load_transcript, save_transcript
from .turn import Expander, replacing_memories
from .view import Budget, Renderer, ViewReport, folded_text, report, session_tag

__all__ = ["MemoryContext", "MemoryContextConfig"]

_logger = logging.getLogger("memory_context")

_CLOSE_SECONDS = 5.0
_MESSAGES: TypeAdapter[list[LLMMessage]] = TypeAdapter(list[LLMMessage])


class MemoryContext(ChatCompletionContext, Component[MemoryContextConfig]):
    """A chat context that stays small: large content goes to Postgres, a placeholder stays, and nothing is lost.

    Creating one does no I/O. `add_message` and `get_messages` never raise because of the store or the light model.

    Args:
        user_id: Whose session it is; no other user's data is ever seen.
        agent_id: The agent that holds the context.
        session_id: The conversation; None for a new one, readable as `context.session_id`.
        memory_store: Where content goes; None for the default store (the URL in `MEMORY_CONTEXT_URL`, else the
            embedded Postgres).
        model_client: The light model: a small, cheap one that decides which references a request needs, in one call
            for each user message. None to decide by rules.
        policy: The settings.
        token_counter: Counts tokens; None for o200k_base. Not part of a component dump.
        initial_messages: Messages it begins with.
        compactors: Say what survives of a result, by tool; None for the built-in ones. Not part of a component dump.
        sharing: Whether the user's agents read each other's items; see `for_subagent`.
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
    ) -> None:
        super().__init__(initial_messages)
        self.user_id = checked_identifier("user_id", user_id)
        self.agent_id = checked_identifier("agent_id", agent_id)
        self.session_id = checked_identifier("session_id", uuid.uuid4().hex if session_id is None else session_id)
        self.sharing: Sharing = sharing
        self.policy = policy or ContextPolicy()
        self.token_counter = token_counter or default_token_counter()
        self.memory_store = memory_store or MemoryStore.default()
        self._compactors = compactors or Compactors()
        self._model_client = model_client
        self._light_model = None if model_client is None else _light_model(model_client, self.policy)
        self._summary_model = None if model_client is None else summary_model(model_client, self.policy)
        self._uses_default_store = memory_store is None
        if self._uses_default_store:
            self.memory_store.join(self)
        self._has_handed_out_tools = False
        self._start(Transcript.of(initial_messages or ()))

    def _start(self, transcript: Transcript) -> None:
        """Wire everything to a transcript."""
        tag = session_tag(self.session_id)
        self._transcript = transcript
        identity = (self.user_id, self.agent_id, self.session_id)
        self._agent_memory = AgentMemory(
            self.memory_store, *identity, sharing=self.sharing, token_counter=self.token_counter
        )
        transcript.on_decision = self._agent_memory.trail.note_decision
        compact = (self.policy, self.token_counter, self._compactors)
        self._summariser = Summariser(self._agent_memory, self.policy, self._summary_model, self._light_model)
        self._offloader = Offloader(transcript, self._agent_memory, *compact, self._summariser)
        self._retainer = Retainer(transcript, *compact, self._summariser)
        self._expander = Expander(
            transcript,
            self._agent_memory,
            self.policy,
            self.token_counter,
            self._light_model,
            lambda key: folded_text(transcript, tag, key),
        )
        renderer = Renderer(self.policy, self.token_counter)
        self._budget = Budget(self.policy, self.token_counter, renderer, tag)
        self._meter = Meter(transcript, self.policy)
        self._expander.agent_has_tools = announce(self) or self._has_handed_out_tools

    # --- the chat context ---------------------------------------------------------------------------------------

    async def add_message(self, message: LLMMessage) -> None:
        """Take a message in; its large parts are stored in one transaction, and what it asks for begins to be opened.

        Never raises because of the store: what cannot be stored within `store_timeout_seconds` stays inline and is
        stored later. The message itself is neither changed nor kept.
        """
        entry = self._transcript.deliver(message)
        if entry is not None:
            self._offloader.add(entry)
        self._expander.hold(entry)
        await self._offloader.settle()
        await self._retainer.settle()
        await self._offloader.measure()  # what another task added meanwhile: unmeasured, nothing can be rendered
        self._budget.plan(self._transcript, self._retainer.is_held)
        self._expander.begin()

    async def get_messages(self) -> list[LLMMessage]:
        """Return the view: what the model is to see, within the budget; fresh copies.

        No I/O of its own: it waits for nothing but what this turn began to open, and for that within its limits.
        """
        await self._expander.settle()
        await self._retainer.settle()
        await self._offloader.measure()  # last: from here on nothing waits, so that no other task comes in between
        view = self._budget.fit(self._transcript, self._retainer.is_held)
        if self._retainer.record():
            view = self._budget.fit(self._transcript, self._retainer.is_held)
        if self._transcript.end > self._transcript.standing.shown or self._transcript.standing.unseen:
            self._transcript.decide(Shown(self._transcript.end))
        self._meter.add_view(self._transcript, view)
        return view.copies()

    async def clear(self) -> None:
        """Empty the view. Items stay readable by their keys; messages that were too small to be stored do not."""
        self._expander.forget()
        self._transcript.decide(Cleared(self._transcript.end))

    async def show_memories(self, text: str, keys: Sequence[str], owner: str = "") -> None:
        """Show memories after the newest message, instead of what was shown so before; "" shows none.

        For AutoGen's Memory protocol (`PostgresMemory`), which asks again before each run: what says the same stays
        where it is, so that nothing moves and nothing piles up.

        Args:
            text: What is shown.
            keys: The items it is from.
            owner: The memory that shows it; another one's stays.
        """
        (tokens,) = await count_off_loop(self.token_counter, [text])
        for decision in replacing_memories(self._transcript, text, tokens, keys, owner):
            self._transcript.decide(decision)

    def for_subagent(self, agent_id: str, sharing: Sharing = "shared", *, session_id: str | None = None) -> Self:
        """Return an empty context for another agent of this user, with the store, policy and light model of this one.

        Args:
            agent_id: The other agent.
            sharing: "shared": both read what the other stores. "read_only": it reads this agent's items, but what it
                stores is private. "isolated": it reads only its own items, and they are private.
            session_id: Its conversation; None for `<session>/<agent>`. Name one if several work under one agent id.
        """
        context = type(self)(
            self.user_id,
            agent_id,
            subagent_session(self.session_id, agent_id) if session_id is None else session_id,
            self.memory_store,
            model_client=self._model_client,
            policy=self.policy,
            token_counter=self.token_counter,
            compactors=self._compactors,
            sharing=sharing,
        )
        if self._uses_default_store:
            context._uses_default_store = True
            self.memory_store.join(context)
        return context

    # --- state --------------------------------------------------------------------------------------------------

    async def save_state(self) -> Mapping[str, Any]:
        """Return the session, JSON-native; committed results are references, so loading needs the same database."""
        await self._offloader.settle()
        await self._expander.settle(for_view=False)
        return {
            "user_id": self.user_id,
            "session_id": self.session_id,
            "transcript": save_transcript(self._transcript),
        }

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue a saved session, or take over what one of AutoGen's own contexts saved.

        If the store cannot be reached, what only it has is shown compacted. A load that fails or is cancelled changes
        nothing.

        Raises:
            ValueError: The state belongs to another user, comes from a newer version, or is none.
        """
        if "transcript" in state:
            if state.get("user_id") != self.user_id:
                raise ValueError(f"this state belongs to user {state.get('user_id')!r}, not to {self.user_id!r}")
            transcript = load_transcript(state["transcript"])
            session_id = checked_identifier("session_id", state.get("session_id"))
            await restore_texts(transcript, self._agent_memory)
            self._expander.forget()
            self._summariser.forget()
            self.session_id = session_id
            self._start(transcript)
        elif "messages" in state:
            transcript = Transcript.of(_MESSAGES.validate_python(state["messages"]))
            self._expander.forget()
            self._summariser.forget()
            self._start(transcript)
            await self._offloader.settle()
        else:
            raise ValueError(
                f"this is no state of a chat context: it has neither transcript nor messages, but {[*state]!r}"
            )

    def _to_config(self) -> MemoryContextConfig:
        return MemoryContextConfig(
            user_id=self.user_id,
            agent_id=self.agent_id,
            session_id=self.session_id,
            policy=self.policy.model_dump(mode="json"),
            memory_store={} if self._uses_default_store else self.memory_store.url_for_config,
            model_client=None if self._model_client is None else self._model_client.dump_component(),
            initial_messages=[message_to_json(message) for message in self._initial_messages or ()],
            sharing=self.sharing,
        )

    @classmethod
    def _from_config(cls, config: MemoryContextConfig) -> Self:
        return cls(
            user_id=config.user_id,
            agent_id=config.agent_id,
            session_id=config.session_id,
            memory_store=MemoryStore.from_config(**config.memory_store) if config.memory_store else None,
            model_client=ChatCompletionClient.load_component(config.model_client) if config.model_client else None,
            policy=ContextPolicy.model_validate(config.policy),
            initial_messages=[message_from_json(message) for message in config.initial_messages] or None,
            sharing=config.sharing,
        )

    # --- memory -------------------------------------------------------------------------------------------------

    @property
    def agent_memory(self) -> AgentMemory:
        """The items this context stores and reads."""
        return self._agent_memory

    @property
    def transcript(self) -> Transcript:
        """The messages and decisions; read it, do not write to it."""
        return self._transcript

    async def store(
        self,
        content: Any,
        description: str,
        type: MemoryType = "custom",
        *,
        source: str | None = None,
        tags: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
    ) -> str:
        """Store a content and return its memory_key, once it is durable.

        Raises:
            ValueError: The content is neither a str nor JSON-able, or too large.
            StoreUnavailableError: The store cannot be reached now.
        """
        ref = await self._agent_memory.store(
            content, description=description, type=type, source=source, tags=tags, metadata=metadata
        )
        return ref.key

    async def retrieve(self, memory_key: str, transform: str = "full", **params: Any) -> str:
        """Return the content behind a key, whole and byte for byte, or cut by a transform.

        Args:
            memory_key: The key of a placeholder; also that of folded steps.
            transform: full, excerpt, summary, first_n, last_n or filtered.
            **params: What the transform takes, such as `pattern="error"`.

        Raises:
            ItemNotFoundError: This user has no such item; offers the nearest keys.
            TransformError: The transform cannot be applied; says what to send instead.
            StoreUnavailableError: The store cannot be reached now.
        """
        return (await retrieve_item(self, memory_key, MemoryTransform.of(transform, **params)))[0]

    async def search(self, query: str, limit: int = 5, criteria: MemoryCriteria | None = None) -> list[SearchHit]:
        """Return the items of this user that answer a query best, each with its best passage; the best first.

        Raises:
            ValueError: The limit is less than 1.
            StoreUnavailableError: The store cannot be reached now.
        """
        hits = await self._agent_memory.search(query, limit=limit, criteria=criteria or MemoryCriteria())
        self._agent_memory.trail.note("searched", [hit.item.key for hit in hits], f"search: {query!r}")
        return hits

    def tools(self) -> list[MemoryTool]:
        """Return the tools that let the agent's model use its memory.

        These are store_memory, retrieve_memory, search_memory, query_memory and read_history. An agent without them
        sees what it names in its answer: the context opens it for the next step.
        """
        self._has_handed_out_tools = self._expander.agent_has_tools = True
        return tools_of(self)

    def instructions(self) -> str:
        """Return what teaches a model the placeholder, to be appended to the system message."""
        return INSTRUCTIONS

    # --- insight ------------------------------------------------------------------------------------------------

    async def explain(self) -> ViewReport:
        """Return what the last view held and why. Hands out nothing and changes nothing."""
        return report(self._transcript, *self._meter.views, self.policy.token_budget)

    @property
    def stats(self) -> ContextStats:
        """What the context did since it was made or a state was loaded, in tokens and transactions."""
        usages = [None if model is None else model.usage for model in (self._light_model, self._summary_model)]
        return self._meter.stats(self._transcript, self._offloader.transactions, *usages)

    # --- life cycle ---------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Store what is still waiting; the last to leave the default store closes it, one passed in stays open."""
        self._expander.forget()
        await self._offloader.flush(_CLOSE_SECONDS)
        await self._summariser.close()
        if self._uses_default_store:
            await self.memory_store.leave(self)

    async def __aenter__(self) -> Self:
        """Open the store, so that the first large message need not wait for a server to start."""
        try:
            await self.memory_store.open()
        except MemoryContextError as error:
            _logger.warning("going on without the store for now: %s", error)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()


def _light_model(client: ChatCompletionClient, policy: ContextPolicy) -> LightModel:
    return LightModel(
        client,
        timeout_seconds=policy.expansion.timeout_seconds,
        retry_seconds=policy.expansion.retry_seconds,
        answer_limit_tokens=policy.expansion.answer_limit_tokens,
    )
