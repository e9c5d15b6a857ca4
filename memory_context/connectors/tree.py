"""Trees of page elements: which element of a page is which in the page before, and the references that follow it.

An element is the same if it has the same role, name and key below the same parent, and can be told from its siblings:
by its text, by what it holds, or by its place among equal ones while their number stays. Rows of lists are told by all
of their texts: a row of which one changed may be another one in its place. When in doubt it is another element, so that
a reference to it is refused and never leads to something else.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from memory_context.foundation.errors import ConnectorError

__all__ = ["CONTROLS", "INTERACTIVE", "ROWS", "Match", "Node", "RefTable", "child_places", "in_order", "match_trees"]

_TITLES = frozenset(["heading", "link", "text", "StaticText", "paragraph", "cell", "rowheader", "strong"])
CONTROLS = frozenset(
    [
        *("button", "checkbox", "combobox", "listbox", "menuitem", "menuitemcheckbox", "menuitemradio", "option"),
        *("radio", "scrollbar", "searchbox", "slider", "spinbutton", "switch", "tab", "textbox"),
    ]
)
"""Their names, such as "Delete", do not tell the rows that hold them."""
_NEWS = frozenset(["alert", "log", "marquee", "meter", "progressbar", "status", "timer", "tooltip"])
ROWS = frozenset(["article", "definition", "figure", "listitem", "row", "term", "treeitem"])
"""Roles of elements that lists and tables repeat."""
_GENERIC_ROW_SIZE = 16
_ROW_TEXTS = 24
INTERACTIVE = CONTROLS | {"gridcell", "link", "treeitem"}
"""Roles of elements that an agent can act on; only they have references."""


@dataclass(frozen=True)
class Node:
    """An element as a screen reader names it. Trees are at most some 200 deep.

    Attributes:
        value: Of a field.
        states: Such as `checked`, `disabled`, `expanded`, sorted.
        key: What the page itself calls it (id, test id, address, form name); may be empty.
        dom: Number of the object in the browser, as long as it lives; 0 if unknown. It does not count in comparisons.
    """

    role: str
    name: str = ""
    value: str = ""
    states: tuple[str, ...] = ()
    key: str = ""
    children: tuple["Node", ...] = ()
    dom: int = field(default=0, compare=False)

    @property
    def own(self) -> tuple[str, str, str]:
        """What tells it from other elements, without its children."""
        return self.role, self.name, self.key

    @cached_property
    def digest(self) -> int:
        """Equal for equal subtrees; values and states do not count."""
        return hash((self.own, *(child.digest for child in self.children)))

    @cached_property
    def fingerprint(self) -> int:
        """Equal for equal trees; values and states count."""
        return hash((self.own, self.value, self.states, *(child.fingerprint for child in self.children)))

    @cached_property
    def title(self) -> str:
        """The first telling name in it, which is not that of a control if there is another."""
        return next(iter(self.told), "") if self.is_row else next(_texts(self), "") or next(_names(self), "")

    @cached_property
    def told(self) -> tuple[str, ...]:
        """The texts that identify an element without name or key: all of a row or control, a larger part's title."""
        if not self.is_row:
            return (self.title,) if self.title else ()
        return tuple(islice(_texts(self), _ROW_TEXTS)) or tuple(islice(_names(self), _ROW_TEXTS))

    @cached_property
    def is_row(self) -> bool:
        is_one = self.role in ROWS or self.role in CONTROLS or self.role in _TITLES
        return is_one or (self.role == "generic" and self.size <= _GENERIC_ROW_SIZE)

    @cached_property
    def size(self) -> int:
        return 1 + sum(child.size for child in self.children)


@dataclass
class Match:
    """The elements of two trees that are the same, by their places in document order (the root is 0)."""

    new_of: dict[int, int] = field(default_factory=dict[int, int])

    @cached_property
    def old_of(self) -> dict[int, int]:
        return {new: old for old, new in self.new_of.items()}


def match_trees(before: Node, after: Node) -> Match:
    """Return which elements of `after` are elements of `before`; a page with another root has none of them."""
    match = Match()
    if (before.role, before.key) != (after.role, after.key):
        return match
    waiting = [(before, 0, after, 0, False)]
    while waiting:
        old, old_place, new, new_place, is_weak = waiting.pop()
        if old.digest == new.digest and not is_weak:
            match.new_of.update((old_place + step, new_place + step) for step in range(old.size))
            continue
        match.new_of[old_place] = new_place
        old_places, new_places = child_places(old, old_place), child_places(new, new_place)
        for i, j in _same_children(old.children, new.children, is_weak=is_weak):
            one, other = old.children[i], new.children[j]
            waiting.append((one, old_places[i], other, new_places[j], _is_told_otherwise(one, other)))
    return match


