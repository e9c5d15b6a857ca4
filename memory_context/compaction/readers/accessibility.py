"""What a browser tool shows of a page: trees of roles and names with the references by which a model acts on them.

The next call clicks or fills something by its reference, so controls come first, with the values that inputs have;
links and text can be looked up.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ..compactor import Result
from ..excerpt import Passage
from ..reading import Reading
from .framing import LABELS, LANDMARKS, NAMES, described, fact

__all__ = ["read_accessibility"]

_PARSED = 500_000
_SNIFFED = 6000
_LEAST_NODES = 4
_ELEMENTS = 8

_QUOTED = r"(?:\"((?:[^\"\\\n]|\\.){0,300})\"|'([^'\n]{0,300})')"
_TREE = re.compile(  # Playwright: - button "Save" [disabled] [ref=e12]: text
    rf"^[ \t]*- '?([a-z]{{3,20}})(?: {_QUOTED})?((?: \[[^\]\n]{{1,80}}\]){{0,12}})'?(:?)(?: (.{{1,300}}))?$",
    re.MULTILINE,
)
_NUMBERED = re.compile(  # WebArena: [42] link 'Home' focused: True; Chrome DevTools: uid=1_2 button "Save"
    rf"^[ \t]*(?:\[(\w{{1,12}})\]|uid=(\w{{1,16}})) ([A-Za-z]{{3,24}}) {_QUOTED}(.{{0,300}})$", re.MULTILINE
)
_INDEXED = re.compile(  # browser-use: [12]<button aria-label=…>Save</button>
    r"^[ \t*|]*\[(\d{1,6})\]<(\w{1,20})\b([^>\n]{0,400})>([^\n<]{0,300})", re.MULTILINE
)
_TITLE = re.compile(
    r"^\W{0,8}(?:Page |Current |Tab )?(title|url)\b[^\n:]{0,20}: *(\S.{0,300})$", re.MULTILINE | re.IGNORECASE
)
_ROOT = re.compile(r"\bRootWebArea '([^'\n]{1,200})'")
_REFERENCE = re.compile(r"\[ref=(\w{1,24})\]")
_LEVEL = re.compile(r"\[level=(\d)\]")
_ATTRIBUTE = re.compile(
    r"\b(aria-label|placeholder|value|name|type|title|alt|id|href)=(\"[^\"\n]{0,200}\"|'[^'\n]{0,200}'|\S{1,200})"
)
_VALUE = re.compile(r"\bvalue(?:text)?[:=] ?[\"']?([^\"'\n]{1,100})")

_TAG_ROLES = {"a": "link", "input": "textbox", "textarea": "textbox", "select": "combobox", "h1": "heading"}
_INPUTS = {"textbox", "combobox", "searchbox", "checkbox", "radio", "switch", "slider", "spinbutton", "listbox"}
_CONTROLS = {"button", "tab", "menuitem", "menuitemcheckbox", "menuitemradio", "option", "treeitem"}
_ALERTS = {"alert", "alertdialog", "dialog", "status"}
_AREAS = {"banner", "navigation", "main", "complementary", "contentinfo", "search", "form", "region", "table", "list",
          "dialog", "heading", "article", "group", "tablist", "menu", "toolbar"}  # fmt: skip
_RANKS = {
    role: rank for rank, roles in enumerate((_ALERTS, _INPUTS, _CONTROLS, ("heading",), ("link",))) for role in roles
}
_PLAIN = {"text", "generic", "paragraph", "statictext", "img", "listitem", "cell", "row", "rowgroup", "none", "strong"}
_ROLES = {
    *_INPUTS, *_CONTROLS, *_ALERTS, *_AREAS, *_PLAIN, "link", "document", "rootwebarea", "iframe", "columnheader",
    "separator", "figure", "code", "term", "definition", "image", "label", "svg", "div", "span", "emphasis", "note",
    "blockquote", "gridcell", "grid", "progressbar", "video", "time", "rowheader", "labeltext", "menubar",
}  # fmt: skip


@dataclass(frozen=True)
class _Node:
    """An element: what it is, what it is called, how it is referred to, the value it has, and where it stands."""

    role: str
    name: str
    reference: str
    value: str
    level: int
    start: int
    end: int

    def line(self) -> str:
        """Return the element in a few words."""
        return f"{self.name[:50] or self.role}{f' [{self.reference}]' if self.reference else ''}"


def read_accessibility(result: Result) -> Reading | None:
    """Return what an accessibility tree or an indexed page offers to act on; None if the content is none."""
    content = result.content
    head = content[:_SNIFFED]
    if not _is_tree(head):
        return None
    nodes = _nodes(content[:_PARSED])
    if len(nodes) < _LEAST_NODES:
        return None
    title, url = _title(head)
    counts = Counter(node.role for node in nodes if node.role not in _PLAIN)
    counted = ", ".join(f"{count:,} {role}{'s' if count > 1 else ''}" for role, count in counts.most_common(5))
    least = "+" if len(content) > _PARSED else ""
    return Reading(
        described("page snapshot", title or url, f"{len(nodes):,}{least} elements", f"{len(content):,} characters"),
        facts=[fact(line) for line in _facts(nodes, title, url) if line] + ([counted] if counted else []),
        names=_names(nodes, url),
        landmarks=[Passage(node.start, node.end) for node in _ranked(nodes)][:LANDMARKS],
        labels=_labels(nodes, min(len(content), _PARSED)),
    )


def _is_tree(head: str) -> bool:
    """Whether enough elements with known roles begin lines, and most are not of a plain list."""
    found = [match[1] for match in _TREE.finditer(head) if match[4] or match[2] or match[3] or match[5]]
    marked = head.count("[ref=") + head.count('- heading "') + head.count('- link "') + head.count('- button "')
    if marked > 1 and sum(role in _ROLES for role in found) > max(2, 0.7 * len(found)):
        return True
    if sum(match[3].lower() in _ROLES for match in _NUMBERED.finditer(head)) >= _LEAST_NODES:
        return True
    return sum(1 for _ in _INDEXED.finditer(head)) >= _LEAST_NODES


def _nodes(window: str) -> list[_Node]:
    nodes: list[_Node] = []
    for match in _TREE.finditer(window):
        role, attributes = match[1], match[4]
        if role in _ROLES:
            reference, level = _REFERENCE.search(attributes), _LEVEL.search(attributes)
            nodes.append(
                _Node(
                    role,
                    match[2] or match[3] or (match[6] or "" if role not in _INPUTS else ""),
                    reference[1] if reference else "",
                    (match[6] or "").strip("\"'") or ("checked" if "[checked" in attributes else ""),
                    int(level[1]) if level else 0,
                    match.start() + len(match[0]) - len(match[0].lstrip()),
                    match.end(),
                )
            )
    if len(nodes) >= _LEAST_NODES:
        return nodes
    for match in _NUMBERED.finditer(window):
        value = _VALUE.search(match[6])
        name = match[4] or match[5] or ""
        nodes.append(_Node(match[3].lower(), name, match[1] or match[2], value[1] if value else "", 0, *match.span()))
    for match in _INDEXED.finditer(window):
        attributes = {found[1]: found[2].strip("\"'") for found in _ATTRIBUTE.finditer(match[3])}
        role = _TAG_ROLES.get(match[2].lower(), match[2].lower())
        if role == "textbox" and attributes.get("type") in ("checkbox", "radio", "submit", "button"):
            role = "button" if attributes["type"] in ("submit", "button") else attributes["type"]
        called = (attributes.get(key) for key in ("aria-label", "placeholder", "name", "title", "alt", "id"))
        name = match[4].strip().rstrip("/") or next(filter(None, called), "")
        value = attributes.get("value", "")
        nodes.append(_Node(role, name, match[1], value, 0, *match.span()))
    return sorted(nodes, key=lambda node: node.start)


def _title(head: str) -> tuple[str, str]:
    found = {match[1].lower(): match[2].strip() for match in reversed(list(_TITLE.finditer(head)))}
    root = _ROOT.search(head)
    return found.get("title", root[1] if root else ""), found.get("url", "")


def _facts(nodes: Sequence[_Node], title: str, url: str) -> list[str]:
    alerts = [node for node in nodes if node.role in _ALERTS and (node.name or node.value)]
    filled = [f"{node.line()} = {node.value[:60]!r}" for node in nodes if node.role in _INPUTS and node.value]
    empty = [node.line() for node in nodes if node.role in _INPUTS and not node.value]
    buttons = [node.line() for node in nodes if node.role in _CONTROLS and node.name]
    headings = [node.name for node in nodes if node.role == "heading" and node.name]
    return [
        f"page: {title} {url}".rstrip() if title or url else "",
        *(f"{node.role}: {node.name or node.value}" for node in alerts[:2]),
        f"inputs: {'; '.join([*filled, *empty][:_ELEMENTS])}" if filled or empty else "",
        f"buttons: {'; '.join(buttons[:_ELEMENTS])}" if buttons else "",
        f"headings: {'; '.join(headings[:_ELEMENTS])}" if headings else "",
    ]


def _names(nodes: Sequence[_Node], url: str) -> list[str]:
    """Return the references of controls with what they are called, inputs first, then links."""
    ranked = [node for node in _ranked(nodes) if node.role not in _AREAS and node.name]
    called = (f"{node.name[:40]} [{node.reference}]" if node.reference else node.name[:60] for node in ranked)
    names = [url, *called] if url else list(called)
    return [name for name in dict.fromkeys(names) if name.isprintable()][:NAMES]


def _ranked(nodes: Sequence[_Node]) -> list[_Node]:
    """Return the elements worth showing: alerts, inputs, buttons, headings, links."""
    return sorted((node for node in nodes if node.role in _RANKS), key=lambda node: _RANKS[node.role])


def _labels(nodes: Sequence[_Node], end: int) -> list[tuple[Passage, str]]:
    """Name the stretch after each heading and each named area."""
    marks = [node for node in nodes if node.role in _AREAS and (node.name or node.role in ("main", "navigation"))]
    marks = marks[:LABELS]
    ends = [*(node.start for node in marks[1:]), end]
    return [
        (Passage(node.start, following), f"{node.role} {node.name[:50]}".strip())
        for node, following in zip(marks, ends, strict=False)
        if following > node.start
    ]
