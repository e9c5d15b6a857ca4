"""Contents of every sort that tools return, made here from a seed: fresh ones of any length, and real in their form.

Words, names and numbers are drawn at random, so nothing repeats beyond what such outputs repeat by nature.
"""

import json
import random
from collections.abc import Callable, Iterator
from itertools import count

__all__ = ["CALLS", "KINDS", "content_of"]

_WORD_LIST = """
archive account balance batch budget cache calendar channel client column connector context counter cursor customer
daily deadline decision default delivery device directory document domain driver edge element engine entry event
export factor feature field filter folder format gateway handler header history import index inventory invoice item
journal label ledger limit linear market matrix measure member memory message metric model module monitor network
notice number object offer option order package parser partner passage payment permit planner policy portal prefix
price process product profile project provider queue quota range reader record region register relay report request
result review route sample schedule schema section segment sensor series server session signal source station status
storage stream supply switch table target task template tenant ticket token trace transfer update value vendor version
visitor volume warehouse weight window worker
"""
_WORDS = _WORD_LIST.split()
_VERBS = ("load", "save", "read", "merge", "count", "check", "update", "remove", "render", "parse", "send", "fetch")
_FOLDERS = ("app", "core", "lib", "tests", "web", "jobs", "store", "api", "docs", "tools")


class _Maker:
    """Draws what contents are made of."""

    def __init__(self, seed: object) -> None:
        self.random = random.Random(f"contents {seed}")

    def word(self) -> str:
        return self.random.choice(_WORDS)

    def words(self, least: int, most: int) -> str:
        return " ".join(self.random.choices(_WORDS, k=self.random.randint(least, most)))

    def sentence(self) -> str:
        return f"{self.words(6, 18).capitalize()}."

    def name(self) -> str:
        return f"{self.random.choice(_VERBS)}_{self.word()}_{self.word()}"

    def path(self) -> str:
        return f"{self.random.choice(_FOLDERS)}/{self.word()}/{self.word()}_{self.word()}.py"

    def identifier(self) -> str:
        return f"{self.random.getrandbits(48):012x}"

    def below(self, end: int) -> int:
        return self.random.randrange(end)


def _code(make: _Maker) -> Iterator[str]:
    yield '"""Made up."""\n\nimport json\nfrom pathlib import Path\n'
    while True:
        yield f"\n\nclass {make.word().title()}{make.word().title()}:\n"
        for _ in range(4):
            first, second, attribute = make.word(), make.word(), make.word()
            yield f'    def {make.name()}(self, {first}: str, {second}: int = {make.below(90)}) -> str:\n        """'
            yield f"{make.sentence()}"
            yield f'"""\n        self.{attribute} = {first}.{make.name()}({second}, "{make.word()}")\n'
            yield f"        if {second} > {make.below(900)}:\n            raise ValueError(f'no {{{first}}}')\n"
            yield f"        # {make.words(4, 12)}\n        return self.{attribute}[{second}]\n\n"


def _numbered(make: _Maker) -> Iterator[str]:
    lines = "".join(piece for piece, _ in zip(_code(make), range(400), strict=False)).split("\n")
    for number in count(1):
        yield f"{number:6d}\t{lines[number % len(lines)]}\n"


def _test_log(make: _Maker) -> Iterator[str]:
    yield "============================= test session starts ==============================\ncollected 812 items\n\n"
    while True:
        outcome = "FAILED" if make.below(60) == 0 else "PASSED"
        yield f"{make.path()}::test_{make.name()} {outcome} [{make.below(100):3d}%]\n"
        if outcome == "FAILED":
            yield f"E       AssertionError: assert {make.below(99)} == {make.below(99)}\n"
            yield f"{make.path()}:{make.below(400)}: AssertionError\n"


def _service_log(make: _Maker) -> Iterator[str]:
    for number in count():
        level = make.random.choices(("INFO", "DEBUG", "WARNING", "ERROR"), (80, 15, 4, 1))[0]
        hours, minutes, seconds = number // 3600 % 24, number // 60 % 60, number % 60
        yield f"2026-03-{1 + number // 86400 % 28:02d} {hours:02d}:{minutes:02d}:{seconds:02d},{make.below(1000):03d} "
        yield f"{level} {make.word()}.{make.word()} {make.words(3, 9)} id={make.identifier()}\n"


def _diff(make: _Maker) -> Iterator[str]:
    while True:
        path = make.path()
        yield f"diff --git a/{path} b/{path}\nindex {make.identifier()[:7]}..{make.identifier()[:7]} 100644\n"
        yield f"--- a/{path}\n+++ b/{path}\n"
        for number in range(1, 4):
            yield f"@@ -{number * 40},7 +{number * 40},8 @@ def {make.name()}(self):\n"
            yield "".join(f"     {make.name()}({make.word()})\n" for _ in range(3))
            yield f"-    return {make.name()}({make.below(100)})\n+    {make.word()} = {make.below(100)}\n"
            yield f"+    return {make.name()}({make.word()})\n"
            yield "".join(f"     {make.name()}({make.word()})\n" for _ in range(3))


