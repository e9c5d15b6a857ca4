"""Describes a content by what is cheap and sure in it: its kind, title, columns, headings, keys, definitions and dates.

The extension of the file that was read tells the kind; without one, a form that nothing else has. Readers see a bounded
beginning, take linear time, and return None for what they do not know.
"""

import csv
import html
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise
from textwrap import wrap
from typing import Any, cast

from memory_context.foundation.references import shorten
from memory_context.foundation.text.documents import headings_in, is_document
from memory_context.foundation.text.json_text import find_document
from memory_context.foundation.text.landmarks import LANGUAGES, defined_in, error_lines, language_of

from ...patterns import regex
from ..compactor import Analysis, Result
from ..names import reads_as_order
from ..records import longest_list
from .output import FACT_LIMIT, LONGEST_LINE, NAMES, SAMPLED, Content, count_lines, fact, without_series

__all__ = ["describe_content"]

_ITEMS, _ITEM_CHARACTERS = 40, 80


@dataclass(frozen=True)
class _Seen:
    """Parts of a content that a reader found; `label` says if `items` are columns, headings, keys or definitions."""

    kind: str
    label: str = ""
    items: Sequence[str] = ()
    size: str = ""
    title: str = ""
    facts: Sequence[str] = ()
    has_failed: bool | None = None
    has_names: bool = False


def describe_content(result: Result) -> Analysis | None:
    """Return kind, size and parts of a file, page, table, log or JSON; None for a content of no known form."""
    content = Content(result)
    for read in (_BY_SUFFIX.get(content.suffix, _json), *_SNIFFERS):
        if (seen := read(content)) is not None:
            return _analysis(seen, content)
    return None


def _analysis(seen: _Seen, content: Content) -> Analysis:
    told = (shorten(item, _ITEM_CHARACTERS) for item in seen.items if not reads_as_order(item))
    items = without_series(filter(None, told))
    title = f" '{shorten(seen.title, _ITEM_CHARACTERS)}'" if seen.title else ""
    described = f"{seen.kind}{title}, {seen.size or content.size}"
    facts = [text for text in map(fact, seen.facts) if text]
    if len(joined := ", ".join(items[:_ITEMS])) > _ITEM_CHARACTERS // 2:
        facts += wrap(f"{seen.label}: {joined}", FACT_LIMIT, break_on_hyphens=False)[:3]
    described += f": {joined}" if items else ""
    return Analysis(described, seen.has_failed, facts, items[:NAMES] if seen.has_names else [])


# --- JSON

_ERROR_FIELDS = ("error", "errors", "error_message", "errorMessage", "exception", "stderr")


def _json(content: Content) -> _Seen | None:
    if (document := find_document(content.whole)) is None:
        return None
    value: Any = document.value
    named = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    title = next((text for key in ("title", "name", "displayName") if isinstance(text := named.get(key), str)), "")
    where, rows = longest_list(value)
    if len(rows) > 1 and (where.count(".") < 2 or 4 * len(str(rows)) > len(content.whole)):  # else deep inside
        size = f"{len(rows):,}{'' if document.is_whole else '+'} records{f' in {where}' if where else ''}"
        seen = _Seen(document.kind, "fields", list(chain.from_iterable(rows[:SAMPLED])), size, title)
    else:
        kind = f"{document.kind} object" if named else f"{document.kind} list of {len(cast('list[Any]', value)):,}"
        seen = _Seen(kind, "keys", list(named), content.characters, title)
    has_failed, error = _outcome(named)
    plain = (f"{key}: {text}" for key, text in named.items() if isinstance(text, (str, int, float)) and text != title)
    facts = [error, "; ".join(shorten(one, _ITEM_CHARACTERS) for one in islice(plain, 12))]
    size = seen.size + ("" if document.is_whole else ", cut off or long")
    return replace(seen, size=size, facts=facts, has_failed=has_failed)


