"""A snapshot of Playwright becomes lines that say something, with references that never lead to another element."""

import pytest

from memory_context.connectors.web.report import Blinking, changes_between, told_changes
from memory_context.connectors.web.snapshot import Fact, Line, References, pruned

SHOP = r"""
- generic [active] [ref=e1] [box=0,0,1280,700]:
  - banner [ref=e2] [box=0,0,1280,50]:
    - link "Corner Shop" [ref=e3] [cursor=pointer] [box=0,0,90,18]:
      - /url: /shop/
  - navigation "Kinds" [ref=e4] [box=0,60,1280,40]:
    - list [ref=e5] [box=0,60,1280,40]:
      - listitem [ref=e6] [box=0,60,1280,20]:
        - link "Lamps" [ref=e7] [cursor=pointer] [box=0,60,50,18]:
          - /url: /lamps.pdf?page=1
  - main [ref=e8] [box=0,100,1280,400]:
    - list [ref=e9] [box=0,100,1280,300]:
      - listitem [ref=e10] [box=0,100,1280,40]:
        - heading [level=2] [ref=e11] [box=0,100,300,20]:
          - link "Red Lamp" [ref=e12] [cursor=pointer] [box=0,100,80,18]:
            - /url: /item/1
        - paragraph [ref=e13] [box=0,120,60,18]: €19.90
        - button "Add to cart" [ref=e14] [box=80,120,90,20]
    - generic [ref=e15] [box=0,420,300,20]:
      - text: Name
      - textbox "Name" [ref=e16] [box=50,420,200,20]: "a: \"b\""
    - combobox "Size" [ref=e17] [box=0,450,90,20]:
      - option "Small" [box=0,0,0,0]
      - option "Large" [selected] [box=0,0,0,0]
    - generic [ref=e18] [cursor=pointer] [box=0,480,90,20]:
      - text: Open
      - emphasis [ref=e19] [box=40,480,40,20]: all
    - 'button "Pay: now" [disabled] [ref=e20] [box=0,510,90,20]'
"""


def texts(snapshot: str, *facts: Fact) -> list[str]:
    lines, _ = pruned(snapshot, facts, References(), most_elements=1000)
    return [str(one) for one in lines]


def test_wrappers_and_repeated_texts_go_and_a_row_is_one_line() -> None:
    assert texts(SHOP) == [
        '- link "Corner Shop" [e1]',
        '- navigation "Kinds"',
        '  - link "Lamps" [e2] (PDF)',
        '- link "Red Lamp" [e3], "€19.90", button "Add to cart" [e4]',
        """- textbox "Name" [e5]: "a: 'b'\"""",
        '- combobox "Size" [e6] (options "Small", "Large"): "Large"',
        '- button "Open all" [e7]',
        '- button "Pay: now" [e8] (disabled)',
    ]


@pytest.mark.parametrize(
    ("fact", "line"),
    [
        (Fact("password", (50, 420, 200, 20), "", 'a: "b"'), '- textbox "Name" [e5]: "••••••"'),
        (Fact("password", (900, 900, 200, 20), "", 'a: "b"'), '- textbox "Name" [e5]: "••••••"'),
        (
            Fact("field", (50, 420, 200, 20), states=("required", "readonly")),
            """- textbox "Name" [e5] (required, readonly): "a: 'b'\"""",
        ),
        (Fact("role", (0, 480, 90, 20), "checkbox", "Open all", ("checked",)), '- checkbox "Open all" [e7] (checked)'),
        (Fact("role", (0, 480, 90, 20), "textbox", "written", name="Note"), '- textbox "Note" [e7]: "written"'),
    ],
)
def test_what_a_snapshot_leaves_out_is_told_by_its_place(fact: Fact, line: str) -> None:
    shown = texts(SHOP, fact)
    assert line in shown
    assert len(shown) == 8


