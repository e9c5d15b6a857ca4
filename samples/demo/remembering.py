"""Three scenes of the demo: a reference that opens by itself, a search over everything stored, a recall."""

from autogen_core.models import UserMessage

from memory_context import ContextPolicy, MemoryCriteria

from .display import Display
from .script import OPENED_TASK, RECALLED_TASK, SEARCHED, recalled_script
from .stage import Stage, choose_model, stage

__all__ = ["show_opening", "show_recall", "show_search"]

_PASSAGE_LINES = 5


async def show_opening(display: Display, on: Stage, turn: int) -> None:
    """Run a turn whose question speaks of something that left the view long ago."""
    display.begin_turn(f"Turn {turn}: the question opens its own reference", OPENED_TASK)
    answer = await on.turn(turn, OPENED_TASK)
    opened = [segment for segment in on.recorder.segments if segment.state == "expanded"]
    for segment in opened:
        display.say(f"The context brought {segment.tokens:,} tokens back into the view. Why: {segment.why}.")
    if not opened:
        display.say("The context opened nothing for this question.")
    display.end_turn(answer)


async def show_search(display: Display, on: Stage) -> None:
    """Search everything stored in words that stand in no name."""
    display.heading("A search across everything stored")
    display.working("Indexing what is not indexed yet…")
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
        display.quote_lines("\n".join([*lines[:_PASSAGE_LINES], f"[{hit.ref.key}]"]), most_lines=_PASSAGE_LINES)


async def show_recall(display: Display, policy: ContextPolicy, first_number: int) -> None:
    """Ask in a new session what only earlier sessions can answer."""
    model, _ = choose_model(recalled_script, display.is_watched, first_number + 2000)
    async with stage(model, display, policy, first_number) as on:
        await on.context.memory_store.flush_index()  # what was said a moment ago, too
        display.begin_turn("A new session of the same user, and a question that leans on the last one", RECALLED_TASK)
        answer = await on.turn(1, RECALLED_TASK)
        recalled = [segment for segment in on.recorder.segments if segment.state == "expanded"]
        if recalled:
            display.say(
                f"The request is ambiguous by itself, so {len(recalled[0].keys)} texts were recalled, first what "
                "agents concluded in earlier conversations:"
            )
            display.quote_lines(_memory_text(on), most_lines=14)
        else:
            display.say("Nothing was recalled for this question.")
        display.end_turn(answer)


def _memory_text(on: Stage) -> str:
    messages = [m for m in on.recorder.views[-1] if isinstance(m, UserMessage) and m.source == "memory"]
    return str(messages[-1].content) if messages else ""
