"""What is meant to be read, told by its form; everything else is looked up in."""

import json
import random
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context.foundation.text.documents import is_document

_VOCABULARY = """the of and to in a is that for it as was with be by on not he his but at are this have from or had
which one you were all there would their we him been has when who will no more if out so up said
what its about than into them river library contract supplier engine garden market price winter
report city museum harbour painting treaty teacher valley forest letter window morning company
payment delivery tenant owner insurance repair signature appendix"""
_WORDS = _VOCABULARY.split()
_rng = random.Random(7)


def _sentence() -> str:
    return " ".join(_rng.choices(_WORDS, k=_rng.randint(7, 20))).capitalize() + _rng.choice("...?")


SENTENCES = [_sentence() for _ in range(400)]
PARAGRAPHS = [" ".join(SENTENCES[place : place + 5]) for place in range(0, 200, 5)]
TEXT = "\n\n".join(PARAGRAPHS)
NOUNS = _WORDS[-28:]

READ = {
    "paragraphs": TEXT,
    "wrapped lines": "\n\n".join(textwrap.fill(one, 76) for one in PARAGRAPHS),
    "one line": " ".join(PARAGRAPHS),
    "Markdown": "\n\n".join(f"## Part {n}\n\n{one}\n\n- {SENTENCES[n]}" for n, one in enumerate(PARAGRAPHS)),
    "Markdown with code": "\n\n".join(
        f"{one}\n\n```python\nx = f(1)\n" + "y = x[0]\n" * 5 + "```" for one in PARAGRAPHS
    ),
    "page with navigation": "".join(f"[{noun}](https://x.example/{noun}?q=1#top)\n" for noun in NOUNS) + f"\n{TEXT}",
    "HTML": "<!doctype html><html><head><script>" + "a={b:1};" * 500 + "</script></head><body>"
    f"<nav>{'<a href=/x>x</a>' * 80}</nav>{''.join(f'<p class=a>{one}</p>' for one in PARAGRAPHS)}</body></html>",
    "mail": "Return-Path: <a@x.example>\nFrom: Ann\nTo: Bo\nSubject: Lists\n\n" + "4711;17;3\n" * 400,
    "thread": "On Monday Ann wrote:\n" + "\n".join(f"> {line}" for line in textwrap.wrap(TEXT, 70)),
    "minutes": "\n".join(f"{name}: {one}" for name, one in zip(["Ann", "Bo"] * 99, SENTENCES, strict=False)),
    "clauses": "\n\n".join(f"{n}.{n + 1} {one}" for n, one in enumerate(PARAGRAPHS)),
    "list": "\n".join(f"{n}. {one}" for n, one in enumerate(SENTENCES[:99])),
    "field of JSON": json.dumps({"url": "https://x.example", "title": "A page", "content": TEXT}),
    "German": "Der Mietvertrag beginnt am ersten Tag des Monats. Die Miete ist im Voraus zu zahlen, soweit nichts "
    "anderes vereinbart ist.\n\n" * 30,
    "Chinese": "河边的老图书馆在二〇一九年重新开放。馆里现在有四万册书，每天大约有人来访。\n\n" * 60,
    "Arabic": "افتتحت المكتبة القديمة بجوار النهر من جديد. يزورها كل يوم نحو ألفي قارئ، وفيها كتب في شتى العلوم.\n\n"
    * 30,
}
LOOKED_UP_IN = {
    "log": "\n".join(f"2026-01-05T10:{n % 60:02}:07Z INFO {one}" for n, one in enumerate(SENTENCES)),
    "log of levels": "\n".join(f"INFO {one}" for one in SENTENCES),
    "system log": "\n".join(f"Jan  5 10:{n % 60:02}:07 host app[{n}]: {one}" for n, one in enumerate(SENTENCES)),
    "access log": "\n".join(f'10.0.0.{n % 99} - - [05/Jan/2026] "GET /x/{n} HTTP/1.1" 200 {n}' for n in range(400)),
    "test log": "\n".join(f"tests/test_{n}.py::test_it PASSED [ {n % 99}%]" for n in range(400)),
    "stack": "\n".join(f'  File "/srv/shop/{n}.py", line {n}, in call\n    return call(x)' for n in range(200)),
    "file list": "\n".join(f"{one}_{other}.txt" for one in NOUNS for other in NOUNS),
    "words": "\n".join(NOUNS * 40),
    "columns": "\n".join("  ".join(noun.ljust(14) for noun in NOUNS[:5]) for _ in range(300)),
    "hits in files": "\n".join(f"docs/it.md:{n}:{one}" for n, one in enumerate(SENTENCES)),
    "CSV": "name,city,note\n" + "\n".join(f"{NOUNS[n % 28]},{NOUNS[n % 9]},{one}" for n, one in enumerate(SENTENCES)),
    "tabs": "\n".join(f"{NOUNS[n % 28]}\t{NOUNS[n % 9]}\t{one}" for n, one in enumerate(SENTENCES)),
    "table": "| a | b |\n|---|---|\n" + "\n".join(f"| {NOUNS[n % 28]} | {one} |" for n, one in enumerate(SENTENCES)),
    "records": json.dumps([{"id": n, "title": one, "text": one} for n, one in enumerate(SENTENCES)]),
    "JSON Lines": "\n".join(json.dumps({"level": "info", "message": one}) for one in SENTENCES),
    "YAML": "\n".join(f"- name: {NOUNS[n % 28]}\n  note: {one}" for n, one in enumerate(SENTENCES)),
    "XML": "<rows>" + "".join(f"<row><id>{n}</id><name>{NOUNS[n % 28]}</name></row>" for n in range(400)) + "</rows>",
    "source": "\n".join(
        f'def f{n}(x):\n    """{one}"""\n    y = x + {n}\n    return y' for n, one in enumerate(SENTENCES)
    ),
    "numbered source": "\n".join(f"{n:6}\t# {one}" for n, one in enumerate(SENTENCES)),
    "diff": "diff --git a/it.md b/it.md\n"
    + "\n".join(f"@@ -{n} +{n} @@\n-{one}\n+{one}" for n, one in enumerate(SENTENCES)),
    "base64": "QUJD" * 9999,
    "script": "<!doctype html><html><script>" + "a={b:1};" * 5000 + "</script><p>Please wait a moment.</p></html>",
    "nothing": "",
}


@pytest.mark.parametrize("content", READ.values(), ids=READ)
def test_document_is_told_by_its_form(content: str):
    assert is_document(content)


@pytest.mark.parametrize("content", LOOKED_UP_IN.values(), ids=LOOKED_UP_IN)
def test_machine_output_is_no_document(content: str):
    assert not is_document(content)


@pytest.mark.parametrize("hostile", ["<", "<pre", "```\n", "[](", "\n ", " a", "<a ", "## \n"])
def test_hostile_content_is_classified_in_bounded_time(hostile: str):
    assert not is_document(hostile * (60_000 // len(hostile)))


@given(st.text(st.characters(exclude_categories=())), st.integers(1, 300))
def test_any_content_is_classified(content: str, times: int):
    assert is_document(content * times) in (True, False)