def _outcome(named: dict[str, Any]) -> tuple[bool | None, str]:
    """Return whether an object says that the call failed, and its error."""
    error: Any = next((value for key in _ERROR_FIELDS if (value := named.get(key))), None)
    if isinstance(error, dict):
        error = next((text for key in ("message", "detail", "reason") if (text := cast("Any", error).get(key))), None)
    said = f"error: {error}" if isinstance(error, str) else ""
    outcome: Any = named.get("success", named.get("ok"))
    status = str(named.get("status", "")).lower()
    has_failed = outcome is False or status in ("failed", "failure", "error") or (said and len(named) < 8)
    return (True if has_failed else False if outcome is True or status in ("success", "ok") else None), said


# --- HTML, XML, SVG

_UNREAD = regex(
    r"<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<(script|style)\b.*?(?:</\1|\Z)", re.DOTALL | re.IGNORECASE
)
_TAG = regex(r"<(/?)([A-Za-z_][\w:.-]*)([^<>]*)>")
_TITLED = regex(r"<(title|h[1-3])\b[^<>]{0,1000}>(.{0,600}?)</\1", re.DOTALL | re.IGNORECASE)
_VIEW_BOX = regex(r"viewBox=[\"'][\d.-]+[ ,]+[\d.-]+[ ,]+([\d.]+)[ ,]+([\d.]+)")
_PAGES = frozenset(("html", "head", "body", "div", "main", "article", "section", "table", "p", "h1", "ul", "meta"))


def _markup(content: Content) -> _Seen | None:
    text = _UNREAD.sub(" ", content.text).lstrip() if content.text[:200].lstrip().startswith("<") else ""
    if not text.startswith("<") or (first := _TAG.search(text, 0, 10_000)) is None:
        return None
    root, is_svg = first[2], first[2].lower() == "svg"
    said = [(tag.lower(), " ".join(html.unescape(_TAG.sub("", inner)).split())) for tag, inner in _TITLED.findall(text)]
    title = next((text for tag, text in said if tag == "title"), "")
    if root.lower() in _PAGES:
        return _Seen("HTML page", "headings", [text for _, text in said if text != title], content.characters, title)
    parts = [f"{count:,} {name}" if count > 1 else name for name, count in _children(text).most_common(_ITEMS)]
    box = _VIEW_BOX.search(text[:4000]) if is_svg else None
    return _Seen(
        "SVG image" if is_svg else f"XML <{root}>",
        "elements",
        parts,
        f"{box[1]} x {box[2]}, {content.characters}" if box else "",
        title,
    )


def _children(text: str) -> "Counter[str]":
    """Count the elements below the root, or below its only child."""
    levels, depth = [Counter[str]() for _ in range(4)], 0
    for tag in islice(_TAG.finditer(text), 20_000):
        if not tag[1] and 0 <= depth < len(levels):
            levels[depth][tag[2]] += 1
        depth += -1 if tag[1] else not tag[3].endswith("/")
    return next((level for level in levels[1:] if sum(level.values()) > 1), levels[1])


# --- tables

_QUOTED_CHARACTERS = 2_000_000  # of more text lines are counted: to split it holds the interpreter 7 ms a megabyte
_CELLS = regex(r"\s*[|│┃]\s*")
_RULER = regex(r"(?=.*(?:--|==|━━|──))[\s|+:┃┏┳┓┡╇┩├┼┤─━=-]+")
_FOOTER = regex(r"(?:\n[+|=-]{3,1000}\r?|\n[\[(]?\d+ rows?\b[^\n]{0,80}|\n\r?)+$")
_FIGURE = regex(r"[-+$€£(]?\d[\d.,:/ %eE+-]*\)?")
_WITH_FIGURE = regex(r"(?:.*[,;])?\s*[\"']?-?\d[\d.:/ -]*[\"']?\s*(?:[,;]|$)")


def _ruled(content: Content) -> _Seen | None:
    """Read a table whose header stands above a ruler: Markdown, SQL shells, `pip list`."""
    head = [(number, line[:LONGEST_LINE]) for number, line in enumerate(content.lines[:SAMPLED], 1) if line.strip()]
    for (_, line), (number, ruler) in pairwise(head[:8]):
        if _RULER.fullmatch(ruler) and not _RULER.fullmatch(line):
            line = line.strip("|│┃/ \t")
            cells = [cell for cell in _CELLS.split(line) if cell.strip()]
            if len(cells) < 2 <= len(re.findall(r"={2,}|[-━─]{2,}", ruler)):
                cells = re.split(r"\s{2,}", line)
            if len(cells) > 1 and all(any(map(str.isalnum, cell)) for cell in cells):
                return _Seen("table", "columns", cells, _table_rows(content, number))
    return None


