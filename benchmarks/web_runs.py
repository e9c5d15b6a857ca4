"""Three runs of 40 actions on sites that are served on this machine; they do not depend on what is measured.

The board is one page, drawn anew with each change. In the shop every fourth action opens another page. In the guide
every action does.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from memory_context.connectors.web.snapshot import Line

__all__ = ["RUNS", "STEPS", "Act", "ref_of"]

STEPS = 40


@dataclass(frozen=True)
class Act:
    """One action on one element.

    Attributes:
        within: A text of the line that holds the element, or of one before it; "" takes the first one.
    """

    tool: Literal["click", "type", "select"]
    role: str
    name: str
    text: str = ""
    within: str = ""


def ref_of(lines: Sequence[Line], act: Act) -> str:
    """Return the reference of the element that an action uses: the next one behind the text that it stands within."""
    text = "\n".join(line.text for line in lines)
    start = text.rfind("\n", 0, text.index(act.within)) + 1 if act.within else 0
    found = re.compile(rf'{act.role} "{re.escape(act.name)}" \[(e\d+)\]').search(text, start)
    if found is None:
        raise LookupError(f"no {act} on the page")
    return found[1]


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
