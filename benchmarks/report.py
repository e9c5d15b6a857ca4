"""What was replayed, on the terminal: each context's costs and needles, the targets, and what the figures leave out."""

from collections.abc import Sequence

from benchmarks.comparing import Measured, print_measured
from benchmarks.figures import LATER, NEXT, SOON, Played, SetFigures, pooled, share
from benchmarks.remembering import MEMORY
from benchmarks.tables import print_table
from memory_context import ContextPolicy

__all__ = ["ALL", "FOOTNOTE", "NEEDLE_SETS", "SMALL_BUDGET", "needle_sets", "print_sets", "targets"]

ALL = "all sets"
NEEDLE_SETS = ("openhands_swebench", "livemcp")
"""The sets of long, tool-heavy runs, whose needles are judged together and where every peer has to be dearer."""

CHARGED_TARGETS = {"openhands_swebench": 0.54, "livemcp": 0.84, "tau_airline_dev": 1.0, "webdancer_search": 1.0}
"""What the default policy may cost at most, look-ups charged, relative to keeping everything."""

SMALL_BUDGET = 16_000
"""Forces folds."""

SMALL_BUDGET_TARGETS = {NEEDLE_SETS[0]: 0.60}
"""What a policy with that budget may cost at most, look-ups not charged."""

FOOTNOTE = (
    "cost: messages and the recorded system prompt. workbench: with the memory's instructions in each call, and its\n"
    "tools in each call from the one on that offers them. tools: with both in each call. The agents' own\n"
    "tools are not recorded; with them every figure would be nearer to 1.\n"
    "charged: as workbench, and each string that a call used and that was not visible costs one more call: the view\n"
    "again from the cache and 400 new tokens. What a context cannot get back ('lost') is charged as if it could."
)


def print_sets(sets: Sequence[SetFigures], policy: ContextPolicy) -> None:
    """Print what each context cost, showed and broke, and the targets of the policy."""
    budget = f"budget {policy.token_budget:,}" if policy.token_budget is not None else "no budget"
    whole = [*sets, pooled(sets, ALL)] if len(sets) > 1 else list(sets)
    for one in whole:
        _print_costs(one, budget)
    searched = needle_sets(sets)
    for one in [*sets, searched] if searched is not None else sets:
        if one.everything.needles().total:
            _print_needles(one)
    print(FOOTNOTE)
    _print_promises(whole, budget)
    if measured := targets(sets, policy):
        print_measured(measured, f"{budget}: targets")


def needle_sets(sets: Sequence[SetFigures]) -> SetFigures | None:
    """Return the sets whose needles are judged, as one; None if not all of them were played."""
    chosen = [one for one in sets if one.name in NEEDLE_SETS]
    return pooled(chosen, " and ".join(one.name for one in chosen)) if len(chosen) == len(NEEDLE_SETS) else None


def targets(sets: Sequence[SetFigures], policy: ContextPolicy) -> list[Measured]:
    """Return what a policy has to reach, for the default one and for its like with a small budget."""
    if policy == ContextPolicy(token_budget=SMALL_BUDGET):
        return [
            _at_most(f"{one.name}: cost", one.relative_cost(MEMORY), SMALL_BUDGET_TARGETS[one.name])
            for one in sets
            if one.name in SMALL_BUDGET_TARGETS
        ]
    if policy != ContextPolicy():
        return []
    measured: list[Measured] = []
    for one in sets:
        if one.name in CHARGED_TARGETS:
            measured.append(_at_most(f"{one.name}: charged", one.charged_cost(MEMORY), CHARGED_TARGETS[one.name]))
        if one.name in NEEDLE_SETS:
            measured.append(_below_peers(one))
    if (searched := needle_sets(sets)) is not None:
        played = searched.played[MEMORY]
        next_, soon, later = (played.needles(distances) for distances in (NEXT, SOON, LATER))
        measured += [
            _at_least("needed later: visible or one retrieve away", later.in_one_retrieve, later.total, 1.0),
            _at_least("needed later: visible", later.visible, later.total, 0.75),
            _at_least("needed later: visible or found", later.visible_or_found, later.total, 0.90),
            _at_least("needed by the next message: visible", next_.visible, next_.total, 0.97),
            _at_least("needed two or three messages later: visible", soon.visible, soon.total, 0.90),
        ]
    for name, broken in _broken(pooled(sets, ALL).played[MEMORY]).items():
        measured.append(Measured(f"promise broken: {name}", broken, "= 0", broken == 0, "views or runs of all sets"))
    return measured


