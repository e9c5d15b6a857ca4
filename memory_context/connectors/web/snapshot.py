"""Playwright's snapshot of a page, pruned to the lines that say something.

    - navigation "Views"
      - button "All tasks" [e3]
    - checkbox "Done" [e4] (checked), "Task 6: write the report", button "Delete" [e5]

Wrappers without a name, texts that repeat a name, and addresses go; a row of a list stands in one line with its
controls. References are numbered here: Playwright's own begin anew with each document.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from memory_context.foundation.patterns import regex

__all__ = ["Box", "Fact", "Line", "References", "pruned", "quoted"]

_CONTROLS = frozenset(
    [
        *("button", "checkbox", "combobox", "listbox", "menuitem", "menuitemcheckbox", "menuitemradio", "option"),
        *("radio", "scrollbar", "searchbox", "slider", "spinbutton", "switch", "tab", "textbox"),
    ]
)
_INTERACTIVE = _CONTROLS | {"gridcell", "link", "treeitem"}
_FIELDS = frozenset(["textbox", "searchbox", "combobox", "spinbutton", "slider", "progressbar", "meter", "listbox"])
_ROWS = frozenset(["article", "definition", "figure", "listitem", "row", "term", "paragraph"])
_HOLDING = frozenset(["article", "listitem", "row"])
_ALONE = frozenset(["alertdialog", "dialog"])  # say something without a name
_PLAIN = _ROWS | {"text", "generic", "cell", "strong", "emphasis", "code", "blockquote", "time", "caption", "mark"}
"""Their texts stand without a role."""
_ROW_PARTS, _ROW_CHARACTERS = 16, 400
_GROUP_PARTS, _GROUP_CHARACTERS = 4, 160
_NAME_CHARACTERS = 200
_OPTIONS = 20
_LABELS = 5000

_KEY = regex(r'(/?[A-Za-z-]+)(?: ("(?:[^"\\]|\\.)*"|/.*?/))?((?: \[[^\]]*\])*)')
_ATTRIBUTE = regex(r"\[([a-z-]+)(?:=([^\]]*))?\]")
_HEX = regex(r"\\x([0-9a-fA-F]{2})")
_UNSEEN = regex("[\u0000-\u0008\u000b-\u001f\u007f\u061c\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Characters that turn text around, or hide."""
_STATES = ("checked", "disabled", "expanded", "invalid", "pressed", "selected")

Box = tuple[int, int, int, int]
"""Left, top, width and height in pixels of the visible part."""


@dataclass(frozen=True)
class Fact:
    """Facts about one element that the snapshot lacks; the box of the element tells them.

    Attributes:
        role: It stands for an element of this role; empty for the one it has.
        text: Its value, or its name if `role` is given.
        selector: Finds an element that Playwright gives no reference.
    """

    kind: str
    box: Box
    role: str = ""
    text: str = ""
    states: Sequence[str] = ()
    name: str = ""
    selector: str = ""


@dataclass
class _Node:
    role: str
    name: str = ""
    value: str = ""
    states: list[str] = field(default_factory=list[str])
    ref: str = ""
    box: Box | None = None
    is_clickable: bool = False
    level: int = 0  # of a heading
    href: str = ""
    children: "list[_Node]" = field(default_factory=list["_Node"])
    is_row: bool = False  # its children stand in one line
    title: str = ""  # of a row

    @property
    def pieces(self) -> "list[_Node]":
        """The elements of its line."""
        return self.children if self.is_row else [self]


@dataclass(frozen=True)
class Line:
    """One line of a page.

    Attributes:
        key: Its text without references, by which pages are compared.
        boxes: Where its elements stand.
    """

    depth: int
    text: str
    key: str
    boxes: tuple[Box, ...] = ()

    def __str__(self) -> str:
        return f"{'  ' * self.depth}- {self.text}"


