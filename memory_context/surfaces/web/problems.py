"""Errors as `application/problem+json` (RFC 9457), with remedy and time of retry.

Internal details go to the log, except the sentence of a failed model service, which clients get without credentials.
"""

import json
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Literal

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from memory_context.foundation.errors import (
    MemoryContextError,
    SessionBusyError,
    SessionGoneError,
    StoreUnavailableError,
)
from memory_context.foundation.outages import outages_of

__all__ = ["ALWAYS", "OF_BODY", "Flaw", "Problem", "ProblemError", "ProblemKind", "ProblemRoute", "problem_responses"]

_logger = logging.getLogger("memory_context")

MEDIA_TYPE = "application/problem+json"
_CLIENT_IS_GONE = 499  # nginx's code for a disconnected client

ProblemKind = Literal[
    "not-json", "not-allowed", "foreign-page", "unknown", "unknown-agent", "unknown-session",
    "unknown-cursor", "unknown-statement", "unknown-secret", "wrong-method", "session-busy", "other-agent",
    "body-too-slow", "session-deleted", "stale-version", "too-large", "wrong-media-type", "foreign-host", "invalid",
    "version-needed", "too-many-requests", "internal", "agent-failed", "unavailable", "too-slow",
]  # fmt: skip

ALWAYS: tuple[ProblemKind, ...] = (
    "not-allowed", "foreign-page", "foreign-host", "invalid", "too-many-requests", "internal", "unavailable",
)  # fmt: skip
OF_BODY: tuple[ProblemKind, ...] = ("not-json", "body-too-slow", "too-large", "wrong-media-type")
_KINDS: Mapping[ProblemKind, tuple[int, str]] = {
    "not-json": (400, "The body is no JSON"),
    "not-allowed": (403, "This user may not do that"),
    "foreign-page": (403, "Pages of other origins may not do this"),
    "unknown": (404, "There is nothing at this address"),
    "unknown-agent": (404, "There is no such agent"),
    "unknown-session": (404, "There is no such session"),
    "unknown-cursor": (404, "There is no such page"),
    "unknown-statement": (404, "There is no such statement"),
    "unknown-secret": (404, "There is no such secret"),
    "wrong-method": (405, "This address takes other methods"),
    "body-too-slow": (408, "The body did not arrive in time"),
    "session-busy": (409, "The session is busy"),
    "other-agent": (409, "The session belongs to another agent"),
    "session-deleted": (410, "The session was deleted"),
    "stale-version": (412, "Another version is in force"),
    "too-large": (413, "The body is too large"),
    "wrong-media-type": (415, "The body is of another type"),
    "foreign-host": (421, "Not a name of this server"),
    "invalid": (422, "The request is not valid"),
    "version-needed": (428, "The request has to name the version that it changes"),
    "too-many-requests": (429, "Too many requests"),
    "internal": (500, "Something went wrong here"),
    "agent-failed": (502, "The agent failed"),
    "unavailable": (503, "The service is not available now"),
    "too-slow": (504, "The agent took too long"),
}
_REFUSED = "requests are refused, as the store cannot be reached: %s"
_BUSY_SECONDS = 1
_UNAVAILABLE_SECONDS = 2
_QUIET_SECONDS = 60.0  # without a refusal end an outage


class Flaw(BaseModel):
    """One flaw of a request, at a JSON pointer into its body or in a parameter of its URL."""

    model_config = ConfigDict(frozen=True)

    detail: str
    pointer: str | None = None
    parameter: str | None = None


class Problem(BaseModel):
    """A problem (RFC 9457); `retry_after` seconds later the same request may succeed."""

    model_config = ConfigDict(frozen=True)

    type: str
    title: str
    status: int
    detail: str = ""
    errors: list[Flaw] = Field(default_factory=list[Flaw])
    retry_after: int | None = None


class ProblemError(Exception):
    """A request cannot be answered; the detail tells the client the remedy."""

    def __init__(
        self,
        kind: ProblemKind,
        detail: str,
        *,
        flaws: Sequence[Flaw] = (),
        retry_after_seconds: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        status, title = _KINDS[kind]
        self.headers = dict(headers or {})
        if retry_after_seconds is not None:
            self.headers["Retry-After"] = str(retry_after_seconds)
        self.problem = Problem(
            type=f"urn:problem-type:memory-context:{kind}",
            title=title,
            status=status,
            detail=detail,
            errors=list(flaws),
            retry_after=retry_after_seconds,
        )

    @classmethod
    def of(cls, error: Exception) -> "ProblemError":
        """Convert an error for the client; unexpected errors are logged."""
        if isinstance(error, ProblemError):
            return error
        if isinstance(error, SessionBusyError):
            return cls("session-busy", str(error), retry_after_seconds=_BUSY_SECONDS)
        if isinstance(error, SessionGoneError):
            return cls("session-deleted", str(error))
        if isinstance(error, StoreUnavailableError):
            outages_of(cls).failed("answering requests", _REFUSED, error, quiet_seconds=_QUIET_SECONDS)
            detail = "nothing is lost; send the same request again"
            return cls("unavailable", detail, retry_after_seconds=_UNAVAILABLE_SECONDS)
        if isinstance(error, RequestValidationError):
            flaws = [Flaw(detail=one["msg"], parameter=str(one["loc"][-1])[:100]) for one in error.errors()]
            return cls("invalid", "a parameter is not as it has to be", flaws=flaws)
        _logger.error("a request failed: %s", error, exc_info=error)
        is_ours = isinstance(error, MemoryContextError)
        return cls("internal", "the store refused it; the log says why" if is_ours else "the log says what")

    def text(self) -> str:
        return json.dumps(self.problem.model_dump(exclude_none=True, exclude_defaults=True), separators=(",", ":"))

    def response(self) -> Response:
        return Response(self.text(), self.problem.status, self.headers, MEDIA_TYPE)


class ProblemRoute(APIRoute):
    """A route whose errors are problems; exception handlers would belong to the including application."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_or_explain(request: Request) -> Response:
            try:
                return await handle(request)
            except ClientDisconnect:
                return Response(status_code=_CLIENT_IS_GONE)
            except HTTPException as error:  # from the application's dependencies
                return _of_http(error)
            except Exception as error:
                return ProblemError.of(error).response()

        return handle_or_explain


def _of_http(error: HTTPException) -> Response:
    try:
        title = HTTPStatus(error.status_code).phrase
    except ValueError:
        title = "The request was refused"
    detail = error.detail if isinstance(error.detail, str) else json.dumps(error.detail, default=str)  # pyright: ignore[reportUnnecessaryIsInstance]
    told = {"type": "about:blank", "title": title, "status": error.status_code, "detail": detail}
    return Response(json.dumps(told), error.status_code, dict(error.headers or {}), MEDIA_TYPE)


def problem_responses(*kinds: ProblemKind) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI responses for the problems of a route."""
    schema = Problem.model_json_schema()
    schema["properties"]["errors"]["items"] = schema.pop("$defs")["Flaw"]
    titles: dict[int, str] = {}
    if "not-allowed" in kinds:  # the application's dependency may answer 401
        titles[401] = "Nobody says who asks"
    for kind in kinds:
        status, title = _KINDS[kind]
        titles[status] = f"{titles[status]}; {title.lower()}" if status in titles else title
    content = {MEDIA_TYPE: {"schema": schema}}
    return {status: {"description": title, "content": content} for status, title in titles.items()}
