"""What names nothing stays out of descriptions, facts and excerpts; the content itself stays as it is."""

import base64
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context.foundation.compactors.compactor import Compacted, Hint, Result
from memory_context.foundation.compactors.excerpt import Passage, render_passages
from memory_context.foundation.compactors.lines import Elided, without_base64, without_markup
from memory_context.foundation.compactors.registry import Compactors
from memory_context.foundation.tokens import default_token_counter

from ..support.growth import assert_linear

counter = default_token_counter()
DATA = base64.b64encode(random.Random(3).randbytes(30_000)).decode()
WORDS = "\n".join(f"line {n} of the report on order_{n}_east, paid in part" for n in range(300))
CONTENTS = {
    "json": json.dumps({"name": "scan of page one", "data": DATA, "order_id": "ORD-17", "note": "paid in part"}),
    "page": f'<html><title>Scan</title><body><img src="data:image/png;base64,{DATA}"> ORD-17</body></html>',
    "text": f"The scan of ORD-17:\n{DATA}\nand so it ends, paid in part.\n",
    "lines": f"The scan of ORD-17:\n{base64.encodebytes(DATA.encode()).decode()}and so it ends.\n",
    "wrapped": json.dumps(
        [{"type": "text", "text": f"The scan of ORD-17: {DATA} and the rest, paid in part.\n{WORDS}"}]
    ),
    "css": f".icon {{ background: url(data:image/gif;base64,{DATA[:4000]}) }}\n.row_ORD-17 {{ color: red }}\n" * 3,
    "long": f"{WORDS}\n{DATA}\n{WORDS}\nThe scan of ORD-17",
}


def compact(content: str, **hint: object) -> tuple[Compacted, str]:
    """Return what becomes of a content, and its excerpt as a view shows it."""
    result = Result(content, "fetch", token_count=counter.count(content))
    kept = Compactors().compact(result, Hint(excerpt_limit_tokens=900, **hint))  # pyright: ignore[reportArgumentType]
    return kept, render_passages(content, kept.excerpt or (), labels=kept.labels)


@pytest.mark.parametrize("kind", CONTENTS)
def test_base64_stands_in_no_description_fact_or_excerpt(kind: str):
    """Its size does; what stands around it is shown."""
    content = CONTENTS[kind]
    kept, excerpt = compact(content, task="What is with ORD-17?")
    for text in (kept.description, kept.facts, excerpt):
        assert not any(DATA[at : at + 30] in text for at in range(len(DATA) - 30))
    assert "[base64, " in excerpt or kind == "long"
    assert "ORD-17" in excerpt
    assert counter.count(excerpt) <= 960


def test_mark_of_base64_says_its_size_and_takes_no_line():
    assert without_base64(f'{{"data": "{DATA}"}}') == '{"data": "[base64, 40 kB]"}'
    _, excerpt = compact(CONTENTS["json"])
    assert '"data": "[base64, 40 kB]", "order_id"' in excerpt


@pytest.mark.parametrize(
    "text",
    [
        "a" * 500,
        "ACGT" * 200,
        "\n".join(f"{n:064x}" for n in range(20)),
        "/".join(["srv", "Build_17", "some.dir"] * 20),
        "-" * 300,
        "Y3Vyc29yOnYyOpHOAA==",
        "see https://shop.example/Orders/17/Items/of/the/Day?" + "&".join(f"Field{n}=Value{n}" for n in range(40)),
    ],
)
def test_other_long_runs_are_no_base64(text: str):
    assert without_base64(text) == text


@given(
    st.lists(st.sampled_from(["a b\n", f"x{DATA[:200]}=", f";base64,{DATA[:60]}", "\n", "é "]), max_size=12), st.data()
)
def test_passages_of_an_elided_text_lead_back_to_the_whole(pieces: list[str], data: st.DataObject):
    whole = " ".join(pieces)
    elided = Elided(whole)
    marks = [mark for _, mark in elided.runs]
    everything = elided.outside([Passage(0, len(elided.text))])
    assert "".join(whole[one.start : one.end] for one in everything) == _without(elided.text, marks)
    start = data.draw(st.integers(0, len(elided.text)))
    end = data.draw(st.integers(start, len(elided.text)))
    passages = elided.outside([Passage(start, end)])
    assert all(0 <= one.start <= one.end <= len(whole) for one in passages)
    assert not any(run.start < one.end and one.start < run.end for run, _ in elided.runs for one in passages)
    shown = "".join(whole[one.start : one.end] for one in passages)
    assert shown in _without(elided.text, marks)


def _without(text: str, marks: list[str]) -> str:
    for mark in marks:
        text = text.replace(mark, "", 1)
    return text


PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="UTF-8"><script>var some_script = 1.5;</script></head>
<body id="main-body" class="fa-svg"><svg id=fa-copy><path d="M41.4 9.4C53 21.6 53 42 41.4 54.1Z"/></svg>
<a href="/orders/ORD-17" id="link-17">the order of load_prices()</a> T&gt;U &amp; snake_case</body></html>"""


def test_names_of_a_page_are_of_its_text_and_links():
    kept, _ = compact(PAGE)
    names = kept.facts.removeprefix("Names in it: ").split(", ")
    assert set(names) == {"/orders/ORD-17", "load_prices", "snake_case"}


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (
            "SELECT order_id FROM carts_now WHERE total IS NULL ORDER BY PAID_ON\n" * 2,
            {"order_id", "carts_now", "PAID_ON"},
        ),
        ("static_cast<uint8_t>(total_of) + size_t(row_count)", {"total_of", "row_count"}),
        ("if __name__ == '__main__': run_shop()", {"run_shop"}),
        ('<order id="ORD-17"><itemRow sku="SKU-904"/></order>', {"ORD-17", "SKU-904"}),
        ('icons = {copy_icon: "M41.4 9.4C53 21.6 53 42 41.4 54.1z", v: "v1.2.3"}', {"copy_icon", "v1.2.3"}),
    ],
    ids=["SQL", "C++", "Python", "XML", "drawing"],
)
def test_reserved_words_and_drawings_are_no_names(content: str, names: set[str]):
    kept, _ = compact(f"rows\n{content}" if content[0] != "<" else content)
    assert set(kept.facts.removeprefix("Names in it: ").split(", ")) == names


@pytest.mark.thorough
@pytest.mark.parametrize(
    "unit", ["aB1", "aB1 ", ";base64,", "<a ", "<a b=c ", "a=", "<script>", '"M1 ', "&lt", "aB1/" * 16 + "\r\n"]
)
def test_time_is_linear_on_hostile_text(unit: str):
    assert_linear(without_base64, unit)
    assert_linear(without_markup, unit)
    assert_linear(lambda text: without_markup(f"<a {text}"), unit)
