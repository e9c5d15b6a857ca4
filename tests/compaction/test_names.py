"""Names in a content that a later call may need: the right ones first, verbatim, and cheap on hostile input."""

import random
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_context.compaction import names as names_module
from memory_context.compaction.names import ANALYSED_CHARACTERS, analysed_lines, ranked_names

SOURCE = """import json
from shop.pricing import discount_for

def parse_order(text):
    return json.loads(text)

def ship_parcel(order_id, carrier_code):
    label = print_label(order_id, carrier_code)
    return label

def refund_payment(order_id, amount_cents):
    notify_ledger(order_id, amount_cents)
    return amount_cents
"""
any_text = st.text(st.characters(exclude_categories=()))
name_like = st.sampled_from(
    [
        "src/app.py:12:3",
        "a_b.c",
        "https://x.org/a?b=c",
        "\\n",
        '\\"id\\"',
        "K-77",
        "::",
        "(",
        "Aa::Bb",
        " ",
        "\n",
        "x" * 200,
    ]
)
texts = st.lists(any_text | name_like, max_size=40).map("".join)


def ranked(content: str, task: str = "", answer: str = "", known: tuple[str, ...] = ()) -> list[str]:
    return list(ranked_names(content, task=task, answer=answer, known=known))


def test_names_near_the_task_come_first():
    """In the definition that the task is about; the same content with another task gives another order."""
    shipping = ranked(SOURCE, task="Make ship_parcel print the label twice.")
    refunding = ranked(SOURCE, task="Why does refund_payment not notify the ledger?")
    assert {"carrier_code", "print_label"} <= set(shipping[:5])
    assert {"notify_ledger", "amount_cents"} <= set(refunding[:5])
    assert shipping.index("carrier_code") < shipping.index("amount_cents")
    assert refunding.index("amount_cents") < refunding.index("carrier_code")


def test_names_that_are_known_to_matter_come_earlier():
    """Each once."""
    plain = ranked(SOURCE)
    found = ranked(SOURCE, known=("notify_ledger",))
    assert found.index("notify_ledger") < plain.index("notify_ledger")
    assert len(found) == len(set(found))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("see src/shop/pricing.py:12:3 for it", "src/shop/pricing.py"),
        ("open https://shop.example/orders?id=7 now", "https://shop.example/orders?id=7"),
        ("mail to ann.lee@shop.example.", "ann.lee@shop.example"),
        ("order ORD-2024-0017, paid", "ORD-2024-0017"),
        ("in Pricing::Discount it is", "Pricing::Discount"),
        ("the class OrderParser does", "OrderParser"),
        ("retry_count: 5", "retry_count"),
        ("set MAX_RETRIES=5 there", "MAX_RETRIES=5"),
    ],
)
def test_names_of_many_sorts_are_found_verbatim(text: str, name: str):
    """Without the punctuation and the line numbers around them; ordinary words are none."""
    assert name in ranked(text)
    assert not {"see", "for", "it", "now", "the", "does", "paid"} & set(ranked(text))


def test_names_in_escaped_json_are_found():
    """A JSON text inside a JSON text, as MCP servers answer."""
    content = '[{"type": "text", "text": "{\\n  \\"order_id\\": \\"ORD-0017\\",\\n  \\"path\\": \\"a/b.py\\"}"}]'
    found = ranked(content)
    assert {"order_id", "ORD-0017", "a/b.py"} <= set(found)
    assert all(name in content for name in found)


def test_only_a_window_of_a_large_content_is_analysed():
    """Its ends, and what lies around the agent's own words between them."""
    lines = [f"filler line number {i} about nothing in particular" for i in range(40_000)]
    lines[20_000] = "here ledger_total_cents is computed"
    content = "\n".join(lines)
    assert len(content) > 20 * ANALYSED_CHARACTERS
    plain = analysed_lines(content)
    assert sum(len(line) + 1 for line in plain) <= ANALYSED_CHARACTERS + 10
    assert (plain[0], plain[-1]) == (lines[0], lines[-1])
    asked = analysed_lines(content, "What is ledger_total_cents?")
    assert sum(len(line) + 1 for line in asked) <= ANALYSED_CHARACTERS + 100
    assert lines[20_000] in asked
    assert ranked(content, task="What is ledger_total_cents?")[0] == "ledger_total_cents"


@pytest.mark.parametrize(
    "content",
    [
        "a_" * 500_000,
        "\\" * 1_000_000,
        '\\"' * 500_000,
        "a:" * 500_000,
        ":1" * 500_000,
        "def " * 250_000,
        " \n" * 500_000,
        "x" * 1_000_000,
        "(" * 1_000_000,
        "a/b " * 250_000,
        "".join(f"n{i}_x " for i in range(120_000)),
    ],
    ids=range(11),
)
def test_hostile_contents_are_bounded_work(content: str, monkeypatch: pytest.MonkeyPatch):
    """Whatever stands there: so many characters and so many runs are looked at, and no name is longer than allowed."""
    looked_at: list[str] = []
    names_in = names_module._names_in  # pyright: ignore[reportPrivateUsage]

    def counted(run: str):
        looked_at.append(run)
        return names_in(run)

    monkeypatch.setattr(names_module, "_names_in", counted)
    found = ranked(content, task=content[:20_000], answer=content[:20_000])
    assert sum(map(len, looked_at)) <= ANALYSED_CHARACTERS + 1000
    assert max(map(len, analysed_lines(content, content[:20_000])), default=0) <= 2 * 240
    assert all(len(name) <= 160 for name in found)


def test_the_same_content_gives_the_same_names_in_any_process():
    """Nothing hangs on the order of sets: names that weigh the same come as they stand."""
    words = [f"name_{i}" for i in range(100, 400)]
    random.Random(7).shuffle(words)
    assert ranked("\n".join(words)) == words
    task = " ".join(words[:50])
    assert ranked(" ".join(words), task=task) == ranked(" ".join(words), task=" ".join(reversed(words[:50])))


@settings(max_examples=200, deadline=None)
@given(content=texts, task=texts, answer=texts)
def test_every_name_stands_in_the_content(content: str, task: str, answer: str):
    """Verbatim and once, and twice the same."""
    found = list(islice(ranked_names(content, task=task, answer=answer), 200))
    assert all(name in content for name in found)
    assert len(set(found)) == len(found)
    assert found == list(islice(ranked_names(content, task=task, answer=answer), 200))
