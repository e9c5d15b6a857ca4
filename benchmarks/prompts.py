"""What prompts cost with a prompt cache, counted on the messages a model client would have been given.

The formula: of every call, the tokens of the longest common prefix with the call before it in the same run cost 0.1,
the rest 1.25; a common prefix below 1,024 tokens is not cached and costs 1.25 too. The prefix is taken by tokens, not
by messages: the messages that are equal from the first on count whole, and of the first that differs the tokens of
the characters it has in common with its predecessor.

What a call needed and did not see is charged: somebody has to look it up first, which takes one more call.

Tokens are counted here once more from the messages as handed out (every text, the names and ids of calls and results,
4 a message), so that a context that miscounts its own view is found out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autogen_core import FunctionCall
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResultMessage,
    LLMMessage,
    SystemMessage,
    UserMessage,
)

__all__ = ["MESSAGE_TOKENS", "Cost", "PromptMeter", "Rendered", "look_up_price", "render"]

CACHED_PRICE = 0.1
NEW_PRICE = 1.25
LEAST_CACHED_TOKENS = 1024
MESSAGE_TOKENS = 4
LOOK_UP_TOKENS = 400


@dataclass(frozen=True)
class Cost:
    """Sums over calls.

    Attributes:
        calls: Model calls.
        tokens: Tokens sent.
        cached_tokens: Those of them that a prompt cache served.
        peak_tokens: The largest call.
    """

    calls: int = 0
    tokens: int = 0
    cached_tokens: int = 0
    peak_tokens: int = 0

    @property
    def price(self) -> float:
        """What it costs, in prices of an uncached token that is not written to the cache."""
        return CACHED_PRICE * self.cached_tokens + NEW_PRICE * (self.tokens - self.cached_tokens)

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            self.calls + other.calls,
            self.tokens + other.tokens,
            self.cached_tokens + other.cached_tokens,
            max(self.peak_tokens, other.peak_tokens),
        )


def look_up_price(call_tokens: int) -> float:
    """Return what one look-up costs: the call once more, from the cache, and 400 new tokens of question and answer."""
    is_cached = call_tokens >= LEAST_CACHED_TOKENS
    return (CACHED_PRICE if is_cached else NEW_PRICE) * call_tokens + NEW_PRICE * LOOK_UP_TOKENS


@dataclass(frozen=True)
class Rendered:
    """One message as the bytes a prefix is compared by, and its tokens."""

    text: str
    tokens: int


class PromptMeter:
    """Adds up the calls of one run.

    Args:
        count: Counts the tokens of a text.
    """

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count
        self._before: Sequence[Rendered] = ()
        self.cost = Cost()

    def add(self, call: Sequence[Rendered]) -> None:
        """Take in the next call."""
        tokens = sum(message.tokens for message in call)
        cached = self._common_tokens(call)
        if cached < LEAST_CACHED_TOKENS:
            cached = 0
        self.cost += Cost(1, tokens, cached, tokens)
        self._before = call

    def _common_tokens(self, call: Sequence[Rendered]) -> int:
        common = 0
        for before, now in zip(self._before, call, strict=False):
            if before.text != now.text:
                beginning = _common_beginning(before.text, now.text)
                return common + min(self._count(beginning), before.tokens, now.tokens)
            common += now.tokens
        return common


def _common_beginning(one: str, other: str) -> str:
    length = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:length]


def render(message: LLMMessage, count: Callable[[str], int]) -> Rendered:
    """Return a message as text, who says it first, and its tokens."""
    if isinstance(message, FunctionExecutionResultMessage):
        texts = [text for result in message.content for text in (result.name, result.call_id, result.content)]
    elif isinstance(message, SystemMessage) or isinstance(message.content, str):
        assert isinstance(message.content, str)
        texts = [message.content]
    else:
        texts = [text for block in message.content for text in _block_texts(block)]
    if isinstance(message, AssistantMessage) and message.thought is not None:
        texts.insert(0, message.thought)
    if isinstance(message, UserMessage):
        texts.append(message.source)
    return Rendered("\n".join([message.type, *texts]), MESSAGE_TOKENS + sum(map(count, texts)))


def _block_texts(block: object) -> list[str]:
    if isinstance(block, FunctionCall):
        return [block.name, block.id, block.arguments]
    if isinstance(block, str):
        return [block]
    raise TypeError(f"recorded runs hold text only, got {type(block).__name__}")
