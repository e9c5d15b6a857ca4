"""One recorded run, played through one context exactly as AutoGen's AssistantAgent would.

Before each assistant message stands a model call, so `get_messages` is awaited there; then the message is added, then
all results of its calls in one message. Each view is checked as a model client would see it, not by the context's own
report. `benchmarks.remembering` adds what only a MemoryContext promises.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResultMessage,
    LLMMessage,
    SystemMessage,
    UserMessage,
)

from benchmarks.needles import TOP
from benchmarks.peers import Conversation, TextCounter
from benchmarks.prompts import Cost, PromptMeter, Rendered, look_up_price, render
from benchmarks.traces import Needle, Recorded, Run

__all__ = ["MemoryFigures", "Player", "Reach", "RunFigures", "Sought", "pairing_violations"]


@dataclass(frozen=True)
class Reach:
    """How a string that is not in the view can be had.

    Attributes:
        retrieves: How many look-ups by a key (or path) that is shown give it; None if none does.
        rank: Rank of the first hit that shows it in a search with the words of the call; None if none does.
    """

    retrieves: int | None = None
    rank: int | None = None


@dataclass(frozen=True)
class Sought:
    """A string that a call used, looked for in the view right before that call.

    Attributes:
        output: Index in the trace of the message that had it; `needed_at` of the one whose call used it.
        call_tokens: Tokens of the call, system prompt included.
        is_visible: Whether a text, thought, argument or result of the view holds it.
        reach: How it can be had otherwise.
    """

    output: int
    needed_at: int
    call_tokens: int
    is_visible: bool
    reach: Reach

    @property
    def distance(self) -> int:
        """Messages from the one that had it to the one that used it."""
        return self.needed_at - self.output

    @property
    def is_found(self) -> bool:
        """Whether one of the first hits of a search shows it."""
        return self.reach.rank is not None and self.reach.rank <= TOP

    @property
    def is_lost(self) -> bool:
        """Whether it is neither visible nor to be had."""
        return not (self.is_visible or self.is_found or self.reach.retrieves is not None)


@dataclass
class MemoryFigures:
    """What only a MemoryContext has; the last three are promises broken and must be 0.

    Attributes:
        light_model_calls: Calls of the light model; `light_model_tokens` what it read and wrote. No part of any cost.
        over_budget: Views over the budget.
        miscounted: Views whose tokens the context counts differently from what it handed out.
        transactions_off: Write transactions more or fewer than one for each message with offloads.
    """

    offloads: int = 0
    messages_with_offloads: int = 0
    write_transactions: int = 0
    compactions: int = 0
    folds: int = 0
    light_model_calls: int = 0
    light_model_tokens: int = 0
    over_budget: int = 0
    miscounted: int = 0
    transactions_off: int = 0


@dataclass
class RunFigures:
    """What one run came to in one context.

    Attributes:
        cost: Of all calls: messages and system prompt; `bare` without the system prompt, as others may count it.
        with_workbench: The same with the instructions of a memory, and its tools from the call on that
            `context.workbench()` offers them in; None for contexts without tools.
        with_tools: The same with the tools of `context.tools()` in every call; None for contexts without tools.
        peak_view_tokens: The largest view, without the system prompt.
        broken_views: Views with a call that its results do not follow, or a result that does not follow its call; model
            APIs refuse them.
        views_without_task: Views without the whole text of the user's latest message, if that is not too long.
        add_seconds: Spent in `add_message`; `get_seconds` in `get_messages`.
        sought: The strings that its calls used.
        memory: Further figures of a MemoryContext; None for others.
    """

    id: str
    messages: int = 0
    cost: Cost = field(default_factory=Cost)
    bare: Cost = field(default_factory=Cost)
    with_workbench: Cost | None = None
    with_tools: Cost | None = None
    peak_view_tokens: int = 0
    broken_views: int = 0
    views_without_task: int = 0
    add_seconds: float = 0.0
    get_seconds: float = 0.0
    sought: list[Sought] = field(default_factory=list[Sought])
    memory: MemoryFigures | None = None

    @property
    def whole_cost(self) -> Cost:
        """Of all calls with everything in them: tools as a workbench offers them."""
        return self.with_workbench or self.cost

    @property
    def price_of_look_ups(self) -> float:
        """What it costs to look up every string that was needed and not visible."""
        return sum(look_up_price(one.call_tokens) for one in self.sought if not one.is_visible)

    @property
    def charged_price(self) -> float:
        """The price of all calls, tools and all, and of these look-ups."""
        return self.whole_cost.price + self.price_of_look_ups


class Player:
    """Plays a run through a context.

    Args:
        run: What was recorded.
        context: An empty one.
        count: Counts the tokens of a text.
        task_limit_tokens: A user's message up to this size has to be whole in every view of its turn.
    """

    def __init__(self, run: Run, context: Conversation, count: TextCounter, task_limit_tokens: int) -> None:
        self.figures = RunFigures(run.id)
        self._run = run
        self._context = context
        self._count = count
        texts = [run.system_prompt, getattr(context, "fixed_text", None)]  # of a peer with tools of its own
        self._head = [render(SystemMessage(content=text), count) for text in texts if text is not None]
        self._calls, self._bare_calls = PromptMeter(count), PromptMeter(count)
        self._task_limit_tokens = task_limit_tokens
        self._task: str | None = None

    async def play(self, needles: Sequence[Needle] = ()) -> RunFigures:
        """Play the run, look for what its calls used, and return the figures."""
        for recorded in self._run.messages:
            if isinstance(recorded.message, AssistantMessage):
                view = await self._call_model()
                for needle in needles:
                    if needle.needed_index in recorded.indexes:
                        await self._look_for(needle, view, recorded.message)
            await self.add(recorded)
        self.figures.cost, self.figures.bare = self._calls.cost, self._bare_calls.cost
        return self.figures

    async def add(self, recorded: Recorded) -> None:
        """Add the next message."""
        began = time.perf_counter()
        await self._context.add_message(recorded.message)
        self.figures.add_seconds += time.perf_counter() - began
        self.figures.messages += 1
        if isinstance(recorded.message, UserMessage):
            assert isinstance(recorded.message.content, str)
            self._task = recorded.message.content

    def check(self, messages: Sequence[LLMMessage], tokens: int) -> None:
        """Hold a view against what it has to keep."""
        self.figures.peak_view_tokens = max(self.figures.peak_view_tokens, tokens)
        self.figures.broken_views += pairing_violations(messages) > 0
        task = self._task
        if task is not None and self._count(task) <= self._task_limit_tokens:
            is_whole = any(isinstance(message, UserMessage) and message.content == task for message in messages)
            self.figures.views_without_task += not is_whole

    async def reach(self, needle: Needle, view: str, message: AssistantMessage) -> Reach:
        """Return how a string that the view lacks can be had; most contexts know no way."""
        files: dict[str, str] = getattr(self._context, "files", {})
        has_file = any(path in view and needle.text in content for path, content in files.items())
        return Reach(retrieves=1 if has_file else None)

    def count_call(self, view: Sequence[Rendered]) -> None:
        """Add up the next call."""
        self._calls.add([*self._head, *view])
        self._bare_calls.add(view)

    def head(self) -> Sequence[Rendered]:
        """Return what stands before the view in the next call."""
        return self._head

    async def _call_model(self) -> list[Rendered]:
        began = time.perf_counter()
        messages = await self._context.get_messages()
        self.figures.get_seconds += time.perf_counter() - began
        view = [render(message, self._count) for message in messages]
        self.count_call(view)
        self.check(messages, sum(message.tokens for message in view))
        return view

    async def _look_for(self, needle: Needle, view: Sequence[Rendered], message: AssistantMessage) -> None:
        text = "\n".join(one.text for one in view)
        call_tokens = sum(one.tokens for one in (*self.head(), *view))
        is_visible = needle.text in text
        reach = Reach(retrieves=0) if is_visible else await self.reach(needle, text, message)
        self.figures.sought.append(Sought(needle.output_index, needle.needed_index, call_tokens, is_visible, reach))


def pairing_violations(messages: Sequence[LLMMessage]) -> int:
    """Count messages with calls not followed by exactly their results, and results that do not follow their calls."""
    broken = 0
    for before, message in zip([None, *messages], [*messages, None], strict=True):
        calls = _call_ids(before)
        results = (
            [result.call_id for result in message.content]
            if isinstance(message, FunctionExecutionResultMessage)
            else []
        )
        if sorted(calls) != sorted(results):
            broken += bool(calls) + bool(results)
    return broken


def _call_ids(message: LLMMessage | None) -> list[str]:
    if not isinstance(message, AssistantMessage) or isinstance(message.content, str):
        return []
    return [call.id for call in message.content]