# --- the tables --------------------------------------------------------------------------------------------------


def _print_costs(one: SetFigures, budget: str) -> None:
    figures = one.as_json(with_runs=False)
    print_table(
        f"{one.name}, {one.runs} runs, {figures['calls']:,} calls, {budget}: cost relative to keeping everything",
        [
            "context",
            "charged",
            "workbench",
            "tools",
            "cost",
            "per run",
            "bare",
            "tokens",
            "cached",
            "peak view",
            "broken views",
            "task cut",
            "add ms",
            "get ms",
        ],
        [
            [
                of["context"],
                f"{of['charged_cost']:.3f}",
                f"{of['relative_cost_with_workbench']:.3f}",
                f"{of['relative_cost_with_tools']:.3f}",
                f"{of['relative_cost']:.3f}",
                f"{of['relative_cost_mean_of_runs']:.3f}",
                f"{of['relative_cost_without_system_prompt']:.3f}",
                f"{of['relative_tokens']:.3f}",
                f"{of['cached_share']:.3f}",
                f"{of['peak_view_tokens']:,}",
                f"{of['broken_views']:,}",
                f"{of['views_without_task']:,}",
                f"{of['add_message_ms']:.2f}",
                f"{of['get_messages_ms']:.2f}",
            ]
            for of in figures["contexts"]
        ],
    )


def _print_needles(one: SetFigures) -> None:
    counts = [played.needles(distances).total for played in [one.everything] for distances in (NEXT, SOON, LATER)]
    print_table(
        f"{one.name}: visible of the strings that calls used, and how the others can be had",
        [
            "context",
            *(f"{when} ({count})" for when, count in zip(("next", "2-3 later", "later"), counts, strict=True)),
            "later: or 1 retrieve",
            "later: or 2",
            "later: or found",
            "lost",
        ],
        [_needles_row(played) for played in one.played.values()],
    )


def _needles_row(played: Played) -> list[str]:
    later = played.needles(LATER)
    return [
        played.context,
        *(_percent(needles.visible, needles.total) for needles in map(played.needles, (NEXT, SOON))),
        _percent(later.visible, later.total),
        *(_percent(part, later.total) for part in (later.in_one_retrieve, later.in_two_retrieves)),
        _percent(later.visible_or_found, later.total),
        f"{played.needles().lost}",
    ]


def _print_promises(sets: Sequence[SetFigures], budget: str) -> None:
    rows: list[list[str]] = []
    for one in sets:
        memory = one.played[MEMORY].memory
        if memory is not None:
            rows.append(
                [
                    one.name,
                    f"{memory.offloads:,}",
                    f"{memory.write_transactions:,} / {memory.messages_with_offloads:,}",
                    f"{memory.compactions:,}",
                    f"{memory.folds:,}",
                    f"{memory.light_model_calls:,}",
                    f"{memory.light_model_tokens:,}",
                    f"{sum(_broken(one.played[MEMORY]).values())}",
                ]
            )
    head = ["set", "offloads", "writes / messages", "compactions", "folds", "light calls", "light tokens", "broken"]
    print_table(f"{MEMORY}, {budget}: what it did, and promises broken", head, rows)


def _broken(played: Played) -> dict[str, int]:
    memory = played.memory
    return {
        "pairs": int(played.sum(lambda run: run.broken_views)),
        "task whole": int(played.sum(lambda run: run.views_without_task)),
        "budget": memory.over_budget if memory else 0,
        "own count": memory.miscounted if memory else 0,
        "one write a message": memory.transactions_off if memory else 0,
    }


# --- the targets -------------------------------------------------------------------------------------------------


def _at_most(name: str, value: float, limit: float) -> Measured:
    return Measured(name, value, f"<= {limit:.2f}", value <= limit, "of keeping everything")


def _at_least(name: str, part: int, whole: int, least: float) -> Measured:
    value = share(part, whole)
    return Measured(name, value, f">= {least:.2f}", value >= least, f"{part} of {whole}")


def _below_peers(one: SetFigures) -> Measured:
    name, cheapest = min(
        ((name, one.charged_cost(name)) for name in one.played if name != MEMORY), key=lambda pair: pair[1]
    )
    value = one.charged_cost(MEMORY) / cheapest
    return Measured(f"{one.name}: charged / cheapest peer", value, "< 1", value < 1, f"{name}, {cheapest:.3f}")


def _percent(part: float, whole: float) -> str:
    return f"{part / whole:.0%}" if whole else "-"
