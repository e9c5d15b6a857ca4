"""The field of a list that an agent walks through."""

import json

import pytest

from memory_context.compaction import Compactors, Hint, Result
from memory_context.compaction.columns import walked_column

pytestmark = pytest.mark.thorough

ORDERS = [{"id": f"5f{number:06x}", "customer": f"Customer {number}", "city": "Paris"} for number in range(30)]


def test_values_of_the_field_that_the_answer_used_come_first_after_the_used_one():
    name, values = walked_column(json.dumps({"orders": ORDERS}), 'get_order {"order_id": "5f000003"}') or ("", [])
    assert name == "id"
    assert values[:2] == ["5f000004", "5f000005"]
    assert values[-1] == "5f000002"
    assert "5f000003" not in values


def test_field_with_most_values_in_the_answer_counts():
    answer = "Customer 1 and Customer 2 wait for 5f000001"
    name, values = walked_column(json.dumps(ORDERS), answer) or ("", [])
    assert name == "customer"
    assert "Customer 3" in values


def test_values_within_longer_words_are_not_used_values():
    assert walked_column(json.dumps(ORDERS), "see 5f0000033 and x5f000004") is None


def test_no_field_is_walked_without_records_or_an_answer():
    assert walked_column(json.dumps(ORDERS), "") is None
    assert walked_column("plain words about 5f000003", "5f000003") is None
    assert walked_column(json.dumps(ORDERS), "Paris is all there is") is None, "a field of one value is no list"


def test_facts_keep_the_field_that_the_answer_walks_through_within_their_limit():
    records = [{"note": f"{order['customer']} wrote on day {order['id'][-2:]}", **order} for order in ORDERS]
    content = json.dumps(records)
    hint = Hint(task="Check each order.", answer='get_order {"order_id": "5f000000"}')
    result = Result(content, "list_orders", token_count=hint.counter.count(content))
    facts = Compactors().compact(result, hint).facts
    assert facts.startswith("id: 5f000001, 5f000002, ")
    assert hint.counter.count(facts) <= hint.facts_limit_tokens
