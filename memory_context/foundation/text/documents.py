"""Recognises documents to read (prose, a page, a mail), unlike logs, listings, rows and code. A wrong guess costs
tokens, never text.
"""

import html
import re
import unicodedata
from functools import lru_cache
from itertools import islice

from ..patterns import regex

__all__ = ["headings_in", "is_document", "is_prose"]

_LOOKED_AT = 60_000
_MAIL_HEADERS = 3
_FIELD_CHARACTERS = 150
"""JSON with more than one field per this many characters is rows."""
_CODE_SHARE = 1 / 6
"""Texts with a larger share of unfenced code lines are code."""
_PROSE_SHARE, _PROSE_SHARE_OF_PAGE = 0.5, 0.25
"""Least share of the text in paragraphs; pages also hold navigation and tables."""
_PROSE_OF_ALL, _PROSE_OF_HTML = 0.15, 0.03
"""Least share of the content, code and markup included."""
_HEADINGS_OF_PAGE = 3

_MAIL_HEADER = regex(
    r"^[> ]{0,4}\**(From|To|Cc|Bcc|Subject|Date|Sent|Reply-To|Message-ID|Return-Path|Received):\**\s",
    re.MULTILINE | re.IGNORECASE,
)
_HIDDEN = regex(r"<(script|style|noscript|svg|template|pre)\b", re.IGNORECASE)
_BLOCK_TAG = regex(
    r"</?(?:p|div|h[1-6]|li|[uod]l|d[td]|br|hr|t[rdh]|table|section|article|main|header|footer|nav|blockquote|title)\b"
    r"[^<>]{0,2000}>",
    re.IGNORECASE,
)
_TAG = regex(r"</?[a-zA-Z!][^<>]{0,2000}>")
_FENCED = regex(r"^ {0,3}(```|~~~).*?(?:^ {0,3}\1|\Z)", re.MULTILINE | re.DOTALL)
_HEADING = regex(
    r"^#{1,6} +\S|^\S.{0,150}\n(?:={3,200}|-{3,200}|~{3,200})[ \t\r]*$|<h[1-6]\b", re.MULTILINE | re.IGNORECASE
)
_SET_APART = regex(r"^(#{1,3}) +(\S.{0,200})$|^(\S.{1,100})\n([=~^*-])\4{2,200}[ \t]*$", re.MULTILINE)
_LINK = regex(r"!?\[([^\]\n]{0,300})\]\([^)\n]{0,1000}\)")
_URL = regex(r"<?\bhttps?://[^\s<>\"')\]]+>?")
_MARK = regex(r"^[ \t]*(?:[#>*+•-]+|\d{1,3}[.)]|[a-z][.)]|\.\.)[ \t]+", re.MULTILINE)
_EMPHASIS = str.maketrans("", "", "*_`")
_BLANK_LINE = regex(r"\n[ \t\r]*\n")
_CODE = regex(
    r"^(?:\s{0,40}(?:(?:async )?def |class \w+[(:{]|import \w|from \S+ import|return\b"
    r"|(?:if|elif|for|while|else)\b.{0,200}[:{]$|[\w.\[\]]+ (?:=|\+=) |[{}]|#include|//|/\*"
    r"|(?:export|const|let|var|public|private|static|func|fn) )|diff --git |@@ -)",
    re.MULTILINE,
)
_MACHINE_LINE = regex(
    r"\s*(?:[\[(<]?(?!\d{1,3}[.)]\s)\d|[A-Z][a-z]{2} +\d"
    r"|\[?(?i:trace|debug|info|notice|warn(?:ing)?|error|fatal|critical)\b"
    r"|\S{1,200}:\d+[:)]|[a-z_][\w-]*: |\||[^\s,]{1,80},\S|[^\t\n]{1,80}\t+\S)"
)
"""Beginnings of log lines, search hits and rows."""
_SYMBOLS = b"{}();=<>[]|\\/_$#@^~`*+&%"
_NO_LETTERS = bytes(byte for byte in range(128) if not chr(byte).isalpha())
_LEAST_LETTERS, _MOST_SYMBOLS = 0.72, 0.05
_SENTENCE_END = regex(r"[.!?…]+[\"'”’)\]]{0,3}(?=\s|$)|[。！？؟।]+[”」』]?|\n[ \t]*\n")
_WITHOUT_SPACES = "⺀"


def is_document(content: str) -> bool:
    """Return whether a content is a document, by samples of its ends and middle."""
    if len({match[1].lower() for match in _MAIL_HEADER.finditer(content[:4000])}) >= _MAIL_HEADERS:
        return True
    sample = content
    if len(content) > _LOOKED_AT:
        middle, part = len(content) // 2, _LOOKED_AT // 4
        sample = "\n\n".join([content[: 2 * part], content[middle : middle + part], content[-part:]])
    return _is_mostly_prose(sample)


