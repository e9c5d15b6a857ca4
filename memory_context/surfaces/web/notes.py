"""The routes of agents' long-term notes about a user.

GET    {prefix}/notes/{agent}             long-term notes; their version is the ETag
PUT    {prefix}/notes/{agent}             replaces them, If-Match
"""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, HTTPException, Response

from memory_context.foundation.errors import ConflictError, NotesError
from memory_context.memory.notes import LongTermNotes
from memory_context.store.notes import AgentNotes

from ..access.errors import invalid, refusals
from ..access.wire import Identifier, Text, Wire
from .chat import Chat

__all__ = ["add_notes"]

_AGENT = refusals(_404="There is no such agent")


class NotesText(Wire):
    """Long-term notes, Markdown; "" for none."""

    notes: str


class NotesEntry(Wire):
    """The long-term notes of an agent; version 0 means that none were written yet."""

    agent_id: str
    notes: Text
    version: int
    updated_at: datetime | None


_IfMatch = Annotated[
    str | None, Header(pattern='^"[0-9]{1,18}"$', description='The ETag of the notes that were read, such as `"3"`.')
]


def add_notes(router: APIRouter, user: Any, chat: Chat) -> None:
    """Add the routes; `user` is the dependency that returns the user's id."""

    def notes_of_user(agent_id: Identifier, user_id: str = user) -> LongTermNotes:
        return chat.notes(user_id, agent_id)

    own = Depends(notes_of_user)

    def told(response: Response, agent_id: str, found: AgentNotes) -> NotesEntry:
        response.headers["ETag"] = f'"{found.version}"'
        return NotesEntry(agent_id=agent_id, notes=found.text, version=found.version, updated_at=found.updated_at)

    @router.get(
        "/notes/{agent_id:chat_id}",
        summary="The long-term notes of an agent about the user; their version is the ETag",
        responses=_AGENT,
    )
    async def read(response: Response, notes: LongTermNotes = own) -> NotesEntry:
        return told(response, notes.agent_id, await notes.fetch())

    @router.put(
        "/notes/{agent_id:chat_id}",
        summary="Replace the notes, if the version in If-Match is in force; that of no notes is 0",
        responses=_AGENT | refusals(_412="Another version is in force", _428="If-Match has to name a version"),
    )
    async def write(
        asked: NotesText, response: Response, if_match: _IfMatch = None, notes: LongTermNotes = own
    ) -> NotesEntry:
        if if_match is None:
            raise HTTPException(428, "send the ETag of the notes that you read as If-Match")
        try:
            found = await notes.overwrite(asked.notes, expected_version=int(if_match.strip('"')))
        except ConflictError as error:
            raise HTTPException(412, str(error)) from None
        except NotesError as error:
            raise invalid(str(error), "notes") from None
        return told(response, notes.agent_id, found)

    _ = read, write
