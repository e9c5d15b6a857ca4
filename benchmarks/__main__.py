"""All benchmarks: `python -m benchmarks [--traces DIR]`; micro-benchmarks always, the replay if there are traces."""

import argparse
import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.micro import measure, print_measured
from benchmarks.replay import add_arguments, figures_of, policy_of, print_sets, replay
from benchmarks.traces import set_names

SMALL_BUDGET = 16_000
SMALL_BUDGET_SET = "openhands_swebench"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").split("\n")[0])
    add_arguments(parser, is_required=False)
    parser.add_argument("--rounds", type=int, default=40, help="times each micro-benchmark is measured (default 40)")
    given = parser.parse_args(arguments)
    measured = asyncio.run(measure(given.rounds))
    print_measured(measured)
    whole: dict[str, Any] = {"micro": [asdict(one) for one in measured]}
    if given.traces is None:
        print("No replay: give the folder of recorded runs with --traces.")
    else:
        names = given.sets.split(",") if given.sets else set_names(given.traces)
        for budget, chosen in ((None, names), (SMALL_BUDGET, [name for name in names if name == SMALL_BUDGET_SET])):
            if chosen:
                policy = policy_of(budget)
                sets = asyncio.run(replay(given.traces, chosen, policy, given.limit))
                print_sets(sets, policy)
                whole[f"replay, budget {policy.token_budget}"] = figures_of(sets, policy)
    if given.json:
        given.json.write_text(json.dumps(whole, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
