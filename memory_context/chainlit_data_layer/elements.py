"""What elements show, served from the database: a route of Chainlit's own application, under its own login.

Only the author of a thread gets what was shown in it, and whoever may see the thread if it is shared. What an agent
made or a user uploaded is not trusted: a browser runs no script in it.
"""

import os
from typing import Annotated, Any, Protocol, cast
from urllib.parse import quote

from chainlit.auth import get_current_user
from chainlit.config import config
from chainlit.types import ThreadDict
from chainlit.user import PersistedUser, User
from fastapi import Depends, FastAPI, HTTPException, Request, Response

from memory_context.store import ElementContent

from .ranges import byte_range

__all__ = ["ElementSource", "element_url", "is_element_url", "mount_elements"]

_PREFIX = "/memory-context/elements"
_NAME = "memory_context_element"
_SHOWN = ("image/", "audio/", "video/", "text/plain", "application/json", "application/pdf")

CurrentUser = Annotated[User | PersistedUser | None, Depends(get_current_user)]


class ElementSource(Protocol):
    """Where the route finds threads and what their elements show: a `MemoryDataLayer`."""

    async def get_thread(self, thread_id: str) -> ThreadDict | None:
        """Return a thread, with its author."""
        ...

    async def get_thread_author(self, thread_id: str) -> str:
        """Return whose a thread is."""
        ...

    async def element_content(self, thread_id: str, element_id: str) -> ElementContent | None:
        """Return what an element shows."""
        ...


def element_url(thread_id: str, element_id: str) -> str:
    """Return where the page finds what an element shows, on the server it came from."""
    root = os.environ.get("CHAINLIT_PARENT_ROOT_PATH", "") + os.environ.get("CHAINLIT_ROOT_PATH", "")
    return f"{root}{_PREFIX}/{quote(thread_id, safe='')}/{quote(element_id, safe='')}"


def is_element_url(url: str) -> bool:
    """Whether an address is one that `element_url` gives."""
    return f"{_PREFIX}/" in url


def mount_elements(app: FastAPI, source: ElementSource) -> None:
    """Serve what elements show, at `/memory-context/elements/{thread_id}/{element_id}` of Chainlit's application.

    A `MemoryDataLayer` does it for itself. Mounting again replaces the source.

    Args:
        app: Chainlit's application, `chainlit.server.app`.
        source: The data layer.
    """

    async def serve(thread_id: str, element_id: str, request: Request, user: CurrentUser) -> Response:
        if not await _may_see(source, thread_id, user):
            # the same for what there is and what there is not: nothing is learnt of another's threads
            raise HTTPException(404 if user else 401, "Element not found" if user else "Unauthorized")
        content = await source.element_content(thread_id, element_id)
        if content is None:
            raise HTTPException(404, "Element not found, or it was too large to be kept")
        return _response(content, request.headers.get("range"))

    routes = app.router.routes
    routes[:] = [route for route in routes if getattr(route, "name", None) != _NAME]
    app.add_api_route(f"{_PREFIX}/{{thread_id}}/{{element_id}}", serve, name=_NAME, include_in_schema=False)
    routes.insert(0, routes.pop())  # Chainlit's last route takes whatever is left


async def _may_see(source: ElementSource, thread_id: str, user: User | PersistedUser | None) -> bool:
    if user is not None and await source.get_thread_author(thread_id) == user.identifier:
        return True
    thread = await source.get_thread(thread_id)
    if thread is None:
        return False
    metadata = cast("dict[str, Any] | None", thread["metadata"])
    if metadata and metadata.get("is_shared"):
        return True
    may_view: Any = getattr(config.code, "on_shared_thread_view", None)
    return bool(may_view and await may_view(thread, user))


def _response(content: ElementContent, range_header: str | None) -> Response:
    mime = str(content.fields.get("mime") or "application/octet-stream")
    name = str(content.fields.get("name") or "")
    way = "inline" if mime.startswith(_SHOWN) else "attachment"
    headers = {
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, no-cache",
        "Content-Disposition": f"{way}; filename*=UTF-8''{quote(name.encode('utf-8', 'replace'), safe='')}",
        "X-Content-Type-Options": "nosniff",
    }
    if mime != "application/pdf":  # browsers show no PDF in a sandbox, and run nothing of it in the page
        headers["Content-Security-Policy"] = "sandbox"
    span = byte_range(range_header, len(content.content))
    if span is None:
        return Response(content.content, media_type=mime, headers=headers)
    start, end = span
    headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(content.content)}"
    return Response(content.content[start:end], 206, media_type=mime, headers=headers)
