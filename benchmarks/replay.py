"""Recorded agent runs through a MemoryContext, compared with keeping everything.

    python -m benchmarks.replay --traces DIR [--sets a,b] [--limit N] [--token-budget N] [--policy JSON] [--json FILE]

Cost is relative to keeping everything, by the formula of `benchmarks.prompts`; "cost" is the sum over all calls of a
set divided by the same sum for keeping everything, "per run" the mean of that ratio over the runs, "bare" the former
without the system prompt, which the context does not see but the model does.

"Next", "soon" and "later" are strings of one tool result that a call one, two to three, or more messages after it used:
how many of them the view before that call showed, and how many were visible or one or two `retrieve` calls away.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.playing import Needles, RunFigures, Violations, play
from benchmarks.prompts import Cost
from benchmarks.scratch import scratch_store
from benchmarks.tables import print_table
from benchmarks.traces import read_needles, read_runs, set_names
from memory_context import ContextPolicy, MemoryStore

__all__ = [
    "SetFigures",
    "add_arguments",
    "figures_of",
    "main",
    "policy_of",
    "pooled",
    "print_sets",
    "replay",
    "replay_set",
]

TARGETS = {"openhands_swebench": 0.57, "livemcp": 0.94}
"""Cost relative to keeping everything that the default policy has to stay under."""

SMALL_BUDGET_TARGETS = {"openhands_swebench": 0.60}
"""The same with a budget that forces folds."""


@dataclass(frozen=True)
class SetFigures:
    """The runs of one set, or of all."""

    name: str
    runs: tuple[RunFigures, ...]
    seconds: float = 0.0

    def sum(self, value: Callable[[RunFigures], float]) -> float:
        """Return the sum of a value over the runs."""
        return sum(value(run) for run in self.runs)

    def cost(self, value: Callable[[RunFigures], Cost]) -> Cost:
        """Return the sum of a cost over the runs."""
        return sum((value(run) for run in self.runs), Cost())

    @property
    def relative_cost(self) -> float:
        """Cost of the context's calls by cost of keeping everything, each summed over the set."""
        return _share(self.cost(lambda run: run.context).price, self.cost(lambda run: run.everything).price)

    @property
    def bare_relative_cost(self) -> float:
        """As `relative_cost`, without system prompts."""
        return _share(self.cost(lambda run: run.bare_context).price, self.cost(lambda run: run.bare_everything).price)

    @property
    def mean_relative_cost(self) -> float:
        """The mean of the relative cost over the runs."""
        return fmean(_share(run.context.price, run.everything.price) for run in self.runs) if self.runs else 1.0

    def needles(self, value: Callable[[RunFigures], Needles]) -> Needles:
        """Return the needles of all runs together."""
        found = [value(run) for run in self.runs]
        return Needles(
            *(sum(getattr(one, field.name) for one in found) for field in fields(Needles)[:-1]),
            [f"{run.id}: {missed}" for run, one in zip(self.runs, found, strict=True) for missed in one.missed],
        )

    @property
    def violations(self) -> dict[str, int]:
        """Promises broken, by kind."""
        return {
            field.name: int(self.sum(lambda run, name=field.name: getattr(run.violations, name)))
            for field in fields(Violations)
        }

    def as_json(self, with_runs: bool = True) -> dict[str, Any]:
        """Return all figures, JSON-native; texts of the traces are not among them."""
        everything, context = self.cost(lambda run: run.everything), self.cost(lambda run: run.context)
        figures: dict[str, Any] = {
            "set": self.name,
            "runs": len(self.runs),
            "messages": self.sum(lambda run: run.messages),
            "calls": context.calls,
            "relative_cost": self.relative_cost,
            "relative_cost_mean_of_runs": self.mean_relative_cost,
            "relative_cost_without_system_prompt": self.bare_relative_cost,
            "tokens": context.tokens,
            "tokens_keeping_everything": everything.tokens,
            "cached_share": _share(context.cached_tokens, context.tokens),
            "cached_share_keeping_everything": _share(everything.cached_tokens, everything.tokens),
            "peak_view_tokens": max((run.peak_view_tokens for run in self.runs), default=0),
            "peak_tokens_keeping_everything": everything.peak_tokens,
            "violations": self.violations,
            "needed_next": asdict(self.needles(lambda run: run.needed_next)),
            "needed_soon": asdict(self.needles(lambda run: run.needed_soon)),
            "needed_later": asdict(self.needles(lambda run: run.needed_later)),
            "seconds": self.seconds,
        }
        for name in ("offloads", "messages_with_offloads", "write_transactions", "compactions", "folds"):
            figures[name] = self.sum(lambda run, name=name: getattr(run, name))
        figures["add_message_ms"] = 1000 * _share(self.sum(lambda run: run.add_seconds), figures["messages"])
        figures["get_messages_ms"] = 1000 * _share(self.sum(lambda run: run.get_seconds), figures["calls"])
        if with_runs:
            figures["each_run"] = [asdict(run) for run in self.runs]
        return figures


async def replay_set(
    folder: Path, name: str, store: MemoryStore, policy: ContextPolicy, limit: int | None = None
) -> SetFigures:
    """Play the runs of a set one after another."""
    needles = [read_needles(folder, kind, name) for kind in ("needles", "needles_now")]
    began = time.perf_counter()
    runs = [
        await play(run, store, policy, [needle for kind in needles for needle in kind.get(run.id, ())])
        for run in read_runs(folder, name, limit)
    ]
    return SetFigures(name, tuple(runs), time.perf_counter() - began)


