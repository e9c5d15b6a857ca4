"""Passages of a message that are its author's own words: without quotations, code, forwarded mails and pasted texts.

Only markers are known here; pasted texts without one are recognised by what the session showed before (`learning`).
"""

import re
from collections.abc import Iterator

from ..patterns import regex
from .tokenize import verbatim_parts

__all__ = ["LONG_CHARACTERS", "own_passages", "sentences"]

LONG_CHARACTERS = 4000
"""Longer messages are mostly pasted: only their first paragraph counts."""
_FIRST_CHARACTERS = 1000
_SHORT_QUOTE_WORDS = 3

_FENCE = regex(r"\s*(```|~~~)")
_TAG = regex(r"\s*<([a-zA-Z][\w:-]*)[^>]*>?")
_NOT_PROSE = regex(
    r"\s{4,}\S|\t|\s*(?:[>|#$%]|//|/\*|\*/|>>>|\+\+\+|---|@@|\[?\d{4}-\d\d-\d\d[T ]\d|\d\d:\d\d:\d\d|at [\w.$]+\(|"
    r"Traceback|File \"|(?:ERROR|WARN|WARNING|INFO|DEBUG)\b)"
)
_CODE = regex(r"[{};]\s*$|=>|==|::|\w\(.*\)|\"\s*:|^\s*(?:import|from|def|class|const|let|var|export|SELECT|sudo)\s\S+")
_HEADER = regex(r"\s*\W*(?:from|to|cc|sent|date|subject|von|an|gesendet|datum|betreff)\W*:\W*\S", re.I)
_SPEAKER = regex(r"\s*[*_]*[A-Z][\w.-]*(?: [A-Z][\w.-]*){0,2}(?: \([^)]*\))?[*_]*\s?:(?:\s|$)")
_OWN_LABEL = regex(
    r"\s*(?:remember|note|please|reminder|preferences?|merke|bitte|notiz|p\.?s\.?|btw|fyi|also|hinweis)\b", re.I
)
_FORWARDED = regex(
    r"\W*(?:begin )?(?:original|forwarded|weitergeleitete|ursprüngliche)\b.*|(?:fwd?|wg|re|aw)\s?: .*|"
    r"(?:on|am) .{6,80}(?:wrote|schrieb).*:?$",
    re.I,
)
_SOURCES = (
    r"page|website|site|mail|e-?mail|letter|article|post|comment|thread|ticket|issue|log|logs|output|result|results|"
    r"file|document|docs?|documentation|readme|manual|book|error|message|text|chat|transcript|snippet|paragraph|quote|"
    r"review|report|tool|script|config|content|contents|excerpt|response|reply|instructions?|prompt|customer|client|"
    r"seite|webseite|artikel|beitrag|ausgabe|ergebnis|datei|dokument|handbuch|fehler|nachricht|zitat|brief|protokoll|"
    r"antwort|kundin|kunde"
)
_SAYS = (
    r"says?|said|saying|reads?|states?|stated|wrote|writes?|tells?|told|claims?|claimed|replied|answered|shows?|"
    r"contains?|returned|printed|sagt|sagte|schreibt|schrieb|steht|meint|meinte|lautet"
)
_ATTRIBUTED = regex(
    rf"\b(?:{_SAYS})\b[^.!?]{{0,40}}[:\"“„«「]|\b(?:{_SOURCES})\b[^.!?:]{{0,40}}:|"
    r"\b(?:here(?:'s| is| are)|this is what|see below|pasted?|copied|quote|zitat|hier ist|hier sind|"
    r"anbei)\b[^.!?:]{0,60}:",
    re.I,
)
_QUOTED = regex(
    r"\"[^\"\n]*\"?|“[^”\n]*”?|„[^“”\n]*[“”]?|«[^»\n]*»?|「[^」\n]*」?|『[^』\n]*』?|`[^`\n]*`|(?<!\w)'[^'\n]*'(?!\w)|"
    r"‘[^’\n]*’(?!\w)"
)
_ABBREVIATIONS = regex(r"(?:\b(?:e\.g|i\.e|z\.B|bzw|etc|vs|approx|ca|Nr|Dr|Mr|Mrs|Ms|Prof|St|Sr|usw|d\.h))\.$", re.I)
_DATE = regex(r"\D{0,2}\d{1,2}\. (?:Jan|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez)", re.IGNORECASE)
_END = regex(r"[.!?…]+[\"')\]]*(?=\s|$)|[。！？؟।]|[;\n]")


def own_passages(text: str, limit_characters: int = LONG_CHARACTERS) -> list[str]:
    """Return the author's own passages in order, each verbatim.

    Excluded: fences, quoted and indented lines, code and logs, tagged blocks, quotations of three words and more, and
    everything after a forwarded mail's head, a speaker's label, or an attribution such as "the page says:". Of a text
    over the limit only the first paragraph counts.
    """
    if len(text) > limit_characters:
        text, end, _ = text[: 2 * _FIRST_CHARACTERS].lstrip().partition("\n\n")
        if not end or len(text) > _FIRST_CHARACTERS:
            return []
    return [part for passage in _prose(text.splitlines()) for part in _unquoted(passage) if part.strip()]


def sentences(passage: str) -> Iterator[str]:
    """Yield the sentences of a passage, each verbatim."""
    start = 0
    for found in _END.finditer(passage):
        is_cut = _ABBREVIATIONS.search(passage, max(start, found.start() - 8), found.end())
        if not is_cut and not _DATE.match(passage, max(start, found.start() - 3)):
            yield from _stripped(passage[start : found.end()])
            start = found.end()
    yield from _stripped(passage[start:])


def _stripped(sentence: str) -> Iterator[str]:
    if bare := sentence.strip(" \t\r\n;*-•–—"):
        yield bare


def _prose(lines: list[str]) -> Iterator[str]:
    passage: list[str] = []
    until = ""  # what closes the passage that is not the author's
    for number, line in enumerate(lines):
        if until:
            until = "" if until in line else until
            continue
        if found := _FENCE.match(line):
            until = found[1]
        elif (tag := _TAG.match(line)) and f"</{tag[1]}>" not in line:
            until = f"</{tag[1]}>"
        elif _ends_own_words(line, lines[number + 1] if number + 1 < len(lines) else ""):
            if attributed := _ATTRIBUTED.search(line):
                before = line[: attributed.start()]
                passage.append(before[: max((end.end() for end in re.finditer(r"[.!?]\s", before)), default=0)])
            break
        elif not (tag or _NOT_PROSE.match(line) or _CODE.search(line)):
            passage.append(line)
            continue
        yield "\n".join(passage)
        passage = []
    yield "\n".join(passage)


def _ends_own_words(line: str, following: str) -> bool:
    if _FORWARDED.match(line) or _ATTRIBUTED.search(line):
        return True
    if _HEADER.match(line):
        return bool("@" in line or _HEADER.match(following))
    return bool(_SPEAKER.match(line)) and not _OWN_LABEL.match(line)


def _unquoted(passage: str) -> Iterator[str]:
    start = 0
    for found in _QUOTED.finditer(passage):
        if len(verbatim_parts(found[0])) >= _SHORT_QUOTE_WORDS:
            yield passage[start : found.start()]
            start = found.end()
    yield passage[start:]
