"""One recorded run, played through a MemoryContext exactly as AutoGen's AssistantAgent would.

Before each assistant message stands a model call, so `get_messages` is awaited there; then the message is added, then
all results of its calls in one message. The same messages go into AutoGen's own UnboundedChatCompletionContext: keeping
everything. Each view is checked as a model client would see it, not by the context's own report.
"""

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256

from autogen_core.model_context import UnboundedChatCompletionContext
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResultMessage,
    LLMMessage,
    SystemMessage,
    UserMessage,
)

from benchmarks.prompts import Cost, PromptMeter, Rendered, render
from benchmarks.traces import Needle, Recorded, Run
from memory_context import ContextPolicy, MemoryContext, MemoryContextError, MemoryStore
from memory_context.messages import Address
from memory_context.transcript import Offloaded

__all__ = ["Needles", "RunFigures", "Violations", "pairing_violations", "play"]


@dataclass
class Needles:
    """How many strings that a call used were at hand when it was made.

    Attributes:
        total: Needles of the run.
        visible: In the view right before the call.
        in_one_step: Visible, or in what `retrieve` gives for a key that this view shows.
        in_two_steps: Those, or in what a key shown in the first answer gives.
        missed: What is in none, by its indexes in the trace.
    """

    total: int = 0
    visible: int = 0
    in_one_step: int = 0
    in_two_steps: int = 0
    missed: list[str] = field(default_factory=list[str])


@dataclass
class Violations:
    """Promises broken, each counted in views (pairing: in messages); all must be 0.

    Attributes:
        budget: Views over the budget.
        pairing: Messages with calls that are not followed by exactly their results, and the other way round.
        task: Views without the whole text of the user's latest message, if that is within `first_view_limit_tokens`.
        count: Views whose tokens the context counts differently from what it handed out.
        transactions: Write transactions more or fewer than one for each message with offloads.
    """

    budget: int = 0
    pairing: int = 0
    task: int = 0
    count: int = 0
    transactions: int = 0


@dataclass
class RunFigures:
    """What one run came to; `bare` is without the system prompt, as others may count it.

    Attributes:
        everything: Calls that keep everything.
        context: Calls with the context's views.
        peak_view_tokens: The largest view, without the system prompt.
        add_seconds: Spent in `add_message`; `get_seconds` in `get_messages`.
        needed_next: Strings of a result that the very next message used; `needed_soon` two or three messages later;
            `needed_later` after more.
    """

    id: str
    messages: int = 0
    everything: Cost = field(default_factory=Cost)
    context: Cost = field(default_factory=Cost)
    bare_everything: Cost = field(default_factory=Cost)
    bare_context: Cost = field(default_factory=Cost)
    peak_view_tokens: int = 0
    offloads: int = 0
    messages_with_offloads: int = 0
    write_transactions: int = 0
    compactions: int = 0
    folds: int = 0
    add_seconds: float = 0.0
    get_seconds: float = 0.0
    violations: Violations = field(default_factory=Violations)
    needed_next: Needles = field(default_factory=Needles)
    needed_soon: Needles = field(default_factory=Needles)
    needed_later: Needles = field(default_factory=Needles)


async def play(
    run: Run,
    store: MemoryStore,
    policy: ContextPolicy,
    needles: Sequence[Needle] = (),
) -> RunFigures:
    """Play a run as a fresh user and return its figures."""
    player = _Player(run, store, policy)
    for recorded in run.messages:
        if isinstance(recorded.message, AssistantMessage):
            view = await player.call_model()
            for needle in needles:
                if needle.needed_index in recorded.indexes:
                    await player.look_for(needle, view)
        await player.add(recorded)
    return await player.finish()


