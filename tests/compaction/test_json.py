"""JSON and its like: how many records, how they are called, what stands out."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context.compaction.analyzers.json import analyze_json
from memory_context.compaction.compactor import Analysis, Result
from memory_context.text import json_text

from .sound import analyze_soundly, spoiled

pytestmark = pytest.mark.thorough

BOOKINGS = [
    {"booking_id": f"BK-{n:03}", "guest": {"name": f"Guest {n}"}, "nights": n % 5 + 1, "status": "open", "note": None}
    for n in range(12)
]
BOOKINGS[7] |= {"status": "failed", "nights": 40, "error": "card declined"}

SAMPLES = [json.dumps(BOOKINGS, indent=1), json.dumps({"data": BOOKINGS}), str(BOOKINGS)]


def read(content: str) -> Analysis:
    analysis = analyze_soundly(analyze_json, Result(content, "api"))
    assert analysis is not None
    return analysis


@pytest.mark.parametrize(
    ("kind", "render"),
    [
        ("JSON", json.dumps),
        ("JSON", lambda rows: json.dumps(rows, indent=2)),
        ("JSON", lambda rows: json.dumps({"meta": {"page": 1}, "data": {"rows": rows}})),
        ("JSON", lambda rows: f"Response:\n```json\n{json.dumps(rows)}\n```"),
        ("JSON Lines", lambda rows: "\n".join(map(json.dumps, rows))),
        ("Python literal", str),
    ],
)
def test_records_are_counted_and_named_in_every_notation(kind: str, render: Callable[[object], str]) -> None:
    analysis = read(render(BOOKINGS))
    assert analysis.description.startswith(f"{kind}, 12 records")
    assert {f"BK-{n:03}" for n in range(12)} <= set(analysis.names)
    facts = "\n".join(analysis.facts)
    assert "card declined" in facts


def test_records_that_lack_a_field_are_counted() -> None:
    assert "error (11 missing)" in "\n".join(read(json.dumps(BOOKINGS)).facts)


@pytest.mark.parametrize("left", [200, 700, 1000])
def test_json_that_was_cut_off_is_read_as_far_as_it_goes(left: int) -> None:
    analysis = read(json.dumps({"page": 2, "data": BOOKINGS})[:left])
    assert "cut off" in analysis.description
    assert "BK-000" in analysis.names
    assert analysis.facts[0].startswith("page: 2") or "page: 2" in "\n".join(analysis.facts)


def test_records_before_a_gap_in_the_middle_are_read() -> None:
    content = json.dumps(BOOKINGS)
    names = read(content[:500] + "\n[... 400 characters left out ...]\n" + content[900:]).names
    assert "BK-000" in names


@pytest.mark.parametrize(
    ("value", "failed"),
    [
        ({"error": {"message": "no such table"}}, True),
        ({"success": False, "reason": "late"}, True),
        ({"status": "failed", "id": 4}, True),
        ({"success": True, "id": 4}, False),
        ({"id": 4, "text": "an error occurs if a is 0"}, None),
        ([{"id": 1, "status": "failed"}, {"id": 2, "status": "ok"}], None),
    ],
)
def test_status_fields_of_the_answer_decide_failure_not_those_of_records(value: object, failed: bool | None) -> None:
    analysis = read(json.dumps(value))
    assert analysis.has_failed is failed
    if isinstance(value, dict) and "error" in value:
        assert analysis.facts[0] == "error: no such table"


def test_plain_fields_of_a_single_object_are_facts() -> None:
    analysis = read('{"total": 3, "owner": {"login": "ann"}, "tags": ["a"], "closed": false}')
    assert "total: 3; closed: false" in analysis.facts
    assert "owner: login: ann" in analysis.facts
    assert "ann" in analysis.names


@pytest.mark.parametrize(
    "content",
    [
        "",
        "plain words",
        "[INFO] starting\n[INFO] done\n",
        "[12]<button>Save</button>\n[13]<a>Home</a>\n",
        "- one\n- two\n",
        "- name: a\n  kind: list in YAML\n- name: another\n  kind: b\n",
        "def f(x):\n    return {'a': x}\n",
        "[1] a footnote and more of it",
        "python check.py\n[[ True False]\n [False  True]]\ndone\n",
        "{% block title %}",
    ],
)
def test_other_contents_are_not_json(content: str) -> None:
    assert analyze_json(Result(content, "tool")) is None


@pytest.mark.parametrize(
    "content",
    [
        "[" * 300_000,
        '{"a":' * 100_000,
        '{"a":"' + '\\"' * 300_000,
        "{'a':" + "'\\'" * 100_000,
        '{"a": ' + "9" * 300_000,
        "- a: 1\n  b: 2\n" + "- " * 100_000,
        "- a: 1\n  b: 2\n" + "- a:\n" * 50_000,
        '{"a": "\x00\ud800", "b": NaN, "c": 1e999}',
    ],
)
def test_hostile_documents_are_survived(content: str) -> None:
    analyze_soundly(analyze_json, Result(content, "tool"))


def test_parsing_of_a_huge_document_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[int] = []
    decode = json_text._DECODER.raw_decode  # pyright: ignore[reportPrivateUsage]

    class Counting:
        def raw_decode(self, text: str, position: int) -> object:
            parsed.append(len(text))
            return decode(text, position)

    monkeypatch.setattr(json_text, "_DECODER", Counting())
    content = json.dumps({"data": BOOKINGS * 4000})
    assert len(content) > 4_000_000
    analysis = analyze_json(Result(content, "api"))
    assert analysis is not None
    assert "+ records in data" in analysis.description
    assert max(parsed) <= 1_000_000


@given(spoiled(SAMPLES) | st.text())
def test_any_text_is_read_soundly(content: str) -> None:
    analyze_soundly(analyze_json, Result(content, "api"))
    analyze_soundly(analyze_json, Result("[{" + content, "api"))


def test_large_document_is_not_called_cut_off() -> None:
    whole = json.dumps([{"id": number, "note": "x" * 900} for number in range(1300)])
    for content, said in ((whole, "the beginning was read"), (whole[: len(whole) // 2], "cut off")):
        analysis = analyze_json(Result(content, "query"))
        assert analysis is not None
        assert said in analysis.description