@lru_cache(maxsize=8)  # description, first view and planner ask for the same result
def _is_mostly_prose(sample: str) -> bool:
    if sample.count('":') * _FIELD_CHARACTERS > len(sample):
        return False
    if "\\n" in sample:  # escaped text in a JSON field
        sample = sample.replace("\\n", "\n").replace('\\"', '"')
    is_html = _TAG.match(sample.lstrip()) is not None
    text = _text_of(sample)
    lines = sum(map(bool, map(str.strip, text.split("\n"))))
    if any(islice(_CODE.finditer(text), int(max(lines * _CODE_SHARE, 2)), None)):
        return False
    paragraphs = _BLANK_LINE.split(_bare(text))
    prose, left = 0, sum(map(len, paragraphs))
    of_all = (_PROSE_OF_HTML if is_html else _PROSE_OF_ALL) * len(sample)
    of_page, enough = max(_PROSE_SHARE_OF_PAGE * left, of_all), max(_PROSE_SHARE * left, of_all)
    for paragraph in paragraphs:
        if prose + left <= of_page or prose > enough:
            break
        left -= len(paragraph)
        prose += len(paragraph) if is_prose(paragraph) else 0
    if of_page < prose <= enough:
        return is_html or any(islice(_HEADING.finditer(text), _HEADINGS_OF_PAGE - 1, None))
    return prose > enough


def headings_in(text: str) -> list[tuple[str, str]]:
    """Return mark and text of the headings of Markdown or reStructuredText that stand apart.

    A blank line or another heading stands beside them. Underlined ones have the mark `#`.
    """
    text = f"\n\n{_FENCED.sub('', text)}\n\n"
    found: list[tuple[str, str]] = []
    end = 0
    for one in _SET_APART.finditer(text):
        around = text[one.start() - 2 : one.start()], text[one.end() : one.end() + 2]
        if "\n\n" in around or end == one.start() - 1:
            found.append((one[1] or "#", _LINK.sub(r"\1", one[2] or one[3]).replace("`", "").strip("# *=")))
            end = one.end()
    return found


def is_prose(text: str) -> bool:
    """Return whether a text is sentences: mostly letters, few code symbols."""
    if not text.isascii():  # combining marks belong to their letters
        text = "".join(c for c in text if c.isascii() or unicodedata.category(c)[0] != "M")
    words = text.split()
    dense = "".join(words)
    if not dense or (len(words) < 5 and text.isascii()):  # no line has enough words
        return False
    data = dense.encode("utf-8", "surrogatepass")  # bytes.translate is many times faster than testing characters
    letters = len(data.translate(None, _NO_LETTERS)) if dense.isascii() else sum(map(str.isalpha, dense))
    symbols = len(data) - len(data.translate(None, _SYMBOLS))
    if letters < _LEAST_LETTERS * len(dense) or symbols > _MOST_SYMBOLS * len(dense):
        return False
    if not dense.isascii() and sum(character > _WITHOUT_SPACES for character in dense) * 3 > len(dense):
        return sum(character in "。，、！？；：．" for character in dense) * 100 > len(dense)
    if not 2.0 < len(dense) / len(words) < 14:
        return False
    lines = [line for line in text.split("\n") if line.strip()]
    if len(words) < 5 * len(lines):
        return False
    if _SENTENCE_END.search(text) is None:
        return False
    if sum(word.strip(".,;:!?'\"()").isalpha() for word in words) * 10 <= 7 * len(words):
        return False
    return len(lines) <= 2 or not any(islice(filter(_MACHINE_LINE.match, lines), len(lines) // 2, None))


def _bare(text: str) -> str:
    """Remove addresses and marks of lists, headings and emphasis."""
    if "](" in text:
        text = _LINK.sub(r"\1", text)
    if "://" in text:
        text = _URL.sub("", text)
    return _MARK.sub("", text).translate(_EMPHASIS)


def _text_of(sample: str) -> str:
    """Strip tags, scripts and fenced code; HTML blocks become paragraphs."""
    text = _FENCED.sub("", sample)
    if not _TAG.search(text):
        return text
    pieces: list[str] = []
    position = 0
    for match in _HIDDEN.finditer(text):
        if match.start() >= position:
            pieces.append(text[position : match.start()])
            end = text.find(f"</{match[1]}", match.end())
            position = len(text) if end < 0 else end
    shown = "".join([*pieces, text[position:]])
    return html.unescape(_TAG.sub("", _BLOCK_TAG.sub("\n\n", shown)))