class References:
    """The references of a page: `e` and a number that is not used again.

    An element has another one when Playwright tells it from the one before, or when the row around it is another:
    lists use their elements again for other rows.

    Attributes:
        made: The number of references given so far.
        current: Playwright's selectors of the elements that are on the page, by their references.
        labels: Role and name of elements that are or were on the page.
    """

    def __init__(self, made: int = 0) -> None:
        self.made = made
        self.current: dict[str, str] = {}
        self.labels: dict[str, str] = {}
        self._given: dict[tuple[str, str], str] = {}

    def renew(self, elements: Iterable[tuple[str, str, str]]) -> dict[str, str]:
        """Take the elements of a page (selector, title of the row, label); return their references by selector."""
        before, self._given = self._given, {}
        self.labels = self.labels if len(self.labels) < _LABELS else {}
        for ref, row, label in elements:
            if (known := before.get((ref, row))) is None:
                self.made += 1
                known = f"e{self.made}"
            self._given[ref, row] = known
            self.labels[known] = label
        self.current = {known: ref for (ref, _), known in self._given.items()}
        return {ref: known for known, ref in self.current.items()}


def _read(text: str) -> _Node | None:
    quoted_key = re.match(r"'((?:[^']|'')*)'", text)  # YAML quotes a key that holds ": "
    match = _KEY.match(quoted_key[1].replace("''", "'") if quoted_key else text)
    if match is None:
        return None
    value = text[(quoted_key or match).end() :]
    node = _Node(match[1], _clean(_unquoted(match[2] or "")), _clean(_unquoted(value.removeprefix(":").strip())))
    for name, said in _ATTRIBUTE.findall(match[3]):
        if name == "ref":
            node.ref = f"aria-ref={said}"
        elif name == "box":
            left, top, width, height = (int(float(one)) for one in said.split(","))
            node.box = left, top, width, height
        elif name == "level":
            node.level = int(said or 0)
        elif name == "cursor":
            node.is_clickable = True
        elif name in _STATES:
            node.states.append("mixed" if said == "mixed" else name)
    if node.role == "text":
        node.name, node.value = node.value, ""
    return node


def _unquoted(text: str) -> str:
    if text.startswith('"'):
        try:
            return str(json.loads(_HEX.sub(r"\\u00\1", text), strict=False))
        except ValueError:
            return text.strip('"')
    return text.replace("''", "'")[1:-1] if text.startswith("'") else text


def _clean(text: str) -> str:
    return " ".join(_UNSEEN.sub("", text[: 8 * _NAME_CHARACTERS]).split())


