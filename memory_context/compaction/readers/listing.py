"""Reads lists of files: results of a search in files, and listings of folders (`ls`, `find`, `tree`, agents' tools).

Of a listing the number of entries, the largest folders and the sorts of files matter; of a search the files with hits
(`hits`).
"""

import re
from collections import Counter
from dataclasses import dataclass, field

from ..compactor import Result
from ..excerpt import Passage
from ..reading import Reading
from .calls import Call, call_of
from .framing import LANDMARKS, NAMES, described, fact, frame_of, head_lines, lines_in, windows
from .hits import read_hits

__all__ = ["read_listing"]

_PROGRAMS = {"ls", "ll", "dir", "find", "fd", "fdfind", "tree", "du", "locate", "exa", "eza", "lsd"}
_FILTERS = {"grep", "egrep", "rg", "sort", "head", "tail", "uniq", "sed", "cut", "tee", "cat", "awk", "wc"}
_TOOL_WORDS = (
    "list", "tree", "glob", "find_file", "ls", "search_files", "view", "folder", "directory", "find", "files",
)  # fmt: skip

_LONG = re.compile(r"([dlbcps-])[rwxsStTl-]{9}[.+@]? +\d")
_LONG_NAME = re.compile(
    r" (?:\d\d?:\d\d(?::\d\d(?:\.\d{1,9} [+-]\d{4})?)?|\d\d? +\d{4}|\d{4}-\d\d-\d\d) (\S[^\n]{0,400})$"
)
_BRANCH = re.compile(
    r"((?:[│|] {1,3}|[│|]\xa0\xa0 | {4}|\xa0{3,4} ?)*)(?:[├└]──|[|`+\\]--"
    r"|[├└]─) ?(?:\[[^\]]{0,40}\] +)?(\S[^\n]{0,400})"
)
_MARKED = re.compile(r"\s*(?:[-*] |\[(?:FILE|DIR|F|D|dir|file)\] |[📁📄📂] ?)(\S[^\n]{0,400})$")
_FOLDER = re.compile(r"((?:\.{0,2}/|[\w.])[^\n:]{0,400}):$")
_PATH = re.compile(
    r"(?:\.{0,2}/|[A-Za-z]:\\|~/)?[\w.@+~()\[\]{}$,=# -]{0,200}(?:[/\\][\w.@+~()\[\]{}$,=# -]{1,200})*[/\\*@=|]?$"
)
_HEADLINE = re.compile(
    r"(?:Here's|Found \d+ files|Contents of|Directory (?:listing|structure|tree)|total \d+|Listing)\b.{0,300}",
    re.IGNORECASE,
)
_LEAST_SHARE = 0.8
_LEAST_ENTRIES = 3
_LONGEST_PATH = 400
_LABELS = 100


@dataclass
class _Listing:
    files: list[str] = field(default_factory=list[str])
    names: list[str] = field(default_factory=list[str])
    folders: int = 0
    entries: int = 0
    first: list[Passage] = field(default_factory=list[Passage])
    tops: Counter[str] = field(default_factory=Counter[str])
    extensions: Counter[str] = field(default_factory=Counter[str])
    stretches: list[tuple[int, int, str]] = field(default_factory=list[tuple[int, int, str]])


def read_listing(result: Result) -> Reading | None:
    """Return what a list of files or of hits in files holds; None if the content is neither."""
    return read_hits(result) or _read_entries(result)


def _read_entries(result: Result) -> Reading | None:
    content, call = result.content, call_of(result)
    asked = _is_asked(call, result.source)
    if call.command and not asked:
        return None
    frame = frame_of(content, call.command)
    head = [text for _, text in head_lines(content, frame.body) if text.strip()]
    form = _form_of(head, asked)
    if not form:
        return None
    passages = windows(content, frame.body)
    listing = _parse(lines_in(content, passages), form)
    if listing.entries < (1 if asked else _LEAST_ENTRIES):
        return None
    least = "at least " if len(passages) > 1 else ""
    size = f"{least}{listing.entries:,} {'entries' if listing.entries > 1 else 'entry'}"
    facts = [fact(size + (f", {listing.folders:,} of them folders" if listing.folders else ""))]
    root, tops = _top_folders(listing.tops)
    if len(tops) > 1:
        under = f"by folder under {root}: " if root else "by folder: "
        facts.append(fact(under + ", ".join(f"{name} ({n})" for name, n in tops.most_common(12))))
    if listing.extensions:
        facts.append(fact("by type: " + ", ".join(f"{name} {n}" for name, n in listing.extensions.most_common(8))))
    tail = content[max(frame.body.start, frame.body.end - 400) : frame.body.end]
    if "clipped" in tail or "truncated" in tail:
        facts.append("the tool left out further entries")
    if listing.names and listing.entries <= 40:
        facts.append(fact("entries: " + ", ".join(listing.names)))
    subject = call.path or _subject(call)
    return Reading(
        description=described("file listing of" if subject else "file listing", subject, size),
        has_failed=frame.has_failed,
        facts=facts,
        names=listing.names[:NAMES],
        landmarks=listing.first[:LANDMARKS],
        labels=[(Passage(start, end), name) for start, end, name in listing.stretches[:_LABELS] if end > start],
    )


def _is_asked(call: Call, source: str) -> bool:
    if call.pipelines:
        (program, *words), *filters = call.pipelines[-1]
        lists = program in _PROGRAMS and ("-exec" not in words or "-l" in words)
        lists = lists or (program == "git" and words[:1] in (["ls-files"], ["ls-tree"]))
        lists = lists or (program in ("rg", "grep") and any(word in ("--files", "-l", "-rl", "-lr") for word in words))
        return lists and all(command[0] in _FILTERS for command in filters)
    tool = f"{source} {call.arguments.get('command', '')}".lower()
    return not call.command and any(word in tool for word in _TOOL_WORDS)


