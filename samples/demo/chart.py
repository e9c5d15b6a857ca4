"""The chart of the demo: tokens over calls, everything kept against what the model read."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .recorder import Call

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_chart"]

_RAW, _VIEW, _INK, _FAINT = "#c4622d", "#20639b", "#33383d", "#8a9199"
_MAX_MARKS = 12  # more would overlap
_SECTION_SHARE = 0.13  # of the width, for the name of a section


def draw_chart(calls: Sequence[Call], turns: int, path: Path) -> None:
    """Draw the calls of a session and save the chart as PNG; after so many turns the second process begins."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    numbers = [call.number for call in calls]
    raw, view = [call.raw_tokens for call in calls], [call.view_tokens for call in calls]
    share = sum(view) / sum(raw) if sum(raw) else 1
    title = f"{len(calls)} model calls on AutoGen's own code: the model read {share:.0%} of the tokens"
    with rc_context({"font.size": 11, "text.color": _INK, "axes.labelcolor": _INK, "axes.edgecolor": _FAINT}):
        figure = Figure(figsize=(10, 5.6), dpi=150)
        axes = figure.subplots()
        for values, color, shade, below in ((raw, _RAW, 0.10, view), (view, _VIEW, 0.25, [0] * len(view))):
            axes.fill_between(numbers, values, below, color=color, alpha=shade, linewidth=0)
            axes.plot(numbers, values, color=color, linewidth=2.2, marker="o" if len(calls) == 1 else "")
        top = max(*raw, *view, 1) * 1.12
        _divide(axes, calls, turns, top)
        _mark(axes, calls)
        _name_lines(axes, calls[-1], top)
        axes.set_xlim(numbers[0], max(numbers[-1], numbers[0] + 1))
        axes.set_ylim(0, top)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda tokens, _: f"{tokens:,.0f}"))
        axes.tick_params(colors=_INK, length=3)
        axes.grid(axis="y", color=_FAINT, alpha=0.25, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlabel("model call")
        axes.set_ylabel("tokens of messages sent")
        axes.set_title(title, loc="left", pad=14, fontweight="bold", parse_math=False)
        figure.tight_layout()
    figure.savefig(path)


def _divide(axes: "Axes", calls: Sequence[Call], turns: int, top: float) -> None:
    """Show where turns begin; the name of one that begins close behind another goes below that one's."""
    row, named_at, turn = 0, float("-inf"), 0
    for call in calls:
        if call.turn != turn:
            row = row + 1 if call.number - named_at < len(calls) * _SECTION_SHARE else 0
            turn, named_at = call.turn, call.number
            name = f"turn {turn}" if turn <= turns else "2nd process"
            axes.axvline(call.number, color=_FAINT, linewidth=0.8, linestyle=(0, (2, 3)), zorder=0)
            axes.text(call.number + 0.15, top * (0.985 - 0.04 * row), name, va="top", fontsize=9.5, color=_FAINT)


def _mark(axes: "Axes", calls: Sequence[Call]) -> None:
    """Mark the calls before which older steps were folded or compacted."""
    marked: list[tuple[Call, str]] = []
    folds = compactions = 0
    for call in calls:
        if call.folds > folds or call.compactions > compactions:
            marked.append((call, "fold" if call.folds > folds else "compaction"))
        folds, compactions = call.folds, call.compactions
    arrow = {"arrowstyle": "-|>", "color": _VIEW, "linewidth": 1}
    for call, mark in marked[:: max(-(-len(marked) // _MAX_MARKS), 1)]:
        place = {"xytext": (0, 16), "textcoords": "offset points", "ha": "center"}
        axes.annotate(mark, (call.number, call.view_tokens), **place, fontsize=9, color=_VIEW, arrowprops=arrow)


def _name_lines(axes: "Axes", last: Call, top: float) -> None:
    """Name both lines at their ends, apart from each other where these lie close together."""
    apart = max(0.0, 0.11 - abs(last.raw_tokens - last.view_tokens) / top) * 280 / 2  # points; the axes are 280 high
    up = apart if last.raw_tokens >= last.view_tokens else -apart
    lines = (("everything kept", last.raw_tokens, _RAW, up), ("what the model read", last.view_tokens, _VIEW, -up))
    for name, tokens, color, shift in lines:
        place = {"xytext": (8, shift), "textcoords": "offset points", "va": "center", "annotation_clip": False}
        axes.annotate(f"{name}\n{tokens:,}", (last.number, tokens), **place, color=color, fontweight="bold")
