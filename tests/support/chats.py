"""Requests of a chat page."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

import httpx

from tests.web.conftest import Client, Model


async def cut_off(client: Client, model: Model, request: Awaitable[httpx.Response]) -> None:
    """Let a request get as far as the model, then let the client go away."""
    model.asked.clear()
    model.may_answer.clear()
    sending = asyncio.ensure_future(request)
    await model.asked.wait()
    sending.cancel()
    with suppress(asyncio.CancelledError):
        await sending
    while client.router.chat._runs:
        await asyncio.wait([turn.task for turn in client.router.chat._runs])
    model.may_answer.set()


async def archive(client: Client, session: str, *messages: Any) -> httpx.Response:
    """Archive as the page does."""
    return await client.post(
        "/api/chat/session/archive_messages", json={"session_id": session, "messages_batch": messages}
    )
