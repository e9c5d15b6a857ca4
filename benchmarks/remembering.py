"""A recorded run through a MemoryContext: what any context is measured by, and what only this one promises."""

import uuid
from collections.abc import Iterable, Sequence
from hashlib import sha256

from autogen_core.models import AssistantMessage, LLMMessage, SystemMessage

from benchmarks.needles import query_of, search_for
from benchmarks.peers import TextCounter
from benchmarks.playing import MemoryFigures, Player, Reach, RunFigures
from benchmarks.prompts import PromptMeter, Rendered, render
from benchmarks.traces import Needle, Recorded, Run
from memory_context import ContextPolicy, MemoryContext, MemoryContextError, MemoryStore
from memory_context.foundation.messages import Address
from memory_context.recall.tools.prompt_head import tool_json, tools_of
from memory_context.sessions.transcript.part_decisions import PartOffloaded

__all__ = ["MEMORY", "MemoryPlayer"]

MEMORY = "memory_context"
STORE_TIMEOUT_SECONDS = 60.0


class MemoryPlayer(Player):
    """Plays a run as a fresh user, unless one is named.

    Args:
        run: What was recorded.
        store: An open store.
        policy: What the context keeps to.
        count: Counts the tokens of a text.
    """

    def __init__(
        self, run: Run, store: MemoryStore, policy: ContextPolicy, count: TextCounter, user_id: str | None = None
    ) -> None:
        self._memory = MemoryContext(
            user_id=user_id or f"benchmark-{uuid.uuid4().hex}",
            agent_id="assistant",
            session_id=sha256(run.id.encode()).hexdigest(),  # keys are made from it: the same ones every time
            memory_store=store,
            # on a busy machine too, what is stored is stored with its message, so that transactions can be counted
            policy=policy.model_copy(update={"store_timeout_seconds": STORE_TIMEOUT_SECONDS}),
        )
        super().__init__(run, self._memory, count, policy.first_view_limit_tokens)
        self._memory.workbench()
        system = "\n\n".join(filter(None, [run.system_prompt, self._memory.instructions()]))
        self._taught = [render(SystemMessage(content=system), count)] if system else []
        self._schemas = {tool.name: tool.schema for tool in tools_of(self._memory)}
        self._tools = self._rendered(self._schemas)
        self._with_workbench, self._with_tools = PromptMeter(count), PromptMeter(count)
        self._store = store
        self._promises = MemoryFigures()
        self._positions: dict[int, tuple[int, int]] = {}  # trace index -> position in the transcript, index in message

    async def play(self, needles: Sequence[Needle] = ()) -> RunFigures:
        """Play the run, look for what its calls used, and return the figures."""
        figures = await super().play(needles)
        figures.with_workbench, figures.with_tools = self._with_workbench.cost, self._with_tools.cost
        await self._memory.close()
        stats, memory = self._memory.stats, self._promises
        offloads = [decision for _, decision in self._memory.transcript.decisions(PartOffloaded)]
        memory.messages_with_offloads = len({decision.position for decision in offloads if decision.stored.refs})
        memory.offloads, memory.write_transactions = stats.offloads, stats.write_transactions
        memory.compactions, memory.folds = stats.compactions, stats.folds
        memory.light_model_calls, memory.light_model_tokens = stats.light_model_calls, stats.light_model_tokens
        memory.transactions_off = abs(memory.write_transactions - memory.messages_with_offloads)
        figures.memory = memory
        return figures

    async def add(self, recorded: Recorded) -> None:
        """Add the next message and remember where it went."""
        position = self._memory.transcript.end
        await super().add(recorded)
        self._positions |= {index: (position, place) for place, index in enumerate(recorded.indexes)}

    def count_call(self, view: Sequence[Rendered]) -> None:
        """Add up the next call, without tools and instructions and with them; tools stand first."""
        super().count_call(view)
        self._with_workbench.add([*self.head(), *view])
        self._with_tools.add([self._tools, *self._taught, *view])

    def head(self) -> Sequence[Rendered]:
        """Return the tools that are offered by now, and the system message."""
        offered = self._memory.transcript.state.offered.memory_tools
        return [self._rendered(offered), *self._taught] if offered else self._taught

    def _rendered(self, tools: Iterable[str]) -> Rendered:
        text = tool_json([self._schemas[name] for name in tools])
        return Rendered(text, self._count(text))

    def check(self, messages: Sequence[LLMMessage], tokens: int) -> None:
        """Hold a view against the budget and the context's own count, too."""
        super().check(messages, tokens)
        limit = self._memory.policy.view_limit_tokens
        self._promises.over_budget += limit is not None and tokens > limit
        self._promises.miscounted += tokens != self._memory.stats.view_tokens

    async def reach(self, needle: Needle, view: str, message: AssistantMessage) -> Reach:
        """Try the keys that the view shows, and a search with the words of the call."""
        position, place = self._positions[needle.output_index]
        stored = self._memory.transcript[position].part(Address("result", place)).stored
        keys = {ref.key for ref in stored.refs} if stored else set[str]()
        await self._store.flush_index()
        search = await search_for(self._memory, self._run.id, needle, keys, query_of(message, needle.text))
        return Reach(await self._retrieves_to(needle, position, keys, view), search.passage_rank)

    async def _retrieves_to(self, needle: Needle, position: int, keys: set[str], view: str) -> int | None:
        """Return how often `retrieve` must be called, with keys that are shown, to see the needle."""
        state = self._memory.transcript.state
        fold_text = ""
        if state.fold is not None and state.is_folded(position) and state.fold.ref.key in view:
            fold_text = await self._retrieve(state.fold.ref.key)
        for retrieves, shown in ((1, view), (2, fold_text)):
            for key in keys:
                if key in shown and needle.text in await self._retrieve(key):
                    return retrieves
            if retrieves == 1 and needle.text in fold_text:
                return 1
        return None

    async def _retrieve(self, key: str) -> str:
        try:
            return await self._memory.retrieve(key)
        except MemoryContextError:
            return ""
