"""Microsoft Agent Framework's compaction strategies as peers: their own code leaves out or shortens old messages.

A message keeps its place as its id, so that each one that a strategy leaves alone becomes the same AutoGen message
again; what a strategy writes itself becomes a message of the agent. Tokens are counted by the benchmarks' counter.
"""

from collections.abc import Callable

from agent_framework import (
    CompactionStrategy,
    Content,
    ContextWindowCompactionStrategy,
    Message,
    ToolResultCompactionStrategy,
    apply_compaction,
)
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResultMessage,
    LLMMessage,
    SystemMessage,
)

__all__ = ["CompactedByStrategy", "strategy_for_tool_results", "strategy_for_window"]

_OUTPUT_SHARE = 8
"""A window's part for the answer: 16,000 of 128,000 tokens, as in the framework's example."""


class _Counter:
    def __init__(self, count: Callable[[str], int]) -> None:
        self.count_tokens = count


class CompactedByStrategy:
    """What a strategy of Agent Framework makes of a conversation before each call.

    Args:
        count: Counts the tokens of a text.
        strategy: Makes the strategy; takes what counts tokens.
    """

    def __init__(self, count: Callable[[str], int], strategy: Callable[[_Counter], CompactionStrategy]) -> None:
        self._counter = _Counter(count)
        self._strategy = strategy(self._counter)
        self._messages: list[LLMMessage] = []
        self._converted: list[Message] = []

    async def add_message(self, message: LLMMessage) -> None:
        """Take in the next message."""
        self._converted.append(_converted(message, f"{len(self._messages)}"))
        self._messages.append(message)

    async def get_messages(self) -> list[LLMMessage]:
        """Return the messages for the next call."""
        included = await apply_compaction(self._converted, strategy=self._strategy, tokenizer=self._counter)
        return [self._original(message) for message in included]

    def _original(self, message: Message) -> LLMMessage:
        place = message.message_id or ""
        if place.isdecimal():
            return self._messages[int(place)]
        return AssistantMessage(content=message.text, source="agent")


def strategy_for_window(window_tokens: int) -> Callable[[_Counter], CompactionStrategy]:
    """Return the framework's choice for a window: at half of it old results are shortened, at .8 old messages go."""
    return lambda counter: ContextWindowCompactionStrategy(
        max_context_window_tokens=window_tokens,
        max_output_tokens=window_tokens // _OUTPUT_SHARE,
        tokenizer=counter,
        preserve_first_user_group=True,
    )


def strategy_for_tool_results(_: _Counter) -> CompactionStrategy:
    """Return the strategy that shortens all results but the last to a line of at most 4,096 characters."""
    return ToolResultCompactionStrategy()


def _converted(message: LLMMessage, place: str) -> Message:
    if isinstance(message, FunctionExecutionResultMessage):
        results = [Content.from_function_result(one.call_id, result=one.content) for one in message.content]
        return Message("tool", results, message_id=place)
    if isinstance(message, AssistantMessage):
        if isinstance(message.content, str):
            return Message("assistant", [message.content], message_id=place)
        thought = [message.thought] if message.thought else []
        calls = [Content.from_function_call(one.id, one.name, arguments=one.arguments) for one in message.content]
        return Message("assistant", [*thought, *calls], message_id=place)
    assert isinstance(message.content, str), "recorded runs hold text only"
    return Message("system" if isinstance(message, SystemMessage) else "user", [message.content], message_id=place)
