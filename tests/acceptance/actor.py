"""A model that decides on what it is shown, and writes down every view it was handed."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

from autogen_core import FunctionCall
from autogen_core.models import CreateResult, FunctionExecutionResultMessage, LLMMessage, UserMessage
from autogen_ext.models.replay import ReplayChatCompletionClient

from memory_context.foundation.messages import calls_of, results_of, texts_of

from ..agents.scripted import MODEL_INFO, USAGE
from ..context.histories import check_pairing

__all__ = ["Actor", "Step", "answer", "call", "characters_of", "check_view", "folds_in", "key_of", "keys_in", "keys_of"]

_PLACEHOLDER = re.compile(r"\[MemoryRef: (\S+) - [^\]\n]* - \d+ tokens\]")
_FOLDED = re.compile(r"^- ([A-Za-z0-9][A-Za-z0-9_.-]{0,63}): ", re.MULTILINE)

View = list[LLMMessage]
Step = Callable[[View], "str | tuple[str, list[FunctionCall]]"]


class Actor(ReplayChatCompletionClient):
    """Replays steps that look at the view before they decide; each step is one model call.

    Args:
        steps: What it does; when there are none left it says "Done.".

    Attributes:
        views: The messages of each call without the agent's system message.
    """

    def __init__(self, steps: Iterable[Step]) -> None:
        super().__init__([], model_info=MODEL_INFO)
        self._steps = iter(steps)
        self._calls = 0
        self.views: list[View] = []

    async def create(self, messages: Sequence[LLMMessage], **others: Any) -> CreateResult:
        """Return what the next step decides on this view."""
        self.views.append(list(messages[1:]))
        step = next(self._steps, None)
        decision = "Done." if step is None else step(self.views[-1])
        content, thought = (decision, None) if isinstance(decision, str) else (decision[1], decision[0])
        if not isinstance(content, str):
            for one in content:
                self._calls += 1
                one.id = f"call_{self._calls}"
        reason = "stop" if isinstance(content, str) else "function_calls"
        return CreateResult(finish_reason=reason, content=content, usage=USAGE, cached=False, thought=thought)


# --- what a step can be ---------------------------------------------------------------------------------------------


def call(tool: str, **arguments: object) -> FunctionCall:
    """Return a call; the actor numbers it."""
    return FunctionCall(id="", name=tool, arguments=json.dumps(arguments))


def answer(thought: str, *calls: FunctionCall) -> Step:
    """Return the step that makes these calls whatever the view is."""
    return lambda view: (thought, [*calls])


# --- reading a view -------------------------------------------------------------------------------------------------


def characters_of(view: View) -> int:
    """Return the characters of all texts of a view: what was said, thought, called with and returned."""
    return sum(len(text) for message in view for _, text in texts_of(message))


def keys_in(where: View | str) -> set[str]:
    """Return the keys of items that stand in a view or in a text: in placeholders, and in the lines of folds."""
    texts = [where] if isinstance(where, str) else [text for message in where for _, text in texts_of(message)]
    found: set[str] = set()
    for text in texts:
        found.update(_PLACEHOLDER.findall(text))
        if "[MemoryRef: history_" in text:
            found.update(_FOLDED.findall(text))
    return {key for key in found if not key.startswith("history_")}


def folds_in(view: View) -> list[str]:
    """Return the keys of the folds that stand in a view."""
    return [
        key
        for message in view
        for _, text in texts_of(message)
        for key in _PLACEHOLDER.findall(text)
        if key.startswith("history_")
    ]


def keys_of(view: View, tool: str) -> list[str]:
    """Return the keys of compacted results of a tool, the oldest first."""
    texts = [result.content for message in view for result in results_of(message) if result.name == tool]
    return [key for text in texts for key in _PLACEHOLDER.findall(text)[:1] if not key.startswith("history_")]


def key_of(view: View, argument: str) -> str:
    """Return the key that stands for what a call with this argument returned."""
    for message, following in pairwise(view):
        for one, result in zip(calls_of(message), results_of(following), strict=False):
            if argument in one.arguments and (found := _PLACEHOLDER.search(result.content)):
                return found[1]
    raise AssertionError(f"no placeholder in the view stands for the result of a call with {argument!r}")


def check_view(view: View, task: str) -> None:
    """Check what holds for each view of a turn: calls and results are paired, and the task is there, whole."""
    check_pairing(view)
    assert any(isinstance(message, UserMessage) and message.content == task for message in view), (
        "the task is not whole"
    )
    ids = [result.call_id for m in view if isinstance(m, FunctionExecutionResultMessage) for result in m.content]
    assert len(ids) == len(set(ids)), "a result stands twice in the view"