def pooled(sets: Sequence[SetFigures]) -> SetFigures:
    """Return all runs as one set."""
    return SetFigures("all", tuple(run for one in sets for run in one.runs), sum(one.seconds for one in sets))


async def replay(
    folder: Path, names: Sequence[str], policy: ContextPolicy, limit: int | None = None
) -> list[SetFigures]:
    """Play sets in a scratch database; tell of each on the terminal as it is done."""
    sets: list[SetFigures] = []
    async with scratch_store() as (store, _):
        for name in names:
            sets.append(await replay_set(folder, name, store, policy, limit))
            print(f"{name}: {len(sets[-1].runs)} runs, {sets[-1].seconds:.0f} s", flush=True)
    return sets


def figures_of(sets: Sequence[SetFigures], policy: ContextPolicy) -> dict[str, Any]:
    """Return everything that was measured, JSON-native."""
    return {
        "policy": policy.model_dump(mode="json"),
        "sets": [one.as_json() for one in sets],
        "pooled": pooled(sets).as_json(with_runs=False),
    }


# --- the terminal ------------------------------------------------------------------------------------------------


def print_sets(sets: Sequence[SetFigures], policy: ContextPolicy) -> None:
    """Print what the sets cost, what they kept at hand, and what was broken."""
    title = f"budget {policy.token_budget:,}" if policy.token_budget is not None else "no budget"
    targets = TARGETS if policy == ContextPolicy() else SMALL_BUDGET_TARGETS if policy == policy_of(16_000) else {}
    rows = [*sets, pooled(sets)] if len(sets) > 1 else list(sets)
    figures = [one.as_json(with_runs=False) for one in rows]
    print_table(
        f"{title}: cost relative to keeping everything",
        [
            "set",
            "runs",
            "calls",
            "cost",
            "target",
            "per run",
            "bare",
            "tokens",
            "cached",
            "all cached",
            "peak view",
            "all peak",
            "folds",
        ],
        [
            [
                one["set"],
                f"{one['runs']}",
                f"{one['calls']:,}",
                f"{one['relative_cost']:.3f}",
                f"{targets[one['set']]:.2f}" if one["set"] in targets else "-",
                f"{one['relative_cost_mean_of_runs']:.3f}",
                f"{one['relative_cost_without_system_prompt']:.3f}",
                f"{_share(one['tokens'], one['tokens_keeping_everything']):.3f}",
                f"{one['cached_share']:.3f}",
                f"{one['cached_share_keeping_everything']:.3f}",
                f"{one['peak_view_tokens']:,}",
                f"{one['peak_tokens_keeping_everything']:,}",
                f"{one['folds']}",
            ]
            for one in figures
        ],
    )
    print_table(
        f"{title}: what a call needed, and promises",
        ["set", "next", "soon", "later", "1 retrieve", "2", "broken", "writes / messages", "add ms", "get ms"],
        [_promises_row(one) for one in figures],
    )
    for one in figures:
        for name, count in one["violations"].items():
            if count and one["set"] != "all":
                print(f"{one['set']}: promise broken: {name}, {count} times")


def _promises_row(one: dict[str, Any]) -> list[str]:
    needed = [one["needed_next"], one["needed_soon"], one["needed_later"]]
    total = sum(of["total"] for of in needed)
    return [
        one["set"],
        *(f"{_percent(of['visible'], of['total'])} of {of['total']}" for of in needed),
        *(_percent(sum(of[steps] for of in needed), total) for steps in ("in_one_step", "in_two_steps")),
        f"{sum(one['violations'].values())}",
        f"{one['write_transactions']:,} / {one['messages_with_offloads']:,}",
        f"{one['add_message_ms']:.2f}",
        f"{one['get_messages_ms']:.2f}",
    ]


def _percent(part: float, whole: float) -> str:
    return f"{part / whole:.0%}" if whole else "-"


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 1.0


def add_arguments(parser: argparse.ArgumentParser, is_required: bool) -> None:
    """Add the arguments that say what to replay."""
    parser.add_argument("--traces", type=Path, required=is_required, help="folder with <set>.jsonl files")
    parser.add_argument("--sets", help="names, with commas between; default all")
    parser.add_argument("--limit", type=int, help="runs of each set at most")
    parser.add_argument("--json", type=Path, help="file to write all figures to")


def policy_of(token_budget: int | None = None, policy: str = "{}") -> ContextPolicy:
    """Return the policy that arguments ask for: the default one, changed by a JSON object, then by the budget."""
    changes = json.loads(policy)
    return ContextPolicy(**(changes if token_budget is None else {**changes, "token_budget": token_budget}))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replay", description=(__doc__ or "").split("\n")[0])
    add_arguments(parser, is_required=True)
    parser.add_argument("--token-budget", type=int, help="of the policy; default the policy's own")
    parser.add_argument("--policy", default="{}", help="further changes to the default policy, as a JSON object")
    given = parser.parse_args(arguments)
    policy = policy_of(given.token_budget, given.policy)
    names = given.sets.split(",") if given.sets else set_names(given.traces)
    sets = asyncio.run(replay(given.traces, names, policy, given.limit))
    print_sets(sets, policy)
    if given.json:
        given.json.write_text(json.dumps(figures_of(sets, policy), indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
