"""Routes that serve stored elements and images of a thread in Chainlit's application, to authors and viewers of shared
threads.

No script in a content runs in a browser.
"""

import os
import re
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, cast
from urllib.parse import quote

from chainlit.auth import get_current_user
from chainlit.config import config
from chainlit.user import PersistedUser, User
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import StreamingResponse

from memory_context.foundation.references import KEY_PATTERN
from memory_context.store.items import MemoryItem
from memory_context.store.memory_store import MemoryStore

if TYPE_CHECKING:
    from .data_layer import MemoryDataLayer

__all__ = [
    "byte_range",
    "element_url",
    "image_of_thread",
    "image_url",
    "is_element_url",
    "mount_elements",
]

_PREFIX = "/memory-context/elements"
_IMAGES = "/memory-context/images"
_NAMES = _NAME, _IMAGE_NAME = "memory_context_element", "memory_context_image"
_PIECE_BYTES = 1 << 20
_RANGE = re.compile("bytes=([0-9]{0,18})-([0-9]{0,18})")
_MIME = re.compile(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+", re.ASCII | re.IGNORECASE)
_SHOWN = ("image/", "audio/", "video/", "text/plain", "application/json", "application/pdf")

CurrentUser = Annotated[User | PersistedUser | None, Depends(get_current_user)]


def element_url(thread_id: str, element_id: str) -> str:
    """Return the address of an element's content."""
    return _address(_PREFIX, thread_id, element_id)


def image_url(thread_id: str, memory_key: str) -> str:
    """Return the address of a stored image of a thread's agents, for a `chainlit.Image` without content."""
    return _address(_IMAGES, thread_id, memory_key)


def _address(prefix: str, thread_id: str, name: str) -> str:
    root = os.environ.get("CHAINLIT_PARENT_ROOT_PATH", "") + os.environ.get("CHAINLIT_ROOT_PATH", "")
    return f"{root.rstrip('/')}{prefix}/{quote(thread_id, safe='')}/{quote(name, safe='')}"


def is_element_url(url: str) -> bool:
    """Return whether `element_url` made this address."""
    return f"{_PREFIX}/" in url


def mount_elements(app: FastAPI, layer: "MemoryDataLayer") -> None:
    """Serve contents at `/memory-context/elements/{thread_id}/{element_id}` of Chainlit's application, and images
    at `/memory-context/images/{thread_id}/{memory_key}`.

    A `MemoryDataLayer` calls this. Mounting again replaces the layer.
    """

    async def check(thread_id: str, user: CurrentUser) -> None:
        if not await _may_see(layer, thread_id, user):
            # the same answer either way: nobody learns of another's threads
            raise HTTPException(404 if user else 401, "Element not found" if user else "Unauthorized")

    async def serve_image(thread_id: str, memory_key: str, user: CurrentUser) -> Response:
        await check(thread_id, user)
        item = await layer.image_item(thread_id, memory_key)
        if item is None or item.data is None:
            raise HTTPException(404, "Image not found, or it was forgotten")
        return Response(item.data, headers=_headers({"mime": item.content_type, "name": item.key}))

    async def serve(thread_id: str, element_id: str, request: Request, user: CurrentUser) -> Response:
        await check(thread_id, user)
        element = await layer.element_content(thread_id, element_id, length=0)
        if element is None:
            raise HTTPException(404, "Element not found, or it was too large to be kept")
        part = byte_range(request.headers.get("range"), element.size_bytes)
        start, end = part or (0, element.size_bytes)
        headers = _headers(element.fields) | {"Content-Length": str(end - start)}
        if part:
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{element.size_bytes}"
        pieces = _pieces(layer, thread_id, element_id, start, end)
        return StreamingResponse(pieces, 206 if part else 200, headers)

    routes = app.router.routes
    routes[:] = [route for route in routes if getattr(route, "name", None) not in _NAMES]
    root = config.run.root_path  # prefix of Chainlit's routes
    app.add_api_route(f"{root}{_PREFIX}/{{thread_id}}/{{element_id}}", serve, name=_NAME, include_in_schema=False)
    app.add_api_route(
        f"{root}{_IMAGES}/{{thread_id}}/{{memory_key}}", serve_image, name=_IMAGE_NAME, include_in_schema=False
    )
    routes[:0] = [routes.pop(), routes.pop()]  # before Chainlit's last route, a catch-all


async def image_of_thread(store: MemoryStore, owner: str, thread_id: str, memory_key: str) -> MemoryItem | None:
    """Return an image that the thread's agents or their sub-agents stored for all; None for any other item."""
    item = await store.items.fetch_memory(owner, memory_key) if KEY_PATTERN.fullmatch(memory_key) else None
    if item is None or not item.content_type.startswith("image/"):
        return None
    return item if item.session_id == thread_id or item.session_id.startswith(f"{thread_id}/") else None


async def _may_see(layer: "MemoryDataLayer", thread_id: str, user: User | PersistedUser | None) -> bool:
    if user is not None and await layer.get_thread_author(thread_id) == user.identifier:
        return True
    thread = await layer.get_thread(thread_id)
    if thread is None:
        return False
    metadata = cast("dict[str, Any] | None", thread["metadata"])
    if metadata and metadata.get("is_shared"):
        return True
    may_view: Any = getattr(config.code, "on_shared_thread_view", None)
    return bool(may_view and await may_view(thread, user))


async def _pieces(
    layer: "MemoryDataLayer", thread_id: str, element_id: str, start: int, end: int
) -> AsyncGenerator[bytes, None]:
    while start < end:
        length = min(_PIECE_BYTES, end - start)
        piece = await layer.element_content(thread_id, element_id, start=start, length=length)
        if piece is None or len(piece.content) != length:
            raise RuntimeError(f"element {element_id!r} was deleted or replaced while it was served")
        yield piece.content
        start += length


def _headers(fields: Mapping[str, Any]) -> dict[str, str]:
    mime = str(fields.get("mime") or "").partition(";")[0].strip()
    if not _MIME.fullmatch(mime):
        mime = "application/octet-stream"
    name = str(fields.get("name") or "")
    way = "inline" if mime.startswith(_SHOWN) else "attachment"
    headers = {
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, no-cache",
        "Content-Disposition": f"{way}; filename*=UTF-8''{quote(name.encode('utf-8', 'replace'), safe='')}",
        "Content-Type": f"{mime}; charset=utf-8" if mime.startswith("text/") else mime,
        "X-Content-Type-Options": "nosniff",
    }
    if mime != "application/pdf":  # browsers refuse sandboxed PDFs, and isolate their scripts anyway
        headers["Content-Security-Policy"] = "sandbox"
    return headers


def byte_range(header: str | None, size: int) -> tuple[int, int] | None:
    """Return start and end of one satisfiable Range header (RFC 9110, 14.2); None for the whole content."""
    match = _RANGE.fullmatch(header.strip()) if header else None
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if not first:
        start, end = max(size - int(last), 0), size
    else:
        start, end = int(first), min(int(last) + 1, size) if last else size
    return (start, end) if start < end else None