def _search(make: _Maker) -> Iterator[str]:
    while True:
        path = make.path()
        for _ in range(1 + make.below(6)):
            yield f"{path}:{make.below(900)}:    {make.word()} = {make.name()}({make.word()}, {make.below(100)})\n"


def _files(make: _Maker) -> Iterator[str]:
    while True:
        yield f"./{make.path()}\n"


def _traces(make: _Maker) -> Iterator[str]:
    while True:
        yield "Traceback (most recent call last):\n"
        for _ in range(5):
            yield f'  File "/srv/{make.path()}", line {make.below(900)}, in {make.name()}\n'
            yield f"    {make.word()} = {make.name()}({make.word()})\n"
        yield f"{make.word().title()}Error: {make.words(3, 9)}\n\n"


def _record(make: _Maker, number: int) -> str:
    record = {"id": number, "name": make.name(), "price": make.below(100_000) / 100, "status": make.word()[:1]}
    return json.dumps(record | {"owner": {"email": f"{make.word()}@example.org"}, "note": make.words(4, 12)})


def _json(make: _Maker) -> Iterator[str]:
    yield f'{{"total": 812, "items": [{_record(make, 0)}'
    for number in count(1):
        yield f", {_record(make, number)}"


def _json_lines(make: _Maker) -> Iterator[str]:
    for number in count():
        yield _record(make, number) + "\n"


def _csv(make: _Maker) -> Iterator[str]:
    yield "id,name,region,amount,created\n"
    for number in count(1):
        yield f"{number},{make.name()},{make.word()},{make.below(100_000) / 100},2026-0{1 + make.below(9)}-17\n"


def _columns(make: _Maker) -> Iterator[str]:
    yield "NAME                                     READY   STATUS    RESTARTS   AGE\n"
    while True:
        name = f"{make.word()}-{make.word()}-{make.identifier()[:9]}"
        yield f"{name:41}1/1     Running   {make.below(9)}          3d\n"


def _markdown(make: _Maker) -> Iterator[str]:
    yield "Title: Made up\n\nURL Source: https://docs.example.org/made-up\n\n# Made up\n\n"
    while True:
        yield f"## {make.words(2, 4).title()}\n\n" + " ".join(make.sentence() for _ in range(4)) + "\n\n"
        yield "".join(
            f"- [{make.words(2, 4)}](https://docs.example.org/{make.word()}/{make.word()})\n" for _ in range(4)
        )
        yield "\n"


def _html(make: _Maker) -> Iterator[str]:
    yield "<!doctype html>\n<html><head><title>Made up</title></head><body>\n"
    while True:
        yield f"<h2>{make.words(2, 4).title()}</h2>\n"
        yield f"<p class='text'>{' '.join(make.sentence() for _ in range(4))}</p>\n"
        yield "".join(
            f'<li><a href="/{make.word()}/{make.identifier()}">{make.words(2, 4)}</a></li>\n' for _ in range(4)
        )


def _snapshot(make: _Maker) -> Iterator[str]:
    yield "- Page URL: https://shop.example.org/\n- Page Title: Made up\n- Page Snapshot:\n"
    for number in count(1):
        role = make.random.choice(("button", "link", "textbox", "heading", "listitem", "generic"))
        yield f'{"  " * (1 + number % 4)}- {role} "{make.words(1, 4)}" [ref=e{number}]\n'


def _prose(make: _Maker) -> Iterator[str]:
    while True:
        yield " ".join(make.sentence() for _ in range(1 + make.below(6))) + "\n\n"


def _one_line(make: _Maker) -> Iterator[str]:
    while True:
        yield f"{make.identifier()}{make.word()};"


def _wrapped(make: _Maker) -> Iterator[str]:
    yield "meta=None content=[TextContent(type='text', text='"
    for piece in _json_lines(make):
        yield piece.replace("\n", "\\n")


KINDS: dict[str, Callable[[_Maker], Iterator[str]]] = {
    "source code": _code,
    "numbered source": _numbered,
    "test log": _test_log,
    "service log": _service_log,
    "diff": _diff,
    "search in files": _search,
    "file list": _files,
    "stack traces": _traces,
    "JSON": _json,
    "JSON Lines": _json_lines,
    "CSV": _csv,
    "columns": _columns,
    "Markdown page": _markdown,
    "HTML page": _html,
    "page snapshot": _snapshot,
    "prose": _prose,
    "one long line": _one_line,
    "MCP wrapper": _wrapped,
}
"""How each sort is made, piece after piece, without end."""


CALLS = {
    "source code": '{"path": "app/budget/ledger.py"}',
    "numbered source": '{"command": "cat -n app/budget/ledger.py"}',
    "service log": '{"command": "journalctl -u budget"}',
}
"""The arguments of the calls that bring contents which their form alone does not tell."""


def content_of(kind: str, length: int, seed: object) -> str:
    """Return a content of a kind of so many characters; the same for the same seed."""
    pieces: list[str] = []
    made = 0
    for piece in KINDS[kind](_Maker((kind, seed))):
        pieces.append(piece)
        made += len(piece)
        if made >= length:
            break
    return "".join(pieces)[:length]
