"""Long-term notes of one agent about one user, in Markdown: operations on texts, and the notes that a session edits.

Headers are CommonMark's at the top level: none in code, comments, lists or quotations (markdown-it-py gives their exact
lines). A section includes its nested ones. Notes have line feeds only, and a blank line between joined pieces.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Literal, get_args

from memory_context.foundation.errors import ConflictError, NotesError
from memory_context.foundation.patterns import regex
from memory_context.foundation.references import one_line
from memory_context.foundation.runtime.background import in_thread_if_large
from memory_context.store.memory_store import MemoryStore
from memory_context.store.notes import AgentNotes, NotesVersion

from .vault.secrets import secrets_of

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

__all__ = [
    "LIMIT_CHARACTERS",
    "LongTermNotes",
    "NotesEdit",
    "NotesOperation",
    "Section",
    "clean",
    "doubled_sections",
    "find_section",
    "sections_of",
]

LIMIT_CHARACTERS = 32_000
NotesOperation = Literal[
    "overwrite",
    "append",
    "prepend",
    "delete_section_by_header",
    "replace_section_by_header",
    "delete_all_notes",
]

_TAKES: dict[NotesOperation, tuple[str, ...]] = {
    "overwrite": ("content",),
    "append": ("content",),
    "prepend": ("content",),
    "delete_section_by_header": ("section_header",),
    "replace_section_by_header": ("section_header", "content"),
    "delete_all_notes": (),
}
_ATTEMPTS = 50  # each loses to a write of another session
_PARSED_FACTOR = 50  # parsing Markdown takes some 50 times as long as reading it
_HEADER = regex(r"(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?", re.DOTALL)
_NUMBERED = regex(r"(.*\S) \((\d{1,3})\)", re.DOTALL)
_TAGS = regex(r"(?:[ \t]+#[\w/-]+)+$")
_PROBE = "# end"
_LISTED = 30  # headers in an error
_SHOWN_CHARACTERS = 80  # of a header there


@dataclass(frozen=True)
class Section:
    """A section by character offsets: header at `start`, text from `body`. `path` ends with its own title."""

    level: int
    start: int
    body: int
    end: int
    path: tuple[str, ...]

    @property
    def title(self) -> str:
        return self.path[-1]

    @property
    def header(self) -> str:
        return f"{'#' * self.level} {self.title}"


@dataclass(frozen=True)
class NotesEdit:
    """One operation; `NotesError` if it is unknown, or an argument is missing or has no meaning."""

    operation: NotesOperation
    content: str | None = None
    section_header: str | None = None

    def __post_init__(self) -> None:
        if self.operation not in _TAKES:
            raise NotesError(
                f"there is no operation {self.operation!r}; there are {', '.join(get_args(NotesOperation))}"
            )
        taken = _TAKES[self.operation]
        given = [name for name in ("section_header", "content") if (getattr(self, name) or "").strip()]
        if missing := [name for name in taken if name not in given]:
            are = "is" if len(missing) == 1 else "are"
            raise NotesError(f"{self.operation} needs {' and '.join(missing)}, which {are} missing or empty")
        if more := [name for name in given if name not in taken]:
            wanted = " and ".join(taken) or "no argument"
            raise NotesError(f"{self.operation} takes {wanted}, not {' and '.join(more)}; nothing was changed")

    @property
    def replaces_all(self) -> bool:
        return self.operation in ("overwrite", "delete_all_notes")

    def apply(self, text: str) -> str:
        """Return the notes after this operation.

        Raises:
            NotesError: No or several such sections; content that swallows what follows it; or notes too long.
        """
        text, content = clean(text), clean(self.content or "")
        _check_length(content)
        if self.replaces_all:
            text = _spliced("", 0, 0, content)
        elif self.operation in ("append", "prepend") and f"\n\n{content}\n\n" in f"\n\n{text}\n\n":
            return text  # it is there
        elif self.operation == "append":
            text = _spliced(text, len(text), len(text), content)
        elif self.operation == "prepend":
            text = _spliced(text, 0, 0, content)
        else:
            section = find_section(text, self.section_header or "")
            if content and not _brings_header(content, section):
                content = _joined(text[section.start : section.body], content)
            text = _spliced(text, section.start, section.end, content)
        _check_length(text)
        return text

    def removed_from(self, text: str) -> str | None:
        """Return the part that it replaces or deletes; None for no such section."""
        if self.replaces_all:
            return text
        if self.section_header is None:
            return ""
        try:
            section = find_section(text, self.section_header)
        except NotesError:
            return None
        return clean(text[section.start : section.end])


def clean(text: str) -> str:
    """Return a text with line feeds only, without blank lines at its ends."""
    lines = re.sub("\r\n?", "\n", text).split("\n")
    while lines and not lines[-1].strip(" \t"):
        lines.pop()
    first = next((number for number, line in enumerate(lines) if line.strip(" \t")), 0)
    return "\n".join(lines[first:])


@cache
def _markdown() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # here: most processes read no notes, and its rules take long to import

    parser = MarkdownIt("commonmark").disable("reference")
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


def sections_of(text: str) -> list[Section]:
    """Return the sections of clean notes in order."""
    starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    tokens = _markdown().parse(text)
    found: list[Section] = []
    around: list[Section] = []
    for opening, inline in pairwise(tokens):
        if opening.type != "heading_open" or opening.level or opening.map is None:
            continue
        level, (first, last) = int(opening.tag[1:]), opening.map
        around = [one for one in around if one.level < level]
        path = (*(one.title for one in around), " ".join(inline.content.split()))
        around.append(Section(level, starts[first], min(starts[last], len(text)), len(text), path))
        found.append(around[-1])
    ends = (next((n.start for n in found[i:] if n.level <= one.level), one.end) for i, one in enumerate(found, 1))
    return [replace(one, end=end) for one, end in zip(found, ends, strict=True)]


def find_section(text: str, header: str) -> Section:
    """Return the one section called `Title`, `## Title`, `Parent > Title` or `Parent > Title (2)`, the second of these.

    Tags at the end of a header (`#urgent`) may be left out; case decides between several.

    Raises:
        NotesError: There is none, or several; the text lists the headers.
    """
    sections = sections_of(text)
    written = _HEADER.fullmatch(header.strip())
    level, title = (len(written[1]), written[2]) if written else (0, header)
    title = " ".join(title.split())
    found = _called(sections, title, level)
    numbered = _NUMBERED.fullmatch(title)
    if not found and numbered is not None:  # the second of one name
        found = _called(sections, numbered[1], level)[int(numbered[2]) - 1 :][:1]
    if len(found) == 1:
        return found[0]
    shown = one_line(repr(title), _SHOWN_CHARACTERS)
    if found:
        paths = [one_line(repr(one), _SHOWN_CHARACTERS) for one in _told_apart(found)[:_LISTED]]
        raise NotesError(
            f"{len(found)} sections are called {shown}: {', '.join(paths)}; name one by its path, such as {paths[-1]}"
        )
    headers = ", ".join(one_line(repr(one.header), _SHOWN_CHARACTERS) for one in sections[:_LISTED])
    more = f" and {len(sections) - _LISTED} more" if len(sections) > _LISTED else ""
    raise NotesError(f"there is no section {shown}; " + (f"there are {headers}{more}" if headers else "there are none"))


def _called(sections: Sequence[Section], title: str, level: int) -> list[Section]:
    """Return the sections of a title or path; tags at the end of a header may be left out."""
    parts = tuple(part.strip().casefold() for part in title.split(" > "))
    found = (
        [one for one in sections if one.title.casefold() == title.casefold()]
        or [one for one in sections if tuple(name.casefold() for name in one.path[-len(parts) :]) == parts]
        or [one for one in sections if _TAGS.sub("", one.title).casefold() == _TAGS.sub("", title).casefold()]
    )
    found = [one for one in found if one.level == level] or found
    return [one for one in found if one.title == title] or found


def _told_apart(sections: Sequence[Section]) -> list[str]:
    """Return the paths of sections, with a number where several have one."""
    paths = [" > ".join(one.path) for one in sections]
    numbers = (paths[: at + 1].count(path) for at, path in enumerate(paths))
    return [f"{path} ({n})" if paths.count(path) > 1 else path for path, n in zip(paths, numbers, strict=True)]


def doubled_sections(text: str) -> list[str]:
    """Return the paths, with numbers, of sections that have one with others."""
    found = sections_of(text)
    return [name for name, one in zip(_told_apart(found), found, strict=True) if name != " > ".join(one.path)]


def _check_length(text: str) -> None:
    if len(text) > LIMIT_CHARACTERS:
        raise NotesError(
            f"the notes would have {len(text):,} characters and {LIMIT_CHARACTERS:,} is the most; nothing was changed: "
            "shorten or delete sections that are no longer needed, or write less"
        )


def _brings_header(content: str, section: Section) -> bool:
    first = sections_of(content)[:1]
    return bool(first) and first[0].start == 0 and first[0].level <= section.level


def _spliced(text: str, start: int, end: int, content: str = "") -> str:
    """Replace a range; refuse content that changes the headers around it, such as an open code fence."""
    result = _joined(text[:start], content, text[end:])
    beside = sections_of(text)
    before, after = ([one for one in beside if one.start < start], [one for one in beside if one.start >= end])
    expected = [one.header for one in (*before, *sections_of(content), *after)]
    if not _is_read_as(result, expected) and _is_read_as(text, [one.header for one in beside]):
        raise NotesError(
            "this would change how the notes around it are read: a code block, comment or list is not closed at its "
            "end; nothing was changed: close it and send it again"
        )
    return result


def _is_read_as(text: str, headers: Sequence[str]) -> bool:
    return [one.header for one in sections_of(_joined(text, _PROBE))] == [*headers, _PROBE]


def _joined(*pieces: str) -> str:
    return "\n\n".join(filter(None, map(clean, pieces)))


class LongTermNotes:
    """The notes of one agent, as one session knows them.

    An edit never removes text that this object did not read: ConflictError. Methods raise `StoreUnavailableError` if
    the database is unreachable, and `NotesError` if the operation makes no sense; then nothing was written.
    """

    def __init__(self, memory_store: MemoryStore, user_id: str, agent_id: str) -> None:
        self.agent_id = agent_id
        self._user_id = user_id
        self._store = memory_store.notes
        self._secrets = secrets_of(memory_store, user_id)
        self._known: str | None = None  # the text as this session believes it is

    async def read(self) -> str:
        """Return the text of the notes."""
        return (await self.fetch()).text

    async def fetch(self) -> AgentNotes:
        """Return the notes with their version."""
        notes = await self._store.fetch(self._user_id, self.agent_id)
        self.note_shown(notes.text)
        return notes

    async def version(self) -> int:
        """Return the version in force, without reading the notes."""
        return (await self._store.fetch(self._user_id, self.agent_id)).version

    def note_shown(self, text: str) -> None:
        """Note that this session has read the notes and may replace them."""
        self._known = text

    def knows(self, text: str) -> bool:
        """Return whether the notes are as this session read or wrote them."""
        return self._known == text

    async def overwrite(self, content: str, *, expected_version: int | None = None) -> AgentNotes:
        """Replace all notes; "" empties them. `expected_version` is written on instead of what was read."""
        if content.strip():
            return await self.edit("overwrite", content, expected_version=expected_version)
        return await self.edit("delete_all_notes", expected_version=expected_version)

    async def append(self, content: str) -> AgentNotes:
        """Add a text behind the notes, after a blank line."""
        return await self.edit("append", content)

    async def edit(
        self,
        operation: NotesOperation,
        content: str | None = None,
        section_header: str | None = None,
        *,
        expected_version: int | None = None,
    ) -> AgentNotes:
        """Apply one operation to the newest notes, and return them.

        Raises:
            ConflictError: It would remove unread text, or the version in force is not `expected_version`.
            NotesError: See `NotesEdit`.
        """
        edit = NotesEdit(operation, await self._secrets.hidden(content), section_header)
        self._require_agent()
        notes = await self._store.fetch(self._user_id, self.agent_id)
        for _ in range(_ATTEMPTS):
            if expected_version not in (None, notes.version):
                raise ConflictError(
                    f"the notes have version {notes.version}, not {expected_version}: read them and edit again"
                )
            size = _PARSED_FACTOR * (len(notes.text) + len(content or ""))
            is_expected = expected_version is not None
            text, known = await in_thread_if_large(size, _applied, edit, notes.text, self._known, is_expected)
            if text == notes.text:
                self._known = known
                return notes
            is_written, notes = await self._store.write(self._user_id, self.agent_id, text, operation, notes.version)
            if is_written:
                self._known = known
                return notes
        raise ConflictError(f"the notes were changed {_ATTEMPTS} times meanwhile: try again in a moment")

    async def versions(self) -> list[NotesVersion]:
        """Return the notes in force and the last 20 versions, newest first."""
        return await self._store.versions(self._user_id, self.agent_id)

    async def undo(self, to_version: int | None = None) -> AgentNotes:
        """Restore the last or a kept version as a new one; return the notes. The next undo goes further back.

        Raises:
            NotesError: There is nothing to undo, or the version is not kept.
            ConflictError: Another session changed the notes meanwhile.
        """
        self._require_agent()
        versions = await self.versions()
        found = [one for one in versions[1:] if one.version == to_version]
        if to_version is None:
            found = [one for one in versions[1:] if one.version < versions[0].repeats]
        if not found:
            named = "nothing to undo" if to_version is None else f"no version {to_version} to go back to"
            raise NotesError(f"there is {named}; the last 20 versions are kept")
        text, repeats, based_on = found[0].text, found[0].repeats, versions[0].version
        is_written, notes = await self._store.write(
            self._user_id, self.agent_id, text, "undo", based_on, repeats=repeats
        )
        if not is_written:
            raise ConflictError("the notes were changed by another session just now: read them, then undo again")
        self._known = notes.text
        return notes

    async def erase(self) -> None:
        """Delete the notes with all former versions."""
        self._require_agent()
        notes = await self._store.fetch(self._user_id, self.agent_id)
        is_written = notes.version == 0
        while not is_written:
            is_written, notes = await self._store.write(
                self._user_id, self.agent_id, "", "erase", notes.version, is_erased=True
            )
        self._known = ""

    def _require_agent(self) -> None:
        if not self.agent_id:
            raise NotesError("notes belong to an agent: name one, such as AgentMemory(store, 'alice', 'coder')")


def _applied(edit: NotesEdit, text: str, known: str | None, is_expected: bool) -> tuple[str, str | None]:
    """Return the edited notes, and the text as the session knows it then."""
    removed = edit.removed_from(text)
    if not (is_expected or not removed or text == known):
        before = None if known is None else edit.removed_from(known)
        if removed != before:
            raise ConflictError(
                "the notes hold text that was not read here, or was changed by another session since: read them "
                "first, then send this again; nothing was changed"
            )
    result = edit.apply(text)
    if not text or text == known or edit.replaces_all:
        return result, result
    try:
        return result, None if known is None else edit.apply(known)
    except NotesError:
        return result, None
