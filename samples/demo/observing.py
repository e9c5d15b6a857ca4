"""A scene of the demo: the same work in a window that cannot hold it, folded, and with a log of observations."""

from collections.abc import Sequence

from autogen_core import FunctionCall
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    UserMessage,
)

from memory_context import ContextPolicy, MemoryContext, ObservationPolicy
from memory_context.foundation.light_model.answers import Completion
from memory_context.foundation.policy import ObservationMode
from memory_context.testing import observe_by_script

from .display import Display

__all__ = ["show_long_session"]

WINDOW_TOKENS = 8_000
_USER_ID, _AGENT = "memory-context-demo-window", "coder"


async def show_long_session(display: Display, steps: Sequence[tuple[FunctionCall, str]], task: str) -> None:
    """Play what tools have returned once more, by folding alone and with observations that a script writes."""
    display.heading("A session that is longer than its window")
    display.say(
        f"The same {len(steps)} calls and results, one after another, in a window of {WINDOW_TOKENS:,} tokens. Without "
        "observations old steps fold. With them a log takes their place, made in the background by the light model, "
        "for which a script stands in here."
    )
    contexts: dict[ObservationMode, MemoryContext] = {}
    for mode in ("off", "auto"):
        policy = ContextPolicy(token_budget=WINDOW_TOKENS, observation=ObservationPolicy(mode=mode))
        async with MemoryContext(_USER_ID, _AGENT, policy=policy) as contexts[mode]:
            contexts[mode].observation.completion_function = _observe
            await _play(contexts[mode], steps, task)
    stats = [context.stats for context in contexts.values()]
    display.table(
        ("", "folds alone", "observations"),
        [
            ("out of the view, tokens", *(f"{one.raw_tokens - one.view_tokens:,}" for one in stats)),
            ("peak view, tokens", *(f"{one.peak_view_tokens:,}" for one in stats)),
            ("cost beside keeping everything", *(f"{one.view_cost / one.raw_view_cost:.2f}" for one in stats)),
            ("times folded", *(f"{one.folds}" for one in stats)),
        ],
    )
    log = contexts["auto"].observation
    if not log.observations:
        display.say("These steps fitted into the window.")
        return
    display.say(
        f"In place of the older steps the model sees these observations, {log.observation_token_count:,} tokens; the "
        "numbers in brackets are messages, which read_history opens:"
    )
    display.quote_lines(log.observations, most_lines=12)


async def _observe(messages: Sequence[LLMMessage], limit_tokens: int) -> Completion:
    return Completion(observe_by_script(messages))


async def _play(context: MemoryContext, steps: Sequence[tuple[FunctionCall, str]], task: str) -> None:
    await context.add_message(UserMessage(content=task, source="user"))
    for call, text in steps:
        await context.get_messages()
        await context.add_message(AssistantMessage(content=[call], source=_AGENT))
        result = FunctionExecutionResult(content=text, name=call.name, call_id=call.id, is_error=False)
        await context.add_message(FunctionExecutionResultMessage(content=[result]))
    await context.get_messages()
