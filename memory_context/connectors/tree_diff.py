"""What differs between two trees of a page: as a patch that makes one of the other, and as lines for an agent."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice

from .tree import CONTROLS, INTERACTIVE, ROWS, Node, child_places, in_order, match_trees

__all__ = ["Kept", "Patch", "apply_patch", "diff_lines", "patch_of", "tree_lines"]

_NAME_CHARACTERS = 200
_TABLE_ROWS = 3
_TABLE_PARTS = 16
_MOST_REMOVED = 8


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
    tree: Node,
    refs: Mapping[int, str],
    place: int = 0,
    depth: int = 0,
    *,
    only: Collection[int] | None = None,
    has_tables: bool = True,
) -> Iterator[str]:
    """Yield one line for each element that says something, indented by its depth among those.

    Args:
        only: Places of elements that may have a line; None means all.
        has_tables: Whether rows of one shape share a line that names their parts.
    """
    line = _line(tree, refs.get(place)) if only is None or place in only else ""
    if line:
        yield f"{'  ' * depth}- {line}"
    children = [*zip(tree.children, child_places(tree, place), strict=True)]
    yield from _lines_of(children, refs, depth + bool(line), only, has_tables)


def _lines_of(
    children: Sequence[tuple[Node, int]],
    refs: Mapping[int, str],
    depth: int,
    only: Collection[int] | None,
    has_tables: bool,
) -> Iterator[str]:
    for shape, group in groupby(children, key=lambda one: _shape(one[0], refs, one[1]) if has_tables else ()):
        rows = [*group]
        if shape and len(rows) >= _TABLE_ROWS:
            yield from _table(shape, rows, refs, depth, only)
        else:
            for child, at in rows:
                yield from tree_lines(child, refs, at, depth, only=only, has_tables=has_tables)


def _shape(node: Node, refs: Mapping[int, str], place: int) -> tuple[str, ...]:
    """Return what a row has in common with others: roles of its parts, and names of its controls; () if it is none."""
    if not node.is_row or node.name or node.states or place in refs or not 2 < node.size <= _TABLE_PARTS:
        return ()
    parts = [one for one in islice(in_order(node), 1, None) if _line(one, None) or one.role in INTERACTIVE]
    if len(parts) < 2 or any(one.children and one.role in INTERACTIVE for one in parts):
        return ()
    return tuple(f"{one.role}{_quoted(one.name) if one.role in CONTROLS else ''}" for one in parts)


def _table(
    shape: tuple[str, ...],
    rows: Sequence[tuple[Node, int]],
    refs: Mapping[int, str],
    depth: int,
    only: Collection[int] | None,
) -> Iterator[str]:
    """Yield a line with what all rows have in common, and one line for each row."""
    shown = [(node, at) for node, at in rows if only is None or any(at + step in only for step in range(node.size))]
    if shown:
        yield f"{'  ' * depth}- each {rows[0][0].role} has: {', '.join(shape)}"
    for node, at in shown:
        placed = enumerate(in_order(node), at)
        cells = [_cell(one, refs.get(its)) for its, one in placed if its > at and (_line(one, None) or its in refs)]
        yield f"{'  ' * (depth + 1)}- {', '.join(cells)}"


def _cell(node: Node, ref: str | None) -> str:
    name = [] if node.role in CONTROLS else [f'"{_short(node.name)}"']
    value = f":{_quoted(node.value)}" if node.value else ""
    return " ".join([*name, *([f"[{ref}]"] if ref else []), *(f"({state})" for state in node.states)]) + value


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
    gone = [
        (child, at) for index, (child, at) in enumerate(zip(old.children, old_places, strict=True)) if index not in kept
    ]
    own = [f"- {_removed(child, old_refs, at)}" for child, at in gone[:_MOST_REMOVED]]
    if len(gone) > _MOST_REMOVED:
        own.append(f"- {len(gone) - _MOST_REMOVED:,} more elements")
    inner: list[str] = []
    added: list[tuple[Node, int]] = []
    for one, child, at in zip(patch.children, new.children, places, strict=True):
        if isinstance(one, Node):
            added.append((child, at))
        elif one.patch is not None:
            inner += _changes(old.children[one.index], old_places[one.index], old_refs, child, at, refs, one.patch)
    own += [f"+ {line}" for line in _lines_of(added, refs, 0, None, has_tables=True)]
    moved = [one.index for one in patch.children if isinstance(one, Kept)]
    if moved != sorted(moved):
        own.append("~ its elements have another order")
    if own:
        yield f"in {_label(new, refs.get(place))}:"
        yield from (f"  {line}" for line in own)
    yield from inner


def _removed(node: Node, refs: Mapping[int, str], place: int) -> str:
    """Return what a removed element was, and which references went with it."""
    gone = [refs[at] for at in range(place + 1, place + node.size) if at in refs]
    label = _line(node, refs.get(place)) if node.name else _label(node, refs.get(place))
    if len(gone) > _MOST_REMOVED:
        return f"{label} (with {gone[0]} and {len(gone) - 1:,} more)"
    return label + (f" (with {', '.join(gone)})" if gone else "")


def _own_change(old: Node, new: Node) -> str:
    changes: list[str] = []
    if old.role != new.role or old.name != new.name:
        changes.append(f"now {_label(new, None)}")
    if old.value != new.value:
        changes.append(f"value{_quoted(old.value)} ->{_quoted(new.value)}")
    changes += [f"now {state}" for state in new.states if state not in old.states]
    changes += [f"no longer {state}" for state in old.states if state not in new.states]
    return "; ".join(changes)


def _line(node: Node, ref: str | None) -> str:
    """Return an element in one line; "" for one that says nothing itself and is no row of several elements."""
    if not (node.name or node.value or node.states or ref):
        return node.role if node.role in ROWS and len(node.children) > 1 else ""
    states = f" ({', '.join(node.states)})" if node.states else ""
    value = f":{_quoted(node.value)}" if node.value else ""
    return f"{_label(node, ref)}{states}{value}"


def _label(node: Node, ref: str | None) -> str:
    name = _quoted(node.name or node.title) if node.name or node.title else ""
    return f"{_short(node.role)}{name}{f' [{ref}]' if ref else ''}"


def _quoted(text: str) -> str:
    return f' "{_short(text)}"'


def _short(text: str) -> str:
    """Return a text of the page in one line and without quotes, so that it cannot look like an element."""
    line = " ".join(text[: _NAME_CHARACTERS * 2].replace('"', "'").split())
    return line if len(line) <= _NAME_CHARACTERS else f"{line[:_NAME_CHARACTERS]}…"


def _placed(node: Node, place: int) -> Iterator[tuple[int, Node]]:
    yield place, node
    for child, at in zip(node.children, child_places(node, place), strict=True):
        yield from _placed(child, at)
