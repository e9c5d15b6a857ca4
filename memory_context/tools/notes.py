"""`manage_long_term_memory`: the agent's own notes about the user, kept across sessions."""

import hashlib
from typing import Literal

from ..errors import ConflictError, NotesError
from ..notes import LIMIT_CHARACTERS
from ..store import AgentNotes
from ..utf8 import to_utf8
from .base import MemoryTool, ToolArguments
from .hosts import ToolHost
from .repeats import Answer

__all__ = ["ManageLongTermMemoryArgs", "ManageLongTermMemoryTool"]


class ManageLongTermMemoryArgs(ToolArguments):
    """Arguments of `manage_long_term_memory`."""

    operation: Literal[
        "read",
        "overwrite",
        "append",
        "prepend",
        "delete_section_by_header",
        "replace_section_by_header",
        "delete_all_notes",
    ] = "read"
    content: str | None = None
    section_header: str | None = None


class ManageLongTermMemoryTool(MemoryTool):
    """Reads and edits the notes of this agent about the user."""

    component_provider_override = "memory_context.tools.ManageLongTermMemoryTool"
    args_model = ManageLongTermMemoryArgs
    tool_name = "manage_long_term_memory"
    tool_description = "Your own Markdown notes on this user, for all later sessions."

    async def _answer(self, host: ToolHost, args: ManageLongTermMemoryArgs) -> Answer:
        notes = host.agent_memory.notes
        if args.operation == "read":
            return _shown(await notes.fetch())
        try:
            now = await notes.edit(args.operation, args.content, args.section_header)
        except ConflictError as error:
            return Answer(f'Not done: {error}. Next: {self.name}(operation="read").', failed=True)
        except NotesError as error:
            return Answer(f"Not done: {error}.", failed=True)
        size = f"{len(now.text):,} of {LIMIT_CHARACTERS:,} characters"
        return Answer(f"Done: {args.operation}. The notes have {size} now (version {now.version}).", data=_data(now))


def _shown(notes: AgentNotes) -> Answer:
    if not notes.text:
        return Answer('There are no long-term notes yet: operation="append" writes some.', data=_data(notes))
    label = f"the long-term notes, version {notes.version}"
    text = f"Long-term notes, version {notes.version}, written in earlier sessions:\n\n{notes.text}"
    next_step = "Go on with what they say, or change them."
    found = hashlib.sha256(to_utf8(notes.text)).hexdigest()
    return Answer(text, label, next_step, found, data=_data(notes))


def _data(notes: AgentNotes) -> dict[str, object]:
    return {"notes": notes.text, "version": notes.version}