def _table_rows(content: Content, headings: int) -> str:
    """Return the number of rows without blank lines, rulers and counts at the end."""
    footer = _FOOTER.search(content.whole[-LONGEST_LINE:])
    return content.rows(headings + (footer[0].rstrip().count("\n") if footer else 0))


def _separated(content: Content) -> _Seen | None:
    """Read CSV and TSV; without an extension, of at least three columns under a header."""
    is_named = content.suffix in ("csv", "tsv", "tab")
    lines = [line for line in content.filled if not line.startswith("#")]
    best: tuple[int, int, list[str], str] = (0, 0, [], "")
    for separator in "\t,;" if len(lines) > 1 else "":
        try:
            rows = list(csv.reader(lines, delimiter=separator))
        except csv.Error:
            continue
        alike = sum(len(row) == len(rows[0]) or (is_named and 1 < len(row) < len(rows[0])) for row in rows)
        if len(rows[0]) > (1 if is_named else 2) and alike > 0.9 * len(rows) - 1:
            best = max(best, (alike, len(rows[0]), [cell.strip() for cell in rows[0]], separator))
    _, columns, header, separator = best
    are_names = all(cell and len(cell) < _ITEM_CHARACTERS and not _FIGURE.fullmatch(cell) for cell in header)
    has_figures = separator == "\t" or content.share(_WITH_FIGURE) > 0.5  # or sentences with as many commas
    if not header or not (is_named or (are_names and has_figures and len(set(header)) == columns)):
        return None
    # a cell in quotation marks may hold line breaks; other marks, as of inches, do not
    text = content.whole.rstrip()
    parts = text.split('"') if separator != "\t" and len(text) <= _QUOTED_CHARACTERS else []
    is_quoted = len(parts) % 2 == 1 and all(part[-1:] in ("", "\n", separator) for part in parts[:-1:2])
    records = count_lines(text) - (sum(part.count("\n") for part in parts[1::2]) if is_quoted else 0)
    rows = f"{max(records - are_names, 0):,} rows"
    size = rows if are_names else f"{rows} of {columns} columns"
    return _Seen("TSV" if separator == "\t" else "CSV", "columns" if are_names else "first row", header, size)


def _aligned(content: Content) -> _Seen | None:
    """Read columns aligned under a header without a ruler: printed data frames, `ps`, `docker ps`."""
    header, *rows = (line[:LONGEST_LINE] for line in content.filled[:9] or [""])  # another table may follow
    names = list(re.finditer(r"\S+", header))
    if len(names) < 2 or len(rows) < 3 or any(name[0][0].isdigit() for name in names):
        return None
    words = [list(re.finditer(r"\S+", row)) for row in rows]
    edges = [{word.start() for word in row} | {-word.end() for word in row} for row in words]
    aligned = sum(name.start() in row or -name.end() in row for name in names for row in edges)
    with_figures = sum(any(_FIGURE.fullmatch(word[0]) for word in row) for row in words)
    repeating = sum(not {name[0] for name in names}.isdisjoint(word[0] for word in row) for row in words)
    if aligned < 0.7 * len(names) * len(rows) or 2 * with_figures < len(rows) or 4 * repeating > len(rows):
        return None
    return _Seen("table", "columns", [name[0] for name in names], _table_rows(content, 1))


# --- rows of one form, logs

