"""Sums over runs: what one context came to on a set, and several contexts beside each other.

Costs are relative to keeping everything, each summed over the set. The charged cost adds one look-up for every string
that a call used and the view before it did not show.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from statistics import fmean
from typing import Any

from benchmarks.peers import EVERYTHING
from benchmarks.playing import MemoryFigures, RunFigures, Sought
from benchmarks.prompts import Cost

__all__ = ["ANY", "LATER", "NEXT", "SOON", "Needles", "Played", "SetFigures", "pooled", "share"]

NEXT, SOON, LATER, ANY = range(1, 2), range(2, 4), range(4, 1_000_000), range(1, 1_000_000)
"""How many messages after a tool result a call used what it says."""


@dataclass(frozen=True)
class Needles:
    """How many strings that calls used were at hand when they were made.

    Attributes:
        visible: In the view right before the call.
        in_one_retrieve: Visible, or behind one look-up by a key (or path) that this view shows.
        in_two_retrieves: Those, or behind a second look-up by a key that the first one showed.
        visible_or_found: Visible, or shown by one of the first three hits of a search.
        lost: Not visible, and not to be had in any of these ways.
    """

    total: int
    visible: int
    in_one_retrieve: int
    in_two_retrieves: int
    visible_or_found: int
    lost: int

    @classmethod
    def count(cls, sought: Sequence[Sought]) -> "Needles":
        """Count them."""
        retrieves = [one.reach.retrieves for one in sought]
        return cls(
            total=len(sought),
            visible=sum(one.is_visible for one in sought),
            in_one_retrieve=sum(steps is not None and steps <= 1 for steps in retrieves),
            in_two_retrieves=sum(steps is not None and steps <= 2 for steps in retrieves),
            visible_or_found=sum(one.is_visible or one.is_found for one in sought),
            lost=sum(one.is_lost for one in sought),
        )


@dataclass(frozen=True)
class Played:
    """The runs of a set in one context."""

    context: str
    runs: tuple[RunFigures, ...]

    def sum(self, value: Callable[[RunFigures], float]) -> float:
        """Return the sum of a value over the runs."""
        return sum(value(run) for run in self.runs)

    @property
    def cost(self) -> Cost:
        """What all calls cost, without look-ups."""
        return sum((run.cost for run in self.runs), Cost())

    @property
    def whole_cost(self) -> Cost:
        """The same with instructions, and tools as a workbench offers them."""
        return sum((run.whole_cost for run in self.runs), Cost())

    @property
    def with_tools(self) -> Cost:
        """The same with instructions, and tools in every call."""
        return sum((run.with_tools or run.cost for run in self.runs), Cost())

    @property
    def bare(self) -> Cost:
        """The same without system prompts."""
        return sum((run.bare for run in self.runs), Cost())

    @property
    def charged_price(self) -> float:
        """The price of all calls, tools and all, and of a look-up for each string that was needed and not visible."""
        return self.sum(lambda run: run.charged_price)

    @property
    def memory(self) -> MemoryFigures | None:
        """The sums of what only a MemoryContext has; None for other contexts."""
        figures = [run.memory for run in self.runs if run.memory is not None]
        if not figures:
            return None
        return MemoryFigures(*(sum(getattr(one, field.name) for one in figures) for field in fields(MemoryFigures)))

    def needles(self, distances: range = ANY) -> Needles:
        """Return the needles that were used so many messages after the result they stood in."""
        return Needles.count([one for run in self.runs for one in run.sought if one.distance in distances])


@dataclass(frozen=True)
class SetFigures:
    """The runs of one set, or of several, in each context.

    Attributes:
        played: By the context's name; the one that keeps everything is among them.
        seconds: What playing them took.
    """

    name: str
    played: Mapping[str, Played]
    seconds: float = 0.0

    @property
    def everything(self) -> Played:
        """Keeping everything."""
        return self.played[EVERYTHING]

    @property
    def runs(self) -> int:
        """How many runs."""
        return len(self.everything.runs)

    def relative_cost(self, context: str) -> float:
        """Return a context's cost without look-ups, tools and instructions."""
        return share(self.played[context].cost.price, self.everything.cost.price)

    def charged_cost(self, context: str) -> float:
        """Return a context's cost with look-ups, and with tools as a workbench offers them."""
        return share(self.played[context].charged_price, self.everything.charged_price)

    def charged_runs(self, context: str) -> list[float]:
        """Return the same for each run."""
        pairs = zip(self.played[context].runs, self.everything.runs, strict=True)
        return [share(run.charged_price, kept.charged_price) for run, kept in pairs]

    def as_json(self, with_runs: bool = True) -> dict[str, Any]:
        """Return all figures, JSON-native; texts of the traces are not among them."""
        return {
            "set": self.name,
            "runs": self.runs,
            "messages": self.everything.sum(lambda run: run.messages),
            "calls": self.everything.cost.calls,
            "seconds": self.seconds,
            "contexts": [self._context_as_json(played, with_runs) for played in self.played.values()],
        }

    def _context_as_json(self, played: Played, with_runs: bool) -> dict[str, Any]:
        cost, everything = played.cost, self.everything
        pairs = zip(played.runs, everything.runs, strict=True)
        figures: dict[str, Any] = {
            "context": played.context,
            "charged_cost": self.charged_cost(played.context),
            "charged_cost_of_dearest_run": max(self.charged_runs(played.context)),
            "relative_cost": self.relative_cost(played.context),
            "relative_cost_with_workbench": share(played.whole_cost.price, everything.cost.price),
            "relative_cost_with_tools": share(played.with_tools.price, everything.cost.price),
            "relative_cost_mean_of_runs": fmean(share(run.cost.price, kept.cost.price) for run, kept in pairs),
            "relative_cost_without_system_prompt": share(played.bare.price, everything.bare.price),
            "tokens": cost.tokens,
            "relative_tokens": share(cost.tokens, everything.cost.tokens),
            "cached_share": share(cost.cached_tokens, cost.tokens),
            "peak_view_tokens": max(run.peak_view_tokens for run in played.runs),
            "broken_views": played.sum(lambda run: run.broken_views),
            "views_without_task": played.sum(lambda run: run.views_without_task),
            "add_message_ms": 1000 * share(played.sum(lambda run: run.add_seconds), played.sum(lambda r: r.messages)),
            "get_messages_ms": 1000 * share(played.sum(lambda run: run.get_seconds), cost.calls),
            "needed_next": asdict(played.needles(NEXT)),
            "needed_soon": asdict(played.needles(SOON)),
            "needed_later": asdict(played.needles(LATER)),
            "memory": asdict(played.memory) if played.memory else None,
        }
        if with_runs:
            figures["each_run"] = [asdict(run) for run in played.runs]
        return figures


def pooled(sets: Sequence[SetFigures], name: str) -> SetFigures:
    """Return all runs of several sets as one set."""
    contexts = list(dict.fromkeys(context for one in sets for context in one.played))
    return SetFigures(
        name,
        {
            context: Played(context, tuple(run for one in sets for run in one.played[context].runs))
            for context in contexts
        },
        sum(one.seconds for one in sets),
    )


def share(part: float, whole: float) -> float:
    """Return part by whole; 1 if there is nothing."""
    return part / whole if whole else 1.0
