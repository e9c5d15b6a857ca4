"""JSON records as a table of what varies between them."""

import json
from typing import Any

import pytest

from memory_context.foundation.compactors.compactor import Hint, Result
from memory_context.foundation.compactors.records import table_of
from memory_context.foundation.compactors.registry import Compactors
from memory_context.foundation.tokens import default_token_counter

COUNTER = default_token_counter()
PROSE = "A long description, in which nothing has to be found again. "


def people(count: int, **more: Any) -> list[dict[str, Any]]:
    """Records with a name, a number, prose and an address."""
    return [
        {
            "employeeId": f"E-{number:04}",
            "name": {"first": f"Given{number}", "last": f"Family{number}"},
            "office": "Oslo",
            "tags": ["a", number],
            "bio": PROSE * 4 + str(number),
            "photo": f"https://example.org/{'long/' * 12}{number}.png",
            **more,
        }
        for number in range(count)
    ]


def table(value: Any, limit: int = 1_000, **how: Any) -> str:
    return table_of(json.dumps(value, **how), limit, COUNTER) or ""


@pytest.mark.parametrize("indent", [None, 2])
def test_all_records_have_a_row_of_what_names_them(indent: int | None):
    found = table({"page": 1, "data": {"items": people(40)}}, 900, indent=indent)
    head, names, *rows = found.split("\n")
    assert head == "40 records in data.items; beside them: page=1; the same in all: office=Oslo; not here: bio, photo"
    assert names == "employeeId | name.first | name.last | tags"
    assert rows == [f'E-{one:04} | Given{one} | Family{one} | ["a", {one}]' for one in range(40)]
    assert not COUNTER.is_over(found, 900)


def test_values_beside_the_records_stay_within_the_limit():
    """The cursor of the next page is short; an embedded text is not."""
    answer = {"data": {"items": people(40), "next": {"cursor": "CUR_9f8e7d"}}, "has_more": True, "help": PROSE * 9}
    found = table(answer, 900)
    assert "beside them: data.next.cursor=CUR_9f8e7d, has_more=true;" in found.split("\n")[0]
    assert PROSE[:20] not in found
    assert not COUNTER.is_over(found, 900)


def test_long_values_are_cut_to_what_room_is_left_and_addresses_never():
    roomy, narrow = (table(people(6), limit) for limit in (1_200, 450))
    assert f"{PROSE * 4}5 |" in roomy
    assert "not here" not in roomy
    assert roomy.count(".png") == 6
    assert "…" in narrow
    assert "photo" in narrow.split("\n")[0], "named as left out"


def test_equal_columns_are_shown_once_and_values_stay_in_one_line():
    found = table([{"id": one, "label": f"n{one}", "title": f"n{one}", "note": f"{one}\n two"} for one in range(5)])
    assert found.split("\n")[:2] == ["5 records; not here: label", "id | title | note"]
    assert "4 | n4 | 4 two" in found


def test_of_a_cut_list_the_whole_records_are_shown():
    text = json.dumps(people(30))[:6_000]
    found = table_of(text, 1_500, COUNTER) or ""
    rows = found.split("\n")[2:]
    assert "records, then cut off" in found
    assert len(rows) == text.count('.png"}')


@pytest.mark.parametrize(
    "text",
    [
        "no JSON",
        json.dumps(people(2)),
        json.dumps({"text": PROSE * 100, "rows": people(3)}),
        json.dumps([1, 2, 3, 4]),
        json.dumps([{"only": "the same"}] * 50),
        json.dumps(people(900)),
        "[" * 5_000,
    ],
)
def test_nothing_is_made_of_other_contents_and_of_what_does_not_fit(text: str):
    assert table_of(text, 1_000, COUNTER) is None


def test_a_compactor_shows_the_table_in_place_of_an_excerpt_and_masks_it():
    records = people(40, token="ghp_" + "a1B2" * 9)
    wrapped = json.dumps([{"type": "text", "text": json.dumps(records)}])
    kept = Compactors().compact(Result(wrapped, "list_people"), Hint(excerpt_limit_tokens=1_000, counter=COUNTER))
    assert kept.excerpt is None
    assert "E-0039 | Given39" in kept.table
    assert "a1B2" not in kept.table
    assert kept.is_part
