"""The chart of the demo: tokens over calls, everything kept against what the model read."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from .stage import Call

__all__ = ["draw_chart"]

_RAW, _VIEW, _INK, _FAINT = "#c4622d", "#20639b", "#33383d", "#8a9199"
_NAME_CALLS = 4  # the room that a name takes


def draw_chart(calls: Sequence[Call], path: Path) -> None:
    """Draw the calls of a session and save the chart as PNG."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    numbers = range(1, len(calls) + 1)
    raw, view = [call.raw_tokens for call in calls], [call.view_tokens for call in calls]
    figure = Figure(figsize=(10, 5.6), dpi=150, layout="tight")
    axes = figure.subplots()
    for name, values, color, shade in (
        ("everything kept", raw, _RAW, 0.10),
        ("what the model read", view, _VIEW, 0.25),
    ):
        axes.fill_between(numbers, values, color=color, alpha=shade, linewidth=0)
        axes.plot(numbers, values, color=color, linewidth=2.2)
        place = {"xytext": (8, 0), "textcoords": "offset points", "va": "center", "annotation_clip": False}
        axes.annotate(f"{name}\n{values[-1]:,}", (len(calls), values[-1]), **place, color=color, fontweight="bold")

    # a line where a turn begins; names that are close to one another go one below the other
    top = max(raw) * 1.15
    first, named_at, row = 1, -_NAME_CALLS, 0
    for turn, calls_of_turn in groupby(calls, key=lambda call: call.turn):
        row = row + 1 if first - named_at < _NAME_CALLS else 0
        is_last = first + _NAME_CALLS > len(calls)  # the names of the lines stand right of it
        place = {"va": "top", "ha": "right" if is_last else "left"}
        axes.axvline(first, color=_FAINT, linewidth=0.8, linestyle=(0, (2, 3)), zorder=0)
        axes.text(first - 0.15 if is_last else first + 0.15, top * (0.985 - 0.045 * row), turn, **place, color=_FAINT)
        named_at = first
        first += len([*calls_of_turn])

    # an arrow where older steps were folded or compacted
    named_at = -_NAME_CALLS
    for number, call in enumerate(calls, 1):
        if call.mark:
            name = call.mark if number - named_at >= _NAME_CALLS else ""
            named_at = number if name else named_at
            place = {"xytext": (0, 16), "textcoords": "offset points", "ha": "center"}
            arrow = {"arrowstyle": "-|>", "color": _VIEW, "linewidth": 1}
            axes.annotate(name, (number, call.view_tokens), **place, color=_VIEW, arrowprops=arrow)

    axes.set(xlim=(1, max(len(calls), 2)), ylim=(0, top), xlabel="model call", ylabel="tokens of messages sent")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda tokens, _: f"{tokens:,.0f}"))
    axes.tick_params(colors=_INK, length=3)
    axes.grid(axis="y", color=_FAINT, alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    title = f"{len(calls)} model calls on AutoGen's own code: the model read {sum(view) / sum(raw):.0%} of the tokens"
    axes.set_title(title, loc="left", pad=14, fontweight="bold", parse_math=False, color=_INK)
    figure.savefig(path)
