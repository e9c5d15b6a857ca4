"""References to elements of a page: short names such as `e12` that lead to the same element or to none."""

from collections.abc import Iterator, Mapping

from ..errors import ConnectorError
from .tree import Node, match_trees

__all__ = ["INTERACTIVE", "RefTable", "in_order"]

INTERACTIVE = frozenset(
    [
        *("button", "checkbox", "combobox", "gridcell", "link", "listbox", "menuitem", "menuitemcheckbox"),
        *("menuitemradio", "option", "radio", "scrollbar", "searchbox", "slider", "spinbutton", "switch"),
        *("tab", "textbox", "treeitem"),
    ]
)
"""Roles of elements that an agent can act on; only they have references."""


class RefTable:
    """The references of one page. A number is never used again.

    Attributes:
        refs: The reference of each element, by its place in document order.
        made: The number of references given so far.
    """

    def __init__(self) -> None:
        self.refs: dict[int, str] = {}
        self.made = 0
        self._tree: Node | None = None
        self._page_id: object = None
        self._labels: dict[str, str] = {}
        self._places: dict[str, int] = {}

    def update(self, tree: Node, page_id: object) -> Mapping[int, str]:
        """Take the page as it is now; elements that are the same keep their references."""
        is_same_page = self._tree is not None and page_id == self._page_id
        if is_same_page and self._tree is not None and self._tree.fingerprint == tree.fingerprint:
            return self.refs
        old_of = match_trees(self._tree, tree).old_of if is_same_page and self._tree is not None else {}
        refs: dict[int, str] = {}
        for place, node in enumerate(in_order(tree)):
            if node.role in INTERACTIVE:
                ref = self.refs.get(old_of.get(place, -1)) or self._new(node)
                refs[place] = ref
        self.refs, self._tree, self._page_id = refs, tree, page_id
        self._places = {ref: place for place, ref in refs.items()}
        return refs

    def restore(self, tree: Node, page_id: object, refs: Mapping[int, str], made: int) -> None:
        """Take over the references of a saved session."""
        self.refs, self.made, self._tree, self._page_id = dict(refs), made, tree, page_id
        self._places = {ref: place for place, ref in refs.items()}
        self._labels = {refs[place]: _label(node) for place, node in enumerate(in_order(tree)) if place in refs}

    def place(self, ref: str) -> int:
        """Return the place of a referenced element in document order.

        Raises:
            ConnectorError: The element is gone, or the reference was never given.
        """
        place = self._places.get(ref.strip())
        if place is not None:
            return place
        was = self._labels.get(ref.strip())
        if was is None:
            raise ConnectorError(f"there is no element {ref!r}; use a reference that the page's state shows")
        raise ConnectorError(f"{ref} ({was}) is gone or is another element now; look at the page as it is now")

    def _new(self, node: Node) -> str:
        self.made += 1
        ref = f"e{self.made}"
        self._labels[ref] = _label(node)
        return ref


def _label(node: Node) -> str:
    return f'{node.role} "{node.name[:60]}"' if node.name else node.role


def in_order(tree: Node) -> Iterator[Node]:
    """Yield the elements in document order."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.children)
