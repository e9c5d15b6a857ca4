"""What else an agent could be given for a context: the same run goes through each of these, one call after another.

AutoGen's own contexts, LangChain's middleware, Agent Framework's strategies and deepagents' files run as they are
published; a rule that many agents use is written out here. A peer takes AutoGen's messages and says what the model
reads next, so everything is measured alike.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Protocol

from autogen_core.model_context import (
    BufferedChatCompletionContext,
    HeadAndTailChatCompletionContext,
    TokenLimitedChatCompletionContext,
    UnboundedChatCompletionContext,
)
from autogen_core.models import FunctionExecutionResultMessage, LLMMessage
from autogen_ext.models.replay import ReplayChatCompletionClient

from benchmarks.deepagents_peer import VARIABLE, DeepAgents, python_of_deepagents
from benchmarks.prompts import render

__all__ = [
    "EVERYTHING",
    "KEPT_RESULTS",
    "LEFT_OUT",
    "Conversation",
    "LastResults",
    "Peer",
    "TextCounter",
    "installed_peers",
]

EVERYTHING = "AutoGen Unbounded"
"""Keeps everything: what all costs are relative to."""

KEPT_RESULTS = 3
LEFT_OUT = "[old result left out]"
TOKEN_LIMIT = 32_000

TextCounter = Callable[[str], int]


class Conversation(Protocol):
    """What takes the messages of a run and says what the model reads next; AutoGen's contexts are such as they are."""

    async def add_message(self, message: LLMMessage) -> None:
        """Take in the next message."""
        ...

    async def get_messages(self) -> list[LLMMessage]:
        """Return the messages for the next call."""
        ...


@dataclass(frozen=True)
class Peer:
    """One way to keep a conversation.

    Attributes:
        name: As tables show it.
        start: Makes an empty one; takes what counts the tokens of a text.
    """

    name: str
    start: Callable[[TextCounter], Conversation]


def installed_peers() -> tuple[list[Peer], list[str]]:
    """Return the peers that can run here, the one that keeps everything first, and a line on each that cannot."""
    peers = [
        Peer(EVERYTHING, lambda count: UnboundedChatCompletionContext()),
        Peer("AutoGen Buffered(20)", lambda count: BufferedChatCompletionContext(20)),
        Peer("AutoGen HeadAndTail(5, 15)", lambda count: HeadAndTailChatCompletionContext(5, 15)),
        Peer(
            f"AutoGen TokenLimited({TOKEN_LIMIT // 1000}k)",
            lambda count: TokenLimitedChatCompletionContext(_CountingClient(count), token_limit=TOKEN_LIMIT),
        ),
        Peer(f"last {KEPT_RESULTS} results", lambda count: LastResults()),
    ]
    missing: list[str] = []
    for module, name, make in (
        ("langchain", "LangChain", _of_langchain),
        ("agent_framework", "Agent Framework", _of_agent_framework),
    ):
        if find_spec(module) is None:
            missing.append(f"{name} is not installed, its rows are left out: pip install 'memory-context[bench]'")
        else:
            peers += make()
    if python_of_deepagents() is None:
        missing.append(f"deepagents is left out: {VARIABLE} names no Python with it (benchmarks/deepagents_peer.py)")
    else:
        peers.append(Peer("deepagents", DeepAgents))
    return peers, missing


def _of_langchain() -> list[Peer]:
    from benchmarks.langchain_peer import ClearedResults

    return [
        Peer("LangChain clear at 100k", ClearedResults),
        Peer("LangChain clear at 30k", lambda count: ClearedResults(count, trigger=30_000)),
    ]


def _of_agent_framework() -> list[Peer]:
    from benchmarks.agent_framework_peer import CompactedByStrategy, strategy_for_tool_results, strategy_for_window

    return [
        Peer("Agent Framework window 128k", lambda count: CompactedByStrategy(count, strategy_for_window(128_000))),
        Peer("Agent Framework window 32k", lambda count: CompactedByStrategy(count, strategy_for_window(32_000))),
        Peer("Agent Framework old results", lambda count: CompactedByStrategy(count, strategy_for_tool_results)),
    ]


class LastResults:
    """Shows only the last tool results whole; a short line stands for the others."""

    def __init__(self) -> None:
        self._messages: list[LLMMessage] = []

    async def add_message(self, message: LLMMessage) -> None:
        """Take in the next message."""
        self._messages.append(message)

    async def get_messages(self) -> list[LLMMessage]:
        """Return the messages for the next call."""
        left, view = KEPT_RESULTS, list[LLMMessage]()
        for message in reversed(self._messages):
            if isinstance(message, FunctionExecutionResultMessage):
                old = max(0, len(message.content) - left)
                left -= len(message.content) - old
                cleared = [result.model_copy(update={"content": LEFT_OUT}) for result in message.content[:old]]
                message = FunctionExecutionResultMessage(content=[*cleared, *message.content[old:]])
            view.append(message)
        return view[::-1]


class _CountingClient(ReplayChatCompletionClient):
    """A model client that is never called and counts as everything here is counted."""

    def __init__(self, count: TextCounter) -> None:
        super().__init__([])
        self._count_text = count

    def count_tokens(self, messages: Sequence[LLMMessage], **_: Any) -> int:
        return sum(render(message, self._count_text).tokens for message in messages)
