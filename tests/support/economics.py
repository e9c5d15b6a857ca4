"""A transcript whose messages take as many tokens as told."""

from autogen_core import FunctionCall
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    UserMessage,
)

from memory_context import CachePolicy, ContextPolicy
from memory_context.foundation.messages import Address
from memory_context.foundation.references import MemoryRef
from memory_context.foundation.tokens import default_token_counter
from memory_context.sessions.transcript.entries import Part, PartId, StoredPart
from memory_context.sessions.transcript.part_decisions import PartOffloaded
from memory_context.sessions.transcript.transcript import Transcript
from memory_context.sessions.transcript.view_decisions import ViewShown
from memory_context.view.economics import saving_changes
from memory_context.view.render import render

counter = default_token_counter()


PRICES = CachePolicy(expected_calls=6)


RESULT = Address("result", 0)


COMPACTED = "x"


class History:
    """A transcript in which every message takes as many tokens as it is told to."""

    def __init__(self) -> None:
        self.transcript = Transcript()

    def add(self, message: LLMMessage, *parts: Part) -> int:
        """Add a message of known size; return its position."""
        entry = self.transcript.append(message)
        entry.measure(list(parts))
        return entry.position

    def say(self, who: str, tokens: int) -> int:
        """Say something that takes so many tokens in all."""
        message = AssistantMessage(content=who, source=who) if who == "coder" else UserMessage(content=who, source=who)
        return self.add(message, Part(Address("text", 0), tokens - 4))

    def step(self, tokens: int, compacted_tokens: int) -> PartId:
        """Let the agent answer the view with a call of 10 tokens, whose result takes so many, and is stored."""
        name = f"call_{self.transcript.end}"
        call = FunctionCall(id=name, name="survey", arguments="{}")
        self.add(AssistantMessage(content=[call], source="coder"), Part(Address("arguments", 0), 6))
        result = FunctionExecutionResult(content="whole", name="survey", call_id=name, is_error=False)
        position = self.add(
            FunctionExecutionResultMessage(content=[result]),
            Part(RESULT, tokens - 4, is_result=True),
        )
        stored = StoredPart((MemoryRef(name, "a result", tokens),), COMPACTED, compacted_tokens - 4)
        self.transcript.decide(PartOffloaded(position, RESULT, stored))
        return position, RESULT

    def show(self) -> None:
        """Hand out a view."""
        self.transcript.decide(ViewShown(self.transcript.end))

    def changes(self, prices: CachePolicy = PRICES, held: tuple[PartId, ...] = (), **policy: int):
        """Return what pays now."""
        settings = ContextPolicy(cache=prices, **policy)
        return saving_changes(
            self.transcript, render(self.transcript, settings, counter), settings, lambda part: part in held, counter
        )