def pruned(
    snapshot: str, facts: Sequence[Fact], references: References, *, most_elements: int
) -> tuple[list[Line], bool]:
    """Return the lines of a page, and whether it has more elements than are read."""
    nodes: list[tuple[int, _Node]] = []
    for line in snapshot.split("\n"):
        text = line.lstrip(" ")
        if text.startswith("- ") and (node := _read(text[2:])) is not None:
            nodes.append(((len(line) - len(text)) // 2, node))
    is_cut, nodes = len(nodes) > most_elements, nodes[:most_elements]
    _add_facts(nodes, facts)
    flat = [*_flat(_nested(nodes))]
    refs = references.renew(
        (one.ref, row, _label(one)) for node, row, _, _ in flat for one in node.pieces if _has_reference(one)
    )
    return [_line(node, depth, frame, refs) for node, _, depth, frame in flat], is_cut


def _add_facts(nodes: list[tuple[int, _Node]], facts: Sequence[Fact]) -> None:
    """Give elements what the snapshot lacks, by their boxes; add what it leaves out."""
    by_box: dict[Box | None, list[Fact]] = {}
    for fact in facts:
        by_box.setdefault(fact.box, []).append(fact)
    secret = {_clean(fact.text) for fact in facts if fact.kind == "password" and fact.text}
    unseen = [fact for fact in facts if fact.selector]
    for _, node in nodes:
        for fact in by_box.get(node.box, ()) if node.role not in ("text", "iframe") else ():
            _apply(fact, node)
            unseen = [one for one in unseen if one is not fact]
        if node.value in secret and node.role in _FIELDS:  # also when the page moved between two readings
            node.value = _masked(node.value)
    for _, node in nodes:
        if node.role == "text" or (node.role in ("checkbox", "radio", "button") and not node.ref):
            labels = (one for one in unseen if one.role != "textbox" and _clean(one.text) == (node.name or node.value))
            if fact := next(labels, None):
                node.role, node.name, node.value, node.ref = fact.role, node.name or node.value, "", fact.selector
                node.states += fact.states
                unseen.remove(fact)
    depth = min((depth for depth, _ in nodes), default=0)
    for fact in unseen:
        if fact.role == "textbox" and fact.box[2] and fact.box[3]:  # an empty one is not in the snapshot
            nodes.append((depth, _Node("textbox", fact.name, _clean(fact.text), [], fact.selector, fact.box)))


def _apply(fact: Fact, node: _Node) -> None:
    is_field = node.role in _FIELDS
    match fact.kind:
        case "value" if is_field:
            node.value = _clean(fact.text)
        case "field" if is_field or node.role in ("checkbox", "radio", "button"):
            pass
        case "password" if is_field:
            node.value = _masked(fact.text)
        case "state" if node.name or node.role in _INTERACTIVE:
            pass
        case "role" if node.role in ("generic", "paragraph", "heading", "button", "cell"):
            node.role, node.is_clickable = fact.role, False
            node.name = node.name or _clean(fact.name if fact.role == "textbox" else fact.text)
            node.value = _clean(fact.text) if fact.role == "textbox" else node.value
        case _:
            return
    node.states += fact.states


def _masked(text: str) -> str:
    return "•" * min(len(text), 8)


def _nested(nodes: Sequence[tuple[int, _Node]]) -> list[_Node]:
    """Hang each element below the one above it, and simplify from the innermost outwards."""
    root = _Node("document")
    above = [(-1, root)]
    for depth, node in nodes:
        while above[-1][0] >= depth:
            above.pop()
        parent = above[-1][1]
        if node.role == "/url":
            parent.href = node.value
        elif not node.role.startswith("/"):
            parent.children.append(node)
            above.append((depth, node))
    for _, node in reversed(nodes):
        _simplify(node)
    return _without_repeats([one for node in root.children for one in _standing_for(node, is_root=True)], "")


def _simplify(node: _Node) -> None:
    """Make an element what it is shown as; its children are simple already."""
    inner = [one for child in node.children for one in _standing_for(child)]
    if node.value and node.role not in _FIELDS:
        if node.name and node.name != node.value:
            inner.append(_Node("text", node.value))
        node.name, node.value = node.name or node.value, ""
    if node.role in ("combobox", "listbox") and any(one.role == "option" for one in inner):
        _take_options(node, inner)
        return
    if node.role == "textbox":
        node.value = node.value or " ".join(one.name for one in inner if one.name != node.name)
        node.children = []
        return
    if node.role == "heading" and any(one.children for one in inner):
        node.role, node.name = "generic", ""  # broken markup: the rest of the page is in it
    pieces = [piece for one in inner for piece in one.pieces]
    is_one = node.role in _INTERACTIVE or node.role in ("heading", "img")
    is_acted_on = any(one.children and not one.is_row for one in inner) or any(map(_has_reference, pieces))
    if is_one or (node.is_clickable and node.role in _PLAIN and not is_acted_on):
        node.name = node.name or " ".join(one.name for one in pieces if one.name)
        node.role = "button" if node.is_clickable and not is_one else node.role
        # a label's own box is the element itself
        within = [one for leaf in inner for one in (leaf, *leaf.children) if _has_reference(one)]
        node.children = [one for one in within if (one.role, one.name) != (node.role, node.name)]
        return
    node.children = _without_repeats(inner, node.name)
    if node.role in _ROWS or node.role == "generic":  # the first text that is not a control's name tells a row
        kept = [piece for one in node.children for piece in one.pieces]
        titles = (one.title if one.role in _CONTROLS else one.name or one.title for one in kept)
        node.title = next(filter(None, titles), "")
    _make_row(node)


def _take_options(node: _Node, found: Sequence[_Node]) -> None:
    options = [one for one in found if one.role == "option"]
    node.value = node.value or ", ".join(one.name for one in options if "selected" in one.states)
    if any(one.ref for one in options):  # of an open list: each can be clicked
        node.children = [*found]
        return
    named = ", ".join(f'"{quoted(one.name)}"' for one in options[:_OPTIONS])
    more = f" and {len(options) - _OPTIONS} more" if len(options) > _OPTIONS else ""
    node.states.append(f"options {named}{more}")
    node.children = []


def _make_row(node: _Node) -> None:
    """Put a row in one line, and what else is short and flat."""
    pieces = [piece for child in node.children for piece in child.pieces]
    headings = [one for one in pieces if one.role == "heading"]
    is_card = len(headings) == 1 and headings[0].level > 1 and any(map(_has_reference, pieces))
    is_form = sum(one.role in _FIELDS for one in pieces) > 1  # its fields change one by one
    is_row = node.role in _ROWS or (node.role == "generic" and is_card and not is_form)
    most, characters = (_ROW_PARTS, _ROW_CHARACTERS) if is_row else (_GROUP_PARTS, _GROUP_CHARACTERS)
    is_flat = all(not child.children or (child.is_row and is_row) for child in node.children)
    is_kind = is_row or (node.role in ("generic", "group") and not headings and not is_form)
    is_short = 1 < len(pieces) <= most and sum(len(one.name) + len(one.value) + 12 for one in pieces) <= characters
    if not node.name and is_kind and is_flat and is_short:
        node.children, node.is_row = pieces, True


def _standing_for(node: _Node, *, is_root: bool = False) -> list[_Node]:
    """Return what is shown of an element: itself, what it holds, or nothing."""
    if node.is_row:
        return node.children if is_root else [node]
    if node.role == "heading" and len(node.children) == 1 and node.children[0].name == node.name:
        return node.children
    if node.role == "iframe":
        return [node] if node.children else []
    if node.role in _INTERACTIVE or node.value or node.role in _ALONE:
        return [node]
    if node.role in ("text", "img", "heading"):
        return [node] if node.name or node.children else []
    is_holding = node.role in _HOLDING and len(node.children) > 1 and not is_root
    return [node] if node.name or (node.states and not node.children) or is_holding else node.children


def _without_repeats(found: Sequence[_Node], name: str) -> list[_Node]:
    """Leave out texts that repeat a name beside or above them, and join texts that stand side by side."""
    names = {one.name for one in found if one.role in _INTERACTIVE and one.name} | {name}
    kept: list[_Node] = []
    for one in found:
        if one.role == "text" and (not one.name or one.name in names):
            continue
        if one.role == "text" and kept and kept[-1].role == "text":
            last = kept.pop()
            one = _Node("text", f"{last.name} {one.name}"[: 8 * _NAME_CHARACTERS], box=last.box)
        kept.append(one)
    return kept


def _has_reference(node: _Node) -> bool:
    return bool(node.ref) and node.role in _INTERACTIVE


def _flat(tops: Sequence[_Node]) -> Iterator[tuple[_Node, str, int, Box | None]]:
    """Yield each element that has a line, with the title of its row, its depth and the frame that it is in."""
    waiting: list[tuple[_Node, str, int, Box | None]] = [(one, "", 0, None) for one in reversed(tops)]
    while waiting:
        node, row, depth, frame = waiting.pop()
        if node.role in _ROWS or node.is_row:
            row = node.title or row
        yield node, row, depth, frame
        inner = frame or (node.box if node.role == "iframe" else None)
        waiting += [(one, row, depth + 1, inner) for one in reversed([] if node.is_row else node.children)]


def _line(node: _Node, depth: int, frame: Box | None, refs: Mapping[str, str]) -> Line:
    shown = node.pieces
    own = [one.box for one in shown if one.box is not None] or ([node.box] if node.box is not None else [])
    boxes = (frame,) if frame else tuple(own)  # boxes in a frame are counted from its corner
    return Line(depth, ", ".join(_told(one, refs) for one in shown), ", ".join(_told(one, {}) for one in shown), boxes)


def _told(node: _Node, refs: Mapping[str, str]) -> str:
    ref = f" [{refs[node.ref]}]" if node.ref in refs and _has_reference(node) else ""
    about = f" ({', '.join(dict.fromkeys(node.states))})" if node.states else ""
    value = f': "{quoted(node.value)}"' if node.value else ""
    link = " (PDF)" if node.role == "link" and node.href.partition("?")[0].lower().endswith(".pdf") else ""
    return f"{_label(node)}{ref}{link}{about}{value}"


def _label(node: _Node) -> str:
    if node.role in _PLAIN and node.name:
        return f'"{quoted(node.name)}"'
    return f'{node.role} "{quoted(node.name)}"' if node.name else node.role


def quoted(text: str) -> str:
    """Return a text of the page in one line and without quotes, so that it cannot look like an element."""
    line = " ".join(text[: 2 * _NAME_CHARACTERS].replace('"', "'").split())
    return line if len(line) <= _NAME_CHARACTERS else f"{line[:_NAME_CHARACTERS]}…"