_TIME = r"\[?(?:[\d/-]{8,10}[T_])?\d\d:\d\d:\d\d"
_ROWS = (
    ("listing", "entries", regex(r"[-dlcbps][-rwxsStT]{9}\S? +\d.{0,80} \d[\d:]{3,4} ([^ ].{0,200})$")),
    ("search", "matches", regex(rf"(?!{_TIME})((?:[A-Za-z]:)?[^\s:]{{1,250}}):\d{{1,7}}[:-]")),
    ("git log", "commits", regex(r"[0-9a-f]{7,12} (\S.{3,200})$")),
    ("list", "paths", regex(r"((?:[A-Za-z]:)?[\w.@+~-]{0,100}(?:/(?:[\w.@+-]| (?!/)){1,100}){1,40}/?)$")),
)
_STAMP = regex(
    r"\d{4}[-/]\d\d[-/]\d\d[T ]{1,2}\d\d:\d\d(?::\d\d)?|\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d(?::\d\d)?"
    r"|(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?: \d{4})?|\b\d\d:\d\d:\d\d\b"
)
_COMMIT = regex(r"^commit [0-9a-f]{7,40}\b", re.MULTILINE)
_COMMIT_DATE = regex(r"^(?:Author|Commit)?Date: +(.{10,40})$", re.MULTILINE)
_SUBJECT = regex(r"^\n    (\S.{0,300})$", re.MULTILINE)


def _rows(content: Content) -> _Seen | None:
    for kind, unit, pattern in _ROWS if len(content.filled) > 2 else ():
        if content.share(pattern) >= 0.8:
            matches = (pattern.match(line, 0, LONGEST_LINE) for line in content.lines)
            found = [match[1] for match in matches if match and match[1] not in (".", "..")]
            items = list(dict.fromkeys(found))
            size = f"{len(found):,} {unit}" + (f" in {len(items):,} files" if unit == "matches" else "")
            return _Seen(kind, "items", items, size, has_names=unit in ("matches", "paths"))
    return None


def _log(content: Content) -> _Seen | None:
    """Read a log with its first and last time, its first errors and its last line."""
    if _COMMIT.match(content.text):
        dates = [date[:24].strip() for date in _COMMIT_DATE.findall(content.text)] or [""]
        size = f"{len(_COMMIT.findall(content.text)):,} commits, {dates[-1]} to {dates[0]}"
        return _Seen("git log", "subjects", _SUBJECT.findall(content.text), size)
    stamps = [match[0] for line in content.filled if (match := _STAMP.search(line[:80]))]
    if content.suffix not in ("log", "out") and len(stamps) < max(3, 0.6 * len(content.filled)):
        return None
    ends = [line for line in content.whole[-8000:].split("\n") if line.strip()]
    last = next((match[0] for line in reversed(ends) if (match := _STAMP.search(line[:80]))), "")
    found = error_lines(content.whole, 0, len(content.whole), 2)
    errors = [content.whole[one.start : one.end] for one in found if content.whole[one.start - 1 : one.start] in "\n"]
    errors = [_STAMP.sub("", line, count=1).lstrip(" ,.:]0123456789") for line in errors]  # the room is small
    size = content.size + (f", {stamps[0]} to {last}" if stamps and last else "")
    return _Seen("log", size=size, facts=[*errors, *(f"last line: {line}" for line in ends[-1:])])


# --- headings, settings, source code

_TITLE_LINE = regex(r"^(?:[-*#] )?\**(?:Subject|(?:Page )?Title):\**[ \t]+(\S.{0,300})$", re.MULTILINE)
_ABOUT = regex(r"^(?:[-*#] )?\**(From|Date|(?:Page )?URL|URL Source):\**[ \t]+(\S.{0,300})$", re.MULTILINE)
_KEY = regex(r"^[\"']?([A-Za-z_@$][\w .@/$-]{0,60})[\"']?:(?:[ \t]|$)", re.MULTILINE)
_FIELD = regex(r"^(?:- | {1,2})[\"']?([A-Za-z_/][\w./-]{0,60})[\"']?:(?:[ \t]|$)", re.MULTILINE)
_NAMED = regex(r"^(?:title|name|displayName):[ \t]+[\"']?([^\n\"'|>&*][^\n\"']{0,200})", re.MULTILINE)
_YAML_LINE = regex(r"\s*(?:- )?[\"']?[\w.@/-]{1,60}[\"']?:(?:\s|$)|\s*- \S|\s*#")
_SECTION = regex(r"^\[{1,2}[ \t]*([^\[\]\n]{1,100})\]{1,2}[ \t]*(?:[#;].*)?$", re.MULTILINE)
_ASSIGNED = regex(r"^(?:export |[#;] ?)?([A-Za-z_][\w.-]{0,80})[ \t]*=", re.MULTILINE)  # also defaults
_VARIABLE = regex(r"(?:export )?[A-Z_][A-Z0-9_]*=")
_COMMENT = regex(r"#+(?: |$)")
_SETTING = regex(rf"{_SECTION.pattern}|{_ASSIGNED.pattern}|[#;]")


