"""Random changes of pages: no reference leads to another element, and diffs in order give the page."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context import ConnectorError
from memory_context.connectors.tree import Node, RefTable, in_order
from memory_context.connectors.tree_diff import apply_patch, diff_lines, patch_of, tree_lines

from ..support.live_pages import a_page, change, meanings

pytestmark = pytest.mark.thorough


@given(st.integers(0, 2**32))
def test_no_reference_leads_to_another_element(seed: int) -> None:
    """A reference leads to the element it was given to, or to one that a reader cannot tell from it."""
    chance = random.Random(seed)
    page, table = a_page(chance), RefTable()
    given_to: dict[str, tuple[int, tuple[object, ...]]] = {}
    for _ in range(8):
        lives, said = page.all(), meanings(page)
        refs = table.update(page.node(), "page")
        assert len(set(refs.values())) == len(refs)
        for ref, (live_id, meaning) in given_to.items():
            try:
                place = table.place(ref)
            except ConnectorError:
                continue
            assert id(lives[place]) == live_id or said[place] == meaning
        for place, ref in refs.items():
            given_to[ref] = id(lives[place]), said[place]
        keep = lives  # so that no id is used again
        change(page, chance)
        del keep


@given(st.integers(0, 2**32))
def test_patches_in_order_give_the_page(seed: int) -> None:
    chance = random.Random(seed)
    page = a_page(chance)
    first = now = page.node()
    patches = []
    for _ in range(6):
        change(page, chance)
        patches.append(patch_of(now, page.node()))
        now = page.node()
    for patch in patches:
        first = apply_patch(first, patch)
    assert first == now


@given(st.integers(0, 2**32))
def test_diff_says_something_when_the_page_says_something_else(seed: int) -> None:
    chance = random.Random(seed)
    page, table = a_page(chance), RefTable()
    before = page.node()
    refs_before = dict(table.update(before, 1))
    change(page, chance)
    after = page.node()
    refs = table.update(after, 1)
    says_something_else = [*tree_lines(before, {})] != [*tree_lines(after, {})]
    assert diff_lines(before, after, refs, refs_before) or not says_something_else


def row(title: str, quantity: int) -> Node:
    parts = (Node("text", title), Node("textbox", "Quantity", str(quantity)), Node("button", "Delete"))
    return Node("listitem", children=parts)


def shop(*rows: Node) -> Node:
    return Node("main", "Shop", children=(Node("heading", "Cart"), Node("list", children=rows), Node("button", "Pay")))


def refs_of(table: RefTable, tree: Node) -> dict[str, str]:
    """Return the references of the delete buttons by the titles of their rows."""
    refs = table.update(tree, "shop")
    found: dict[str, str] = {}
    title = ""
    for place, node in enumerate(in_order(tree)):
        title = node.name if node.role == "text" else title
        if node.name == "Delete":
            found[title] = refs[place]
    return found


def test_buttons_of_rows_keep_their_references_when_a_row_before_them_goes() -> None:
    table = RefTable()
    before = refs_of(table, shop(row("Apple", 1), row("Pear", 1), row("Plum", 1)))
    after = refs_of(table, shop(row("Pear", 1), row("Plum", 7)))
    assert after == {title: ref for title, ref in before.items() if title != "Apple"}
    with pytest.raises(ConnectorError, match=r'button "Delete"\) is gone'):
        table.place(before["Apple"])


def test_equal_rows_lose_their_references_when_one_of_them_goes() -> None:
    table = RefTable()
    refs_of(table, shop(row("Apple", 1), row("Apple", 1)))
    old = set(table.refs.values())
    refs_of(table, shop(row("Apple", 1)))
    assert {ref for ref in old if ref in table.refs.values()} == {table.refs[max(table.refs)]}  # the button behind


def test_reference_that_was_never_given_says_so() -> None:
    with pytest.raises(ConnectorError, match="there is no element 'e99'"):
        RefTable().place("e99")


def test_diff_names_row_and_change() -> None:
    table = RefTable()
    before = shop(row("Apple", 1), row("Pear", 1))
    refs_before = dict(table.update(before, 1))
    after = shop(row("Pear", 2), row("Fig", 1))
    lines = diff_lines(before, after, table.update(after, 1), refs_before)
    assert lines == [
        'in list "Pear":',
        '  - listitem "Apple" (with e1, e2)',
        "  + - listitem",
        '  +   - text "Fig"',
        '  +   - textbox "Quantity" [e6]: "1"',
        '  +   - button "Delete" [e7]',
        '~ textbox "Quantity" [e3]: value "1" -> "2"',
    ]
    assert 'textbox "Quantity" [e3]: "2"' in "\n".join(tree_lines(after, table.refs))


def test_rows_of_one_shape_share_a_line_that_names_their_parts() -> None:
    table = RefTable()
    tree = shop(row("Apple", 1), row("Pear", 2), row('Fig" [e1]', 3))
    assert [*tree_lines(tree, table.update(tree, 1))][2:7] == [
        '  - each listitem has: text, textbox "Quantity", button "Delete"',
        '    - "Apple", [e1]: "1", [e2]',
        '    - "Pear", [e3]: "2", [e4]',
        '    - "Fig\' [e1]", [e5]: "3", [e6]',
        '  - button "Pay" [e7]',
    ]
    named = "\n".join(tree_lines(tree, table.refs, has_tables=False))
    assert named.count('textbox "Quantity"') == 3


def test_another_row_with_the_same_first_text_is_another_row() -> None:
    """The only mail of a list is deleted, and another one of the same sender comes."""

    def mail(subject: str) -> Node:
        parts = (Node("checkbox", "Select"), Node("text", "Bob"), Node("text", subject), Node("button", "Delete"))
        return Node("main", "Mail", children=(Node("list", children=(Node("listitem", children=parts, dom=7),)),))

    table = RefTable()
    refs = {*table.update(mail("Invoice"), 1).values()}
    assert not refs & {*table.update(mail("Lunch"), 1).values()}


def test_row_of_the_same_object_that_gets_a_text_is_the_same() -> None:
    def form(*texts: str, dom: int) -> Node:
        parts = (Node("text", "Name"), Node("textbox", "Name"), *(Node("text", one) for one in texts))
        return Node("main", "Form", children=(Node("generic", children=(*parts, Node("button", "Go")), dom=dom),))

    table = RefTable()
    refs = [*table.update(form(dom=7), 1).values()]
    assert [*table.update(form("is required", dom=7), 1).values()] == refs
    assert [*table.update(form("is too long", dom=8), 1).values()] != refs


def test_many_removed_rows_are_counted() -> None:
    table = RefTable()
    before = shop(*(row(f"Fruit {number}", 1) for number in range(20)))
    refs_before = dict(table.update(before, 1))
    after = shop(row("Fruit 0", 1))
    lines = diff_lines(before, after, table.update(after, 1), refs_before)
    assert (len(lines), lines[-1]) == (10, "  - 11 more elements")
