"""What AutoGen's Memory protocol brings: shown where it came, replaced when it changes."""

from collections.abc import Sequence

from ..transcript import Decision, ExpansionShown, ExpansionWithdrawn, OpenedItem, Transcript

__all__ = ["memory_decisions"]


def memory_decisions(transcript: Transcript, text: str, tokens: int, keys: Sequence[str], owner: str) -> list[Decision]:
    """Return the decisions that show a memory's text after the newest message, instead of what it showed before.

    What says the same stays where it is, so that nothing moves and nothing piles up.

    Args:
        transcript: Where it is shown.
        text: What is shown; "" for nothing.
        tokens: What it takes.
        keys: The items it is from.
        owner: The memory; what another one shows stays.
    """
    state = transcript.state
    shown = [expanded for expanded in state.expanded.values() if expanded.origin == "memory"]
    before = [expanded for expanded in shown if expanded.owner == owner]
    if any(expanded.text == text for expanded in before):
        return []
    decisions: list[Decision] = []
    if before:
        decisions.append(ExpansionWithdrawn(tuple(expanded.place for expanded in before), "replaced"))
    if text and transcript.end > state.start:
        opened = tuple(OpenedItem(key, "added", "found by the agent's memory") for key in keys)
        decisions.append(ExpansionShown(transcript.end - 1, text, tokens, opened, "memory", owner))
    return decisions
