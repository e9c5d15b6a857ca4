"""Calls of the light model whose answers are checked: one that is of no use is asked for once more."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from autogen_core.models import LLMMessage

from ..errors import LightModelError
from ..light_model import Completion
from ..runtime import in_thread_if_large
from ..tokens import TokenCounter
from ..transcript import ObservationRecord
from .parsing import is_degenerate
from .prompts import AGAIN

__all__ = ["CompletionFunction", "ModelCalls"]

T = TypeVar("T")

CompletionFunction = Callable[[Sequence[LLMMessage], int], Awaitable[Completion]]
"""Takes messages and the most tokens of the answer; raises LightModelError."""

_RUNAWAY = 1.5  # times the most tokens: some clients ignore that limit


class ModelCalls:
    """Asks for texts and counts what that took in `record`."""

    def __init__(self, complete: CompletionFunction | None, counter: TokenCounter) -> None:
        self._complete = complete
        self._counter = counter
        self.record = ObservationRecord()

    async def ask(
        self, prompt: Callable[[str], list[LLMMessage]], read: Callable[[str], T | None], limit_tokens: int
    ) -> T:
        """Return what is read of an answer, after at most two calls.

        Args:
            prompt: Returns the messages; takes a hint to the model, empty at first.
            read: Returns None if the answer is of no use.

        Raises:
            LightModelError: There is no model, it failed, or both answers are degenerate or unreadable.
        """
        if self._complete is None:
            raise LightModelError("no model is asked")
        for hint in ("", AGAIN):
            answer = await self._complete(prompt(hint), limit_tokens)
            self._count(answer)
            checked = partial(self._checked, answer, read, limit_tokens)
            if (found := await in_thread_if_large(len(answer.text), checked)) is not None:
                return found
        raise LightModelError("the answers repeat themselves or do not have the form asked for")

    def _checked(self, answer: Completion, read: Callable[[str], T | None], limit_tokens: int) -> T | None:
        if is_degenerate(answer.text) or self._counter.is_over(answer.text, int(_RUNAWAY * limit_tokens)):
            return None
        return read(_whole_lines(answer))

    def _count(self, answer: Completion) -> None:
        self.record = replace(
            self.record,
            calls=self.record.calls + 1,
            prompt_tokens=self.record.prompt_tokens + answer.prompt_tokens,
            completion_tokens=self.record.completion_tokens + answer.completion_tokens,
        )


def _whole_lines(answer: Completion) -> str:
    """Return an answer without the line in which its token limit cut it."""
    return (answer.text.rpartition("\n")[0] if answer.is_cut else "") or answer.text
