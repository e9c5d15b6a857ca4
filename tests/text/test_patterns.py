import copy
import importlib
import pkgutil
import re
import sys
import threading

import pytest

import memory_context
from memory_context.foundation.patterns import at_first_use, regex


def test_every_pattern_of_the_package_compiles():
    """They compile at their first use: a mistake in one would wait until then."""
    for found in pkgutil.walk_packages(memory_context.__path__, "memory_context."):
        if found.name.split(".")[1] != "surfaces":
            importlib.import_module(found.name)
    patterns = [
        value
        for name, module in [*sys.modules.items()]
        if name.startswith("memory_context.")
        for value in vars(module).values()
        if type(value) is type(regex(""))
    ]
    assert len(patterns) > 200
    for pattern in patterns:
        assert vars(pattern)["_made"]()


@pytest.mark.parametrize("use", ["search", "match", "fullmatch", "finditer", "findall", "split"])
def test_a_pattern_compiled_at_first_use_finds_what_a_compiled_one_finds(use: str) -> None:
    """Each method may be the first."""
    text, pattern = "ab AB a-b", r"(a)\W?b"
    found = [getattr(one, use)(text) for one in (regex(pattern, re.IGNORECASE), re.compile(pattern, re.IGNORECASE))]
    assert len({str([*one]) if use == "finditer" else str(one) for one in found}) == 1


def test_a_pattern_composes_without_being_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(re, "compile", lambda *_: pytest.fail("compiled"))
    assert regex(rf"<{regex('[').pattern}>").pattern == "<[>"


def test_what_is_made_at_first_use_is_made_once_and_raises_where_it_is_used() -> None:
    made: list[str] = []
    name = at_first_use(lambda: made.append("once") or "name")
    assert not made
    assert (name.upper(), name.upper(), name.title()) == ("NAME", "NAME", "Name")
    assert made == ["once"]
    with pytest.raises(AttributeError, match="'str' object has no attribute 'lines'"):
        _ = name.lines  # pyright: ignore[reportAttributeAccessIssue]
    broken = regex("(")
    with pytest.raises(re.error, match="missing \\)"):
        broken.search("")
    assert copy.deepcopy(regex("a")).search("a")


def test_threads_that_use_a_pattern_first_all_find() -> None:
    pattern, begin, found = regex("(?:a|b)+c"), threading.Barrier(8), list[bool]()

    def use() -> None:
        begin.wait()
        found.append(pattern.search("xxabac") is not None)

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 8
