"""What each rule of compaction earns: recorded runs with one analyzer, name feature or excerpt rule off at a time.

    python -m benchmarks.ablation --traces DIR [--sets a,b] [--limit N] [--only TEXT] [--json FILE]

Every run is played with every variant in turn, so that the times of `add_message` compare within one run: the column
is the ratio of processor time to the same runs with everything on. Costs and visible strings are those of
`benchmarks.replay`, with two differences that keep it short: nothing is indexed, and what is not visible is not looked
up. Rules are switched off by replacing names of the package's modules; the package itself has no switches for them.
"""

import argparse
import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from autogen_core.models import AssistantMessage

from benchmarks.figures import LATER, NEXT, Played, SetFigures, share
from benchmarks.peers import EVERYTHING, installed_peers
from benchmarks.playing import Player, Reach, RunFigures
from benchmarks.remembering import MemoryPlayer
from benchmarks.report import NEEDLE_SETS
from benchmarks.scratch import scratch_store
from benchmarks.tables import print_table
from benchmarks.traces import Needle, Recorded, read_needles, read_runs
from memory_context import ContextPolicy
from memory_context.foundation.compactors import analyzers
from memory_context.foundation.compactors.analyzers.wrapper import Unwrapped
from memory_context.foundation.tokens import default_token_counter

__all__ = ["BASELINE", "VARIANTS", "Variant", "measure_ablation", "print_ablation"]

BASELINE = "everything on"
_COMPACTION = "memory_context.foundation.compactors"
_INDEXING = "memory_context.store.jobs.Jobs.wake"


