"""Notes of one agent about one user: read, apply, write if the version is in force, else apply to the newer one."""

from ..errors import ConflictError, NotesError
from ..runtime import in_thread_if_large
from ..store import AgentNotes, MemoryStore, NotesVersion
from ..vault import secrets_of
from .sections import NotesEdit, NotesOperation

__all__ = ["LongTermNotes"]

_ATTEMPTS = 50  # each loses to a write of another session
_PARSED_FACTOR = 50  # parsing Markdown takes some 50 times as long as reading it


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
            is_written, notes = await self._store.write(
                self._user_id, self.agent_id, text, operation, notes.version, text_before=notes.text
            )
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
