"""The inspector's routes and page for any FastAPI application, and an application of its own for one user."""

import json
from collections.abc import Awaitable, Callable, Collection
from importlib.resources import files
from typing import Any

from autogen_core.models import ChatCompletionClient
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Response
from fastapi.responses import JSONResponse, RedirectResponse

from memory_context.foundation.identifiers import checked_identifier
from memory_context.foundation.policy import ContextPolicy
from memory_context.store.memory_store import MemoryStore

from ..access.errors import route_class
from .calls import add_calls
from .entrance import Entrance
from .fork import add_fork
from .items import add_items
from .memory import add_memory

__all__ = ["create_inspector_router", "inspector_app"]

_BODY_BYTES = 300_000
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_HEADERS = {
    # nothing inline and nothing from elsewhere; a text that the model read can run nothing here
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


class _AsciiResponse(JSONResponse):
    """Lone surrogates, which UTF-8 cannot carry, reach the page as they are stored."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


def create_inspector_router(
    store: MemoryStore,
    current_user: Callable[..., str | Awaitable[str]],
    *,
    policy: ContextPolicy | None = None,
    light_model: ChatCompletionClient | None = None,
    hosts: Collection[str] = (),
    origins: Collection[str] = (),
    prefix: str = "/inspector",
) -> APIRouter:
    """Return the page and its API, for `app.include_router(...)`.

    The page's files are public; each answer of the API is for the user that `current_user` returns. A page that is
    refused with 401 asks for a bearer token, which it keeps until its tab closes.

    Args:
        store: Store of the sessions, which stays open.
        current_user: The application's dependency that returns the user's id, or raises HTTPException.
        policy: Policy of the sessions, which archives do not hold.
        light_model: Observes a session that a person compacts; None for that of MEMORY_CONTEXT_LIGHT_MODEL.
        hosts: Public names, as of the chat's routes.
        origins: Other origins whose pages may write.
    """

    async def own_user(told: Any = Depends(current_user)) -> str:  # noqa: B008
        try:
            return checked_identifier("user_id", told)
        except ValueError:
            raise HTTPException(403, "the user id has to be 1 to 128 printable characters") from None

    route = route_class(_BODY_BYTES, hosts, origins, "hosts")
    router = APIRouter(prefix=prefix, route_class=route, include_in_schema=False, default_response_class=_AsciiResponse)
    user = Depends(own_user)
    add_calls(router, store, user, policy or ContextPolicy(), is_assumed_default=policy is None)
    add_items(router, store, user)
    add_memory(router, store, user)
    add_fork(router, store, user, policy or ContextPolicy(), light_model)
    _add_page(router)
    return router


def inspector_app(
    store: MemoryStore,
    user_id: str,
    *,
    policy: ContextPolicy | None = None,
    light_model: ChatCompletionClient | None = None,
    hosts: Collection[str] = (),
    entrance: Entrance | None = None,
) -> FastAPI:
    """Return an application with the inspector of one user at `/inspector/`, for loopback only.

    Without an `entrance` it is unauthenticated.
    """
    checked_identifier("user_id", user_id)

    async def only_user() -> str:
        return user_id

    app = FastAPI(title="memory_context inspector", openapi_url=None)
    who = entrance.user if entrance else only_user
    router = create_inspector_router(store, who, policy=policy, light_model=light_model, hosts=hosts)
    if entrance is not None:
        entrance.add_route(router)
    app.include_router(router)

    @app.get("/")
    async def root() -> Response:
        return RedirectResponse("inspector/")

    _ = root
    return app


def _add_page(router: APIRouter) -> None:
    pages = {
        one.name: one.read_bytes()
        for one in files(__name__.rpartition(".")[0]).joinpath("pages").iterdir()
        if one.is_file()
    }

    @router.get("")
    async def without_slash() -> Response:
        return RedirectResponse(f"{router.prefix.rpartition('/')[2]}/")  # relative, as are the page's own addresses

    @router.get("/{name:chat_id}")
    async def file(name: str) -> Response:
        return page(name)

    @router.get("/")
    async def index() -> Response:
        return page("index.html")

    def page(name: str) -> Response:
        if name not in pages:
            raise HTTPException(404, "the inspector has no such file")
        return Response(pages[name], media_type=_TYPES[name.rpartition(".")[2]], headers=_HEADERS)

    _ = without_slash, file, index
