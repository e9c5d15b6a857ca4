"""The chart of a session: tokens over model calls, everything kept against what the model read."""

# matplotlib leaves the types of its keyword arguments open:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .console import ASKED_WRONGLY, Failure
from .files import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["ChartedCall", "checked_chart", "draw_chart"]

_RAW, _VIEW, _INK, _FAINT = "#c4622d", "#20639b", "#33383d", "#8a9199"
_MOST_MARKS = 12  # more would stand on each other
_SECTION_SHARE = 0.13  # of the width: what the name of a section takes
_SUFFIXES = (".png", ".svg")


@dataclass(frozen=True)
class ChartedCall:
    """One model call, in tokens of messages.

    Attributes:
        number: Where it stands on the axis.
        raw_tokens: What keeping everything would have sent.
        view_tokens: What was sent.
        mark: What happened before it, in a word; empty for nothing.
        section: What begins with it; empty for nothing.
    """

    number: int
    raw_tokens: int
    view_tokens: int
    mark: str = ""
    section: str = ""


def checked_chart(path: Path) -> Path:
    """Return the path of a chart that can be drawn, before anything is read for it.

    Raises:
        Failure: matplotlib is not installed, or the name ends otherwise than in .png or .svg.
    """
    import importlib.util

    if path.suffix.lower() not in _SUFFIXES:
        raise Failure(f"{path}: a chart is a .png or .svg file", ASKED_WRONGLY)
    if importlib.util.find_spec("matplotlib") is None:
        raise Failure("charts need matplotlib: pip install 'memory-context[charts]'")
    return path


def draw_chart(calls: Sequence[ChartedCall], path: Path, title: str) -> None:
    """Draw calls, at least one, and save the chart; the suffix of the path says in which format.

    Raises:
        Failure: The file cannot be written.
    """
    import io
    import warnings

    drawn = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of signs in a title that the font does not have
        _draw(calls, title).savefig(drawn, format=path.suffix[1:].lower())
    write_whole(path, drawn.getvalue())


def _draw(calls: Sequence[ChartedCall], title: str) -> "Figure":
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


def _divide(axes: "Axes", calls: Sequence[ChartedCall], top: float) -> None:
    """Show where sections begin; the name of one that begins close behind another goes below that one's."""
    row, named_at = 0, float("-inf")
    for call in calls:
        if call.section:
            row = row + 1 if call.number - named_at < len(calls) * _SECTION_SHARE else 0
            named_at = call.number
            axes.axvline(call.number, color=_FAINT, linewidth=0.8, linestyle=(0, (2, 3)), zorder=0)
            height = top * (0.985 - 0.04 * row)
            axes.text(call.number + 0.15, height, call.section, va="top", fontsize=9.5, color=_FAINT)


def _mark(axes: "Axes", calls: Sequence[ChartedCall]) -> None:
    marked = [call for call in calls if call.mark]
    for call in marked[:: max(-(-len(marked) // _MOST_MARKS), 1)]:
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


def _name_lines(axes: "Axes", last: ChartedCall, top: float) -> None:
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
