"""The chart of a replay: what each context costs, look-ups charged, and how much of what was needed later it shows."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.figures import LATER, SetFigures, pooled
from benchmarks.peers import EVERYTHING
from benchmarks.remembering import MEMORY

__all__ = ["draw_chart", "draw_frontier"]

_OURS, _PEER, _KEPT, _INK, _FAINT = "#20639b", "#d9a78c", "#9aa1a8", "#33383d", "#8a9199"


def draw_chart(sets: Sequence[SetFigures], path: Path) -> None:
    """Draw a panel of costs for each set and one of needles for all, and save them as the file's ending says."""
    peers = [name for name in sets[0].played if name not in (MEMORY, EVERYTHING)]
    contexts = [EVERYTHING, *reversed(peers), MEMORY]  # from the bottom up
    dearest = max(one.charged_cost(context) for one in sets for context in contexts)
    with rc_context({"text.color": _INK, "axes.labelcolor": _INK, "svg.fonttype": "none"}):
        size = (3.2 + 2.3 * (len(sets) + 1), 1.2 + 0.36 * len(contexts))
        figure = Figure(figsize=size, dpi=150, layout="constrained")
        columns = figure.subplots(1, len(sets) + 1, sharey=True, squeeze=False)[0]
        for axes, one in zip(columns, sets, strict=False):
            costs = [one.charged_cost(context) for context in contexts]
            axes.axvline(1, color=_FAINT, linewidth=0.8, linestyle=(0, (2, 3)), zorder=0)
            _draw_bars(axes, contexts, costs, [f"{cost:.2f}" for cost in costs], dearest)
            axes.set_title(f"{one.name}\n{one.runs} runs", loc="left", fontsize=10, fontweight="bold")
            axes.set_xticks(range(int(dearest) + 1))
        _draw_needles(columns[-1], contexts, pooled(sets, ""))
        figure.suptitle(
            "Input cost relative to keeping everything, look-ups charged (shorter is cheaper), "
            "and what is at hand of the strings that later calls used",
            x=0.01,
            ha="left",
            fontsize=11,
        )
        figure.savefig(path)


def draw_frontier(sets: SetFigures, path: Path) -> None:
    """Draw the charged cost of each context against what it shows of the strings needed later, and save it."""
    with rc_context({"text.color": _INK, "axes.labelcolor": _INK, "svg.fonttype": "none"}):
        figure = Figure(figsize=(9, 5.5), dpi=150, layout="constrained")
        axes = figure.subplots()
        for shown, beside in _clusters(sets):
            axes.scatter([x for x, _ in beside], [shown] * len(beside), s=45, color=[_colour(one) for _, one in beside])
            text = "\n".join(f"{context} {cost:.2f}" for cost, context in beside)
            axes.annotate(text, (beside[-1][0], shown), (7, 0), textcoords="offset points", va="center", fontsize=7.5)
        axes.set_xlabel("charged cost relative to keeping everything")
        axes.set_ylabel("visible of the strings needed later")
        axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
        axes.margins(x=0.22, y=0.12)
        axes.spines[["top", "right"]].set_visible(False)
        title = f"Price against strings, {sets.runs} runs (up and to the left is better)"
        axes.set_title(title, loc="left", fontsize=11)
        figure.savefig(path)


def _clusters(sets: SetFigures) -> list[tuple[float, list[tuple[float, str]]]]:
    """Return what is shown, and the costs and names that share a label since they stand too near for one each."""
    clusters: list[tuple[float, list[tuple[float, str]]]] = []
    needles = {context: played.needles(LATER) for context, played in sets.played.items()}
    shares = {context: round(of.visible / max(of.total, 1), 2) for context, of in needles.items()}
    for shown, cost, context in sorted((shares[one], sets.charged_cost(one), one) for one in shares):
        if clusters and clusters[-1][0] == shown and cost - clusters[-1][1][-1][0] < 0.4:
            clusters[-1][1].append((cost, context))
        else:
            clusters.append((shown, [(cost, context)]))
    return clusters


def _draw_needles(axes: Axes, contexts: Sequence[str], sets: SetFigures) -> None:
    needles = [sets.played[context].needles(LATER) for context in contexts]
    visible = [of.visible / of.total if of.total else 0.0 for of in needles]
    texts = [f"{share:.0%}" if of.total else "-" for share, of in zip(visible, needles, strict=True)]
    within_reach = [of.in_one_retrieve / of.total if of.total else 0.0 for of in needles]
    axes.barh(range(len(contexts)), within_reach, color=[_colour(context) for context in contexts], alpha=0.25)
    _draw_bars(axes, contexts, visible, texts, 1.0)
    axes.set_title(
        f"visible of {needles[0].total} needed later\n(pale: one look-up away)",
        loc="left",
        fontsize=10,
        fontweight="bold",
    )
    axes.set_xticks([0, 0.5, 1], ["0", "50%", "100%"])


def _draw_bars(
    axes: Axes, contexts: Sequence[str], values: Sequence[float], texts: Sequence[str], longest: float
) -> None:
    rows = range(len(contexts))
    axes.barh(rows, values, color=[_colour(context) for context in contexts])
    for row, context, value, text in zip(rows, contexts, values, texts, strict=True):
        weight = "bold" if context == MEMORY else "normal"
        backing = {"facecolor": "white", "edgecolor": "none", "pad": 1, "alpha": 0.8}
        axes.text(value + longest * 0.03, row, text, va="center", fontsize=9, fontweight=weight, bbox=backing)
    axes.set_xlim(0, longest * 1.2)
    axes.set_yticks(rows, contexts)
    axes.tick_params(colors=_INK, length=0, labelsize=9)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.spines["left"].set_color(_FAINT)


def _colour(context: str) -> str:
    return _KEPT if context == EVERYTHING else _OURS if context.startswith(MEMORY) else _PEER
