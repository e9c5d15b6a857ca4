"""Three runs of 40 actions on sites that are served on this machine; they do not depend on what is measured.

The board is one page, drawn anew with each change. In the shop every fourth action opens another page. In the guide
every action does.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from memory_context.connectors.tree import Node, in_order

__all__ = ["RUNS", "STEPS", "Act", "place_of"]

STEPS = 40


@dataclass(frozen=True)
class Act:
    """One action on one element.

    Attributes:
        within: A text of the smallest part of the page that holds the element; "" takes the first one.
    """

    tool: Literal["click", "type", "select"]
    role: str
    name: str
    text: str = ""
    within: str = ""


def place_of(tree: Node, act: Act) -> int:
    """Return the place of the element that an action uses, in document order."""
    found: list[tuple[int, int]] = []
    for place, node in enumerate(in_order(tree)):
        if act.within and any(act.within in one.name for one in in_order(node)):
            inner = (at for at, one in enumerate(in_order(node)) if _is_used(one, act))
            found += [(node.size, place + at) for at in inner]
        elif not act.within and _is_used(node, act):
            return place
    if not found:
        raise LookupError(f"no {act} on the page")
    return min(found)[1]


def _is_used(node: Node, act: Act) -> bool:
    return node.role == act.role and node.name == act.name


def _board() -> Iterator[Act]:
    views = iter(["Open", "All tasks", "Done"])
    for number in (3, 8, 14, 21, 27):
        task = f"Task {number}:"
        yield Act("click", "button", "Open", within=task)
        yield Act("type", "textbox", "Title", f"Better title {number}")
        yield Act("select", "combobox", "Person", "Dan")
        yield Act("click", "button", "Save")
        yield Act("click", "checkbox", "Done", within=f"Task {number + 1}:")
        yield Act("type", "textbox", "New task", f"New thing {number}")
        yield Act("click", "button", "Add task")
        if number % 2:
            yield Act("click", "button", next(views))
        else:
            yield Act("click", "button", "Delete", within=f"New thing {number}")


def _shop() -> Iterator[Act]:
    kinds = ["Lamp", "Chair", "Desk", "Shelf", "Clock", "Mirror", "Vase"]
    for kind in kinds:
        yield Act("click", "link", f"{kind}s")
        yield Act("click", "button", "Add to cart", within=f"Blue {kind}")
        yield Act("type", "textbox", "Search products", f"green {kind}")
        yield Act("click", "button", "Add to cart", within=f"Red {kind}")
    for name in ("Red Vase", "White Chair"):
        yield Act("click", "link", name)
        yield Act("type", "spinbutton", "Quantity", "3")
        yield Act("select", "combobox", "Size", "Large")
        yield Act("click", "button", "Add to cart", within="Gift wrapping")
    yield Act("click", "link", f"Cart ({2 * len(kinds) + 2})")
    yield Act("type", "spinbutton", "Quantity of Red Desk", "5")
    yield Act("click", "button", "Remove", within="Blue Clock")
    yield Act("type", "textbox", "Newsletter", "ada@example.org")


def _guide() -> Iterator[Act]:
    for _ in range(STEPS):
        yield Act("click", "link", "Next article")


RUNS = {"board": ("/app/", [*_board()]), "shop": ("/shop/", [*_shop()]), "guide": ("/wiki/1", [*_guide()])}
