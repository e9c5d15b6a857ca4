"""Notes of one agent about one user, edited by several sessions, with versions."""

import asyncio
from itertools import count
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context import AgentMemory, ConflictError, MemoryContext, MemoryStore, NotesError
from memory_context.memory.notes import LongTermNotes, NotesOperation
from memory_context.store.notes import NotesStore

DELETE: NotesOperation = "delete_section_by_header"


def notes_of(store: MemoryStore, agent: str = "coder", session: str = "s") -> LongTermNotes:
    """Return the notes as one session sees them."""
    return AgentMemory(store, "alice", agent, session).notes


async def test_notes_are_the_same_in_all_sessions_of_an_agent(store: MemoryStore) -> None:
    """And its own: another agent of the user has none of them."""
    await notes_of(store, session="one").append("# Work\nOrders is at db1.")
    context = MemoryContext("alice", "coder", "two", store)
    assert await context.agent_memory.notes.read() == "# Work\nOrders is at db1."
    assert await context.for_subagent("critic").agent_memory.notes.read() == ""
    await context.close()


async def test_every_operation_is_a_method(store: MemoryStore) -> None:
    notes = notes_of(store)
    await notes.overwrite("# A\na")
    await notes.append("# B\nb")
    await notes.edit("prepend", "top")
    await notes.edit("replace_section_by_header", "new", "A")
    await notes.edit("delete_section_by_header", None, "B")
    assert await notes.read() == "top\n\n# A\n\nnew"
    assert (await notes.edit("delete_all_notes")).text == ""
    assert [one.operation for one in await notes.versions()] == [
        "delete_all_notes",
        "delete_section_by_header",
        "replace_section_by_header",
        "prepend",
        "append",
        "overwrite",
        "",
    ]


async def test_an_operation_without_effect_writes_no_version(store: MemoryStore) -> None:
    notes = notes_of(store)
    await notes.overwrite("a")
    assert (await notes.overwrite("a\n")).version == 1


async def test_undo_goes_back_step_by_step(store: MemoryStore) -> None:
    """As new versions, so that an undo can be undone, too; twenty steps."""
    notes = notes_of(store)
    for number in range(1, 26):
        await notes.read()
        await notes.overwrite(f"text {number}")
    assert [(await notes.undo()).text for _ in range(20)] == [f"text {25 - step}" for step in range(1, 21)]
    with pytest.raises(NotesError, match="nothing to undo; the last 20 versions are kept"):
        await notes.undo()
    assert (await notes.undo(25)).text == "text 25"
    with pytest.raises(NotesError, match="no version 3 to go back to"):
        await notes.undo(3)
    with pytest.raises(NotesError, match="nothing to undo"):
        await notes_of(store, "critic").undo()


async def test_an_undo_can_be_undone(store: MemoryStore) -> None:
    """Also that of the first version; what is undone next is what was written before the restored version."""
    notes = notes_of(store)
    for text in "abc":
        await notes.append(text)
    assert [(await notes.undo()).text for _ in range(3)] == ["a\n\nb", "a", ""]
    assert ((await notes.undo(3)).text, (await notes.undo()).text) == ("a\n\nb\n\nc", "a\n\nb")


async def test_erased_notes_leave_no_version(store: MemoryStore) -> None:
    """The version goes on, so that nobody's conditional write takes new notes for the old ones."""
    notes = notes_of(store)
    await notes.append("secret")
    await notes.append("more")
    await notes.erase()
    assert [(one.version, one.text) for one in await notes.versions()] == [(3, "")]
    await notes_of(store, "critic").erase()
    assert await notes_of(store, "critic").versions() == []


