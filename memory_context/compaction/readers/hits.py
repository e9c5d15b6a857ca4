"""Reads the results of a search in files: ripgrep, `grep -n`, `git grep` and the search tools of agents.

What matters is which files have the hits, how many, and where; files with few hits come first, as they are mostly the
ones that were looked for.
"""

import re
from dataclasses import dataclass, field

from ..compactor import Result
from ..excerpt import Passage
from ..reading import Reading
from .calls import Call, call_of
from .framing import LABELS, LANDMARKS, NAMES, described, fact, frame_of, head_lines, lines_in, windows

__all__ = ["is_search", "read_hits"]

_GREPS = {"grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "ugrep"}
_COUNTS = re.compile(r"-[a-zA-Z]{0,8}c[a-zA-Z]{0,8}$|--count(?:-matches)?$")
_TOOL_WORDS = ("grep", "search", "ripgrep", "find_in", "codebase", "find_references", "find_usages")
_QUERY_KEYS = ("pattern", "query", "regex", "search_term", "search", "text", "substring_pattern", "q")

_HIT = re.compile(r"((?:[A-Za-z]:\\)?[^\s:][^:\n]{0,400}?)([:-])(\d{1,9})\2")
_PATH_ONLY_HIT = re.compile(
    r"((?:[A-Za-z]:\\)?[\w./@+~-]{1,400}\.\w{1,10}|\.{0,2}/[\w./@+~-]{1,400}):(?=[^\n])(?!\d{1,9}:)"
)
_DIAGNOSTIC = re.compile(r"(?:\d{1,9}:)? ?(?:error|warning|note|info|fatal error|[A-Z]{1,6}\d{2,5})\b")
_NUMBERED = re.compile(r" *(?:Line |line |L)?(\d{1,9}) ?([:|-])")
_HEADING = re.compile(
    r"(?:File: |## ?|# ?|- )?`?((?:[A-Za-z]:\\)?[\w./\\@+~() -]{1,400}?)`?(?: ?\((\d{1,6}) (?:match(?:es)?|hits?"
    r"|results?)\))?:?$"
)
_TOTAL = re.compile(
    r"(?:Found |Showing |Total:? )?(\d[\d,]{0,9})(?: of (\d[\d,]{0,9}))? (?:match|hit|result|occurrence|reference)",
    re.IGNORECASE,
)
_DEFINES = re.compile(
    r"\s*(?:export |pub |public |static |async |private |abstract )*(?:def|class|func|fn|function|interface|struct"
    r"|enum|trait|type|module|const)\s"
)
_LEAST_SHARE = 0.6
_FACT_FILES = 6
_SHOWN_HITS = 40
_FILES = 1000
"""Of further files only the hits are counted."""


@dataclass
class _File:
    path: str
    start: int
    end: int = 0
    count: int = 0
    numbers: list[str] = field(default_factory=list[str])
    hits: list[tuple[Passage, str]] = field(default_factory=list[tuple[Passage, str]])

    def add(self, start: int, text: str, number: str, shown: str) -> None:
        self.count += 1
        self.end = start + len(text)
        if number and len(self.numbers) < 12:
            self.numbers.append(number)
        if len(self.hits) < _SHOWN_HITS:
            self.hits.append((Passage(start, self.end), shown))


@dataclass
class _Found:
    files: dict[str, _File] = field(default_factory=dict[str, _File])
    further: dict[str, int] = field(default_factory=dict[str, int])
    total: str = ""
    is_clipped: bool = False


def is_search(call: Call, source: str) -> bool:
    """Whether a call was a search in the text of files, as far as its command or the tool's name tells."""
    if call.pipelines:
        return any(words[0] in _GREPS or words[:2] == ("git", "grep") for words in call.pipelines[-1][:1]) or (
            call.pipelines[-1][0][0] == "cat" and any(words[0] in _GREPS for words in call.pipelines[-1])
        )
    return any(word in source.lower() for word in _TOOL_WORDS)


def read_hits(result: Result) -> Reading | None:
    """Return the files that have hits, and where; None if the content is no result of a search in files."""
    content, call = result.content, call_of(result)
    frame = frame_of(content, call.command)
    asked = is_search(call, result.source)
    passages = windows(content, frame.body)
    if not _is_hits(head_lines(content, frame.body), asked, call):
        return None
    found = _parse(lines_in(content, passages), asked, call)
    files = [file for file in found.files.values() if file.count]
    counted = sum(file.count for file in files) + sum(found.further.values())
    if not files or counted < (1 if asked else 3):
        return None
    file_count = len(files) + len(found.further)
    least = "at least " if len(passages) > 1 else ""
    hits = f"{least}{counted:,} hit{'s' if counted > 1 else ''} in {file_count:,} file{'s' if file_count > 1 else ''}"
    query = _query_of(call)
    few_first = sorted(files, key=lambda file: file.count)
    many_first = sorted(files, key=lambda file: -file.count)
    facts = [fact(hits + (f"; the tool says: {found.total}" if found.total else ""))]
    if found.is_clipped:
        facts.append("the tool left out further hits")
    defining = [(file, passage, text) for file in few_first for passage, text in file.hits if _DEFINES.match(text)]
    facts += [fact(f"{_place(content, file, passage)} {text.strip()}") for file, passage, text in defining[:4]]
    facts += [fact(_fact_of(file)) for file in (many_first[:3] if len(files) > _FACT_FILES else many_first)]
    if len(files) > _FACT_FILES:
        others = [file for file in few_first[:NAMES] if file not in many_first[:3]]
        facts.append(fact("also " + ", ".join(f"{file.path} ({file.count})" for file in others)))
    if counted <= 5:
        facts += [fact(f"{_place(content, file, p)} {text.strip()}") for file in files for p, text in file.hits]
    landmarks = [passage for _, passage, _ in defining[:20]]
    landmarks += [file.hits[0][0] for file in few_first if file.hits]
    landmarks += [passage for file in few_first for passage, _ in file.hits[1 : 3 if len(files) > 10 else _SHOWN_HITS]]
    return Reading(
        description=described("search results for" if query else "search results", query, hits),
        has_failed=None if frame.exit_status != 0 else False,  # grep without hits ends in 1
        facts=list(dict.fromkeys(facts))[:12],
        names=[file.path for file in few_first[:NAMES] if file.path],
        landmarks=list(dict.fromkeys(landmarks))[:LANDMARKS],
        labels=[
            (Passage(f.start, f.end), f"{f.path or 'hits'} ({f.count})") for f in files[:LABELS] if f.end > f.start
        ],
    )


def _is_hits(head: list[tuple[int, str]], asked: bool, call: Call) -> bool:
    """Whether most lines are hits, lines around hits, or headings of files with hits."""
    seen = marked = around = diagnostics = numbered = headed = counted = 0
    previous = -1
    is_range = True
    for _, text in head:
        if not text.strip() or text == "--":
            continue
        seen += 1
        if match := _hit(text, asked):
            marked += match[2] == ":" or asked
            around += match[2] == "-" and not asked  # such as a date
            diagnostics += _DIAGNOSTIC.match(text, match.end()) is not None
        elif match := _NUMBERED.match(text):
            numbered += 1
            is_range = is_range and (previous < 0 or int(match[1]) == previous + 1)
            previous = int(match[1])
        elif (match := _HEADING.match(text)) and _is_path(match[1]):
            headed += 1
            counted += match[2] is not None
        elif asked and _PATH_ONLY_HIT.match(text):
            marked += 1
    if not seen or (diagnostics > marked // 2 and not asked):
        return False
    if marked + around >= _LEAST_SHARE * seen:
        return asked or marked >= 3
    if not asked or marked + numbered + headed < _LEAST_SHARE * seen:
        return False
    return (headed > 0 and numbered + counted > 0) or (
        bool(_query_of(call)) and numbered > 0 and (bool(call.pipelines) or not is_range)
    )


def _parse(lines: list[tuple[int, str]], asked: bool, call: Call) -> _Found:
    found = _Found()
    files, current = found.files, None
    counts = any(_COUNTS.match(word) for pipeline in call.pipelines[-1:] for word in pipeline[0])
    single = call.path or (_last_path(call) if asked else "")
    for start, text in lines:
        if match := _hit(text, asked):
            if match[2] == "-" and (current is None or current.path != match[1]) and not asked:
                continue
            current = files.get(match[1])
            if current is None and len(files) == _FILES:
                found.further[match[1]] = found.further.get(match[1], 0) + (match[2] == ":")
                continue
            if current is None:
                current = files[match[1]] = _File(match[1], start)
            if match[2] == ":":
                current.add(start, text, match[3], text[match.end() :])
            current.end = start + len(text)
        elif match := _NUMBERED.match(text):
            if current is None:
                current = files.setdefault(single, _File(single, start))
            if match[2] != "-":
                current.add(start, text, match[1], text[match.end() :])
        elif not found.total and (match := _TOTAL.match(text.strip())):
            found.total = text.strip()[:80]
        elif asked and (match := _PATH_ONLY_HIT.match(text)):
            current = files.setdefault(match[1], _File(match[1], start))
            if not counts:
                current.add(start, text, "", text[match.end() :])
            elif (number := text[match.end() :].strip()[:9]).isdecimal():
                current.count, current.end = int(number), start + len(text)
        elif (match := _HEADING.match(text)) and _is_path(match[1]):
            current = files.setdefault(match[1], _File(match[1], start))
            if match[2]:
                current.count += int(match[2])
                current.end = start + len(text)
        elif "truncated" in text or "clipped" in text or "more matches" in text:
            found.is_clipped = True
    return found


def _hit(text: str, asked: bool) -> re.Match[str] | None:
    """Match `path:line:text`; unless a search was asked for, the path must look like one (a date does not)."""
    match = _HIT.match(text)
    if match is None or not any(map(str.isalpha, match[1])):
        return None
    return match if asked or (" " not in match[1] and _is_path(match[1])) else None


def _is_path(text: str) -> bool:
    return ("/" in text or "." in text or "\\" in text) and not text.endswith((".", " "))


def _query_of(call: Call) -> str:
    if call.pipelines:
        for words in call.pipelines[-1]:
            if words[0] in _GREPS or words[:2] == ("git", "grep"):
                plain = [word for word in words[2 if words[0] == "git" else 1 :] if not word.startswith("-")]
                return plain[0] if plain else ""
        return ""
    return next((value for key in _QUERY_KEYS if isinstance(value := call.arguments.get(key), str) and value), "")


def _last_path(call: Call) -> str:
    words = [word for command in call.pipelines[-1:] for word in command[0][1:] if not word.startswith("-")]
    return words[-1] if words and _is_path(words[-1]) else ""


def _place(content: str, file: _File, passage: Passage) -> str:
    match = _HIT.match(content[passage.start : min(passage.end, passage.start + 500)])
    if match:
        return f"{match[1]}:{match[3]}"
    numbered = _NUMBERED.match(content[passage.start : min(passage.end, passage.start + 100)])
    return f"{file.path}:{numbered[1]}" if numbered else file.path


def _fact_of(file: _File) -> str:
    more = " …" if file.count > len(file.numbers) else ""
    lines = f", line{'s' if len(file.numbers) > 1 else ''} {', '.join(file.numbers)}{more}" if file.numbers else ""
    return f"{file.path or 'the file'}: {file.count} hit{'s' if file.count > 1 else ''}{lines}"
