"""A model's service on a real socket that fails in the way a test names, spoken to with the real OpenAI client."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from autogen_core.models import ModelFamily, ModelInfo
from autogen_ext.models.openai import OpenAIChatCompletionClient

__all__ = ["FAILURES", "ModelService", "model_service"]

_SECRET = "sk-proj-Zx81kQ0pLmN7vB2cT5yR9wE3uH6jD4aF"
_REFUSALS = {
    401: f"Incorrect API key provided: {_SECRET}.",
    429: "Rate limit reached for requests per minute.",
    500: "The engine is overloaded, in its own words.",
}
FAILURES = {
    "401": "answered 401: Incorrect API key provided",
    "429": "answered 429: Rate limit reached for requests per minute.",
    "500": "answered 500: The engine is overloaded, in its own words.",
    "silent": "did not answer to its end: Request timed out.",
    "broken": "did not answer to its end: ",
}
"""What people are told of each failure, by its name."""


class ModelService:
    """Answers every request as `mode` says.

    Attributes:
        mode: A name of `FAILURES`, or "well".
        may_go_on: Whether it writes more than the first half of an answer.
        url: Where it is.
    """

    def __init__(self) -> None:
        self.mode = "well"
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.url = ""

    def client(self) -> OpenAIChatCompletionClient:
        """Return a client of it that gives up soon."""
        info = ModelInfo(
            vision=False, function_calling=True, json_output=False, family=ModelFamily.UNKNOWN, structured_output=False
        )
        return OpenAIChatCompletionClient(
            model="any", api_key=_SECRET, base_url=self.url, model_info=info, max_retries=0, timeout=0.5
        )

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request and close the connection."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(head.partition("content-length:")[2].split()[0])
            is_streamed = json.loads(await reader.readexactly(length)).get("stream")
            if self.mode == "silent":
                await reader.read()  # until the client has gone
            elif self.mode.isdigit():
                error = {"error": {"message": _REFUSALS[int(self.mode)], "type": "any", "code": None}}
                _write(writer, f"{self.mode} Refused", "application/json", json.dumps(error))
            elif is_streamed or self.mode == "broken":
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
                )
                _write_chunk(writer, {"content": "Half an"}, None)
                await self.may_go_on.wait()
                if self.mode == "well":
                    _write_chunk(writer, {"content": " answer and the rest."}, "stop")
                    writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
            else:
                message = {"role": "assistant", "content": "A whole answer."}
                _write(writer, "200 OK", "application/json", json.dumps(_completion("message", message, "stop")))
            await writer.drain()
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


def _write(writer: asyncio.StreamWriter, status: str, media_type: str, body: str) -> None:
    head = (
        f"HTTP/1.1 {status}\r\ncontent-type: {media_type}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    writer.write(f"{head}{body}".encode())


def _write_chunk(writer: asyncio.StreamWriter, delta: dict[str, str], reason: str | None) -> None:
    event = f"data: {json.dumps(_completion('delta', delta, reason))}\n\n".encode()
    writer.write(b"%x\r\n%s\r\n" % (len(event), event))


def _completion(part: str, said: dict[str, str], reason: str | None) -> dict[str, object]:
    kind = "chat.completion.chunk" if part == "delta" else "chat.completion"
    return {
        "id": "1",
        "object": kind,
        "created": 1,
        "model": "any",
        "choices": [{"index": 0, part: said, "finish_reason": reason}],
        **({} if part == "delta" else {"usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}),
    }


@asynccontextmanager
async def model_service() -> AsyncIterator[ModelService]:
    """Run a service on a free port of this machine."""
    service = ModelService()
    server = await asyncio.start_server(service.serve, "127.0.0.1", 0)
    service.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield service
    finally:
        server.close()
        await server.wait_closed()