def child_places(node: Node, place: int) -> list[int]:
    """Return the places of the children of the element at `place`."""
    places: list[int] = []
    at = place + 1
    for child in node.children:
        places.append(at)
        at += child.size
    return places


def _same_children(old: Sequence[Node], new: Sequence[Node], *, is_weak: bool) -> Iterator[tuple[int, int]]:
    """Yield the pairs of indexes that are the same element.

    Below an element that is known only by what it holds (`is_weak`), none is known by its place or by a name alone.
    """
    groups: dict[tuple[str, str, str], tuple[list[int], list[int]]] = {}
    for side, children in enumerate((old, new)):
        for index, child in enumerate(children):
            if not is_weak or child.key or (child.children and child.title):
                groups.setdefault(child.own, ([], []))[side].append(index)
    for of_old, of_new in groups.values():
        if of_old and of_new:
            yield from _same_in_group(old, of_old, new, of_new, is_weak=is_weak)


def _same_in_group(
    old: Sequence[Node], of_old: list[int], new: Sequence[Node], of_new: list[int], *, is_weak: bool
) -> Iterator[tuple[int, int]]:
    """Match elements of one role, name and key: equal content, then equal title, then equal place."""
    is_single = len(of_old) == len(of_new) == 1
    if is_single and _may_be_same(old[of_old[0]], new[of_new[0]], is_weak=is_weak):
        yield of_old[0], of_new[0]
        return
    for tell in (_digest, _told):
        by_old, by_new = _unique(old, of_old, tell), _unique(new, of_new, tell)
        pairs = [(i, by_new[one]) for one, i in by_old.items() if one in by_new]
        yield from pairs
        matched_old, matched_new = {i for i, _ in pairs}, {j for _, j in pairs}
        of_old = [i for i in of_old if i not in matched_old]
        of_new = [j for j in of_new if j not in matched_new]
    if not is_weak and [old[i].digest for i in of_old] == [new[j].digest for j in of_new]:  # none came or went
        yield from zip(of_old, of_new, strict=True)


def _may_be_same(old: Node, new: Node, *, is_weak: bool) -> bool:
    """Return whether a single element of its kind is the same: by what tells it, or by most of what it holds."""
    if not is_weak and not _is_told_otherwise(old, new):
        return True
    if old.is_row or new.is_row:
        return False
    held, holds = Counter(_held(old)), Counter(_held(new))
    return 0 < min(held.total(), holds.total()) <= 2 * (held & holds).total()


def _held(node: Node) -> Iterator[int]:
    """Yield the digests of the parts in an element that have a title."""
    for child in node.children:
        if child.children:
            if child.title:
                yield child.digest
            yield from _held(child)


def _is_told_otherwise(old: Node, new: Node) -> bool:
    """Return whether what tells an element without name and key has changed.

    One object of the browser may get and lose texts. Other texts in it are another row: lists use objects again.
    """
    if old.name or old.key or old.told == new.told or not (old.told and new.told):
        return False
    if not 0 != old.dom == new.dom or old.title != new.title:
        return True
    fewer, more = sorted((Counter(old.told), Counter(new.told)), key=lambda one: one.total())
    return not fewer <= more


def _texts(node: Node) -> Iterator[str]:
    """Yield the telling names in an element that are not those of controls."""
    if node.role in CONTROLS or node.role in _NEWS:
        return
    if node.name and (node.role in _TITLES or not node.children):
        yield node.name
        return
    for child in node.children:
        yield from _texts(child)


def _names(node: Node) -> Iterator[str]:
    if node.name:
        yield node.name
    for child in node.children:
        yield from _names(child)


def _digest(node: Node) -> Hashable:
    return node.digest


def _told(node: Node) -> Hashable:
    return node.told or None


def _unique(nodes: Sequence[Node], indexes: Iterable[int], tell: Callable[[Node], Hashable]) -> dict[Hashable, int]:
    told = {index: tell(nodes[index]) for index in indexes}
    counts = Counter(told.values())
    return {one: index for index, one in told.items() if one is not None and counts[one] == 1}


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
