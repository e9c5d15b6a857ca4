"""Names in a content that a later call may need: the right ones first, verbatim, and cheap on hostile input."""

import json
import random
import re
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context.foundation.compactors import names as names_module
from memory_context.foundation.compactors.names import ANALYSED_CHARACTERS, analysed_text, ranked_names

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


def test_names_of_an_analyzer_come_earlier():
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
    assert set(found) == {"ORD-0017", "a/b.py"}
    assert all(name in content for name in found)


def test_only_a_window_of_a_large_content_is_analysed():
    """Its ends, and what lies around the agent's own words between them."""
    lines = [f"filler line number {i} about nothing in particular" for i in range(40_000)]
    lines[20_000] = "here ledger_total_cents is computed"
    content = "\n".join(lines)
    assert len(content) > 20 * ANALYSED_CHARACTERS
    plain = analysed_text(content).split("\n")
    assert sum(len(line) + 1 for line in plain) <= ANALYSED_CHARACTERS + 10
    assert (plain[0], plain[-1]) == (lines[0], lines[-1])
    asked = analysed_text(content, "What is ledger_total_cents?").split("\n")
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
    assert len(analysed_text(content, content[:20_000])) <= ANALYSED_CHARACTERS + 1000
    assert all(len(name) <= 160 for name in found)


def test_names_are_the_same_in_any_process():
    """Nothing hangs on the order of sets: names that weigh the same come as they stand."""
    words = [f"name_{i}" for i in range(100, 400)]
    random.Random(7).shuffle(words)
    assert ranked("\n".join(words)) == words
    task = " ".join(words[:50])
    assert ranked(" ".join(words), task=task) == ranked(" ".join(words), task=" ".join(reversed(words[:50])))


@given(content=texts, task=texts, answer=texts)
def test_every_name_stands_in_the_content(content: str, task: str, answer: str):
    """Verbatim and once, and twice the same."""
    found = list(islice(ranked_names(content, task=task, answer=answer), 200))
    assert all(name in content for name in found)
    assert len(set(found)) == len(found)
    assert found == list(islice(ranked_names(content, task=task, answer=answer), 200))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("cat /srv/shop/app.py", "/srv/shop/app.py"),
        ("in ~/.ssh/config_old it", "~/.ssh/config_old"),
        ("(../shared/Data_3.csv)", "../shared/Data_3.csv"),
        ("edit .github/workflows/ci.yml", ".github/workflows/ci.yml"),
        ("see [it](https://w.example/wiki/Oak_(tree_5)).", "https://w.example/wiki/Oak_(tree_5)"),
        ('"cursor": "Y3Vyc29yOnYyOpHOAA=="', "Y3Vyc29yOnYyOpHOAA=="),
        ("liked urn:post:share:7123 today", "urn:post:share:7123"),
    ],
)
def test_name_keeps_its_own_punctuation(text: str, name: str):
    assert name in ranked(text)


@pytest.mark.parametrize("separator", [",", "/", ":", "&", "%2C", '","', "(", "|", "\\n"])
@pytest.mark.thorough
def test_name_is_never_cut(separator: str):
    """Neither in a line without spaces, nor where a window of a large content ends."""
    rng = random.Random(separator)
    ids = [f"id-{rng.getrandbits(90):x}-end" for _ in range(4000)]
    content = f"x{'?' * rng.randrange(40)}{separator.join(ids)}"
    found = ranked(content, task=ids[1500], answer=ids[2500])
    assert [name for name in found if not set(re.split(r"[^\w-]+", name)) - {"", "2C", "x"} <= {*ids}] == []
    assert len(found) > 100 or separator in "/&%2C:("


def test_long_url_is_listed_whole_or_not():
    long = "https://shop.example/list?" + "&".join(f"field_{n}=value_{n}" for n in range(40))
    assert ranked(f'[{{"url": "{long}", "next": "https://shop.example/next_2"}}]') == ["https://shop.example/next_2"]


def test_escaped_and_masked_names_are_left_out():
    """They cannot be searched for as they would be written."""
    content = r'{"url": "https://x.example/a?b=1\u0026c_2=3", "name": "caf\u00e9_de_Paris"}'
    assert [name for name in ranked(content) if name in content] == []
    assert ranked("https://ann:[credential****]@x.example/a_b and https://ann:*****@x.example/a_b") == []


def test_field_names_of_json_are_no_names():
    """Those of records, of one object, printed by Python or in pieces of a long line; ids and values stay names."""
    rows = [{"user_id": f"u-{n:04x}", "createdAt": "2026-01-05", "sha256": f"{n:064x}"} for n in range(99)]
    for content in (json.dumps(rows), json.dumps(rows, indent=2), repr(rows), json.dumps(json.dumps(rows))):
        found = set(ranked(content))
        assert not {"user_id", "createdAt", "sha256"} & found
        assert "u-0007" in found
    one = '{"post_to_sis": true, "order_17": {"total_cents": 5}, "src/app.py": 1, "sort_by": "created_at"}'
    assert set(ranked(one)) == {"order_17", "src/app.py", "created_at"}


def test_field_name_with_a_number_is_no_name_among_plain_fields():
    """Unless it holds an object, or most keys are of its kind: then it is an id."""
    plain = {"city": "Cupertino", "sector": "Technology", "currency": "USD", "beta": 1.2, "open": True, "state": "CA"}
    numbered = {"address1": "One Park Way", "52WeekChange": 0.1}
    assert ranked(json.dumps(plain | numbered)) == []
    assert ranked(json.dumps(plain | {"server17": {"is_up": True}})) == ["server17"]
    assert set(ranked(json.dumps({"server17": "up", "server18": "down"}))) == {"server17", "server18"}
    assert ranked(json.dumps(plain | {"run_5f3a": "done"})) == ["run_5f3a"]


def test_name_in_code_stays_a_name_beside_its_key():
    assert "form_class" in ranked('context = {"form_class": form_class}')
    assert "admin_user" in ranked('if name == "admin_user":\n    pass')
    assert "get_user" in ranked('{"get_user": {"a": 1}}', known=("get_user",))