class _Player:
    def __init__(self, run: Run, store: MemoryStore, policy: ContextPolicy) -> None:
        self.figures = RunFigures(run.id)
        self._policy = policy
        self._context = MemoryContext(
            user_id=f"benchmark-{uuid.uuid4().hex}",
            agent_id="assistant",
            session_id=sha256(run.id.encode()).hexdigest(),  # keys are made from it: the same ones every time
            memory_store=store,
            policy=policy,
        )
        self._unbounded = UnboundedChatCompletionContext()
        self._count = cache(self._context.token_counter.count)
        own = [] if run.system_prompt is None else [SystemMessage(content=run.system_prompt)]
        self._head = [render(message, self._count) for message in own]
        self._everything, self._bare_everything, self._views, self._bare_views = (
            PromptMeter(self._count) for _ in range(4)
        )
        self._positions: dict[int, tuple[int, int]] = {}  # trace index -> position in the transcript, index in message
        self._task: str | None = None

    async def add(self, recorded: Recorded) -> None:
        message = recorded.message
        position = self._context.transcript.end
        began = time.perf_counter()
        await self._context.add_message(message)
        self.figures.add_seconds += time.perf_counter() - began
        await self._unbounded.add_message(message)
        self.figures.messages += 1
        self._positions |= {index: (position, place) for place, index in enumerate(recorded.indexes)}
        if isinstance(message, UserMessage):
            assert isinstance(message.content, str)
            self._task = message.content

    async def call_model(self) -> list[Rendered]:
        """Do what happens at a model call; return the view."""
        began = time.perf_counter()
        messages = await self._context.get_messages()
        self.figures.get_seconds += time.perf_counter() - began
        view = [render(message, self._count) for message in messages]
        everything = [render(message, self._count) for message in await self._unbounded.get_messages()]
        self._views.add([*self._head, *view])
        self._bare_views.add(view)
        self._everything.add([*self._head, *everything])
        self._bare_everything.add(everything)
        self._check(messages, sum(message.tokens for message in view))
        return view

    def _check(self, messages: Sequence[LLMMessage], tokens: int) -> None:
        figures, broken = self.figures, self.figures.violations
        figures.peak_view_tokens = max(figures.peak_view_tokens, tokens)
        limit = self._policy.view_limit_tokens
        broken.budget += limit is not None and tokens > limit
        broken.count += tokens != self._context.stats.view_tokens
        broken.pairing += pairing_violations(messages)
        task = self._task
        if task is not None and self._count(task) <= self._policy.first_view_limit_tokens:
            broken.task += not any(isinstance(m, UserMessage) and m.content == task for m in messages)

    async def look_for(self, needle: Needle, view: Sequence[Rendered]) -> None:
        distance, figures = needle.needed_index - needle.output_index, self.figures
        found = figures.needed_next if distance == 1 else figures.needed_soon if distance < 4 else figures.needed_later
        text = "\n".join(message.text for message in view)
        is_visible = needle.text in text
        steps = 0 if is_visible else await self._steps_to(needle, text)
        found.total += 1
        found.visible += is_visible
        found.in_one_step += steps <= 1
        found.in_two_steps += steps <= 2
        if steps > 2:
            found.missed.append(f"output {needle.output_index}, needed at {needle.needed_index}")

    async def _steps_to(self, needle: Needle, view: str) -> int:
        """Return how often `retrieve` must be called, with keys that are shown, to see the needle; 3 for never."""
        position, place = self._positions[needle.output_index]
        transcript = self._context.transcript
        stored = transcript[position].part(Address("result", place)).stored
        fold = transcript.standing.fold
        item_keys = [ref.key for ref in stored.refs] if stored else []
        fold_text = ""
        if fold is not None and transcript.standing.is_folded(position) and fold.ref.key in view:
            fold_text = await self._retrieve(fold.ref.key)
        for steps, shown in ((1, view), (2, fold_text)):
            for key in item_keys:
                if key in shown and needle.text in await self._retrieve(key):
                    return steps
            if steps == 1 and needle.text in fold_text:
                return 1
        return 3

    async def _retrieve(self, key: str) -> str:
        try:
            return await self._context.retrieve(key)
        except MemoryContextError:
            return ""

    async def finish(self) -> RunFigures:
        await self._context.close()
        figures, stats = self.figures, self._context.stats
        figures.everything, figures.context = self._everything.cost, self._views.cost
        figures.bare_everything, figures.bare_context = self._bare_everything.cost, self._bare_views.cost
        offloads = [decision for _, decision in self._context.transcript.log if isinstance(decision, Offloaded)]
        figures.messages_with_offloads = len({decision.position for decision in offloads if decision.stored.refs})
        figures.offloads = stats.offloads
        figures.write_transactions = stats.write_transactions
        figures.compactions, figures.folds = stats.compactions, stats.folds
        figures.violations.transactions = abs(figures.write_transactions - figures.messages_with_offloads)
        return figures


def pairing_violations(messages: Sequence[LLMMessage]) -> int:
    """Count messages with calls not followed by exactly their results, and results that do not follow their calls."""
    broken = 0
    for before, message in zip([None, *messages], [*messages, None], strict=True):
        calls = [call.id for call in before.content] if _has_calls(before) else []
        results = (
            [result.call_id for result in message.content]
            if isinstance(message, FunctionExecutionResultMessage)
            else []
        )
        if sorted(calls) != sorted(results):
            broken += bool(calls) + bool(results)
    return broken


def _has_calls(message: LLMMessage | None) -> bool:
    return isinstance(message, AssistantMessage) and not isinstance(message.content, str)