@dataclass(frozen=True)
class Variant:
    """A rule that is switched off.

    Attributes:
        name: What is off.
        replaced: Names in modules of `memory_context.foundation.compactors`, such as `names._IMPORTED`, and what
            stands there.
    """

    name: str
    replaced: tuple[tuple[str, Any], ...] = ()

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Switch the rule off meanwhile."""
        with ExitStack() as stack:
            for name, value in self.replaced:
                stack.enter_context(patch(f"{_COMPACTION}.{name}", value))
            yield


def _without_words(choose: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *given, **named: choose(*given, **{**named, "words": ""})


def _variants() -> Iterator[Variant]:
    from memory_context.foundation.compactors.excerpt import excerpt

    yield Variant(BASELINE)
    yield Variant("all analyzers", (("registry.BUILT_IN", ()),))
    for analyzer in analyzers.BUILT_IN:
        others = tuple(one for one in analyzers.BUILT_IN if one is not analyzer)
        yield Variant(f"analyzer: {analyzer.__name__.removeprefix('analyze_')}", (("registry.BUILT_IN", others),))
    plain = (("registry.unwrapped", Unwrapped), ("compose.unwrapped", Unwrapped))
    yield Variant("MCP wrappers taken off", plain)
    for name, weight in (
        ("near the answer", "_NEAR_ANSWER"),
        ("in a block of the task", "_IN_TASKS_BLOCK"),
        ("in a block of the answer", "_IN_ANSWERS_BLOCK"),
        ("imported", "_IMPORTED"),
        ("shares parts with the answer", "_PARTS_IN_ANSWER"),
        ("shares words with the task", "_SHARE_IN_TASK"),
        ("shares parts with the task", "_PARTS_IN_TASK"),
        ("short", "_COST"),
        ("named by the analyzer", "_KNOWN"),
    ):
        yield Variant(f"name: {name}", ((f"names.{weight}", 0.0),))
    yield Variant("name: shape", (("names._SHAPES", {}),))
    yield Variant("name: no field of JSON", (("names._fields", lambda text: Counter[str]()),))
    yield Variant("excerpt: words of task and agent", (("compose.excerpt", _without_words(excerpt)),))
    yield Variant("excerpt: definitions name the gaps", (("compose.definitions_in", lambda text: ()),))
    yield Variant("excerpt: error lines", (("excerpt.error_lines", lambda *given: []),))
    yield Variant("excerpt: lines around", (("excerpt._blurred", list),))
    yield Variant("names: noise left in", (("compose.without_markup", str), ("names.is_reserved", lambda word: False)))


VARIANTS: Sequence[Variant] = tuple(_variants())


class _AblatedPlayer(MemoryPlayer):
    """Plays a run without looking up what is not visible, and measures processor time."""

    async def reach(self, needle: Needle, view: str, message: AssistantMessage) -> Reach:
        """Return that nobody tried."""
        return Reach()

    async def add(self, recorded: Recorded) -> None:
        """Add the next message."""
        before, began = self.figures.add_seconds, time.process_time()
        await super().add(recorded)
        self.figures.add_seconds = before + time.process_time() - began


async def measure_ablation(
    folder: Path, names: Sequence[str], variants: Sequence[Variant] = VARIANTS, limit: int | None = None
) -> list[SetFigures]:
    """Play sets with every variant; the contexts of the figures are the variants, beside keeping everything."""
    everything = installed_peers()[0][0]
    policy = ContextPolicy()
    sets: list[SetFigures] = []
    async with scratch_store() as (store, _):
        for name in names:
            needles = [read_needles(folder, kind, name) for kind in ("needles", "needles_now")]
            played: dict[str, list[RunFigures]] = {}
            for run in read_runs(folder, name, limit):
                count = cache(default_token_counter().count)
                of_run = [needle for kind in needles for needle in kind.get(run.id, ())]
                kept = Player(run, everything.start(count), count, policy.first_view_limit_tokens)
                played.setdefault(EVERYTHING, []).append(await kept.play(of_run))
                for variant in variants:
                    with variant.applied(), patch(_INDEXING, lambda *given: None):
                        figures = await _AblatedPlayer(run, store, policy, count).play(of_run)
                    played.setdefault(variant.name, []).append(figures)
            sets.append(SetFigures(name, {context: Played(context, tuple(of)) for context, of in played.items()}))
    return sets


def print_ablation(sets: Sequence[SetFigures]) -> None:
    """Print what each variant costs and shows, a table a set."""
    for one in sets:
        baseline = one.played[BASELINE]
        print_table(
            f"{one.name}, {one.runs} runs: one rule off at a time",
            ["off", "charged", "cost", "tokens", "next visible", "later visible", "add_message"],
            [_row(one, played, baseline) for name, played in one.played.items() if name != EVERYTHING],
        )


def _row(one: SetFigures, played: Played, baseline: Played) -> list[str]:
    next_, later = played.needles(NEXT), played.needles(LATER)
    seconds = (figures.sum(lambda run: run.add_seconds) for figures in (played, baseline))
    return [
        played.context,
        f"{one.charged_cost(played.context):.4f}",
        f"{one.relative_cost(played.context):.4f}",
        f"{share(played.cost.tokens, one.everything.cost.tokens):.4f}",
        f"{next_.visible} of {next_.total}",
        f"{later.visible} of {later.total}",
        f"{share(*seconds):.2f}",
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    description = (__doc__ or "").split("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ablation", description=description)
    parser.add_argument("--traces", type=Path, required=True, help="folder with <set>.jsonl files")
    parser.add_argument("--sets", default=",".join(NEEDLE_SETS), help="names, with commas between")
    parser.add_argument("--limit", type=int, help="runs of each set at most")
    parser.add_argument("--only", default="", help="variants whose names this regular expression finds")
    parser.add_argument("--json", type=Path, help="file to write all figures to")
    given = parser.parse_args(arguments)
    variants = [one for one in VARIANTS if one.name == BASELINE or re.search(given.only, one.name)]
    sets = asyncio.run(measure_ablation(given.traces, given.sets.split(","), variants, given.limit))
    print_ablation(sets)
    if given.json:
        given.json.write_text(json.dumps([one.as_json(with_runs=False) for one in sets], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