def _form_of(head: list[str], asked: bool) -> str:
    """Return how entries are written: long, tree, marked, columns or paths; empty if these are no entries."""
    if not head:
        return ""
    counted = len(head) - sum(_HEADLINE.match(text) is not None for text in head[:5])
    shapes = {
        "long": sum(_LONG.match(text) is not None for text in head),
        "tree": sum(_BRANCH.match(text) is not None for text in head),
        "marked": sum(_MARKED.match(text) is not None and len(text) < 120 and _is_name(text) for text in head),
    }
    folders = sum(_FOLDER.match(text) is not None for text in head)
    for form, count in shapes.items():
        if count >= max(1 if asked else _LEAST_ENTRIES, _LEAST_SHARE * (counted - folders - 3)):
            return form if asked or form != "marked" else ""
    if asked and folders and ("/" in "".join(head[:20]) or _FOLDER.match(head[0])):
        return "columns"
    paths = sum(_is_path(text, asked) for text in head)
    enough = paths >= max(1, _LEAST_SHARE * (counted - 2)) if asked else paths >= max(10, counted - 1)
    return "paths" if enough else ""


def _is_path(text: str, asked: bool) -> bool:
    text = text.strip()
    if len(text) > _LONGEST_PATH or not text or ("  " in text and not asked):  # columns
        return False
    if "\t" in text:  # `du`
        text = text.rpartition("\t")[2]
    return _PATH.match(text) is not None and ("/" in text or (asked and text.count(" ") < 2))


def _is_name(text: str) -> bool:
    return (
        text.rstrip().endswith("/")
        or "[FILE]" in text
        or "[DIR]" in text
        or ("." in text[-8:] and " " not in text.strip(" -*"))
    )


def _parse(lines: list[tuple[int, str]], form: str) -> _Listing:
    listing = _Listing()
    folder, stack = "", list[str]()
    for start, text in lines:
        if not text.strip() or _HEADLINE.match(text):
            continue
        if form in ("long", "columns") and (match := _FOLDER.match(text)):
            folder = match[1]
            listing.folders += 1
            listing.first.append(Passage(start, start + len(text)))
            listing.stretches.append((start, start, folder))
        elif form == "long":
            if match := _LONG.match(text):
                name = _LONG_NAME.search(text)
                if name and name[1] not in (".", ".."):
                    _add(listing, start, text, name[1].split(" -> ")[0], folder, match[1] == "d")
        elif form == "columns":
            for name in re.split(r"\s{2,}|\t|(?<=\.\w{2}) (?=\w)", text.strip()):
                if name:
                    _add(listing, start, text, name, folder, False)
        elif form == "tree":
            if match := _BRANCH.match(text):
                depth = len(match[1]) // 4
                del stack[depth:]
                name = match[2].split(" -> ")[0].rstrip()
                _add(listing, start, text, name, stack[0] if stack else "", name.endswith("/"))
                stack.append(name.rstrip("/"))
        else:
            match = _MARKED.match(text) if form == "marked" else None
            name = match[1] if match else text.strip()
            if "\t" in name:
                name = name.rpartition("\t")[2]
            if len(name) <= _LONGEST_PATH and ("/" in name or name.count(" ") < 2):
                is_folder = name.endswith("/") or "[DIR]" in text
                _add(listing, start, text, name, "", is_folder)
    return listing


def _top_folders(places: Counter[str]) -> tuple[str, Counter[str]]:
    """Return what all folders lie in, and how many entries lie in each of the folders right below it."""
    paths = {place: place.rstrip("/").split("/") for place in places}
    shortest, longest = (min(paths.values()), max(paths.values())) if paths else (list[str](), list[str]())
    shared = next((i for i, (a, b) in enumerate(zip(shortest, longest, strict=False)) if a != b), len(shortest))
    tops: Counter[str] = Counter()
    for place, parts in paths.items():
        tops[parts[shared] if len(parts) > shared else "."] += places[place]
    return "/".join(shortest[:shared]), tops


def _add(listing: _Listing, start: int, text: str, name: str, folder: str, is_folder: bool) -> None:
    listing.entries += 1
    listing.folders += is_folder
    head, _, base = name.rstrip("/").rpartition("/")
    stem, dot, extension = base.rpartition(".")
    if dot and stem and len(extension) <= 8 and not is_folder:
        listing.extensions["." + extension] += 1
    place = folder or head or name[: name.startswith("/")]
    listing.tops[place or "."] += 1
    if len(listing.names) < NAMES and base and "__pycache__" not in name and ".git/" not in name:
        listing.names.append(name)
    end = start + len(text)
    if listing.stretches and listing.stretches[-1][2] == place:
        listing.stretches[-1] = (listing.stretches[-1][0], end, place)
    elif place and len(listing.stretches) <= _LABELS:
        listing.stretches.append((start, end, place))
        if len(listing.first) < LANDMARKS:
            listing.first.append(Passage(start, end))


def _subject(call: Call) -> str:
    if not call.pipelines:
        return next(
            (v for k in ("pattern", "dir_path", "directory", "folder") if isinstance(v := call.arguments.get(k), str)),
            "",
        )
    words = [word for word in call.pipelines[-1][0][1:] if not word.startswith("-")]
    return words[0] if words and words[0] not in ("ls-files", "ls-tree") else ""