def _document(content: Content) -> _Seen | None:
    """Read the headings of Markdown and reStructuredText."""
    is_named = content.suffix in ("md", "markdown", "mdx", "rst", "txt")
    if not is_named and (content.share(_COMMENT) > 0.4 or not is_document(content.text)):
        return None
    if not (found := headings_in(content.text)):
        return None
    title = found[0][1] if found[0][0] == "#" or len(found) == 1 else ""
    below = sorted((one for one in found if one[1] != title), key=lambda one: len(one[0]))  # versions before parts
    kind = "changelog" if re.match("chang|histor|release|news", content.name) else "document"
    return _Seen(kind, "headings", [said for _, said in below], title=title)


def _headed(content: Content) -> _Seen | None:
    """Read a mail, a page with its title and address above, or found ones one below the other."""
    titles = _TITLE_LINE.findall(content.text) if _TITLE_LINE.search(content.text, 0, 1000) else []
    if len(titles) > 1:
        return _Seen("list", "titles", titles, f"{len(titles):,} records")
    about = dict(_ABOUT.findall(content.text, 0, 1000))
    return (
        _Seen("mail" if "From" in about else "page", "about", list(about.values()), title=titles[0]) if titles else None
    )


def _yaml(content: Content) -> _Seen | None:
    is_named = content.suffix in ("yaml", "yml")
    if not is_named and (content.share(_YAML_LINE) < 0.95 or content.share(_KEY) < 0.05 or len(content.filled) < 6):
        return None
    keys, records = _KEY.findall(content.text), sum(line.startswith("- ") for line in content.lines)
    if records > (not is_named) and len(keys) < 2:
        return _Seen("YAML", "fields", _FIELD.findall(content.text), f"{records:,} records" if records > 1 else "")
    if not keys or (not is_named and len(set(keys)) < 0.8 * len(keys)):  # a conversation, or many records
        return None
    fields, named = _FIELD.findall(content.text), _NAMED.search(content.text)
    return _Seen("YAML" if is_named or fields else "fields", "keys", [*keys, *fields], title=named[1] if named else "")


def _settings(content: Content) -> _Seen | None:
    """Read TOML, INI and files of variables."""
    sections, keys = _SECTION.findall(content.text), _ASSIGNED.findall(content.text)
    is_named = content.suffix in ("toml", "ini", "cfg", "conf", "properties", "env", "lock")
    is_known = bool(sections and keys) and content.share(_SETTING) >= 0.9
    if not is_known and not (is_named and (sections or len(keys) > 1)) and content.share(_VARIABLE) < 0.9:
        return None
    kind = "TOML" if content.suffix in ("toml", "lock") else "settings"
    return _Seen(kind, "sections" if sections else "keys", sections or keys)


def _source(content: Content) -> _Seen | None:
    language = language_of(content.suffix, content.text)
    names, outline = defined_in(content.text, language) if language else ([], [])
    if not language or (not names and len(content.text) < 600):  # it may be a message about the file
        return None
    size = f"{len(names):,} files, {content.size}" if language == "diff" else ""
    return _Seen(language, "defines", names, size, facts=outline, has_names=True)


_BY_SUFFIX = {
    suffix: reader
    for reader, suffixes in {
        _json: "json jsonl ndjson ipynb geojson",
        _separated: "csv tsv tab",
        _yaml: "yaml yml",
        _log: "log out",
        _settings: "toml ini cfg conf properties env lock",
        _document: "md markdown mdx rst txt",
        _markup: "html htm xml svg xsd xsl xrc pom xhtml plist",
        _source: " ".join(LANGUAGES),
    }.items()
    for suffix in suffixes.split()
}
_SNIFFERS = (_json, _markup, _source, _ruled, _rows, _separated, _aligned, _log, _settings, _headed, _yaml, _document)
