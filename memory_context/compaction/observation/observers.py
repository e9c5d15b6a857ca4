"""Makes observations of one transcript, by the light model or an application's function."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial

from autogen_core.models import LLMMessage

from memory_context.foundation.errors import LightModelError
from memory_context.foundation.handlers import EventHandlers
from memory_context.foundation.light_model import guards as light_models
from memory_context.foundation.light_model.answers import Completion
from memory_context.foundation.light_model.guards import LightModelGuards
from memory_context.foundation.light_model.usage import LightModelUsage
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.runtime.background import attempt
from memory_context.foundation.tokens import TokenCounter, count_off_loop
from memory_context.memory.agent_memory import AgentMemory
from memory_context.sessions.transcript.observations import ObservationChunk
from memory_context.sessions.transcript.transcript import Transcript

from ..chooser import TextChooser
from .observer import run_observer
from .parsing import CompletionFunction
from .reading import observed_messages
from .reflector import ReflectorOutput, compute_effective_reflection_threshold, run_reflector

__all__ = ["ObservationModels", "TranscriptObservers"]

_LEAD = (
    "[Earlier messages of this conversation, as dated observations. The numbers in brackets are messages. !! is what "
    "the user said or wants, ! what matters for the work, x is done; where two disagree, the newer one holds.]"
)
_RECALL = (
    "\n[read_history(first_message=NUMBER) opens the messages behind an observation: do that for exact wording, code "
    "or figures that it does not hold.]"
)


class ObservationModels:
    """What an application may swap while a context lives, and its event handlers; shared by all of its transcripts.

    Attributes:
        completion_function: Answers for observers and reflectors; None for the context's light model.
        own_window_tokens: Window of the agent's model; None for the policy's.
        own_light_window_tokens: Window of the light model; None for what its client tells.
        has_recall_tool: The agent has `read_history`, or gets it with the log.
    """

    def __init__(self, policy: ContextPolicy, guards: LightModelGuards) -> None:
        self.policy = policy
        self.guards = guards
        self.events = EventHandlers()
        self.completion_function: CompletionFunction | None = None
        self.own_window_tokens: int | None = None
        self.own_light_window_tokens: int | None = None
        self.has_recall_tool = False

    @property
    def has_recall(self) -> bool:
        return self.has_recall_tool

    @property
    def lead(self) -> str:
        """Text before a log."""
        return _LEAD + _RECALL if self.has_recall else _LEAD

    @property
    def has_model(self) -> bool:
        return self.completion_function is not None or self.guards.observing is not None

    @property
    def is_on(self) -> bool:
        return self.policy.observation.mode == "auto" and self.has_model

    @property
    def is_ready(self) -> bool:
        """False while the light model is left alone after a failure."""
        guard = self.guards.observing
        return self.completion_function is not None or guard is None or guard.is_available

    @property
    def window_tokens(self) -> int:
        limits = [limit for limit in (self.own_window_tokens, self.policy.view_limit_tokens) if limit is not None]
        return min(limits, default=0)

    async def light_window_tokens(self) -> int:
        return self.own_light_window_tokens or await self.guards.window_tokens()

    def completions(self, *, is_sync: bool) -> CompletionFunction | None:
        """Return what answers; None without a model."""
        if self.completion_function is not None:
            return partial(self._complete, self.completion_function, is_sync=is_sync)
        guard = self.guards.observing_now if is_sync else self.guards.observing
        return None if guard is None else guard.complete

    async def _complete(
        self, function: CompletionFunction, messages: Sequence[LLMMessage], limit_tokens: int, *, is_sync: bool
    ) -> Completion:
        """Call an application's function within its time, and bill it."""
        seconds = light_models.OBSERVING_NOW_SECONDS if is_sync else light_models.OBSERVING_SECONDS
        task = await attempt(function(messages, limit_tokens), seconds)
        error = TimeoutError("it took too long") if task is None else None if task.cancelled() else task.exception()
        if task is None or task.cancelled() or error is not None:
            self.guards.bill_other(LightModelUsage(calls=1, failures=1, unreported_calls=1))
            raise LightModelError(f"the completion function failed: {error or 'it was cancelled'}") from error
        answer = task.result()
        prompt, completion = answer.prompt_tokens, answer.completion_tokens
        self.guards.bill_other(
            LightModelUsage(1, 0, prompt, completion, unreported_calls=int(prompt + completion == 0))
        )
        return answer


class TranscriptObservers:
    """Observes ranges of one transcript and condenses its log."""

    def __init__(
        self,
        transcript: Transcript,
        memory: AgentMemory,
        models: ObservationModels,
        counter: TokenCounter,
        chooser: TextChooser,
    ) -> None:
        self._transcript = transcript
        self._memory = memory
        self.models = models
        self._policy = models.policy
        self._counter = counter
        self._chooser = chooser

    async def observe(self, first: int, last: int, previous: str, *, is_sync: bool) -> ObservationChunk:
        messages = await observed_messages(
            self._transcript,
            first,
            last,
            memory=self._memory,
            policy=self._policy,
            counter=self._counter,
            chooser=self._chooser,
        )
        output = await run_observer(
            self.models.completions(is_sync=is_sync),
            messages,
            first=first,
            last=last,
            previous=previous,
            instructions=self._policy.observation.instructions,
            counter=self._counter,
            light_window_tokens=await self.models.light_window_tokens(),
            now=datetime.now(timezone.utc),
        )
        chunk = ObservationChunk(
            first,
            last,
            output.lines,
            current_task=output.current_task,
            suggested_response=output.suggested_response,
            record=replace(output.record, is_sync=is_sync),
        )
        tokens, hints = await count_off_loop(self._counter, [chunk.text, chunk.hints])
        return replace(chunk, tokens=tokens, hints_tokens=hints)

    async def reflection_threshold(self) -> int:
        light = await self.models.light_window_tokens()
        return compute_effective_reflection_threshold(self.models.window_tokens, light)

    async def reflect(self, chunks: Sequence[ObservationChunk], limit_tokens: int, *, is_sync: bool) -> ReflectorOutput:
        return await run_reflector(
            self.models.completions(is_sync=is_sync),
            chunks,
            limit_tokens=limit_tokens,
            level=0,
            instructions=self._policy.observation.instructions,
            counter=self._counter,
            light_window_tokens=await self.models.light_window_tokens(),
            now=datetime.now(timezone.utc),
            is_sync=is_sync,
        )
