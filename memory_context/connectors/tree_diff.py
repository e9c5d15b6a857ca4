"""What differs between two trees of a page: as a patch that makes one of the other, and as lines for an agent."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from .tree import ROWS, Node, child_places, match_trees

__all__ = ["Kept", "Patch", "apply_patch", "diff_lines", "patch_of", "tree_lines"]

_NAME_CHARACTERS = 200


@dataclass(frozen=True)
class Kept:
    """A child that was the child `index` before, with what changed in it."""

    index: int
    patch: "Patch | None" = None


@dataclass(frozen=True)
class Patch:
    """How an element changed.

    Attributes:
        own: The element as it is now, without children.
        children: All its children now: those it had, and new ones.
    """

    own: Node
    children: tuple[Kept | Node, ...]


def patch_of(before: Node, after: Node) -> Patch | Node | None:
    """Return what makes `after` of `before`; None if they are equal, the new tree if it is another page."""
    if before.fingerprint == after.fingerprint:
        return None
    new_of = match_trees(before, after).new_of
    if not new_of:
        return after
    old_of = {new: old for old, new in new_of.items()}
    old_places = dict(_placed(before, 0))

    def of(old: Node, old_place: int, new: Node, new_place: int) -> Patch | None:
        if old.fingerprint == new.fingerprint:
            return None
        children: list[Kept | Node] = []
        index_of = {place: index for index, place in enumerate(child_places(old, old_place))}
        for child, place in zip(new.children, child_places(new, new_place), strict=True):
            was = old_of.get(place)
            if was is None or was not in index_of:
                children.append(child)
            else:
                children.append(Kept(index_of[was], of(old_places[was], was, child, place)))
        return Patch(replace(new, children=()), tuple(children))

    return of(before, 0, after, 0)


def apply_patch(before: Node, patch: Patch | Node | None) -> Node:
    """Return the tree after the changes."""
    if not isinstance(patch, Patch):
        return before if patch is None else patch
    children = tuple(
        one if isinstance(one, Node) else apply_patch(before.children[one.index], one.patch) for one in patch.children
    )
    return replace(patch.own, children=children)


def tree_lines(
    tree: Node, refs: Mapping[int, str], place: int = 0, depth: int = 0, *, only: Collection[int] | None = None
) -> Iterator[str]:
    """Yield one line for each element that says something, indented by its depth among those.

    Args:
        only: Places of elements that may have a line; None means all.
    """
    line = _line(tree, refs.get(place)) if only is None or place in only else ""
    if line:
        yield f"{'  ' * depth}- {line}"
    for child, at in zip(tree.children, child_places(tree, place), strict=True):
        yield from tree_lines(child, refs, at, depth + bool(line), only=only)


def diff_lines(before: Node, after: Node, refs: Mapping[int, str], refs_before: Mapping[int, str]) -> list[str]:
    """Return lines of what was added (+), removed (-) and changed (~), below the element where it happened.

    Args:
        refs: References of `after` by place; `refs_before`: of `before`.
    """
    patch = patch_of(before, after)
    if not isinstance(patch, Patch):
        return [] if patch is None else [f"+ {line}" for line in tree_lines(after, refs)]
    return [*_changes(before, 0, refs_before, after, 0, refs, patch)]


def _changes(
    old: Node, old_place: int, old_refs: Mapping[int, str], new: Node, place: int, refs: Mapping[int, str], patch: Patch
) -> Iterator[str]:
    if change := _own_change(old, patch.own):
        yield f"~ {_label(old, refs.get(place))}: {change}"
    old_places, places = child_places(old, old_place), child_places(new, place)
    kept = {one.index for one in patch.children if isinstance(one, Kept)}
    own: list[str] = []
    for index, child in enumerate(old.children):
        if index not in kept:
            own += [f"- {line.lstrip(' -')}" for line in _top_lines(child, old_refs, old_places[index])]
    inner: list[str] = []
    for one, child, at in zip(patch.children, new.children, places, strict=True):
        if isinstance(one, Node):
            own += [f"+ {line}" for line in tree_lines(child, refs, at)]
        elif one.patch is not None:
            inner += _changes(old.children[one.index], old_places[one.index], old_refs, child, at, refs, one.patch)
    moved = [one.index for one in patch.children if isinstance(one, Kept)]
    if moved != sorted(moved):
        own.append("~ its elements have another order")
    if own:
        yield f"in {_label(new, refs.get(place))}:"
        yield from (f"  {line}" for line in own)
    yield from inner


def _top_lines(node: Node, refs: Mapping[int, str], place: int) -> Iterator[str]:
    """Yield what a removed element was, and which references went with it."""
    gone = [ref for at, ref in sorted(refs.items()) if place < at < place + node.size]
    label = _line(node, refs.get(place)) if node.name else _label(node, refs.get(place))
    yield label + (f" (with {', '.join(gone)})" if gone else "")


def _own_change(old: Node, new: Node) -> str:
    changes: list[str] = []
    if old.role != new.role or old.name != new.name:
        changes.append(f"now {_label(new, None)}")
    if old.value != new.value:
        changes.append(f'value "{_short(old.value)}" -> "{_short(new.value)}"')
    changes += [f"now {state}" for state in new.states if state not in old.states]
    changes += [f"no longer {state}" for state in old.states if state not in new.states]
    return "; ".join(changes)


def _line(node: Node, ref: str | None) -> str:
    """Return an element in one line; "" for one that says nothing itself and is no row of several elements."""
    if not (node.name or node.value or node.states or ref):
        return node.role if node.role in ROWS and len(node.children) > 1 else ""
    states = f" ({', '.join(node.states)})" if node.states else ""
    value = f': "{_short(node.value)}"' if node.value else ""
    return f"{_label(node, ref)}{states}{value}"


def _label(node: Node, ref: str | None) -> str:
    name = f' "{_short(node.name or node.title)}"' if node.name or node.title else ""
    return f"{node.role}{name}{f' [{ref}]' if ref else ''}"


def _short(text: str) -> str:
    line = " ".join(text[: _NAME_CHARACTERS * 2].split())
    return line if len(line) <= _NAME_CHARACTERS else f"{line[:_NAME_CHARACTERS]}…"


def _placed(node: Node, place: int) -> Iterator[tuple[int, Node]]:
    yield place, node
    for child, at in zip(node.children, child_places(node, place), strict=True):
        yield from _placed(child, at)
