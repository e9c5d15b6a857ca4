"""Random pages whose elements live on, whatever becomes of their texts, and random changes of them."""

import random
from dataclasses import dataclass, field
from itertools import count

from memory_context.connectors.tree import Node

__all__ = ["Live", "a_page", "change", "meanings"]

_ROLES = ("button", "link", "textbox", "listitem", "list", "generic", "heading", "text")
_NAMES = ("", "", "Delete", "Open", "Apple", "Pear", "Plum", "Cart (1)", "Cart (2)")
_WORDS = ("Ann", "Ben", "Invoice", "Lunch", "Report", "3", "4")
_numbers = count(1)


@dataclass
class Live:
    """An element of a page.

    Attributes:
        dom: Number of the browser's object, which can be used again for another element.
    """

    role: str
    name: str = ""
    value: str = ""
    is_checked: bool = False
    children: list["Live"] = field(default_factory=list["Live"])
    dom: int = field(default_factory=lambda: next(_numbers))

    def node(self) -> Node:
        states = ("checked",) if self.is_checked else ()
        children = tuple(child.node() for child in self.children)
        return Node(self.role, self.name, self.value, states, "", children, self.dom)

    def all(self) -> list["Live"]:
        return [self, *(one for child in self.children for one in child.all())]


def a_page(chance: random.Random, depth: int = 3) -> Live:
    """Return a page of random elements, among them lists of rows."""
    if depth in (1, 2) and chance.random() < 0.3:
        role = chance.choice(["listitem", "row", "generic"])
        return Live(
            chance.choice(["list", "generic"]), children=[_row(chance, role) for _ in range(chance.randrange(4))]
        )
    live = Live(chance.choice(_ROLES), chance.choice(_NAMES))
    if depth:
        live.children = [a_page(chance, depth - 1) for _ in range(chance.randrange(5))]
    return live


def _row(chance: random.Random, role: str) -> Live:
    """Return a row as lists of messages, tasks and files have them."""
    texts = [Live("text", chance.choice(_WORDS)) for _ in range(2)]
    box, delete = Live("checkbox", "Done"), Live("button", "Delete")
    shapes = [
        [box, *texts, delete],
        [*texts, delete],
        [delete, *texts],
        [Live("generic", children=[*texts, box]), delete],
    ]
    return Live(role, children=chance.choice(shapes))


def change(page: Live, chance: random.Random) -> None:
    """Insert, remove, move, copy, rename, fill in, check or draw anew an element, or use its object for another."""
    one = chance.choice(page.all())
    what = chance.randrange(9)
    if what == 0:
        one.children.insert(chance.randint(0, len(one.children)), a_page(chance, chance.randrange(3)))
    elif what == 1 and one.children:
        del one.children[chance.randrange(len(one.children))]
    elif what == 2:
        chance.shuffle(one.children)
    elif what == 3 and one.children:
        one.children.append(_copied(chance.choice(one.children)))
    elif what == 4:
        one.name = chance.choice(_NAMES)
    elif what == 5:
        one.value = str(chance.randrange(9))
    elif what == 6:
        for live in one.all():
            live.dom = next(_numbers)
    elif what == 7:
        rows = [
            live for live in page.all() for child in live.children if child.name == "Delete" and len(live.children) > 1
        ]
        for row in rows[:3]:
            _use_for_another(page, row, chance)
    else:
        one.is_checked = not one.is_checked


def _copied(live: Live) -> Live:
    return Live(live.role, live.name, live.value, live.is_checked, [_copied(child) for child in live.children])


def _use_for_another(page: Live, row: Live, chance: random.Random) -> None:
    """Show another row in the objects of a row, as lists do that keep only what is in view."""
    other = _copied(row)
    for new, old in zip(other.all(), row.all(), strict=True):
        new.dom = old.dom
        if new.name and new.role == "text":
            new.name = chance.choice(_WORDS)
    above = next((live for live in page.all() if any(child is row for child in live.children)), None)
    if above is not None:
        above.children = [other if child is row else child for child in above.children]


def meanings(page: Live, above: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    """Return what each element is to a reader: itself, in the nearest part that has a name, or texts that tell it."""
    told = () if page.name or not above else page.node().told
    own = (page.role, page.name, told)
    below = (own,) if told or page.name else (*above, own)
    return [(*above, own), *(one for child in page.children for one in meanings(child, below))]
