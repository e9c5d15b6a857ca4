"""A stand-in for a model, so that the page works without an API key: the rules decide, and it writes word by word.

Who asks it to write "slowly" has time to press Stop.
"""

import asyncio
import math
import re
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from autogen_core.models import CreateResult, LLMMessage, RequestUsage, UserMessage

from memory_context.testing import ScriptedModel, tool_calls

from .rules import decide

__all__ = ["ScriptedClient"]

_SLOWLY = 10  # times as long


class ScriptedClient(ScriptedModel):
    """Decides by rules what a model would decide; within `most_seconds`, if need be with several words at a time."""

    def __init__(self, seconds_per_word: float = 0.012, most_seconds: float = math.inf) -> None:
        super().__init__(decide)
        self._seconds_per_word, self._most_seconds = seconds_per_word, most_seconds

    async def create(self, messages: Sequence[LLMMessage], **_: Any) -> CreateResult:
        """Return the whole decision at once; source code in it stays as it is, braces included."""
        decision = decide(messages)
        if not isinstance(decision, str):
            return tool_calls(decision, id_prefix=f"call_{len(messages)}")
        return CreateResult(finish_reason="stop", content=decision, usage=RequestUsage(0, 0), cached=False)

    async def create_stream(
        self, messages: Sequence[LLMMessage], **others: Any
    ) -> AsyncGenerator[str | CreateResult, None]:
        """Give an answer word by word, then as a whole."""
        result = await self.create(messages, **others)
        words = re.findall(r"\s*\S+\s*?", result.content) if isinstance(result.content, str) else []
        asked = next((str(one.content) for one in reversed(messages) if isinstance(one, UserMessage)), "")
        seconds_per_word = self._seconds_per_word * (_SLOWLY if "slowly" in asked else 1)
        at_a_time = max(1, math.ceil(len(words) * seconds_per_word / self._most_seconds))
        for place in range(0, len(words), at_a_time):
            await asyncio.sleep(seconds_per_word)
            yield "".join(words[place : place + at_a_time])
        yield result
