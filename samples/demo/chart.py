"""The chart of the demo: tokens over calls, everything kept against what the model read."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .recorder import Call
from .script import TASKS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_chart"]

_RAW, _VIEW, _INK, _FAINT = "#c4622d", "#20639b", "#33383d", "#8a9199"
_MAX_MARKS = 12  # more would overlap
_SECTION_SHARE = 0.13  # of the width, for the name of a section


@dataclass(frozen=True)
class _ChartedCall:
    """One model call, in tokens of messages, with what happened before it and the section that begins with it."""

    number: int
    raw_tokens: int
    view_tokens: int
    mark: str = ""
    section: str = ""


def draw_chart(calls: Sequence[Call], path: Path) -> None:
    """Draw the calls of a session and save the chart as PNG."""
    raw, view = sum(call.raw_tokens for call in calls), sum(call.view_tokens for call in calls)
    title = (
        f"{len(calls)} model calls on AutoGen's own code: the model read {view / raw if raw else 1:.0%} of the tokens"
    )
    _draw(_charted(calls), title).savefig(path)


def _charted(calls: Sequence[Call]) -> list[_ChartedCall]:
    """Return the calls, marked where older steps were folded or compacted before them, and where a turn begins."""
    charted: list[_ChartedCall] = []
    before_folds = before_compactions = before_turn = 0
    for call in calls:
        mark = "fold" if call.folds > before_folds else "compaction" if call.compactions > before_compactions else ""
        section = f"turn {call.turn}" if call.turn <= len(TASKS) + 1 else "2nd process"
        is_first = call.turn != before_turn
        charted.append(_ChartedCall(call.number, call.raw_tokens, call.view_tokens, mark, section if is_first else ""))
        before_folds, before_compactions, before_turn = call.folds, call.compactions, call.turn
    return charted


def _draw(calls: Sequence[_ChartedCall], title: str) -> "Figure":
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    numbers = [call.number for call in calls]
    raw, view = [call.raw_tokens for call in calls], [call.view_tokens for call in calls]
    with rc_context({"font.size": 11, "text.color": _INK, "axes.labelcolor": _INK, "axes.edgecolor": _FAINT}):
        figure = Figure(figsize=(10, 5.6), dpi=150)
        axes = figure.subplots()
        dots = "o" if len(calls) == 1 else ""
        for values, color, shade, below in ((raw, _RAW, 0.10, view), (view, _VIEW, 0.25, [0] * len(view))):
            axes.fill_between(numbers, values, below, color=color, alpha=shade, linewidth=0)
            axes.plot(numbers, values, color=color, linewidth=2.2, solid_capstyle="round", marker=dots)
        top = max(*raw, *view, 1) * 1.12
        _divide(axes, calls, top)
        _mark(axes, calls)
        _name_lines(axes, calls[-1], top)
        axes.set_xlim(numbers[0], max(numbers[-1], numbers[0] + 1))
        axes.set_ylim(0, top)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter(FuncFormatter(_in_thousands))
        axes.tick_params(colors=_INK, length=3)
        axes.grid(axis="y", color=_FAINT, alpha=0.25, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlabel("model call")
        axes.set_ylabel("tokens of messages sent")
        axes.set_title(title, loc="left", pad=14, fontweight="bold", parse_math=False)
        figure.tight_layout()
    return figure


def _in_thousands(tokens: float, _: object) -> str:
    return f"{tokens:,.0f}"


def _divide(axes: "Axes", calls: Sequence[_ChartedCall], top: float) -> None:
    """Show where sections begin; the name of one that begins close behind another goes below that one's."""
    row, named_at = 0, float("-inf")
    for call in calls:
        if call.section:
            row = row + 1 if call.number - named_at < len(calls) * _SECTION_SHARE else 0
            named_at = call.number
            axes.axvline(call.number, color=_FAINT, linewidth=0.8, linestyle=(0, (2, 3)), zorder=0)
            height = top * (0.985 - 0.04 * row)
            axes.text(call.number + 0.15, height, call.section, va="top", fontsize=9.5, color=_FAINT)


def _mark(axes: "Axes", calls: Sequence[_ChartedCall]) -> None:
    marked = [call for call in calls if call.mark]
    for call in marked[:: max(-(-len(marked) // _MAX_MARKS), 1)]:
        axes.annotate(
            call.mark,
            (call.number, call.view_tokens),
            xytext=(0, 16),
            textcoords="offset points",
            ha="center",
            fontsize=9,
            color=_VIEW,
            arrowprops={"arrowstyle": "-|>", "color": _VIEW, "linewidth": 1},
        )


def _name_lines(axes: "Axes", last: _ChartedCall, top: float) -> None:
    """Name both lines at their ends, apart from each other where these lie close together."""
    is_raw_above = last.raw_tokens >= last.view_tokens
    apart = max(0.0, 0.11 - abs(last.raw_tokens - last.view_tokens) / top) * 280 / 2  # points; the axes are 280 high
    up, down = (apart, -apart) if is_raw_above else (-apart, apart)
    lines = (("everything kept", last.raw_tokens, _RAW, up), ("what the model read", last.view_tokens, _VIEW, down))
    for name, tokens, color, shift in lines:
        axes.annotate(
            f"{name}\n{tokens:,}",
            (last.number, tokens),
            xytext=(8, shift),
            textcoords="offset points",
            va="center",
            color=color,
            fontweight="bold",
            annotation_clip=False,
        )
