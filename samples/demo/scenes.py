"""Scenes of the demo: a reference that opens by itself, a search, a window that is too small, a recall."""

from collections.abc import Sequence

from autogen_core import FunctionCall
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    UserMessage,
)

from memory_context import ContextPolicy, MemoryContext, MemoryCriteria, ObservationPolicy
from memory_context.foundation.light_model.answers import Completion
from memory_context.foundation.policy import ObservationMode
from memory_context.testing import observe_by_script

from .display import Display
from .script import OPENED_TASK, RECALLED_TASK, RECOLLECTION, SEARCHED
from .stage import OWN_TOOLS, Stage

__all__ = ["show_long_session", "show_opening", "show_recall", "show_search"]

WINDOW_TOKENS = 8_000
_PASSAGE_LINES = 5


async def show_opening(display: Display, on: Stage, turn: str) -> None:
    """Run a turn whose question speaks of something that left the view long ago."""
    await on.turn(turn, OPENED_TASK, about=": the question opens its own reference")
    opened = [segment for segment in (await on.context.explain()).segments if segment.state == "expanded"]
    for segment in opened:
        display.say(f"The context brought {segment.tokens:,} tokens back into the view. Why: {segment.why}.")
    if not opened:
        display.say("The context opened nothing for this question.")


async def show_search(display: Display, on: Stage) -> None:
    """Search everything stored in words that stand in no name."""
    display.heading("A search across everything stored")
    report = await on.context.memory_store.flush_index()
    hits = await on.context.search(SEARCHED, limit=3, criteria=MemoryCriteria(conversation=False))
    display.say(f"search({SEARCHED!r}), {report.pending} items not indexed yet:")
    for number, hit in enumerate(hits, 1):
        score = hit.score
        display.say(
            f"{number}. {hit.ref.description}, lines {hit.start_line}-{hit.end_line}. Score {score.total:.2f}: words "
            f"{score.lexical:.2f}, meaning {score.semantic:.2f}, neighbours {score.neighbours:.2f}"
        )
        lines = [line for line in hit.passage.split("\n") if line.strip()]
        display.quote("\n".join([*lines[:_PASSAGE_LINES], f"[{hit.ref.key}]"]), most_lines=_PASSAGE_LINES)


async def show_long_session(display: Display, steps: Sequence[tuple[FunctionCall, str]], task: str) -> None:
    """Play what tools have returned once more, by folding alone and with observations that a script writes."""
    steps = [(call, text) for call, text in steps if call.name in OWN_TOOLS]
    display.heading("A session that is longer than its window")
    display.say(
        f"The same {len(steps)} calls and results, one after another, in a window of {WINDOW_TOKENS:,} tokens. Without "
        "observations old steps fold. With them a log takes their place, made in the background by the light model, "
        "for which a script stands in here."
    )
    folded, observed = [await _play(mode, steps, task) for mode in ("off", "auto")]
    stats = [folded.stats, observed.stats]
    display.table(
        ("", "folds alone", "observations"),
        [
            ("out of the view, tokens", *(f"{one.raw_tokens - one.view_tokens:,}" for one in stats)),
            ("peak view, tokens", *(f"{one.peak_view_tokens:,}" for one in stats)),
            ("cost beside keeping everything", *(f"{one.view_cost / one.raw_view_cost:.2f}" for one in stats)),
            ("times folded", *(f"{one.folds}" for one in stats)),
        ],
    )
    log = observed.observation
    if not log.observations:
        display.say("These steps fitted into the window.")
        return
    display.say(
        f"In place of the older steps the model sees these observations, {log.observation_token_count:,} tokens; the "
        "numbers in brackets are messages, which read_history opens:"
    )
    display.quote(log.observations, most_lines=12)


async def _play(mode: ObservationMode, steps: Sequence[tuple[FunctionCall, str]], task: str) -> MemoryContext:
    async def observe(messages: Sequence[LLMMessage], limit_tokens: int) -> Completion:
        return Completion(observe_by_script(messages))

    policy = ContextPolicy(
        token_budget=WINDOW_TOKENS, store_timeout_seconds=10, observation=ObservationPolicy(mode=mode)
    )
    async with MemoryContext("memory-context-demo-window", "coder", policy=policy) as context:
        context.observation.completion_function = observe
        await context.add_message(UserMessage(content=task, source="user"))
        for call, text in steps:
            await context.get_messages()
            await context.add_message(AssistantMessage(content=[call], source="coder"))
            result = FunctionExecutionResult(content=text, name=call.name, call_id=call.id, is_error=False)
            await context.add_message(FunctionExecutionResultMessage(content=[result]))
        await context.get_messages()
    return context


async def show_recall(display: Display, token_budget: int, first_call: int) -> None:
    """Ask in a new session what only earlier sessions can answer."""
    async with Stage(RECOLLECTION, display, token_budget, first_call) as on:
        await on.context.memory_store.flush_index()  # what was said a moment ago, too
        about = ", and a question that leans on the last one"
        await on.turn("A new session of the same user", RECALLED_TASK, about)
        recalled = [segment for segment in (await on.context.explain()).segments if segment.state == "expanded"]
        if not recalled:
            display.say("Nothing was recalled for this question.")
            return
        display.say(
            f"The request is ambiguous by itself, so {len(recalled[0].keys)} texts were recalled, first what "
            "agents concluded in earlier conversations:"
        )
        view = await on.context.get_messages()
        memories = [str(one.content) for one in view if isinstance(one, UserMessage) and one.source == "memory"]
        display.quote(memories[-1], most_lines=14)
