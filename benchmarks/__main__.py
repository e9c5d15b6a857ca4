"""All benchmarks: `python -m benchmarks [--traces DIR] [--retrieval DIR]`; what needs a folder runs if it is given."""

import argparse
import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.ablation import measure_ablation, print_ablation
from benchmarks.browsing import measure_browsing
from benchmarks.chart import draw_chart
from benchmarks.chatting import PAUSE_SECONDS, SESSIONS, measure_chatting
from benchmarks.compacting import LARGEST, measure_compacting
from benchmarks.comparing import print_measured
from benchmarks.connectors import measure_connectors
from benchmarks.deciding import measure_deciding
from benchmarks.faults import FAULTS, as_measured, measure_faults
from benchmarks.micro import measure
from benchmarks.needles import measure_needles, print_searches
from benchmarks.replay import add_arguments, figures_of, peers_asked_for, policy_of, replay
from benchmarks.report import NEEDLE_SETS, SMALL_BUDGET, print_sets
from benchmarks.retrieval import measure_sets, print_answers
from benchmarks.returning import measure_returning
from benchmarks.searching import measure_searching, print_costs
from benchmarks.starting import measure_starting
from benchmarks.steps import MESSAGES, measure_steps
from benchmarks.storing import PASSAGES, measure_storing
from benchmarks.traces import set_names
from benchmarks.transferring import ITEMS, measure_transferring
from benchmarks.web_runs import STEPS

SMALL_BUDGET_SET = NEEDLE_SETS[0]
SEARCHED_PASSAGES = "1000,10000"
LARGE_COST = 8  # so many fewer rounds for contents of a megabyte


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").split("\n")[0])
    add_arguments(parser, is_required=False)
    parser.add_argument("--retrieval", type=Path, help="folder with sets of questions and what answers them")
    parser.add_argument("--rounds", type=int, default=40, help="times each pair is measured (default 40)")
    parser.add_argument(
        "--passages", default=SEARCHED_PASSAGES, help=f"sizes of memories to search (default {SEARCHED_PASSAGES})"
    )
    parser.add_argument("--indexed", type=int, default=PASSAGES, help=f"passages to index (default {PASSAGES})")
    parser.add_argument("--largest", type=int, default=LARGEST, help=f"characters to compact (default {LARGEST})")
    parser.add_argument("--messages", type=int, default=MESSAGES, help=f"in view at last (default {MESSAGES})")
    parser.add_argument("--sessions", type=int, default=SESSIONS, help=f"conversations at once (default {SESSIONS})")
    parser.add_argument("--pause", type=float, default=PAUSE_SECONDS, help="seconds between their turns")
    parser.add_argument("--items", type=int, default=ITEMS, help=f"items to export and import (default {ITEMS})")
    parser.add_argument("--web-steps", type=int, default=STEPS, help=f"of each run of a browser (default {STEPS})")
    parser.add_argument("--faults", default=",".join(FAULTS), help="how the database fails meanwhile (default: all)")
    given = parser.parse_args(arguments)
    whole = _without_folders(given)
    if given.retrieval is None:
        print("No retrieval sets: give their folder with --retrieval.")
    else:
        answers = asyncio.run(measure_sets(given.retrieval))
        print_answers(answers)
        whole["retrieval"] = [asdict(one) for one in answers]
    if given.traces is None:
        print("No replay, no needles: give the folder of recorded runs with --traces.")
    else:
        whole |= _with_traces(given)
    if given.json:
        given.json.write_text(json.dumps(whole, indent=1), encoding="utf-8")


def _without_folders(given: argparse.Namespace) -> dict[str, Any]:
    """Measure what makes its own input."""
    whole: dict[str, Any] = {}
    for name, title, measuring in (
        ("micro", "operations of a context", measure(given.rounds)),
        ("steps", "steps of long sessions", measure_steps(given.rounds, given.messages)),
        (
            "compacting",
            "choosing what survives of a result",
            measure_compacting(max(given.rounds // LARGE_COST, 1), given.largest),
        ),
        ("deciding", "deciding about a turn", measure_deciding(given.rounds)),
        ("starting", "the start of a session", measure_starting(given.rounds)),
        ("storing", "storing and indexing", measure_storing(given.rounds, given.indexed)),
        (
            "chatting",
            f"{given.sessions} conversations at once",
            measure_chatting(given.sessions, pause_seconds=given.pause),
        ),
        ("returning", "sessions of users who come back", measure_returning()),
        ("transferring", "export and import", measure_transferring(given.items)),
        ("connectors", "pages of a browser", measure_connectors(given.web_steps, given.rounds)),
        ("browsing", "pages as results of tools", measure_browsing(given.web_steps)),
    ):
        measured = asyncio.run(measuring)
        print_measured(measured, title)
        whole[name] = [asdict(one) for one in measured]
    outcomes = asyncio.run(measure_faults([name for name in given.faults.split(",") if name]))
    print_measured(as_measured(outcomes), "calls while the database fails")
    whole["faults"] = [asdict(one) for one in outcomes]
    costs = asyncio.run(measure_searching([int(size) for size in given.passages.split(",")], given.rounds))
    print_costs(costs)
    return whole | {"searching": [asdict(one) for one in costs]}


def _with_traces(given: argparse.Namespace) -> dict[str, Any]:
    """Measure what plays recorded runs."""
    names = given.sets.split(",") if given.sets else set_names(given.traces)
    searches = asyncio.run(measure_needles(given.traces, names, given.limit))
    print_searches(searches)
    whole: dict[str, Any] = {"needles": [asdict(one) for one in searches]}
    if judged := [name for name in names if name in NEEDLE_SETS]:
        ablated = asyncio.run(measure_ablation(given.traces, judged, limit=given.limit))
        print_ablation(ablated)
        whole["ablation"] = [one.as_json(with_runs=False) for one in ablated]
    peers = peers_asked_for(given)
    small = [name for name in names if name == SMALL_BUDGET_SET]
    # peers have no budget to keep to: once is enough
    for budget, chosen, beside in ((None, names, peers), (SMALL_BUDGET, small, peers[:1])):
        if chosen:
            policy = policy_of(budget)
            sets = asyncio.run(replay(given.traces, chosen, policy, beside, given.limit))
            print_sets(sets, policy)
            whole[f"replay, budget {policy.token_budget}"] = figures_of(sets, policy)
            if given.chart and budget is None:
                draw_chart(sets, given.chart)
    return whole


if __name__ == "__main__":
    main()
