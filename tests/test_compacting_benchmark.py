"""The benchmark of compacting measures what it says: contents of each sort, and an event loop that is held."""

import time

import pytest

from benchmarks.ablation import BASELINE, VARIANTS
from benchmarks.compacting import measure_compacting, watched_loop
from benchmarks.contents import CALLS, KINDS, content_of
from memory_context.foundation.compactors.analyzers import BUILT_IN
from memory_context.foundation.compactors.analyzers.wrapper import unwrapped
from memory_context.foundation.compactors.compactor import Hint, Result
from memory_context.foundation.compactors.registry import Compactors

from .context.steps import a_turn_of_the_loop

READERS = {
    "source code": "Python, ",
    "numbered source": "Python, ",
    "test log": "test log",
    "service log": "log, ",
    "diff": "diff, ",
    "JSON": "JSON",
    "JSON Lines": "JSON Lines",
    "MCP wrapper": "JSON Lines",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [4_000, 40_000])
def test_contents_are_of_the_sort_that_they_are_named_after(kind: str, length: int):
    content = content_of(kind, length, 1)
    result = Result(unwrapped(content).text, "run", CALLS.get(kind, "{}"))
    reading = next((found for read in BUILT_IN if (found := read(result))), None)
    assert READERS.get(kind, "") in (reading.description if reading else "")
    assert reading or kind not in READERS


def test_contents_are_the_same_for_a_seed_and_fresh_for_another():
    for kind in KINDS:
        assert len(content_of(kind, 3_000, 1)) == 3_000
        assert content_of(kind, 3_000, 1) == content_of(kind, 3_000, 1) != content_of(kind, 3_000, 2)


def test_ablation_switches_one_rule_off_and_on_again():
    """Every name that a variant replaces is there, and what it makes of a result is another description."""
    result = Result('[{"id": "a-1"}, {"id": "a-2"}]' + " " * 300, "list")
    described = {}
    for variant in VARIANTS:
        with variant.applied():
            described[variant.name] = Compactors().compact(result, Hint()).description
        assert Compactors().compact(result, Hint()).description == described[BASELINE]
    others = {name for name, text in described.items() if text != described[BASELINE]}
    assert others == {"all analyzers", "analyzer: describe_content"}


async def test_a_held_loop_is_noticed():
    with watched_loop() as held:
        for _ in range(100):
            if held.seconds:
                break
            await a_turn_of_the_loop()
            until = time.perf_counter() + 0.03
            while time.perf_counter() < until:
                pass
    assert held.seconds > 0.02


async def test_figures_are_told_for_each_kind_and_length():
    measured = await measure_compacting(rounds=1, largest=5_000)
    assert len(measured) == len(KINDS) * 3 * 2 + 2
    assert sum(one.is_met is not None for one in measured) == len(KINDS) * 2 + 2
    assert all(one.value > 0 for one in measured)