@pytest.mark.parametrize("seen", ["  - text: I accept", '  - checkbox "I accept" [box=0,0,0,0]\n  - text: I accept'])
def test_label_of_a_hidden_box_can_be_clicked_though_it_has_no_reference_of_its_own(seen: str) -> None:
    label = Fact("role", (5, 5, 90, 20), "checkbox", "I accept", ("checked",), "", "xpath=//label >> nth=3")
    assert texts(f'- generic [ref=e1]:\n{seen}\n  - button "Go" [ref=e2]', label) == [
        '- checkbox "I accept" [e1] (checked)',
        '- button "Go" [e2]',
    ]


def test_empty_editor_is_shown_though_the_snapshot_leaves_it_out() -> None:
    editor = Fact("role", (0, 600, 400, 30), "textbox", "", (), "Say something", "xpath=//*[@contenteditable] >> nth=0")
    assert texts('- generic [ref=e1]:\n  - button "Go" [ref=e2]', editor) == [
        '- button "Go" [e1]',
        '- textbox "Say something" [e2]',
    ]


def test_reference_stays_while_element_and_row_stay_and_is_never_given_again() -> None:
    references = References()
    first = references.renew([("e12", "Pear", 'button "Delete"'), ("e14", "Fig", 'button "Delete"')])
    again = references.renew([("e12", "Pear", 'button "Delete"'), ("e14", "Plum", 'button "Delete"')])
    assert first["e12"] == again["e12"]
    assert first["e14"] != again["e14"]
    assert first["e14"] not in references.current
    assert references.labels[first["e14"]] == 'button "Delete"'
    later = references.renew([("f1e12", "Pear", 'button "Delete"')])
    assert {*later.values()}.isdisjoint({*first.values(), *again.values()})


def lines(*told: str) -> list[Line]:
    """Return lines whose depth is their indentation; references count as text of the page does not."""
    return [Line((len(one) - len(one.lstrip())) // 2, one.strip(), one.strip()) for one in told]


def test_change_names_the_part_of_the_page_and_ignores_references() -> None:
    before = lines('navigation "Views"', '  button "All"', 'heading "Cart"', '"Apple", button "Delete"', 'button "Pay"')
    after = [Line(one.depth, f"{one.text} [e{at}]", one.key) for at, one in enumerate(before)]
    assert changes_between(before, after, Blinking()) == []
    after[3:4] = lines('"Fig", button "Delete"', '"Plum", button "Delete"')
    assert told_changes(changes_between(before, after, Blinking()), after) == [
        'in heading "Cart":',
        '  - "Apple", button "Delete"',
        '  + "Fig", button "Delete"',
        '  + "Plum", button "Delete"',
    ]


def test_line_that_changed_in_part_is_told_once_with_what_it_was() -> None:
    before = lines('link "Cart (0)"', 'checkbox "Done", "Task 1: write the letter"')
    after = lines('link "Cart (1)"', 'checkbox "Done" (checked), "Task 1: write the letter"')
    assert told_changes(changes_between(before, after, Blinking()), after) == [
        '~ link "Cart (1)" (was (0)")',
        '~ checkbox "Done" (checked), "Task 1: write the letter"',
    ]


def test_long_change_is_cut_to_about_ten_lines_and_counts_the_rest() -> None:
    before, after = lines("heading"), lines("heading", *(f'"Row {number}"' for number in range(40)))
    told = told_changes(changes_between(before, after, Blinking()), after)
    assert len(told) == 12
    assert told[-1] == "[30 more lines changed]"


def test_clock_and_spinner_and_blinking_text_are_no_news_once_they_moved_by_themselves() -> None:
    at_one = lines('heading "Board"', '"12:00:01"', '"⠋ Loading."', 'button "Go"', '"REC"')
    at_two = lines('heading "Board"', '"12:00:02"', '"⠙ Loading.."', 'button "Go"')
    blinking = Blinking()
    blinking.note(at_one, at_two)
    assert changes_between(at_one, at_two, blinking), "once is news"
    blinking.note(at_two, at_one)
    at_three = lines('heading "Board"', '"12:07:59"', '"⠹ Loading..."', 'button "Go"', '"REC"')
    assert changes_between(at_two, at_three, blinking) == []
    (change,) = changes_between(at_two, [*at_three, *lines('"Saved"')], blinking)
    assert [one.key for one in change.added] == ['"Saved"']
