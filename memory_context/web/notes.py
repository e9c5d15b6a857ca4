"""The routes of long-term notes: read, replaced if their version is in force, and their versions."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response

from ..errors import ConflictError, NotesError
from ..store import AgentNotes
from .chat import Chat, ChatLimits
from .problems import Flaw, ProblemError
from .schemas import (
    Identifier,
    NotesEntry,
    NotesText,
    NotesVersionEntry,
    NotesVersions,
    json_response,
    read_body,
    route,
)

__all__ = ["add_notes"]

IfMatch = Annotated[
    str | None, Header(pattern='^"[0-9]{1,18}"$', description='The ETag of the notes that were read, such as `"3"`.')
]


def add_notes(router: APIRouter, user: Any, chat: Chat, limits: ChatLimits) -> None:
    """Add the routes; `user` is the dependency that returns the user's id."""

    def answer(agent_id: str, found: AgentNotes) -> Response:
        body = NotesEntry(agent_id=agent_id, notes=found.text, version=found.version, updated_at=found.updated_at)
        return json_response(body, {"ETag": f'"{found.version}"'})

    @route(
        router,
        "GET",
        "/notes/{agent_id}",
        "The long-term notes of an agent about the user; their version is the ETag",
        NotesEntry,
        "unknown-agent",
    )
    async def notes(agent_id: Identifier, user_id: str = user) -> Response:
        return answer(agent_id, await chat.notes(user_id, agent_id).fetch())

    @route(
        router,
        "PUT",
        "/notes/{agent_id}",
        "Replace the notes, if the version in If-Match is in force; that of no notes is 0",
        NotesEntry,
        "unknown-agent",
        "stale-version",
        "version-needed",
        body=NotesText,
    )
    async def write(request: Request, agent_id: Identifier, if_match: IfMatch = None, user_id: str = user) -> Response:
        notes = chat.notes(user_id, agent_id)
        asked = await read_body(request, limits.body, NotesText)
        if if_match is None:
            raise ProblemError("version-needed", "send the ETag of the notes that you read as If-Match")
        version = int(if_match.strip('"'))
        try:
            return answer(agent_id, await notes.overwrite(asked.notes, expected_version=version))
        except ConflictError as error:
            raise ProblemError("stale-version", str(error)) from None
        except NotesError as error:
            flaws = [Flaw(detail=str(error), pointer="#/notes")]
            raise ProblemError("invalid", "these notes are not taken", flaws=flaws) from None

    summary = "The notes in force and their last versions, the newest first"

    @route(router, "GET", "/notes/{agent_id}/versions", summary, NotesVersions, "unknown-agent")
    async def versions(agent_id: Identifier, user_id: str = user) -> Response:
        found = await chat.notes(user_id, agent_id).versions()
        return json_response(NotesVersions(versions=[NotesVersionEntry.of(one) for one in found]))

    _ = notes, write, versions
