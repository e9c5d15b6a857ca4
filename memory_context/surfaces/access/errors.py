"""Errors of HTTP routes as FastAPI's own: `{"detail": …}` with the remedy, and Retry-After where a repetition can help.

Internal details go to the log, except the sentence of a failed model service, which clients get without credentials.
"""

import logging
from collections.abc import Callable, Collection, Coroutine
from typing import Any
from urllib.parse import quote, unquote

from fastapi import HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.convertors import Convertor, register_url_convertor
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

from memory_context.foundation.errors import (
    ItemNotFoundError,
    SessionBusyError,
    SessionGoneError,
    StoreUnavailableError,
)
from memory_context.foundation.patterns import regex
from memory_context.foundation.runtime.background import outages_of

from .gate import BodyLimit, Gate

__all__ = ["REFUSALS", "Refusal", "http_error", "invalid", "refusals", "replace_surrogates", "route_class", "try_again"]

_logger = logging.getLogger("memory_context")

_MAX_FLAWS = 20
_QUIET_SECONDS = 60.0  # without a refusal end an outage
_SURROGATES = regex("[\ud800-\udfff]")


class Refusal(BaseModel):
    """Why a request was refused, and what to do."""

    detail: str


def refusals(**texts: str) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI responses of a route beside those of every route, such as `_404="There is no such page"`."""
    return {int(status[1:]): {"model": Refusal, "description": text} for status, text in texts.items()}


REFUSALS = refusals(
    _400="The body cannot be read",
    _401="Nobody says who asks",
    _403="This user, or a page of this origin, may not do that",
    _413="The body is too large",
    _415="The body is no JSON",
    _421="Not a name of this server",
    _429="Too many requests",
    _500="Something went wrong; the log says what",
    _503="The store cannot be reached now",
)
"""The OpenAPI responses of every route."""


def try_again(status: int, detail: str, seconds: int) -> HTTPException:
    """Return an error after which the same request may succeed."""
    return HTTPException(status, detail, {"Retry-After": str(seconds)})


def invalid(message: str, *place: str) -> RequestValidationError:
    """Return the error of a value that only the store or its rules can judge, such as one with a credential."""
    return RequestValidationError([{"type": "value_error", "loc": ("body", *place), "msg": message}])


def http_error(error: Exception) -> StarletteHTTPException:
    """Convert an error for the client; unexpected errors are logged."""
    if isinstance(error, StarletteHTTPException):
        return error
    if isinstance(error, SessionBusyError):
        return try_again(409, str(error), 1)
    if isinstance(error, ItemNotFoundError):
        return HTTPException(404, str(error))
    if isinstance(error, SessionGoneError):
        return HTTPException(410, str(error))
    if isinstance(error, StoreUnavailableError):
        told = "requests are refused, as the store cannot be reached: %s"
        outages_of(http_error).failed("answering requests", told, error, quiet_seconds=_QUIET_SECONDS)
        return try_again(503, "nothing is lost; send the same request again", 2)
    _logger.error("a request failed: %s", error, exc_info=error)
    return HTTPException(500, "the log says what went wrong")


def replace_surrogates(text: str) -> str:
    """Replace each lone surrogate, which no response can carry, by U+FFFD."""
    return _SURROGATES.sub("\ufffd", text)


class _IdConvertor(Convertor[str]):
    """One segment of a path as it was sent, decoded: `a%2Fb` is the id `a/b`."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        return unquote(value)

    def to_string(self, value: str) -> str:
        return quote(value, safe="")


register_url_convertor("chat_id", _IdConvertor())


def route_class(body_bytes: int, hosts: Collection[str], origins: Collection[str], host_setting: str) -> type[APIRoute]:
    """Return the class of routes that carry gate, body limit and errors into any application.

    A router has no middleware and no exception handlers of its own: these belong to the application that includes it.
    """

    class ChatRoute(APIRoute):
        def matches(self, scope: Scope) -> tuple[Match, Scope]:
            # a server decodes the path: "/" in an id would be one of the path
            raw_path = scope.get("raw_path")
            if raw_path:
                root_path = quote(scope.get("root_path", ""))
                scope = {**scope, "path": raw_path.decode("latin-1"), "root_path": root_path}
            return super().matches(scope)

        async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
            headers = Headers(scope=scope)
            if "origin" in headers and headers.get("content-type", "").startswith("text/plain"):
                # navigator.sendBeacon(url, string) cannot say that its text is JSON; the gate checks the Origin
                MutableHeaders(scope=scope)["content-type"] = "application/json"
            limited = BodyLimit(super().handle, body_bytes)
            gate = Gate(limited, hosts=hosts, origins=origins, host_setting=host_setting)
            await gate(scope, receive, send)

        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle, has_body = super().get_route_handler(), self.body_field is not None

            async def handle_or_explain(request: Request) -> Response:
                media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
                if has_body and media_type != "application/json":
                    raise HTTPException(415, "send JSON, as application/json")
                try:
                    return await handle(request)
                except RequestValidationError as error:
                    raise RequestValidationError([_told(one) for one in error.errors()[:_MAX_FLAWS]]) from None
                except Exception as error:
                    raise http_error(error) from None

            return handle_or_explain

    return ChatRoute


def _told(flaw: dict[str, Any]) -> dict[str, Any]:
    """Return a flaw without the input, which may be long, secret, or not fit for JSON."""
    place = [part if isinstance(part, int) else replace_surrogates(part)[:100] for part in flaw["loc"]]
    return {"type": flaw["type"], "loc": place, "msg": flaw["msg"]}
