"""Light models that answer, fail or hang as a test wants, and a store whose reads are counted or held up."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from autogen_core import CancellationToken
from autogen_core.models import CreateResult, LLMMessage, ModelInfo, RequestUsage
from autogen_ext.models.replay import ReplayChatCompletionClient

from memory_context import MemoryStore
from memory_context.compaction.observation.prompts import OBSERVER_INSTRUCTIONS, REFLECTOR_INSTRUCTIONS
from memory_context.foundation.compactors.summary_prompt import INSTRUCTIONS
from memory_context.memory.learning.learner import LEARNING_INSTRUCTIONS
from memory_context.sessions.archive.titles import TITLE_INSTRUCTIONS

STRUCTURED = ModelInfo(vision=False, function_calling=True, json_output=True, family="unknown", structured_output=True)

_READS = ("fetch_memory", "fetch_contents", "select_keys", "select_memories")
_SEARCHES = ("candidates",)

Answer = str | Exception | Callable[[str], str]


class Light(ReplayChatCompletionClient):
    """Answers every prompt: with a text, an exception, or what a function makes of the prompt.

    Attributes:
        prompts: What it was asked, as one text each.
        json_outputs: What it was asked to answer in.
        asked: Set when it is asked.
        release: Cleared, it does not answer until it is set.
        is_deaf: Whether it swallows its cancellation.
        summary: What it answers when it is to summarise a result, which counts apart; None for never.
        summary_prompts: What it was to summarise, as one text each.
        summary_asked: Set when it is to summarise.
        summary_release: Cleared, it does not answer that until it is set.
        title: What it answers when it is to name the session, which counts apart too.
        title_prompts: What it was to name, as one text each.
        learned: What it answers when it is to learn of the user, which counts apart as well.
        observed: What it answers when it is to observe or to reflect, and `observer_prompts` what it was to observe.
    """

    def __init__(self, answer: Answer = '{"expand": []}', model_info: ModelInfo = STRUCTURED) -> None:
        super().__init__([""], model_info=model_info)
        self.answer = answer
        self.prompts: list[str] = []
        self.json_outputs: list[Any] = []
        self.asked = asyncio.Event()
        self.release = asyncio.Event()
        self.release.set()
        self.is_deaf = False
        self.summary: Answer | None = None
        self.summary_prompts: list[str] = []
        self.summary_asked = asyncio.Event()
        self.summary_release = asyncio.Event()
        self.summary_release.set()
        self.title: Answer = '{"title": "Named by the model"}'
        self.title_prompts: list[str] = []
        self.learned: Answer = '{"statements": []}'
        self.learning_prompts: list[str] = []
        self.observed: Answer = "<observations>\n- 12:00 ! Something was said.\n</observations>"
        self.observer_prompts: list[str] = []

    async def create(
        self,
        messages: Sequence[LLMMessage],
        *,
        json_output: Any = None,
        cancellation_token: CancellationToken | None = None,
        **others: Any,
    ) -> CreateResult:
        """Answer."""
        if messages[0].content == TITLE_INSTRUCTIONS:
            self.title_prompts.append(str(messages[1].content))
            return self._result(self.title, self.title_prompts)
        if messages[0].content == LEARNING_INSTRUCTIONS:
            self.learning_prompts.append(str(messages[1].content))
            return self._result(self.learned, self.learning_prompts)
        if str(messages[0].content).startswith((OBSERVER_INSTRUCTIONS, REFLECTOR_INSTRUCTIONS)):
            self.observer_prompts.append(str(messages[1].content))
            return self._result(self.observed, self.observer_prompts)
        is_summary = messages[0].content == INSTRUCTIONS
        prompts, wanted = (self.summary_prompts, self.summary) if is_summary else (self.prompts, self.answer)
        prompts.append("\n".join(str(message.content) for message in messages))
        (self.summary_asked if is_summary else self.asked).set()
        if wanted is None:
            await asyncio.Event().wait()
        if not is_summary:
            self.json_outputs.append(json_output)
        release = self.summary_release if is_summary else self.release
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                if not self.is_deaf:
                    raise
        return self._result(wanted, prompts)

    @staticmethod
    def _result(wanted: Answer, prompts: Sequence[str]) -> CreateResult:
        answer = wanted(prompts[-1]) if callable(wanted) else wanted
        if isinstance(answer, Exception):
            raise answer
        return CreateResult(
            finish_reason="stop",
            content=str(answer),
            usage=RequestUsage(prompt_tokens=100, completion_tokens=10),
            cached=False,
        )


def choose(*keys: str, ambiguous: bool = False, search: str = "") -> str:
    """Return a light model's answer that chooses these keys."""
    return json.dumps({"expand": keys, "ambiguous": ambiguous, "search": search})


class Reads:
    """Counts a store's reads, and holds them up when asked to.

    Attributes:
        count: How many reads there were.
        release: Cleared, reads do not come back until it is set.
        error: Raised by each read, if set.
    """

    def __init__(self, store: MemoryStore, monkeypatch: Any) -> None:
        self.count = 0
        self.release = asyncio.Event()
        self.release.set()
        self.error: Exception | None = None
        # not those of the database itself: the indexer reads there, too
        for owner, names in ((store.items, _READS), (store.search, _SEARCHES)):
            for name in names:
                monkeypatch.setattr(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, read: Callable[..., Any]) -> Callable[..., Any]:
        async def counted(*arguments: Any, **others: Any) -> Any:
            self.count += 1
            await self.release.wait()
            if self.error is not None:
                raise self.error
            return await read(*arguments, **others)

        return counted
