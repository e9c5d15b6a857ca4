"""The chart of the demo: tokens over calls, everything kept against what the model read."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from .recorder import Call
from .script import TASKS

__all__ = ["draw_chart"]

_RAW, _VIEW, _INK, _FAINT = "#c4622d", "#20639b", "#33383d", "#8a9199"


def draw_chart(calls: Sequence[Call], path: Path) -> None:
    """Draw the calls of a session and save the chart as PNG."""
    numbers = [call.number for call in calls]
    raw, view = [call.raw_tokens for call in calls], [call.view_tokens for call in calls]
    with rc_context({"font.size": 11, "text.color": _INK, "axes.labelcolor": _INK, "axes.edgecolor": _FAINT}):
        figure = Figure(figsize=(10, 5.6), dpi=150)
        axes = figure.subplots()
        axes.fill_between(numbers, raw, view, color=_RAW, alpha=0.10, linewidth=0)
        axes.plot(numbers, raw, color=_RAW, linewidth=2.2, solid_capstyle="round")
        axes.fill_between(numbers, view, color=_VIEW, alpha=0.25, linewidth=0)
        axes.plot(numbers, view, color=_VIEW, linewidth=2.2, solid_capstyle="round")
        top = max(raw) * 1.12
        for first, name in _beginnings(calls):
            axes.axvline(first, color=_FAINT, linewidth=0.8, linestyle=(0, (2, 3)), zorder=0)
            axes.text(first + 0.15, top * 0.985, name, va="top", fontsize=9.5, color=_FAINT)
        _mark_folds(axes, calls)
        for values, name, color in ((raw, "everything kept", _RAW), (view, "what the model read", _VIEW)):
            axes.annotate(
                f"{name}\n{values[-1]:,}",
                (numbers[-1], values[-1]),
                xytext=(8, 0),
                textcoords="offset points",
                va="center",
                color=color,
                fontweight="bold",
                annotation_clip=False,
            )
        axes.set_xlim(numbers[0], max(numbers[-1], numbers[0] + 1))
        axes.set_ylim(0, top)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda tokens, _: f"{tokens:,.0f}"))
        axes.tick_params(colors=_INK, length=3)
        axes.grid(axis="y", color=_FAINT, alpha=0.25, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlabel("model call")
        axes.set_ylabel("tokens of messages sent")
        share = sum(view) / sum(raw) if sum(raw) else 1
        axes.set_title(
            f"{len(calls)} model calls on AutoGen's own code: the model read {share:.0%} of the tokens",
            loc="left",
            pad=14,
            fontweight="bold",
        )
        figure.tight_layout()
        figure.savefig(path)


def _beginnings(calls: Sequence[Call]) -> list[tuple[int, str]]:
    firsts: dict[int, int] = {}
    for call in calls:
        firsts.setdefault(call.turn, call.number)
    return [(number, f"turn {turn}" if turn <= len(TASKS) else "2nd process") for turn, number in firsts.items()]


def _mark_folds(axes: Axes, calls: Sequence[Call]) -> None:
    """Mark the calls before which older steps were folded or compacted."""
    before_folds = before_compactions = 0
    for call in calls:
        name = "fold" if call.folds > before_folds else "compaction" if call.compactions > before_compactions else ""
        before_folds, before_compactions = call.folds, call.compactions
        if name:
            axes.annotate(
                name,
                (call.number, call.view_tokens),
                xytext=(0, 16),
                textcoords="offset points",
                ha="center",
                fontsize=9,
                color=_VIEW,
                arrowprops={"arrowstyle": "-|>", "color": _VIEW, "linewidth": 1},
            )
