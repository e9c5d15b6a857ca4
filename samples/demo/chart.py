"""The chart of the demo: tokens over calls, everything kept against what the model read."""

from collections.abc import Sequence
from pathlib import Path

from memory_context.cli.chart import ChartedCall
from memory_context.cli.chart import draw_chart as draw

from .recorder import Call
from .script import TASKS

__all__ = ["draw_chart"]


def draw_chart(calls: Sequence[Call], path: Path) -> None:
    """Draw the calls of a session and save the chart as PNG."""
    raw, view = sum(call.raw_tokens for call in calls), sum(call.view_tokens for call in calls)
    title = (
        f"{len(calls)} model calls on AutoGen's own code: the model read {view / raw if raw else 1:.0%} of the tokens"
    )
    draw(_charted(calls), path, title)


def _charted(calls: Sequence[Call]) -> list[ChartedCall]:
    """Return the calls, marked where older steps were folded or compacted before them, and where a turn begins."""
    charted: list[ChartedCall] = []
    before_folds = before_compactions = before_turn = 0
    for call in calls:
        mark = "fold" if call.folds > before_folds else "compaction" if call.compactions > before_compactions else ""
        section = f"turn {call.turn}" if call.turn <= len(TASKS) + 1 else "2nd process"
        is_first = call.turn != before_turn
        charted.append(ChartedCall(call.number, call.raw_tokens, call.view_tokens, mark, section if is_first else ""))
        before_folds, before_compactions, before_turn = call.folds, call.compactions, call.turn
    return charted
