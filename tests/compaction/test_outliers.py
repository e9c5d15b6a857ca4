"""The lines that a log is read for: its only error, its last status, and none of what does not repeat itself."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context.compaction import Compactors, Hint, Result
from memory_context.compaction.outliers import telling_lines
from memory_context.tokens import default_token_counter

pytestmark = pytest.mark.thorough

_rng = random.Random(5)
_counter = default_token_counter()


def _at(n: int) -> str:
    return f"2026-01-05T10:{n // 60 % 60:02}:{n % 60:02}.{_rng.randrange(1000):03}Z"


def _id() -> str:
    return f"{_rng.getrandbits(32):08x}"


def _address() -> str:
    return ".".join(str(_rng.randrange(256)) for _ in range(4))


UPLOADS = [f"{_at(n)} {_address()} POST /v1/upload/{_id()} 200 stored {_rng.randrange(9000)} bytes" for n in range(400)]
REQUESTS = [f'{_at(n)} {_address()} "GET /items/{n} HTTP/1.1" 200 {_rng.randrange(9000)}' for n in range(400)]
CHUNKS = [f"{_at(n)} worker-{n % 7} copied chunk {n} of 400" for n in range(400)]
IMPORTS = [f"[{n:04}] Datei {n}.csv wurde importiert" for n in range(300)]
UPDATES = [f"{_at(n)} INFO  sync  item sku-{_id()} updated" for n in range(300)]
CHECKPOINTS = [f"Jan  5 10:00:{n % 60:02} db1 postgres[{n}]: wrote {_rng.randrange(99)} buffers" for n in range(300)]


def log_of(lines: list[str], **others: str) -> str:
    changed = {int(place.removeprefix("at_")): line for place, line in others.items()}
    return "\n".join([*(changed.pop(n, line) for n, line in enumerate(lines)), *changed.values()])


LOGS = {
    "words": (log_of(UPLOADS, at_233=f"{_at(233)} 10.4.7.9 POST /v1/upload/77ab01ff 500 disk full"), "500 disk full"),
    "status": (
        log_of(REQUESTS, at_99=f'{_at(99)} 10.9.9.9 "GET /items/99 HTTP/1.1" 503 17'),
        '/items/99 HTTP/1.1" 503',
    ),
    "last": (log_of(CHUNKS, at_400=f"{_at(400)} done: 399 of 400 chunks, 1 skipped"), "done: 399 of 400"),
    "German": (log_of(IMPORTS, at_200="[0200] Datei 200.csv abgelehnt: Zeile 17 fehlt"), "abgelehnt: Zeile 17"),
    "error before last": (
        log_of(UPDATES, at_50=f"{_at(50)} ERROR sync  item sku-00beef has no price", at_300=f"{_at(300)} INFO bye now"),
        "sku-00beef has no price",
    ),
    "few lines": (log_of(IMPORTS[:12], at_3="[0003] Datei 3.csv ist leer"), "Datei 3.csv ist leer"),
    "field of JSON": (
        json.dumps({"exit": 0, "output": log_of(IMPORTS, at_7="[0007] Datei 7.csv ist leer")}),
        "Datei 7.csv ist leer",
    ),
    "heading": ("Import log of today\n" + log_of(IMPORTS, at_7="[0007] Datei 7.csv ist leer"), "7.csv ist leer"),
    "service": (log_of(CHECKPOINTS, at_80="Jan  5 10:00:20 db1 postgres[7]: No space left on device"), "No space left"),
    "long line": (
        log_of(UPDATES, at_9="item " * 150 + "sku-00beef is not for sale" + " item" * 99),
        "for sale",
    ),
    "diverse": (
        "\n".join(f"{word} {word * 2}" for word in "abcdefghijklmnopqrstuvwxyz") + "\nAll 26 done.",
        "All 26 done",
    ),
    "only report": (
        "\n".join(f"{word * 3}ing the {word * 5}" for word in "abcdefghijkl") + "\nError: no x\nbye",
        "no x",
    ),
}


@pytest.mark.parametrize(("log", "line"), LOGS.values(), ids=LOGS)
@pytest.mark.parametrize("call", [("fetch_log", "{}"), ("run_shell", '{"command": "./sync.sh"}')], ids=["any", "shell"])
def test_only_error_or_last_status_is_kept_before_names(log: str, line: str, call: tuple[str, str]):
    result = Result(log, *call, token_count=_counter.count(log))
    kept = Compactors().compact(result, Hint(task="Why did it stop?", answer="Next I look.", excerpt_limit_tokens=0))
    assert line in kept.facts.partition("Names in it:")[0]
    assert _counter.count(kept.facts) <= Hint().facts_limit_tokens
    shown = Compactors().compact(result, Hint(excerpt_limit_tokens=600)).excerpt
    is_long = "item item" in log  # of so long a line a piece is shown
    assert shown is None or is_long or any(line in log[one.start : one.end] for one in shown)


@pytest.mark.parametrize(
    "content",
    [
        "\n".join(UPLOADS),
        "\n".join([*REQUESTS, "[Command finished with exit code 0]"]),
        "\n".join(f"def {a}{b}({a}):\n    return {b}" for a in "abcdefgh" for b in "stuvwxyz"),
        json.dumps([{"state": "fine", "n": n} for n in range(50)] + [{"state": "broken"}], indent=1),
        "error: one\nerror: two\n" * 20,
        "",
    ],
    ids=range(6),
)
def test_repetitive_and_diverse_content_has_no_outliers(content: str):
    assert telling_lines(content, is_known=True) == []


@given(st.lists(st.text(max_size=30), max_size=30), st.integers(1, 40), st.booleans())
def test_outliers_are_passages_of_the_content(lines: list[str], times: int, is_known: bool):
    content = "\n".join(lines * times)
    passages = telling_lines(content, is_known)
    assert all(0 <= one.start <= one.end <= len(content) for one in passages)
    assert passages == telling_lines(content, is_known)


@pytest.mark.parametrize("hostile", ["\n", "a\n", " \n", "a b ", "error: ", "1 2 3\n"])
def test_hostile_content_is_bounded_work(hostile: str):
    telling_lines(hostile * (1_000_000 // len(hostile)), is_known=False)