async def test_an_edit_that_removes_unread_text_is_refused(store: MemoryStore) -> None:
    """After reading it is done. Another section may have changed meanwhile."""
    mine, theirs = notes_of(store), notes_of(store, session="other")
    await mine.append("# A\na\n# B\nb")
    for edit in (
        theirs.overwrite("lost"),
        theirs.edit("delete_all_notes"),
        theirs.edit("delete_section_by_header", None, "A"),
    ):
        with pytest.raises(ConflictError, match="not read here, or was changed by another session since: read them"):
            await edit
    await theirs.read()
    await theirs.edit("replace_section_by_header", "theirs", "A")
    await mine.append("# C\nc")
    await mine.edit("replace_section_by_header", "mine", "B")
    for edit in (
        mine.overwrite("lost"),
        mine.edit("delete_section_by_header", None, "A"),
        theirs.edit("delete_section_by_header", None, "B"),
    ):
        with pytest.raises(ConflictError):
            await edit
    assert await mine.read() == "# A\n\ntheirs\n\n# B\n\nmine\n\n# C\nc"
    assert (await mine.overwrite("all")).text == "all"


async def test_a_write_on_a_named_version_is_refused_for_another(store: MemoryStore) -> None:
    notes = notes_of(store)
    assert (await notes.overwrite("a", expected_version=0)).version == 1
    with pytest.raises(ConflictError, match="version 1, not 0: read them and edit again"):
        await notes.overwrite("b", expected_version=0)
    assert (await notes_of(store, session="other").overwrite("b", expected_version=1)).text == "b"


async def test_concurrent_appends_of_many_sessions_are_all_kept(store: MemoryStore) -> None:
    """Each is applied to the newest text until its write is the first."""
    sessions = [notes_of(store, session=f"s{number}") for number in range(8)]
    await asyncio.gather(*(one.append(f"# {one_number}") for one_number, one in enumerate(sessions)))
    assert sorted((await sessions[0].read()).split("\n\n")) == [f"# {number}" for number in range(8)]


async def test_notes_belong_to_an_agent(store: MemoryStore) -> None:
    with pytest.raises(NotesError, match="name one"):
        await AgentMemory(store, "alice").notes.append("a")


class CrossedNotes(NotesStore):
    """The notes of a store, in which another session writes something just before a write."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store._database)
        self._memory_store = store
        self.meanwhile: str | None = None

    async def write(self, user_id: str, agent_id: str, text: str, operation: str, based_on: int, **more: Any) -> Any:
        if self.meanwhile is not None:
            content, self.meanwhile = self.meanwhile, None
            await LongTermNotes(self._memory_store, user_id, agent_id).append(content)
        return await super().write(user_id, agent_id, text, operation, based_on, **more)


STEPS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from(["read", "append", "prepend", "overwrite", "replace", "delete", "delete_all"]),
        st.sampled_from(["A", "B", "C"]),
        st.booleans(),
    ),
    max_size=14,
)


numbers = count()


@given(steps=STEPS)
async def test_two_sessions_never_lose_an_edit(store: MemoryStore, steps: list[tuple[int, str, str, bool]]) -> None:
    """A line leaves the notes only by an operation of a session that wrote or read it; a third appends in between."""
    crossed, agent = CrossedNotes(store), f"agent{next(numbers)}"
    sessions = [LongTermNotes(store, "alice", agent) for _ in range(2)]
    for one in sessions:
        one._store = crossed
    seen: list[set[str]] = [set(), set()]
    before = set[str]()
    for number, (who, operation, title, is_crossed) in enumerate(steps):
        notes, edit, other = sessions[who], f"edit {number}", f"other {number}"
        crossed.meanwhile = f"# X{number}\n{other}" if is_crossed else None
        is_done = operation in ("append", "prepend", "overwrite", "replace")
        try:
            if operation == "read":
                seen[who] |= set((await notes.read()).split("\n"))
            elif operation == "replace":
                await notes.edit("replace_section_by_header", edit, title)
            elif operation == "delete":
                await notes.edit("delete_section_by_header", None, title)
            elif operation == "delete_all":
                await notes.edit("delete_all_notes")
            else:
                await notes.edit(cast(NotesOperation, operation), f"# {title}\n{edit}")
        except (ConflictError, NotesError):
            is_done = False
        was_crossed = is_crossed and crossed.meanwhile is None
        after = set((await store.notes.fetch("alice", agent)).text.split("\n"))
        assert {line for line in before - after if line.startswith(("edit", "other"))} <= seen[who]
        assert other in after or not was_crossed
        assert edit in after or not is_done
        seen[who] |= {edit}
        before = after
