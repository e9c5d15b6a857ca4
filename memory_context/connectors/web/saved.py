"""What a page looked like, as JSON for a saved session."""

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from ..tree import Node
from .screen import Shown

__all__ = ["restored", "saved"]

_MOST_ELEMENTS = 2000


def saved(page: Shown, picture: bytes, made: int, urls: Sequence[str]) -> dict[str, Any]:
    """Return a page as JSON; a large one without its elements."""
    is_large = page.tree.size > _MOST_ELEMENTS
    return {
        "urls": [*urls],
        "made": made,
        "page": {
            "url": page.url,
            "title": page.title,
            "page_id": page.page_id,
            "tab": page.tab,
            "tabs": page.tabs,
            "tree": None if is_large else _packed(page.tree),
            "refs": {} if is_large else {str(place): ref for place, ref in page.refs.items()},
            "picture": b64encode(picture).decode(),
        },
    }


def restored(data: Mapping[str, Any]) -> tuple[Shown | None, bytes, int, list[str]]:
    """Return page, picture, number of references and addresses."""
    page: Mapping[str, Any] | None = data.get("page")
    if page is None:
        return None, b"", 0, [*data.get("urls", ())]
    shown = Shown(
        page["url"],
        page["title"],
        page["page_id"],
        page["tab"],
        tuple((number, title, url) for number, title, url in page["tabs"]),
        Node("document") if page["tree"] is None else _unpacked(page["tree"]),
        {int(place): ref for place, ref in page["refs"].items()},
    )
    return shown, b64decode(page["picture"]), data["made"], [*data["urls"]]


def _packed(node: Node) -> list[Any]:
    return [node.role, node.name, node.value, [*node.states], node.key, *map(_packed, node.children)]


def _unpacked(packed: Sequence[Any]) -> Node:
    role, name, value, states, key, *children = packed
    return Node(role, name, value, tuple(states), key, tuple(map(_unpacked, children)))
